//! What the lab knows of a cell's link, for `explain`: it set it.

use capture::LinkRates;
use explain::KnownLink;
use link::spec::LinkSpec;
use units::Rate;

use crate::results::RunResult;

/// The rates of a link; none if they change over time.
pub fn known_link(link: &LinkSpec) -> Option<KnownLink> {
    let is_fixed = link.trace_up.is_none() && link.trace_down.is_none();
    let rate = link.rate;
    is_fixed.then(|| KnownLink { up: rate.map(|rate| rate.up), down: rate.map(|rate| rate.down) })
}

/// The same as a capture at an end of the link says it: at A, the client's, or at B.
pub fn link_rates_at(end: usize, link: &LinkSpec) -> Option<LinkRates> {
    let known = known_link(link)?;
    let [up, down] = [known.up, known.down].map(|rate| rate.map(Rate::as_bits_per_second));
    let (outbound, inbound) = if end == 0 { (up, down) } else { (down, up) };
    Some(LinkRates { outbound, inbound })
}

/// The rates of the network with this name in a run.
pub fn known_link_of(run: &RunResult, network: &str) -> Option<KnownLink> {
    let record = run.networks.iter().find(|record| record.name == network)?;
    known_link(&serde_json::from_value(record.link.clone()).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_is_known_unless_its_rate_follows_a_trace() {
        let spec = |text: &str| toml::from_str::<LinkSpec>(text).expect("a link");
        assert_eq!(known_link(&spec("rtt = \"18ms\"")), Some(KnownLink { up: None, down: None }));
        let rates = known_link(&spec("rate = \"10mbit/100mbit\"")).expect("rates");
        let bits = |rate: Option<units::Rate>| rate.map(units::Rate::as_bits_per_second);
        assert_eq!((bits(rates.up), bits(rates.down)), (Some(10_000_000), Some(100_000_000)));
        let ends = [0, 1].map(|end| link_rates_at(end, &spec("rate = \"10mbit/100mbit\"")).expect("rates"));
        let (slow, fast) = (Some(10_000_000), Some(100_000_000));
        let [a, b] = [(slow, fast), (fast, slow)].map(|(outbound, inbound)| LinkRates { outbound, inbound });
        assert_eq!(ends, [a, b]);
        assert_eq!(known_link(&spec("trace_up = \"lte.trace\"")), None);
    }
}
