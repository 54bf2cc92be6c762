//! What the captures lack, in sentences. A reader has to know it before they trust a cause.

use super::ReadCapture;
use crate::{PairedConnection, bytes, number_format::plural};

/// A sentence or two for each thing that the captures lack or have twice; none if they are complete.
pub fn notes(captures: &[ReadCapture], connections: &[PairedConnection]) -> Vec<String> {
    let mut notes = Vec::new();
    for (index, ReadCapture { name, coverage, .. }) in captures.iter().enumerate() {
        let place = if captures.len() > 1 { format!("{name}: ") } else { String::new() };
        let all = || connections.iter().filter(|paired| paired.capture == index).map(|paired| &paired.connection);
        if coverage.drops.total() > 0 {
            notes.push(format!(
                "{place}The capturing machine lost {}. They do not count as lost on the path, but waits beside them may be \
                 misread. Capture headers only, into a larger buffer: `tcpdump -s 200 -B 65536`.",
                plural(coverage.drops.total(), "packet")
            ));
        }
        let (count, lacking) = all().fold((0, 0_u64), |(count, sum), connection| {
            (count + u64::from(connection.uncaptured > 0), sum.saturating_add(connection.uncaptured))
        });
        if lacking > 0 {
            notes.push(format!(
                "{place}{} of {} were acknowledged, but not captured: the capturing machine lost them, or they took \
                 another path. They do not count as lost.",
                bytes(lacking),
                plural(count, "connection")
            ));
        }
        if coverage.duplicates > 0 {
            notes.push(format!(
                "{place}{} captured more than once, at several interfaces of a machine or a switch. Each counts once.",
                match coverage.duplicates {
                    1 => "1 packet was".to_owned(),
                    more => format!("{more} packets were"),
                }
            ));
        }
        let one_sided = all().filter(|connection| connection.only_from.is_some()).count() as u64;
        // If there is nothing else, the answer says it.
        if one_sided > 0 && connections.iter().any(|paired| paired.connection.only_from.is_none()) {
            notes.push(format!("{place}{}", one_direction(one_sided)));
        }
    }
    notes
}

/// That connections were captured in one direction only.
pub(super) fn one_direction(count: u64) -> String {
    let verb = if count == 1 { "was" } else { "were" };
    format!(
        "{} {verb} captured in one direction only, so what the transfers waited for is unknown. Filter with `host` and \
         `port`, not `src` or `dst`; if the other direction takes another route, capture there as well and join both: \
         `mergecap -w BOTH.pcapng ONE.pcap OTHER.pcap`.",
        plural(count, "connection")
    )
}
