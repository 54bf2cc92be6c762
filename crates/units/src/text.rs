//! Text forms: values that people write in TOML or as an option, and that print as they are written.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

#[doc(hidden)]
pub use serde;

/// A text that is no value of the wanted type.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}; write it like {example}")]
pub struct ParseError {
    /// The text.
    pub text: String,
    /// The wanted type, with an article: `a rate`.
    pub what: &'static str,
    /// One or more valid values, each in backticks.
    pub example: &'static str,
}

/// Implements `FromStr`, `Serialize` and `Deserialize` for a type that implements `Display`.
///
/// The arguments are the type, its name with an article, an example, and a function that parses trimmed text:
///
/// ```
/// #[derive(Debug, PartialEq)]
/// struct Packets(u32);
///
/// units::text_form!(Packets, "a number of packets", "`100p`", |text| {
///     text.strip_suffix('p')?.parse().ok().map(Packets)
/// });
///
/// impl std::fmt::Display for Packets {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         write!(f, "{}p", self.0)
///     }
/// }
///
/// assert_eq!(" 7p".parse(), Ok(Packets(7)));
/// let error = "many".parse::<Packets>().unwrap_err();
/// assert_eq!(error.to_string(), "`many` is not a number of packets; write it like `100p`");
/// ```
#[macro_export]
macro_rules! text_form {
    ($type:ty, $what:literal, $example:literal, $parse:expr) => {
        impl ::std::str::FromStr for $type {
            type Err = $crate::ParseError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let parse: fn(&str) -> Option<Self> = $parse;
                parse(text.trim()).ok_or_else(|| $crate::ParseError {
                    text: text.to_owned(),
                    what: $what,
                    example: $example,
                })
            }
        }
        impl<'de> $crate::text::serde::Deserialize<'de> for $type {
            fn deserialize<D: $crate::text::serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let $crate::text::TextOrNumber(text) = $crate::text::serde::Deserialize::deserialize(from)?;
                text.parse().map_err($crate::text::serde::de::Error::custom)
            }
        }
        impl $crate::text::serde::Serialize for $type {
            fn serialize<S: $crate::text::serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    };
}

/// A string, or an integer as a string: people write `mtu = 1400` in TOML.
#[doc(hidden)]
#[derive(Debug)]
pub struct TextOrNumber(pub String);

impl<'de> Deserialize<'de> for TextOrNumber {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = TextOrNumber;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_str<E>(self, text: &str) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(text.to_owned()))
            }
            fn visit_i64<E>(self, number: i64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }
            fn visit_u64<E>(self, number: u64) -> Result<TextOrNumber, E> {
                Ok(TextOrNumber(number.to_string()))
            }
        }
        from.deserialize_any(Visitor)
    }
}
