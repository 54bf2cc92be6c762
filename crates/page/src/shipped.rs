//! The two pages that come with the program, imported from manifests of 2013 by [`crate::import::cs244_manifests`].

use std::path::Path;

use crate::{Spec, SpecError};

/// The shipped pages: their names and specs.
pub const SHIPPED: [(&str, &str); 2] =
    [("wikipedia", include_str!("../specs/wikipedia.toml")), ("amazon", include_str!("../specs/amazon.toml"))];

impl Spec {
    /// The shipped page of this name.
    pub fn shipped(name: &str) -> Option<Self> {
        let (name, text) = SHIPPED.into_iter().find(|(shipped, _)| *shipped == name)?;
        Self::parse(text, Path::new(&format!("{name}.toml"))).ok()
    }

    /// The shipped page of this name, or the one in this file.
    pub fn find(name: &str) -> Result<Self, SpecError> {
        match Self::shipped(name) {
            Some(spec) => Ok(spec),
            None if name.contains(['.', '/']) || Path::new(name).is_file() => Self::read(Path::new(name)),
            None => Err(SpecError::Unknown {
                name: name.to_owned(),
                shipped: SHIPPED.map(|(shipped, _)| shipped).join(", "),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Connections, IdealNetwork};
    use std::time::Duration;

    /// The paper gives requests, connections and bytes. The depth follows from its description: six stages for
    /// Wikipedia, two for Amazon.
    #[test]
    fn shipped_pages_have_the_published_sizes() {
        for (name, requests, connections, bytes, depth) in
            [("wikipedia", 56, 16, 818_538, 5), ("amazon", 72, 21, 677_007, 2)]
        {
            let spec = Spec::shipped(name).unwrap();
            assert_eq!((spec.requests.len(), spec.connections()), (requests, connections), "{name}");
            assert_eq!((spec.response_bytes(), spec.depth()), (bytes, depth), "{name}");
            let mean = (2 * spec.request_bytes() / requests as u64).div_ceil(2);
            assert_eq!(mean, if name == "wikipedia" { 556 } else { 623 });
            // The hosts are plausible: none has more connections than browsers open.
            for host in spec.hosts() {
                let mut numbers: Vec<_> = spec
                    .requests
                    .iter()
                    .filter(|request| request.host == host)
                    .map(|request| request.connection)
                    .collect();
                numbers.sort_unstable();
                numbers.dedup();
                assert!(numbers.len() <= 6, "{host}: {}", numbers.len());
            }
        }
    }

    #[test]
    fn fast_open_saves_at_most_a_round_trip_per_critical_connection() {
        for (name, _) in SHIPPED {
            let spec = Spec::shipped(name).unwrap();
            let rtt = Duration::from_millis(100);
            let over = |handshake| {
                let connections = Connections::Recorded { handshake, initial_window: None };
                spec.schedule(&IdealNetwork { rtt, rate: None, connections, has_processing: true })
            };
            let (plain, open) = (over(1), over(0));
            assert!(plain.load <= open.load + rtt * plain.handshakes() as u32);
            assert!(spec.floor(rtt, None) < open.load, "one request at a time on each connection takes longer");
        }
    }
}
