//! Text forms: values that people write, in TOML or as a flag, and that print as they are written.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// A text that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}; write it like {example}")]
pub struct FormError {
    pub(crate) text: String,
    pub(crate) what: &'static str,
    pub(crate) example: &'static str,
}

/// Gives a type that implements `Display` its parsing, by a function from the text without the space
/// around it to an `Option`, and its way through serde, as a string.
macro_rules! text_form {
    ($type:ty, $what:literal, $example:literal, $parse:expr) => {
        impl std::str::FromStr for $type {
            type Err = $crate::forms::FormError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let parse: fn(&str) -> Option<Self> = $parse;
                parse(text.trim()).ok_or_else(|| $crate::forms::FormError {
                    text: text.to_owned(),
                    what: $what,
                    example: $example,
                })
            }
        }
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                $crate::forms::TextOrNumber::deserialize(from)?.0.parse().map_err(serde::de::Error::custom)
            }
        }
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    };
}

pub(crate) use text_form;

/// A text, or a number as a text: `mtu = 1400` is what one writes in TOML.
pub(crate) struct TextOrNumber(pub(crate) String);

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
