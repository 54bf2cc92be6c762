//! The text form of a middlebox: `name:key=value,key=value`.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use super::{ALL, Kind, Side, nat};
use crate::lanes::Element;

/// A middlebox with its end of the cable and its parameters, which are valid.
///
/// Its text form is `name`, or `name:key=value,key=value`. All middleboxes have the key `at`, with the values `client`
/// and `server`.
#[derive(Clone)]
pub struct Middlebox {
    kind: &'static Kind,
    arguments: Arguments,
}

/// The parameters of a middlebox.
#[derive(Clone, PartialEq, Eq)]
pub struct Arguments {
    name: &'static str,
    side: Side,
    given: Vec<(&'static str, String)>,
}

/// The names of all middleboxes.
fn names() -> String {
    ALL.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}

/// A text that does not describe a middlebox.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MiddleboxError {
    /// The name is unknown.
    #[error("unknown middlebox `{name}`; did you mean `{nearest}`? All middleboxes: {}", names())]
    UnknownName {
        /// The name.
        name: String,
        /// The most similar name.
        nearest: &'static str,
    },
    /// The parameter is unknown.
    #[error("the middlebox `{middlebox}` has no parameter `{key}`; did you mean `{nearest}`?")]
    UnknownKey {
        /// The middlebox.
        middlebox: &'static str,
        /// The name.
        key: String,
        /// The most similar name.
        nearest: &'static str,
    },
    /// A parameter is missing, has no value, or is given twice.
    #[error("the middlebox `{middlebox}` needs `{key}` exactly once, as `{key}={form}`")]
    NotOnce {
        /// The middlebox.
        middlebox: &'static str,
        /// The parameter.
        key: &'static str,
        /// The form of its value.
        form: &'static str,
    },
    /// Exactly one of several parameters is required.
    #[error("the middlebox `{middlebox}` takes exactly one of {keys}")]
    OneOf {
        /// The middlebox.
        middlebox: &'static str,
        /// The parameters.
        keys: &'static str,
    },
    /// A value is invalid.
    #[error("middlebox `{middlebox}`: invalid `{key}={value}`: {reason}")]
    InvalidValue {
        /// The middlebox.
        middlebox: &'static str,
        /// The parameter.
        key: &'static str,
        /// Its value.
        value: String,
        /// What is wrong, and what to write.
        reason: String,
    },
}

impl Middlebox {
    /// Its kind.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// The end of the cable at which it stands.
    pub fn side(&self) -> Side {
        self.arguments.side
    }

    /// If it translates addresses, the networks of the public ones, with their prefix lengths.
    pub(crate) fn public_networks(&self) -> Vec<(IpAddr, u8)> {
        if self.kind.name != nat::KIND.name {
            return Vec::new();
        }
        let Ok((v4, v6)) = nat::public_addresses(&self.arguments) else { return Vec::new() };
        let v4 = Ipv4Addr::from(u32::from(v4) & (u32::MAX << 8));
        let v6 = Ipv6Addr::from(u128::from(v6) & (u128::MAX << 8));
        vec![(v4.into(), 24), (v6.into(), 120)]
    }

    /// Its stages.
    pub fn build(&self) -> Result<Element, MiddleboxError> {
        (self.kind.build)(&self.arguments)
    }
}

impl Arguments {
    /// The end of the cable at which the middlebox stands.
    pub(super) fn side(&self) -> Side {
        self.side
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.given.iter().find(|(given, _)| *given == key).map(|(_, value)| value.as_str())
    }

    /// The value of a parameter, if it is given.
    pub(super) fn get<T: FromStr<Err: fmt::Display>>(&self, key: &'static str) -> Result<Option<T>, MiddleboxError> {
        let Some(value) = self.text(key) else { return Ok(None) };
        value.parse().map(Some).or_else(|error: T::Err| self.invalid(key, &error.to_string()))
    }

    /// An error: the parameter must be given exactly once.
    pub(super) fn not_once<T>(&self, key: &'static str, form: &'static str) -> Result<T, MiddleboxError> {
        Err(MiddleboxError::NotOnce { middlebox: self.name, key, form })
    }

    /// An error: exactly one of these parameters must be given.
    pub(super) fn one_of<T>(&self, keys: &'static str) -> Result<T, MiddleboxError> {
        Err(MiddleboxError::OneOf { middlebox: self.name, keys })
    }

    /// An error: the value of the parameter is invalid.
    pub(super) fn invalid<T>(&self, key: &'static str, reason: &str) -> Result<T, MiddleboxError> {
        let value = self.text(key).unwrap_or_default().to_owned();
        Err(MiddleboxError::InvalidValue { middlebox: self.name, key, value, reason: reason.to_owned() })
    }
}

fn most_similar(to: &str, among: impl Iterator<Item = &'static str>) -> &'static str {
    let likeness = |name: &str| strsim::jaro_winkler(to, name);
    among.max_by(|a, b| likeness(a).total_cmp(&likeness(b))).unwrap_or_default()
}

impl FromStr for Middlebox {
    type Err = MiddleboxError;

    fn from_str(text: &str) -> Result<Self, MiddleboxError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let Some(kind) = ALL.iter().find(|kind| kind.name == name) else {
            let nearest = most_similar(name, ALL.iter().map(|kind| kind.name));
            return Err(MiddleboxError::UnknownName { name: name.to_owned(), nearest });
        };
        let mut arguments = Arguments { name: kind.name, side: kind.side, given: Vec::new() };
        for pair in rest.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (key, value) = (key.trim(), value.trim());
            let known = kind.parameters.iter().map(|parameter| (parameter.name, parameter.form));
            let mut known = known.chain([("at", "client|server")]);
            let Some((key, form)) = known.clone().find(|(known, _)| *known == key) else {
                let nearest = most_similar(key, known.by_ref().map(|(known, _)| known));
                return Err(MiddleboxError::UnknownKey { middlebox: kind.name, key: key.to_owned(), nearest });
            };
            if value.is_empty() || arguments.given.iter().any(|(given, _)| *given == key) {
                return arguments.not_once(key, form);
            }
            arguments.given.push((key, value.to_owned()));
        }
        match arguments.get::<String>("at")?.as_deref() {
            None => {}
            Some("client") => arguments.side = Side::Client,
            Some("server") => arguments.side = Side::Server,
            Some(_) => return arguments.invalid("at", "write client or server"),
        }
        (kind.build)(&arguments)?; // reports invalid values where they are written
        Ok(Self { kind, arguments })
    }
}

impl fmt::Display for Middlebox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name)?;
        for (n, (key, value)) in self.arguments.given.iter().enumerate() {
            write!(f, "{}{key}={value}", if n == 0 { ':' } else { ',' })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Middlebox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Middlebox({self})")
    }
}

impl PartialEq for Middlebox {
    fn eq(&self, other: &Self) -> bool {
        self.arguments == other.arguments // they contain the name
    }
}

impl Eq for Middlebox {}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        text.parse::<Middlebox>().unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_mistake_and_a_correction() {
        let unknown = error("strip-tof");
        assert!(
            unknown.starts_with("unknown middlebox `strip-tof`; did you mean `strip-tfo`? All middleboxes: strip-")
        );
        assert!(ALL.iter().all(|kind| unknown.contains(kind.name)), "{unknown}");
        assert_eq!(
            error("hold-acks:time=3ms"),
            "the middlebox `hold-acks` has no parameter `time`; did you mean `timer`?"
        );
        assert_eq!(
            error("hold-acks:timer=3"),
            "middlebox `hold-acks`: invalid `timer=3`: `3` is not a time; write it like `18ms`"
        );
        assert_eq!(error("strip-option"), "the middlebox `strip-option` needs `kind` exactly once, as `kind=NUMBER`");
        assert!(error("silent:after=1s,after=2s").contains("exactly once"));
        assert!(error("strip-tfo:at=middle").contains("client or server"));
        assert_eq!(error("reset"), "the middlebox `reset` takes exactly one of bytes, after and syn");
        assert_eq!(error("reset:syn=1,after=1s"), error("reset"));
    }

    #[test]
    fn names_are_unique_and_text_forms_round_trip() {
        for text in [
            "strip-option:kind=34",
            "strip-tfo:at=server",
            "hold-acks:rule=packets,timer=150ms",
            "reset:bytes=1MiB",
            "silent:after=5s,for=3s,way=up",
            "nat:renew=connection,address6=2001:db8::9",
            "drop-unknown-options:known=2+3",
        ] {
            let middlebox: Middlebox = text.parse().unwrap();
            assert_eq!(middlebox.to_string(), text);
        }
        for kind in ALL {
            assert!(!kind.help.is_empty() && ALL.iter().filter(|other| other.name == kind.name).count() == 1);
        }
    }
}
