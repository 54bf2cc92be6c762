//! Page loads: the work of one client over several connections.

use explain::{Cause, PageLoad, page_loads, pair_captures};

use crate::connection_script::{
    Captured,
    End::{self, Client, Server},
    Line,
};

const ASK: &[u8] = b"GET /page HTTP/1.1\r\nHost: here\r\n\r\n";

/// An answer of so many bytes.
fn answer(line: &mut Line, at: f64, bytes: u64) -> f64 {
    line.data(Server, at, format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n").as_bytes());
    let came = line.much(Server, at, bytes);
    line.ack(Client, came);
    came
}

/// A page whose server thinks for 80 ms, then three things that it needs, over two more connections: the second takes
/// 100 ms, and what is asked for 30 ms after that is the last. Beside them something takes a while, and is over before.
fn page(begin: f64, port: u16) -> [Line; 3] {
    let [mut first, mut second, mut third] = [0, 1, 2].map(|number| Line::new(port + number, 20.0));
    let opened = first.open(begin);
    let asked = first.data(Client, opened, ASK);
    let came = answer(&mut first, asked + 80.0, 4000);
    // Opened early, used when the page had come.
    second.open(begin + 5.0);
    let asked = second.data(Client, came + 1.0, ASK);
    let needed = answer(&mut second, asked + 100.0, 2000);
    let opened = third.open(came + 1.0);
    let asked = third.data(Client, opened, ASK);
    answer(&mut third, asked + 10.0, 9000);
    let asked = first.data(Client, needed + 30.0, ASK);
    answer(&mut first, asked + 5.0, 3000);
    [first, second, third]
}

fn found(lines: &[Line], end: End) -> Vec<PageLoad> {
    let seen = pair_captures([Captured::at(lines, end, 0.0).explained()]);
    let page_loads = page_loads(&seen);
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
        let page_loads = found(&page(0.0, 40_000), end);
        let [page] = &page_loads[..] else { panic!("one page, and not {page_loads:?}") };
        assert_eq!((page.connections, page.transfers), (3, 4));
        let path: Vec<_> = page.path.iter().map(|step| (step.connection, step.transfer)).collect();
        assert_eq!(path, [(0, 0), (1, 0), (0, 1)], "{end:?}");
        let took = |cause: Cause| page.times[cause] as f64 / 1e6;
        // Three answers were thought of along the path: the early connection's handshake cost nothing, the third
        // nothing at all.
        assert!((took(Cause::ServerThink) - 185.0).abs() < 3.0, "{end:?}: {:?}", page.times.ranked());
        assert!((took(Cause::ClientThink) - 31.0).abs() < 3.0, "{end:?}: {:?}", page.times.ranked());
        assert!((took(Cause::Connect) - 20.0).abs() < 1.0, "{end:?}: {:?}", page.times.ranked());
    }
}

#[test]
fn silence_separates_page_loads_and_single_connections_are_none() {
    let two = [page(0.0, 40_000), page(5000.0, 41_000)].concat();
    assert_eq!(found(&two, Client).len(), 2);
    let mut alone = Line::new(40_000, 20.0);
    let opened = alone.open(0.0);
    let asked = alone.data(Client, opened, ASK);
    answer(&mut alone, asked, 3000);
    assert!(found(&[alone], Client).is_empty());
}
