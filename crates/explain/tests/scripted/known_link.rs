//! Explanations of a link that is known: its rate is not inferred.

use explain::{Cause, Connection, KeepPackets, KnownLink, explain_on};
use units::Rate;

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    MSS, ScriptedConnection,
};

/// A download whose packets arrive at 93 Mbit/s, which looks like a bottleneck.
fn download(link: Option<KnownLink>) -> Connection {
    let mut connection = ScriptedConnection::new(40_000, 20.0);
    connection.window = u16::MAX;
    let now = connection.open(0.0);
    let mut arrived = connection.data(Client, now, b"GET /file HTTP/1.1\r\nHost: here\r\n\r\n") + 0.5;
    for segments in [10, 20, 40, 80, 160, 320, 320] {
        let received = connection.bulk(Server, arrived, segments * MSS);
        arrived = connection.ack(Client, received);
    }
    let mut captured = Captured::at(&[connection], Client, 0.0);
    let (explanation, broken) = explain_on(link, &mut captured, KeepPackets::default());
    assert!(broken.is_none());
    explanation.connections.into_iter().next().expect("a connection")
}

#[test]
fn rate_of_a_known_link_is_not_inferred() {
    let inferred = download(None);
    assert!(inferred.rate.is_some() && inferred.transfers[0].times[Cause::PathRate] > 0, "{:?}", inferred.rate);
    let unlimited = download(Some(KnownLink { up: None, down: None }));
    assert_eq!((unlimited.rate, unlimited.transfers[0].times[Cause::PathRate]), (None, 0));
    let down = Some(Rate::bits_per_second(100_000_000));
    assert_eq!(download(Some(KnownLink { up: None, down })).rate, Some(1e8));
}
