//! File descriptors: how many connections they are enough for.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What a connection may need: two for its socket, and for an upload its folder, its file and the folder that it syncs.
const EACH: u64 = 5;

/// For listeners, logs and whatever else the program has open.
const OTHERS: u64 = 64;

/// How many connections there may be, of so many that are wanted. Raises the soft limit as far as they need it.
pub(crate) fn enough_for(wanted: usize) -> usize {
    let needed = wanted as u64 * EACH + OTHERS;
    let limit = getrlimit(Resource::Nofile);
    let mut soft = limit.current.unwrap_or(u64::MAX);
    if soft < needed {
        let raised = needed.min(limit.maximum.unwrap_or(u64::MAX));
        if setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }).is_ok() {
            soft = raised;
        }
    }
    let enough = usize::try_from(soft.saturating_sub(OTHERS) / EACH).unwrap_or(usize::MAX).clamp(1, wanted);
    if enough < wanted {
        tracing::warn!("the limit of {soft} open files allows {enough} connections; raise it with ulimit -n {needed}");
    }
    enough
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_as_many_as_the_limit_allows() {
        assert_eq!(enough_for(1), 1);
        let hard = getrlimit(Resource::Nofile).maximum.map_or(usize::MAX, |hard| usize::try_from(hard).unwrap());
        assert!(enough_for(1 << 20) <= hard);
    }
}
