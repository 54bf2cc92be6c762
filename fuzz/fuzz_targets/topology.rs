//! Any topology is read or refused with one line; in what is read, routes lead from everywhere to everywhere.

#![no_main]

use link::topology::Topology;

libfuzzer_sys::fuzz_target!(|text: &str| {
    match Topology::parse(text, "fuzz.toml") {
        Ok(net) => {
            let foreign = net.cables.len() * net.hosts.len() - 2 * net.cables.len();
            assert_eq!(net.routes().len(), foreign, "a route for each network that a host does not have itself");
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1),
    }
});
