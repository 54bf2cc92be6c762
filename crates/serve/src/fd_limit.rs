//! The limit on open files, and how many connections and requests it allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors per connection, for its socket.
const PER_CONNECTION: u64 = 2;

/// Descriptors per request: for an upload its folder, its file and the folder that is synced.
const PER_REQUEST: u64 = 3;

/// Descriptors for listeners, logs and the rest of the program.
const RESERVED: u64 = 64;

/// Requests in flight on average per connection, and in all at least.
const REQUESTS: u64 = 2;
const FEWEST_REQUESTS: u64 = 512;

/// The numbers of connections and of requests in flight that the server may have.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity {
    pub(crate) connections: usize,
    pub(crate) requests: usize,
}

impl Capacity {
    /// What the limit allows, at most `wanted` connections. Raises the soft limit if needed.
    pub(crate) fn new(wanted: usize) -> Self {
        let (wanted_connections, wanted_requests) = (wanted as u64, (wanted as u64 * REQUESTS).max(FEWEST_REQUESTS));
        let needed = wanted_connections * PER_CONNECTION + wanted_requests * PER_REQUEST + RESERVED;
        let limit = getrlimit(Resource::Nofile);
        let mut soft = limit.current.unwrap_or(u64::MAX);
        if soft < needed {
            let raised = needed.min(limit.maximum.unwrap_or(u64::MAX));
            if setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum: limit.maximum }).is_ok() {
                soft = raised;
            }
        }
        // Each connection may have one request at least.
        let free = soft.saturating_sub(RESERVED);
        let connections = (free / (PER_CONNECTION + PER_REQUEST)).clamp(1, wanted_connections.max(1));
        let requests = ((free.saturating_sub(connections * PER_CONNECTION)) / PER_REQUEST).clamp(1, wanted_requests);
        let number = |count| usize::try_from(count).unwrap_or(usize::MAX);
        let capacity = Capacity { connections: number(connections), requests: number(requests) };
        if capacity.connections < wanted {
            let enough = capacity.connections;
            tracing::warn!(
                "the limit of {soft} open files allows {enough} connections; raise it with ulimit -n {needed}"
            );
        }
        capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_and_requests_stay_within_the_limit() {
        assert_eq!(Capacity::new(1).connections, 1);
        let hard = getrlimit(Resource::Nofile).maximum.map_or(usize::MAX, |hard| usize::try_from(hard).unwrap());
        let Capacity { connections, requests } = Capacity::new(1 << 20);
        assert!(connections.saturating_mul(2) + requests.saturating_mul(3) <= hard);
    }
}
