//! Page loads: the work of one client over several connections.

use explain::{Cause, PageLoad, page_loads, pair_captures};

use crate::connection_script::{
    Captured,
    End::{self, Client, Server},
    ScriptedConnection,
};

const REQUEST: &[u8] = b"GET /page HTTP/1.1\r\nHost: here\r\n\r\n";

/// A response of this length.
fn respond(connection: &mut ScriptedConnection, at: f64, bytes: u64) -> f64 {
    connection.data(Server, at, format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes());
    let arrived = connection.bulk(Server, at, bytes);
    connection.ack(Client, arrived);
    arrived
}

/// A page with a think time of 80 ms, and three resources over two more connections: one with a think time of 100 ms, then
/// the last one, requested 30 ms after it. The third resource ends before it, and is not on the critical path.
fn page(begin: f64, port: u16) -> [ScriptedConnection; 3] {
    let [mut first, mut second, mut third] = [0, 1, 2].map(|number| ScriptedConnection::new(port + number, 20.0));
    let opened = first.open(begin);
    let request_arrived = first.data(Client, opened, REQUEST);
    let arrived = respond(&mut first, request_arrived + 80.0, 4000);
    // Opened early, and used after the page has arrived.
    second.open(begin + 5.0);
    let request_arrived = second.data(Client, arrived + 1.0, REQUEST);
    let needed = respond(&mut second, request_arrived + 100.0, 2000);
    let opened = third.open(arrived + 1.0);
    let request_arrived = third.data(Client, opened, REQUEST);
    respond(&mut third, request_arrived + 10.0, 9000);
    let request_arrived = first.data(Client, needed + 30.0, REQUEST);
    respond(&mut first, request_arrived + 5.0, 3000);
    [first, second, third]
}

fn page_loads_of(connections: &[ScriptedConnection], end: End) -> Vec<PageLoad> {
    let paired = pair_captures([Captured::at(connections, end, 0.0).explained()]);
    let page_loads = page_loads(&paired);
    for page in &page_loads {
        assert_eq!(u128::from(page.times.sum()), page.duration.as_nanos());
        let along: std::time::Duration = page.path.iter().map(|step| step.duration).sum();
        assert_eq!(along, page.duration);
    }
    page_loads
}

#[test]
fn page_load_follows_the_transfers_that_waited_for_each_other() {
    for end in [Client, Server] {
        let page_loads = page_loads_of(&page(0.0, 40_000), end);
        let [page] = &page_loads[..] else { panic!("expected one page: {page_loads:?}") };
        assert_eq!((page.connections, page.transfers), (3, 4));
        let path: Vec<_> = page.path.iter().map(|step| (step.connection, step.transfer)).collect();
        assert_eq!(path, [(0, 0), (1, 0), (0, 1)], "{end:?}");
        let took = |cause: Cause| page.times[cause] as f64 / 1e6;
        // Three think times are on the path; the early connection's handshake and the third resource are not.
        assert!((took(Cause::ServerThink) - 185.0).abs() < 3.0, "{end:?}: {:?}", page.times.ranked());
        assert!((took(Cause::ClientThink) - 31.0).abs() < 3.0, "{end:?}: {:?}", page.times.ranked());
        assert!((took(Cause::Connect) - 20.0).abs() < 1.0, "{end:?}: {:?}", page.times.ranked());
    }
}

#[test]
fn silence_separates_page_loads_and_single_connections_are_none() {
    let two = [page(0.0, 40_000), page(5000.0, 41_000)].concat();
    assert_eq!(page_loads_of(&two, Client).len(), 2);
    let mut alone = ScriptedConnection::new(40_000, 20.0);
    let opened = alone.open(0.0);
    let request_arrived = alone.data(Client, opened, REQUEST);
    respond(&mut alone, request_arrived, 3000);
    assert!(page_loads_of(&[alone], Client).is_empty());
}
