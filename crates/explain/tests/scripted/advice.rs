//! What a finding says and advises depends on what is so already.

use explain::{Cause, Finding};

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    MSS, ScriptedConnection,
};

const REQUEST: &[u8] = b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n";

/// The finding of this cause in a download whose flights have these numbers of segments.
fn finding(flights: &[u64], cause: Cause) -> Finding {
    let mut connection = ScriptedConnection::new(40_000, 60.0);
    connection.identification = Some([700, 900]);
    connection.window = u16::MAX;
    let now = connection.open(0.0);
    let mut arrived = connection.data(Client, now, REQUEST) + 0.5;
    for segments in flights {
        let received = connection.bulk(Server, arrived, segments * MSS);
        arrived = connection.ack(Client, received);
    }
    let explanation = Captured::at(&[connection], Server, 0.0).explained();
    let transfer = &explanation.connections[0].transfers[0];
    let found = transfer.findings.iter().find(|finding| finding.cause == cause);
    found.unwrap_or_else(|| panic!("{:?}", transfer.times.ranked())).clone()
}

#[test]
fn initial_window_is_compared_with_what_is_allowed() {
    let cases = [
        (&[4, 8, 16, 32, 64][..], "4 segments, fewer than the 10 that RFC 6928 allows"),
        (&[10, 20, 40, 80, 160], "10 segments, which is what RFC 6928 allows"),
        (&[30, 60, 120, 240, 480], "30 segments, more than the 10 that RFC 6928 allows"),
    ];
    for (flights, said) in cases {
        let found = finding(flights, Cause::SlowStart);
        assert!(found.why.contains(said), "{}", found.why);
        // The connection was new: it can be reused next time.
        assert!(found.fixes().iter().any(|fix| fix.how.starts_with("reuse a connection")));
        let illumos = found.fixes().iter().any(|fix| fix.system == "Solaris/illumos sender");
        assert_eq!(illumos, flights[0] < 10);
    }
}
