//! `~/.netrc`: credentials per host.
//!
//! The format is that of the old `ftp` program, as curl reads it today: the keywords `machine`, `default`, `login`,
//! `password`, `account` and `macdef`, on any number of lines; a value may be quoted, with the escapes `\"`, `\\`,
//! `\n`, `\r` and `\t`. `#` begins a comment where a keyword may stand, so a password may begin with it. Unknown
//! keywords are skipped. Of several entries for a host, the first that fits counts.
//!
//! It is too small for a dependency.

use std::path::Path;

use super::{Credential, Secret, SourceError};

/// A parsed `netrc`.
#[derive(Debug, Clone, Default)]
pub struct Netrc(Vec<Entry>);

#[derive(Debug, Clone, Default)]
struct Entry {
    /// `None` for `default`.
    host: Option<String>,
    login: Option<String>,
    password: Option<Secret>,
}

impl Netrc {
    /// Parses the text of the file at `path`. Errors name the path, and never quote the text.
    pub fn parse(text: &str, path: &Path) -> Result<Self, SourceError> {
        let mut words = Words { rest: text, line: 1, path };
        let mut entries: Vec<Entry> = Vec::new();
        while let Some(word) = words.keyword()? {
            match word.reveal() {
                "machine" => entries.push(Entry { host: Some(words.value()?.reveal().into()), ..Entry::default() }),
                "default" => entries.push(Entry::default()),
                "login" => {
                    let login = words.value()?;
                    words.entry(&mut entries)?.login = Some(login.reveal().into());
                }
                "password" => {
                    let password = words.value()?;
                    words.entry(&mut entries)?.password = Some(password);
                }
                "account" => drop(words.value()?),
                "macdef" => words.skip_macro(),
                _ => {}
            }
        }
        Ok(Self(entries))
    }

    /// The entry for a host, for this user or for any.
    pub fn machine(&self, host: &str, user: Option<&str>) -> Option<Credential> {
        self.find(user, |entry| entry.host.as_ref().is_some_and(|name| name.eq_ignore_ascii_case(host)))
    }

    /// The `default` entry.
    pub fn default_entry(&self, user: Option<&str>) -> Option<Credential> {
        self.find(user, |entry| entry.host.is_none())
    }

    fn find(&self, user: Option<&str>, fits: impl Fn(&Entry) -> bool) -> Option<Credential> {
        self.0.iter().filter(|entry| fits(entry)).find_map(|entry| {
            let login = entry.login.as_deref().or(user)?;
            let password = entry.password.clone()?;
            user.is_none_or(|user| user == login).then(|| Credential::Password { user: login.into(), password })
        })
    }
}

struct Words<'a> {
    rest: &'a str,
    line: usize,
    path: &'a Path,
}

impl Words<'_> {
    fn wrong(&self, why: &'static str) -> SourceError {
        SourceError::Netrc { path: self.path.into(), line: self.line, why }
    }

    fn bump(&mut self) -> Option<char> {
        let next = self.rest.chars().next()?;
        self.rest = &self.rest[next.len_utf8()..];
        self.line += usize::from(next == '\n');
        Some(next)
    }

    fn skip_blank(&mut self) {
        while self.rest.starts_with(|next: char| next.is_ascii_whitespace()) {
            self.bump();
        }
    }

    fn keyword(&mut self) -> Result<Option<Secret>, SourceError> {
        loop {
            self.skip_blank();
            if !self.rest.starts_with('#') {
                return self.word();
            }
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.rest = &self.rest[end..];
        }
    }

    fn value(&mut self) -> Result<Secret, SourceError> {
        self.skip_blank();
        self.word()?.ok_or_else(|| self.wrong("the last keyword has no value"))
    }

    fn word(&mut self) -> Result<Option<Secret>, SourceError> {
        if !self.rest.starts_with('"') {
            let end = self.rest.find(|next: char| next.is_ascii_whitespace()).unwrap_or(self.rest.len());
            let (word, rest) = self.rest.split_at(end);
            self.rest = rest;
            return Ok((!word.is_empty()).then(|| word.into()));
        }
        let unended = self.wrong("a quote is not closed");
        // Never grown, so that no copy of a part of it stays behind.
        let mut word = zeroize::Zeroizing::new(String::with_capacity(self.rest.len()));
        self.bump();
        loop {
            match self.bump() {
                Some('"') => return Ok(Some(word.as_str().into())),
                Some('\\') => word.push(match self.bump() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some(other) => other,
                    None => return Err(unended),
                }),
                Some(other) => word.push(other),
                None => return Err(unended),
            }
        }
    }

    /// A macro ends at an empty line.
    fn skip_macro(&mut self) {
        let mut after = 0;
        while let Some(next) = self.bump() {
            after = if next == '\n' {
                after + 1
            } else if next == '\r' {
                after
            } else {
                0
            };
            if after == 2 {
                return;
            }
        }
    }

    fn entry<'e>(&self, entries: &'e mut [Entry]) -> Result<&'e mut Entry, SourceError> {
        entries.last_mut().ok_or_else(|| self.wrong("a login or password comes before any machine"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Netrc, SourceError> {
        Netrc::parse(text, "/home/me/.netrc".as_ref())
    }

    fn found(credential: Option<Credential>) -> Option<(String, String)> {
        match credential? {
            Credential::Password { user, password } => Some((user, password.reveal().into())),
            Credential::Token(_) | Credential::Kerberos(_) => None,
        }
    }

    fn pair(user: &str, password: &str) -> (String, String) {
        (user.into(), password.into())
    }

    #[test]
    fn netrc_tokens_may_be_on_any_number_of_lines() {
        let netrc = parse(
            "# mine\nmachine example.org login me password #1\n\n\
             machine\n  other.org\n\tpassword \"a \\\"b\\\" \\\\ c\" account x port 80 login you\n\
             macdef init\ncd /tmp\nmachine not.one login no password no\n\n\
             machine nobody.org password p\n\
             default login anonymous password guest",
        )
        .unwrap();
        assert_eq!(found(netrc.machine("EXAMPLE.org", None)), Some(pair("me", "#1")));
        assert_eq!(found(netrc.machine("other.org", Some("you"))), Some(pair("you", "a \"b\" \\ c")));
        assert_eq!(found(netrc.machine("other.org", Some("me"))), None);
        assert_eq!(found(netrc.machine("not.one", None)), None);
        assert_eq!(found(netrc.machine("nobody.org", None)), None);
        assert_eq!(found(netrc.machine("nobody.org", Some("me"))), Some(pair("me", "p")));
        assert_eq!(found(netrc.default_entry(None)), Some(pair("anonymous", "guest")));
    }

    #[test]
    fn error_names_the_line_but_not_its_content() {
        for (text, line) in
            [("machine a\nlogin me password", 2), ("\n\nmachine a password \"hunter2\n\n", 3), ("password hunter2", 1)]
        {
            let told = parse(text).unwrap_err().to_string();
            assert!(told.contains(&format!("/home/me/.netrc, line {line}: ")), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "(machine|login|password|macdef|default|[ \"\\\\#\na-zé]{0,3}){0,20}") {
            if let Ok(netrc) = parse(&text) {
                let _ = netrc.machine("a", None);
            }
        }

        #[test]
        fn quoted_passwords_round_trip(password in "[^\0]{1,30}") {
            let quoted: String =
                password.chars().flat_map(|c| if "\"\\".contains(c) { vec!['\\', c] } else { vec![c] }).collect();
            let netrc = parse(&format!("machine a login b password \"{quoted}\" machine c")).unwrap();
            prop_assert_eq!(found(netrc.machine("a", None)), Some(pair("b", &password)));
        }
    }
}
