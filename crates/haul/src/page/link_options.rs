//! The options of `haul link` for a replay, which runs over several links: `--rtt` takes a list, and the run's own
//! `--seed` also seeds the link.

use clap::{ArgMatches, Args, Command, FromArgMatches};
use link::spec::{LinkSpec, RttSpec};

/// The links of a replay: one for each RTT, equal in everything else.
pub(super) struct LinkOptions(Vec<LinkSpec>);

impl LinkOptions {
    /// The links, each RTT once.
    pub(super) fn links(&self) -> &[LinkSpec] {
        &self.0
    }
}

/// The RTTs if none are given: of the paper on TCP Fast Open, as its reproduction of 2013 has them.
const RTTS: &str = "21ms,85ms,172ms";

impl Args for LinkOptions {
    fn augment_args(command: Command) -> Command {
        let link = LinkSpec::augment_args(Command::new("link"));
        link.get_arguments().filter(|option| option.get_id() != "seed").cloned().fold(command, |command, option| {
            let is_rtt = option.get_id() == "rtt";
            command.arg(if is_rtt {
                option
                    .value_delimiter(',')
                    .value_name("DURATION,…")
                    .default_value(RTTS)
                    .help("Round-trip times: 18ms, half in each direction; or the one-way delays up/down: 10ms/30ms")
            } else {
                option
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LinkOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let rtts = matches.get_many::<RttSpec>("rtt").unwrap_or_default();
        let link = LinkSpec::from_arg_matches(matches)?;
        let mut links: Vec<LinkSpec> = Vec::new();
        for rtt in rtts {
            if !links.iter().any(|known| known.rtt == *rtt) {
                links.push(LinkSpec { rtt: *rtt, ..link.clone() });
            }
        }
        Ok(Self(links))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
