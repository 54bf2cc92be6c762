//! The settings of a run in words, for the terminal and the report.

use units::{Span, rounded};

use super::RunResult;

impl RunResult {
    /// What was chosen for the whole run: names and values, such as `protocol` and `HTTPS`.
    pub(crate) fn settings_in_words(&self) -> Vec<(String, String)> {
        self.settings.iter().filter_map(|(name, value)| in_words(name, value)).collect()
    }
}

fn in_words(name: &str, value: &str) -> Option<(String, String)> {
    let is_true = value == "true";
    let (name, value) = match name {
        "tls" => ("protocol", if is_true { "HTTPS" } else { "HTTP" }.to_owned()),
        "quick" if !is_true => return None,
        "quick" => ("extent", "the quick part".to_owned()),
        "root" => ("run by", if is_true { "root" } else { "an ordinary user" }.to_owned()),
        "samples" => ("samples per cell", value.to_owned()),
        "warmup" => ("warm-up runs per cell", value.to_owned()),
        "patience" => ("time limit of a sample", limit(value)),
        name => (name, value.to_owned()),
    };
    Some((name.to_owned(), value))
}

fn limit(value: &str) -> String {
    value.parse::<Span>().map_or_else(|_| value.to_owned(), |span| rounded::time(span.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_words() {
        let words = |name, value| in_words(name, value).map(|(name, value)| format!("{name}: {value}"));
        assert_eq!(words("patience", "300s").as_deref(), Some("time limit of a sample: 5.0 min"));
        assert_eq!(words("quick", "true").as_deref(), Some("extent: the quick part"));
        assert_eq!(words("quick", "false"), None);
        assert_eq!(words("server", "apache").as_deref(), Some("server: apache"));
    }
}
