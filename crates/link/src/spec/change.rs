//! One changed value of a running link: `loss=1%`, `rate.up=5mbit`, `wan.rtt=80ms`.
//!
//! A change names an option and its new value. It may name the cable, and the direction if the option has a value for
//! each. Timetables and the control socket of `haul link` share this form.

use std::{fmt, str::FromStr};

use units::Span;

use super::{LinkSpec, PerDirection};
use crate::stage::Direction;

/// The options that can change: all but the seed, since the random sequences continue.
const KEYS: [&str; 16] = [
    "rtt",
    "jitter",
    "delays-up",
    "delays-down",
    "rate",
    "trace-up",
    "trace-down",
    "queue",
    "loss",
    "loss-trace-up",
    "loss-trace-down",
    "reorder",
    "duplicate",
    "corrupt",
    "mtu",
    "middlebox",
];

/// The options with a value for each direction.
const DIRECTED: [&str; 4] = ["rtt", "jitter", "rate", "loss"];

/// Why a change makes no sense: one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ChangeError(String);

impl ChangeError {
    pub(crate) fn new(message: String) -> Self {
        Self(message)
    }
}

/// A new value of one option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The cable that changes; `None` if there is only one.
    pub cable: Option<String>,
    key: &'static str,
    direction: Option<Direction>,
    value: String,
}

impl FromStr for Change {
    type Err = ChangeError;
    fn from_str(text: &str) -> Result<Self, ChangeError> {
        let Some((name, value)) = text.split_once('=') else {
            return Err(ChangeError(format!("`{}` is no change; write it like `rate=1mbit`", shown(text))));
        };
        let (rest, direction) = match name.trim().rsplit_once('.') {
            Some((rest, "up")) => (rest, Some(Direction::Up)),
            Some((rest, "down")) => (rest, Some(Direction::Down)),
            _ => (name.trim(), None),
        };
        let (cable, key) = rest.rsplit_once('.').map_or((None, rest), |(cable, key)| (Some(cable.to_owned()), key));
        let Some(key) = KEYS.into_iter().find(|known| *known == key) else {
            return Err(ChangeError(format!("`{}` cannot change; these can: {}", shown(key), KEYS.join(", "))));
        };
        if direction.is_some() && !DIRECTED.contains(&key) {
            let directed = DIRECTED.join(", ");
            return Err(ChangeError(format!("`{key}` has no value for one direction; these have: {directed}")));
        }
        let change = Self { cable, key, direction, value: value.trim().to_owned() };
        // With a rate, one direction of it can change too.
        let rate = Some(PerDirection::both(units::Rate::bits_per_second(1)));
        change.apply(&LinkSpec { rate, ..LinkSpec::default() })?;
        Ok(change)
    }
}

/// A piece of the user's text in a message, which is one line.
fn shown(text: &str) -> String {
    text.trim().chars().take(80).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

impl Change {
    /// Whether the value is a path.
    pub fn is_path(&self) -> bool {
        ["trace", "delays"].iter().any(|word| self.key.contains(word))
    }

    /// The same change with another value.
    #[must_use]
    pub fn with_value(self, value: String) -> Self {
        Self { value, ..self }
    }

    /// The value, as given.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// The link after this change.
    pub fn apply(&self, spec: &LinkSpec) -> Result<LinkSpec, ChangeError> {
        if let Some(direction) = self.direction {
            return self.apply_to(spec, direction).map_err(ChangeError);
        }
        let say = |error: serde_json::Error| ChangeError(error.to_string());
        let mut fields = serde_json::to_value(spec).map_err(say)?;
        fields[self.key.replace('-', "_")] =
            if self.key == "middlebox" { self.value.split_whitespace().collect() } else { self.value.as_str().into() };
        serde_json::from_value(fields).map_err(say)
    }

    /// The link after this change of one direction.
    fn apply_to(&self, spec: &LinkSpec, direction: Direction) -> Result<LinkSpec, String> {
        fn set<T: FromStr<Err = units::ParseError>>(value: &mut T, text: &str) -> Result<(), String> {
            *value = text.parse().map_err(|error: units::ParseError| error.to_string())?;
            Ok(())
        }
        let mut spec = spec.clone();
        match (self.key, &mut spec.rate) {
            ("rtt", _) => {
                let mut time = Span::default();
                set(&mut time, &self.value)?;
                match direction {
                    Direction::Up => spec.rtt.up = time.0,
                    Direction::Down => spec.rtt.down = time.0,
                }
            }
            ("rate", Some(rate)) => set(rate.of_mut(direction), &self.value)?,
            ("rate", None) => {
                return Err("the link has no rate yet; set that of both directions: `rate=UP/DOWN`".into());
            }
            ("jitter", _) => {
                set(spec.jitter.get_or_insert(PerDirection::both(<_>::default())).of_mut(direction), &self.value)?;
            }
            _ => set(spec.loss.get_or_insert(PerDirection::both(<_>::default())).of_mut(direction), &self.value)?,
        }
        Ok(spec)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(cable) = &self.cable {
            write!(f, "{cable}.")?;
        }
        f.write_str(self.key)?;
        match self.direction {
            Some(Direction::Up) => f.write_str(".up")?,
            Some(Direction::Down) => f.write_str(".down")?,
            None => {}
        }
        write!(f, "={}", self.value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn changed(link: &str, change: &str) -> Result<String, String> {
        let spec: LinkSpec = toml::from_str(link).unwrap();
        let change: Change = change.parse().map_err(|error: ChangeError| error.to_string())?;
        change.apply(&spec).map(|spec| spec.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn change_sets_both_directions_or_one() {
        let link = "rtt = '20ms'\nrate = '8mbit'\nqueue = '9p'";
        for (change, expected) in [
            ("rtt=80ms", "80ms RTT, 8mbit, queue 9p"),
            ("rtt=10ms/30ms", "10ms/30ms RTT, 8mbit, queue 9p"),
            ("rtt.down=30ms", "10ms/30ms RTT, 8mbit, queue 9p"),
            ("rate.up=1mbit", "20ms RTT, 1mbit/8mbit, queue 9p"),
            ("loss.up=1%", "20ms RTT, 8mbit, queue 9p, loss 1%/0%"),
            ("jitter.down = 5ms normal", "20ms RTT, jitter 0ms/5ms normal, 8mbit, queue 9p"),
            ("wan.loss=ge:p=1%,r=20%", "20ms RTT, 8mbit, queue 9p, loss ge:p=1%,r=20%,bad=100%,good=0%"),
            ("middlebox=strip-tfo strip-sack", "20ms RTT, 8mbit, queue 9p, strip-tfo, strip-sack"),
        ] {
            assert_eq!(changed(link, change).as_deref(), Ok(expected), "{change}");
        }
    }

    #[test]
    fn change_names_its_cable() {
        let change = |text: &str| text.parse::<Change>().unwrap();
        assert_eq!(change("wan.rate.up=1mbit").cable.as_deref(), Some("wan"));
        assert_eq!(change("rate.up=1mbit").cable, None);
        assert_eq!(change(" wan.loss = 1% ").to_string(), "wan.loss=1%");
        assert!(
            change("loss-trace-up=a").is_path() && change("delays-down=a").is_path() && !change("loss=1%").is_path()
        );
    }

    #[test]
    fn errors_say_what_to_write() {
        let error = |text: &str| changed("", text).unwrap_err();
        assert_eq!(error("faster"), "`faster` is no change; write it like `rate=1mbit`");
        assert!(error("rate=fast").starts_with("`fast` is not a rate"));
        assert!(error("queue.up=9p").starts_with("`queue` has no value for one direction; these have: rtt,"));
        assert!(error("rate.up=1mbit").contains("`rate=UP/DOWN`"));
        assert!(error("loss.up=1%/2%").starts_with("`1%/2%` is not a loss"));
        for key in ["speed", "seed", "trace_up", "", "up"] {
            let said = error(&format!("{key}=1"));
            assert!(said.starts_with(&format!("`{key}` cannot change; these can: rtt, ")), "{said}");
            assert!(said.contains("trace-up") && !said.contains(", seed"), "{said}");
        }
    }

    #[test]
    fn all_options_but_seed_and_network_can_change() {
        let unknown = serde_json::from_str::<LinkSpec>(r#"{"": 0}"#).unwrap_err().to_string();
        let names = unknown.split('`').skip(1).step_by(2).filter(|name| !["", "seed", "network"].contains(name));
        assert_eq!(names.collect::<Vec<_>>(), KEYS.map(|key| key.replace('-', "_")));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_printed_as_it_reads(
            text in "([a-z]{0,4}\\.)?(rtt|rate|loss|mtu|queue)(\\.up|\\.down)?=[0-9]{1,4}(ms|%|mbit|p)?|.*",
        ) {
            if let Ok(change) = text.parse::<Change>() {
                prop_assert_eq!(change.to_string().parse::<Change>(), Ok(change));
            }
        }
    }
}
