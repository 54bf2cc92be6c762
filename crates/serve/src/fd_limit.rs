//! The limit on open files, and how many connections it allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors per connection: two for its socket, and for an upload its folder, its file and the folder that is
/// synced.
const PER_CONNECTION: u64 = 5;

/// Descriptors for listeners, logs and the rest of the program.
const RESERVED: u64 = 64;

/// The number of connections that the limit allows, at most `wanted`. Raises the soft limit if needed.
pub(crate) fn max_connections(wanted: usize) -> usize {
    let needed = wanted as u64 * PER_CONNECTION + RESERVED;
    let limit = getrlimit(Resource::Nofile);
    let mut soft = limit.current.unwrap_or(u64::MAX);
    if soft < needed {
        let raised = needed.min(limit.maximum.unwrap_or(u64::MAX));
        if setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }).is_ok() {
            soft = raised;
        }
    }
    let enough = usize::try_from(soft.saturating_sub(RESERVED) / PER_CONNECTION).unwrap_or(usize::MAX).clamp(1, wanted);
    if enough < wanted {
        tracing::warn!("the limit of {soft} open files allows {enough} connections; raise it with ulimit -n {needed}");
    }
    enough
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_stay_within_the_limit() {
        assert_eq!(max_connections(1), 1);
        let hard = getrlimit(Resource::Nofile).maximum.map_or(usize::MAX, |hard| usize::try_from(hard).unwrap());
        assert!(max_connections(1 << 20) <= hard);
    }
}
