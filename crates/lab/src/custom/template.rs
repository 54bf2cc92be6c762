//! A command or a file with placeholders, such as `./mine put {dir} {url}`.
//!
//! A placeholder is a lowercase name in braces. Values go into a command as what they are, whatever they contain: a
//! value with a blank or a quote is quoted for the place where it stands, between words, in `'…'` or in `"…"` (POSIX,
//! Shell Command Language, 2.2). `${name}` belongs to the shell, and `{{name}}` is a literal `{name}`; all other braces
//! are text.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Serialize, Serializer};

/// The values of placeholders, by name.
pub type Values = BTreeMap<String, String>;

/// The words of a shell that may begin a command and are no programs, or not the same as the programs of their name
/// (POSIX, Shell Command Language, 2.4 and 2.15; XCU 1.6).
const SHELL_WORDS: [&str; 34] = [
    ".", ":", "alias", "bg", "case", "cd", "command", "do", "done", "eval", "exec", "exit", "export", "fg", "for",
    "getopts", "hash", "if", "jobs", "read", "readonly", "return", "set", "shift", "source", "times", "trap", "type",
    "ulimit", "umask", "unset", "until", "wait", "while",
];

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Placeholder { name: String, inside: Quotes },
}

impl Part {
    fn name(&self) -> Option<&str> {
        if let Self::Placeholder { name, .. } = self { Some(name) } else { None }
    }
}

/// The quotation marks of the shell that surround a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Single,
    Double,
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl Template {
    /// Reads a text; every text is valid.
    pub fn parse(text: &str) -> Self {
        let (mut parts, mut literal, mut quotes) = (Vec::new(), String::new(), QuoteTracker::default());
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            if letter == '{' {
                if let Some(name) =
                    rest.strip_prefix("{{").and_then(name).filter(|name| rest[name.len() + 3..].starts_with('}'))
                {
                    literal += &rest[1..name.len() + 3];
                    rest = &rest[name.len() + 4..];
                    continue;
                }
                if let Some(name) = name(&rest[1..]).filter(|_| !literal.ends_with('$')) {
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal)));
                    }
                    parts.push(Part::Placeholder { name: name.to_owned(), inside: quotes.current() });
                    rest = &rest[name.len() + 2..];
                    continue;
                }
            }
            quotes.read(letter);
            literal.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Self { text: text.to_owned(), parts }
    }

    /// The text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The names of its placeholders.
    pub fn names(&self) -> BTreeSet<&str> {
        self.parts.iter().filter_map(Part::name).collect()
    }

    /// Whether it has one of these placeholders.
    pub fn has(&self, names: &[&str]) -> bool {
        self.names().iter().any(|name| names.contains(name))
    }

    /// The text with the values in place of the placeholders, for a file. A placeholder without a value stays.
    pub fn fill(&self, values: &Values) -> String {
        self.with(values, |value, _| value.to_owned())
    }

    /// The text as a command for `sh -c`.
    pub fn shell_command(&self, values: &Values) -> String {
        self.with(values, quoted)
    }

    fn with(&self, values: &Values, write: impl Fn(&str, Quotes) -> String) -> String {
        let part = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            Part::Placeholder { name, inside } => {
                values.get(name).map_or_else(|| format!("{{{name}}}"), |value| write(value, *inside))
            }
        };
        self.parts.iter().map(part).collect()
    }

    /// The words of a command that means the same without a shell; none if it needs one.
    pub fn words(&self, values: &Values) -> Option<Vec<String>> {
        let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+, \t\n".contains(c);
        let mut words: Vec<String> = Vec::new();
        let mut is_open = false;
        for part in &self.parts {
            match part {
                Part::Text(text) if !text.chars().all(is_plain) => return None,
                Part::Text(text) => {
                    for letter in text.chars() {
                        if letter.is_whitespace() {
                            is_open = false;
                            continue;
                        }
                        append(&mut words, &mut is_open, letter.encode_utf8(&mut [0; 4]));
                    }
                }
                Part::Placeholder { name, .. } => append(&mut words, &mut is_open, values.get(name)?),
            }
        }
        // `NAME=value program` sets a variable.
        let is_shells = |word: &String| word.contains('=') || is_shell_word(word);
        if words.first().is_none_or(is_shells) { None } else { Some(words) }
    }

    /// The program that it starts, if that is known without a shell and without values.
    pub fn program(&self) -> Option<String> {
        let Some(Part::Text(first)) = self.parts.first() else { return None };
        let values = self.names().into_iter().map(|name| (name.to_owned(), String::new())).collect();
        let is_whole = first.contains(char::is_whitespace) || self.parts.len() == 1;
        self.words(&values).filter(|_| is_whole)?.into_iter().next()
    }
}

/// Whether it is a word of the shell, and no program.
pub(super) fn is_shell_word(word: &str) -> bool {
    SHELL_WORDS.contains(&word)
}

/// Appends to the word that is open, or to a new one.
fn append(words: &mut Vec<String>, is_open: &mut bool, text: &str) {
    match words.last_mut().filter(|_| *is_open) {
        Some(word) => word.push_str(text),
        None => words.push(text.to_owned()),
    }
    *is_open = true;
}

/// The name at the start of a text that a brace ends.
fn name(text: &str) -> Option<&str> {
    let (name, _) = text.split_once('}')?;
    let is_named = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    is_named.then_some(name)
}

/// A value at a place inside quotation marks.
fn quoted(value: &str, inside: Quotes) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@%+,".contains(c);
    match inside {
        _ if !value.is_empty() && value.chars().all(is_plain) => value.to_owned(),
        Quotes::None => format!("'{}'", value.replace('\'', r"'\''")),
        Quotes::Single => value.replace('\'', r"'\''"),
        Quotes::Double => value.chars().fold(String::new(), |text, letter| {
            let special = matches!(letter, '$' | '`' | '"' | '\\');
            if special { text + "\\" + &letter.to_string() } else { text + &letter.to_string() }
        }),
    }
}

/// Follows the quotation marks of a command. `$(…)` inside `"…"` has quotation marks of its own.
#[derive(Default)]
struct QuoteTracker {
    outer: Vec<Option<Quotes>>,
    inside: Option<Quotes>,
    is_escaped: bool,
}

impl QuoteTracker {
    fn current(&self) -> Quotes {
        self.inside.unwrap_or(Quotes::None)
    }

    fn read(&mut self, letter: char) {
        if std::mem::take(&mut self.is_escaped) {
            return;
        }
        match (self.current(), letter) {
            (Quotes::Single, '\'') | (Quotes::Double, '"') => self.inside = None,
            (Quotes::Single, _) => {}
            (_, '\\') => self.is_escaped = true,
            (Quotes::None, '\'') => self.inside = Some(Quotes::Single),
            (Quotes::None, '"') => self.inside = Some(Quotes::Double),
            // In double quotes, a parenthesis without a dollar sign opens nothing, and its end closes nothing.
            (_, '(') => self.outer.push(self.inside.take()),
            (Quotes::None, ')') => self.inside = self.outer.pop().flatten(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn values(pairs: &[(&str, &str)]) -> Values {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// What a shell prints for a command.
    fn printed(command: &str) -> String {
        let output = Command::new("sh").args(["-c", command]).output().unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn placeholders_are_lowercase_names_in_braces() {
        let template = Template::parse("a {url} ${dir} {{file}} {a,b} { x} {N} {ca");
        assert_eq!(template.names().into_iter().collect::<Vec<_>>(), ["url"]);
        assert_eq!(template.fill(&values(&[("url", "U"), ("dir", "D")])), "a U ${dir} {file} {a,b} { x} {N} {ca");
        assert_eq!(Template::parse("{x}{y}").fill(&values(&[("x", "1"), ("y", "2")])), "12");
    }

    #[test]
    fn simple_commands_need_no_shell() {
        let words = |text: &str| Template::parse(text).words(&values(&[("dir", "/a b"), ("url", "http://x/")]));
        let expected = Some(["./mine", "put", "--to=/a b/x", "http://x/"].map(str::to_owned).to_vec());
        assert_eq!(words("./mine  put --to={dir}/x {url}"), expected);
        for shell in
            ["mine {dir}/*", "A=1 mine {url}", "mine > {dir}/x", "mine '{dir}'", "mine {url}; echo", "cd {dir}", ""]
        {
            assert_eq!(words(shell), None, "{shell}");
        }
        assert_eq!(Template::parse("./mine {url}").program().as_deref(), Some("./mine"));
        assert_eq!(Template::parse("mine").program().as_deref(), Some("mine"));
        for unknown in ["{home}/mine x", "mine{jobs} x", "mine | x"] {
            assert_eq!(Template::parse(unknown).program(), None, "{unknown}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whatever a value contains, the program gets it as it is, wherever the placeholder stands.
        #[test]
        fn shell_passes_each_value_unchanged(value in "[ -~äß\n]{0,12}") {
            let values = values(&[("x", &value)]);
            for text in [
                "printf '<%s>' {x}",
                "printf '<%s>' \"{x}\"",
                "printf '<{x}>' | sed 's/%%/%/g'",
                "printf '<%s>' \"$(printf '%s.' {x})\" | sed 's/[.]>$/>/'",
                "printf '<%s>' \"$(printf '%s.' \"{x}\")\" | sed 's/[.]>$/>/'",
                "(printf '<%s>' {x})",
                "printf '<%s>' it\\'s{x}",
            ] {
                if text.starts_with("printf '<{x}>'") && value.contains(['%', '\\']) {
                    continue;
                }
                let expected = if text.contains("it\\'s") { format!("<it's{value}>") } else { format!("<{value}>") };
                let command = Template::parse(text).shell_command(&values);
                let printed = printed(&command);
                prop_assert_eq!(printed.trim_end_matches('\n'), expected.trim_end_matches('\n'), "{}", command);
            }
        }
    }
}
