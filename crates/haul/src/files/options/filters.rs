//! Filter options, as in rclone and rsync.

use std::{
    error::Error,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use chrono::{DateTime, Local, NaiveDate, NaiveDateTime, NaiveTime};
use dav::transfer::{Filter, Rule};
use units::Size;

use crate::usage;

const DAY: f64 = 86_400.0;

/// Selects files by name, size and age.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(next_help_heading = "Filters")]
pub(crate) struct FilterOptions {
    /// Exclude files and folders that match PATTERN, as in .gitignore; repeatable
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Copy only files that match PATTERN; repeatable
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Add a rule: `+ PATTERN` includes, `- PATTERN` excludes, the first match decides; repeatable
    #[arg(long, value_name = "RULE", allow_hyphen_values = true)]
    filter: Vec<String>,
    /// Read exclude patterns from FILE, one per line (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    exclude_from: Vec<PathBuf>,
    /// Read include patterns from FILE, one per line (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    include_from: Vec<PathBuf>,
    /// Read filter rules from FILE, one per line (`-`: standard input)
    #[arg(long, value_name = "FILE")]
    filter_from: Vec<PathBuf>,
    /// Copy only the files named in FILE, one path per line (`-`: standard input)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["exclude", "include", "filter", "exclude_from", "include_from", "filter_from"])]
    files_from: Vec<PathBuf>,
    /// Copy only files of at least this size, as in 10K or 1.5M (powers of 1024)
    #[arg(long, value_name = "SIZE")]
    min_size: Option<Size>,
    /// Copy only files of at most this size
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Size>,
    /// Copy only files modified at least this long ago (10m, 2h, 3d, 1w, 1M, 1y), or before a date (2026-11-30)
    #[arg(long, value_name = "TIME|DATE", value_parser = moment)]
    min_age: Option<SystemTime>,
    /// Copy only files modified within this time, or since a date
    #[arg(long, value_name = "TIME|DATE", value_parser = moment)]
    max_age: Option<SystemTime>,
}

impl FilterOptions {
    /// Whether no option was given.
    pub(crate) fn is_empty(&self) -> bool {
        let texts = [&self.exclude, &self.include, &self.filter];
        let files = [&self.exclude_from, &self.include_from, &self.filter_from, &self.files_from];
        let bounds = self.min_size.is_none() && self.max_size.is_none();
        let ages = self.min_age.is_none() && self.max_age.is_none();
        texts.iter().all(|texts| texts.is_empty()) && files.iter().all(|files| files.is_empty()) && bounds && ages
    }

    /// The filter. The rules have rclone's order: includes, excludes, filters; of each kind first the command line's, then
    /// those from files; with includes, a last rule excludes everything else.
    pub(crate) fn read(&self) -> Result<Filter, Box<dyn Error>> {
        let mut input = Input::default();
        let mut rules = Vec::new();
        for (include, patterns, files) in
            [(true, &self.include, &self.include_from), (false, &self.exclude, &self.exclude_from)]
        {
            let rule = |pattern: String| Rule { include, pattern };
            rules.extend(patterns.iter().cloned().map(rule));
            for file in files {
                rules.extend(input.lines(file)?.into_iter().map(rule));
            }
        }
        let mut texts = self.filter.clone();
        for file in &self.filter_from {
            texts.extend(input.lines(file)?);
        }
        for text in &texts {
            if text.trim() == "!" {
                rules.clear();
            } else {
                rules.push(rule(text).map_err(usage)?);
            }
        }
        if !(self.include.is_empty() && self.include_from.is_empty()) {
            rules.push(Rule { include: false, pattern: "**".into() });
        }
        let mut filter = Filter::new(&rules).map_err(usage)?;
        if !self.files_from.is_empty() {
            let mut names = Vec::new();
            for file in &self.files_from {
                names.extend(input.lines(file)?.into_iter().map(String::into_bytes));
            }
            filter = filter.only(names);
        }
        let bytes = |size: Option<Size>| size.map(Size::as_bytes);
        Ok(filter.sizes(bytes(self.min_size), bytes(self.max_size)).times(self.max_age, self.min_age))
    }
}

/// `+ PATTERN` or `- PATTERN`.
fn rule(text: &str) -> Result<Rule, String> {
    let (sign, pattern) = text.trim_start().split_at_checked(1).unwrap_or_default();
    let include = match sign {
        "+" => true,
        "-" => false,
        _ => return Err(format!("invalid filter rule `{}`: write `+ PATTERN` or `- PATTERN`", text.escape_debug())),
    };
    Ok(Rule { include, pattern: pattern.trim().to_owned() })
}

/// Reads lists; standard input only once.
#[derive(Default)]
struct Input {
    taken: bool,
}

impl Input {
    /// The lines of a file that are neither empty nor a comment.
    fn lines(&mut self, file: &Path) -> Result<Vec<String>, Box<dyn Error>> {
        let text = if file == Path::new("-") {
            if std::mem::replace(&mut self.taken, true) {
                return Err(usage("standard input can be read only once; use files for the other lists"));
            }
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            fs::read_to_string(file)
        };
        let text = text.map_err(|error| format!("cannot read the list {}: {error}", file.display()))?;
        Ok(entries(&text).map(str::to_owned).collect())
    }
}

fn entries(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_start_matches('\u{feff}');
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']))
}

/// Parses an age or a date.
fn moment(text: &str) -> Result<SystemTime, String> {
    let wrong = || "expected an age like 10m, 2h, 3d, 1w, 1M, 1y, or a date like 2026-11-30".to_owned();
    let end = text.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(text.len());
    if let Ok(number) = text[..end].trim().parse::<f64>() {
        let seconds = match &text[end..] {
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            "d" => DAY,
            "w" => 7.0 * DAY,
            "M" => 30.0 * DAY,
            "y" => 365.0 * DAY,
            _ => return Err(wrong()),
        };
        let ago = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
        return SystemTime::now().checked_sub(ago).ok_or_else(wrong);
    }
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Ok(time.into());
    }
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").map(|day| day.and_time(NaiveTime::MIN));
    let local = ["%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S"]
        .into_iter()
        .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
        .or_else(|| day().ok());
    let time = local.and_then(|local| local.and_local_timezone(Local).earliest());
    time.map(SystemTime::from).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_dates_are_parsed_as_in_rclone() {
        let now = SystemTime::now();
        for (text, seconds) in
            [("90s", 90), ("10m", 600), ("1.5h", 5400), ("1d", 86_400), ("2w", 1_209_600), ("1M", 2_592_000)]
        {
            let ago = now.duration_since(moment(text).unwrap()).unwrap_or_default().as_secs_f64();
            assert!((ago - f64::from(seconds)).abs() < 30.0, "{text}: {ago}");
        }
        let day = moment("2026-01-31T00:00:00Z").unwrap();
        assert_eq!(day.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs(), 1_769_817_600);
        assert!(moment("2026-01-31").is_ok() && moment("2026-01-31 10:00:00").is_ok());
        for text in ["", "10", "soon", "1q", "-1d", "2026-13-01", "1e400y"] {
            assert!(moment(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lists_have_comments_and_rules_have_signs() {
        assert_eq!(entries("\u{feff}a\r\n\n # no\n;no\n b c \n").collect::<Vec<_>>(), ["a", "b c"]);
        assert_eq!(rule("- *.tmp").unwrap(), Rule { include: false, pattern: "*.tmp".into() });
        assert_eq!(rule("+ /a b/").unwrap(), Rule { include: true, pattern: "/a b/".into() });
        assert!(rule("*.tmp").is_err() && rule("").is_err() && rule("é").is_err());
    }
}
