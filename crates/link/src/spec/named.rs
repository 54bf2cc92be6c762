//! Networks with a name: `--network 3g`, or `network = "3g"` in a file.
//!
//! Each is a delay and a rate that somebody has published; options and keys beside the name override them. None has a loss:
//! the sources give none, or measured it behind a link layer that hides it.

use serde::{Deserialize, Deserializer, de};

use super::LinkSpec;

/// A network with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedNetwork {
    /// Its name.
    pub name: &'static str,
    /// Its round-trip time.
    pub rtt: &'static str,
    /// Its rates up/down.
    pub rate: &'static str,
    /// Where the figures are from.
    pub source: &'static str,
}

impl NamedNetwork {
    /// Its link.
    pub fn spec(&self) -> LinkSpec {
        let mut spec = LinkSpec { network: Some(self.name.to_owned()), ..LinkSpec::default() };
        apply(&mut spec);
        spec
    }
}

/// All named networks.
pub const ALL: [NamedNetwork; 5] = [
    NamedNetwork {
        name: "3g",
        rtt: "300ms",
        rate: "768kbit/1600kbit",
        source: "WebPageTest, connectivity.ini, profile 3G",
    },
    NamedNetwork { name: "4g", rtt: "170ms", rate: "9mbit", source: "WebPageTest, connectivity profile 4G" },
    NamedNetwork {
        name: "dsl",
        rtt: "50ms",
        rate: "384kbit/1500kbit",
        source: "WebPageTest, connectivity.ini, profile DSL",
    },
    NamedNetwork {
        name: "satellite",
        rtt: "600ms",
        rate: "3mbit/25mbit",
        source: "geostationary: RFC 2488 §2 has at least 558 ms of propagation; \
                 the rates are the FCC's definition of broadband of 2015",
    },
    NamedNetwork {
        name: "transatlantic",
        rtt: "90ms",
        rate: "20mbit/100mbit",
        source: "Verizon's service level for New York–London (monthly average); \
                 the rates are the FCC's definition of broadband of 2024",
    },
];

/// The names, for messages and completions.
pub(super) fn names() -> [&'static str; ALL.len()] {
    ALL.map(|network| network.name)
}

/// The values of an option that the names stand for, for clap: the option `network`, its value, and that of this one.
pub(super) fn defaults(
    value: fn(NamedNetwork) -> &'static str,
) -> [(&'static str, &'static str, &'static str); ALL.len()] {
    ALL.map(|network| ("network", network.name, value(network)))
}

/// A known name, in a file.
pub(super) fn known<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if names().contains(&name.as_str()) {
        return Ok(Some(name));
    }
    Err(de::Error::custom(format!("there is no network `{name}`; there are: {}", names().join(", "))))
}

/// Gives a link from a file what its network's name stands for, except for what the file says itself.
pub(super) fn apply(spec: &mut LinkSpec) {
    let Some(network) = ALL.into_iter().find(|network| spec.network.as_deref() == Some(network.name)) else { return };
    if spec.rtt.is_zero() {
        spec.rtt = network.rtt.parse().unwrap_or_default();
    }
    if spec.trace_up.is_none() || spec.trace_down.is_none() {
        spec.rate = spec.rate.or_else(|| network.rate.parse().ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_figures_can_be_read() {
        for network in ALL {
            let spec: LinkSpec = toml::from_str(&format!("network = {:?}", network.name)).unwrap();
            assert_eq!((spec.rtt, spec.rate), (network.rtt.parse().unwrap(), network.rate.parse().ok()));
            assert!(spec.lanes().is_ok() && !network.source.is_empty());
        }
    }

    #[test]
    fn file_overrides_what_a_name_stands_for() {
        let spec: LinkSpec = toml::from_str("network = \"3g\"\nrtt = \"10ms\"\nloss = \"1%\"").unwrap();
        assert_eq!(spec.to_string(), "10ms RTT, 768kbit/1.6mbit, queue 100p, loss 1%");
        let wrong = toml::from_str::<LinkSpec>("network = \"5g\"").unwrap_err().to_string();
        assert!(
            wrong.contains("there is no network `5g`; there are: 3g, 4g, dsl, satellite, transatlantic"),
            "{wrong}"
        );
    }

    #[test]
    fn options_override_what_a_name_stands_for() {
        use clap::{Args, Command, FromArgMatches};
        let parse = |arguments: &[&str]| {
            let matches = LinkSpec::augment_args(Command::new("link")).try_get_matches_from(arguments)?;
            LinkSpec::from_arg_matches(&matches)
        };
        let said = |arguments: &[&str]| parse(arguments).unwrap().to_string();
        assert_eq!(said(&["link", "--network", "dsl"]), "50ms RTT, 384kbit/1.5mbit, queue 100p");
        assert_eq!(said(&["link", "--network", "dsl", "--rtt", "0ms"]), "384kbit/1.5mbit, queue 100p");
        assert_eq!(said(&["link", "--rate", "1mbit", "--network", "dsl"]), "50ms RTT, 1mbit, queue 100p");
        let wrong = parse(&["link", "--network", "5g"]).unwrap_err().to_string();
        assert!(wrong.contains("transatlantic"), "{wrong}");
    }
}
