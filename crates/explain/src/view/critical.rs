//! Which transfers the last byte waited for.
//!
//! A page is many transfers, and most of them cost nothing, because others took longer meanwhile. Where the requests
//! cannot be read, only times tell which one led to which: a program asks for the next thing when it has what it needs,
//! so a transfer is taken to have waited for the one that ended last before it began. Where none had ended, it was named
//! by the first one, the document, while that still came. That is a guess, and the page says how it is made; browsers'
//! own developers look at a waterfall no differently.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

/// Silence that parts what one client does into several doings.
const QUIET: Duration = Duration::from_secs(2);

/// A transfer: whose it is, and when it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    pub(super) client: IpAddr,
    pub(super) start: Duration,
    pub(super) end: Duration,
}

/// The chains that ends waited for, each in order of time, as places in `transfers`; none of one transfer alone.
pub(super) fn paths(transfers: &[Time]) -> Vec<Vec<usize>> {
    let mut by_client: BTreeMap<IpAddr, Vec<usize>> = BTreeMap::new();
    for (place, transfer) in transfers.iter().enumerate() {
        by_client.entry(transfer.client).or_default().push(place);
    }
    let mut found = Vec::new();
    for mut places in by_client.into_values() {
        places.sort_by_key(|place| transfers[*place].start);
        let mut until = Duration::ZERO;
        let mut doing: Vec<usize> = Vec::new();
        for place in places {
            let Time { start, end, .. } = transfers[place];
            if start > until + QUIET {
                found.push(path(transfers, &std::mem::take(&mut doing)));
            }
            until = until.max(end);
            doing.push(place);
        }
        found.push(path(transfers, &doing));
    }
    found.retain(|path| path.len() > 1);
    found
}

/// The chain of what was done without a pause, in order of starts.
fn path(transfers: &[Time], doing: &[usize]) -> Vec<usize> {
    let last = doing.iter().copied().max_by_key(|place| transfers[*place].end);
    let mut path: Vec<usize> = last.into_iter().collect();
    while let Some(current) = path.last().copied() {
        let begun = transfers[current].start;
        let earlier = doing.iter().copied().filter(|place| transfers[*place].start < begun);
        let ended = earlier.filter(|place| transfers[*place].end <= begun).max_by_key(|place| transfers[*place].end);
        let document = doing.first().copied().filter(|first| transfers[*first].start < begun);
        let Some(before) = ended.or(document) else { break };
        path.push(before);
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::{Time, paths};
    use std::{net::Ipv4Addr, time::Duration};

    fn at(start: u64, end: u64) -> Time {
        let [start, end] = [start, end].map(Duration::from_millis);
        Time { client: Ipv4Addr::LOCALHOST.into(), start, end }
    }

    #[test]
    fn the_last_byte_waited_for_a_chain_and_not_for_what_ran_beside_it() {
        let document = at(0, 100);
        let (style, picture, font) = (at(100, 180), at(100, 150), at(181, 400));
        assert_eq!(paths(&[font, picture, document, style]), [[2, 3, 0]]);
    }

    #[test]
    fn what_begins_while_the_document_still_comes_was_named_by_it() {
        assert_eq!(paths(&[at(0, 300), at(50, 400)]), [[0, 1]]);
        assert_eq!(paths(&[at(0, 300), at(50, 200)]), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn a_silence_parts_two_pages() {
        assert_eq!(paths(&[at(0, 10), at(10, 20), at(5000, 5010), at(5010, 5020)]), [[0, 1], [2, 3]]);
    }
}
