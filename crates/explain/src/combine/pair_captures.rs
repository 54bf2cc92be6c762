//! Pairs captures of both ends of a connection.
//!
//! A connection that was captured twice has the same addresses and the same initial sequence number in both. One capture
//! is enough to explain it, preferably the one at the sender's end, where waits are visible and need not be inferred.
//! How long it took is what the client saw, where a person waited ([`super::client_time`]).
//! With the packets of both, one-way delays are computed ([`super::one_way_delay`]).

use std::collections::HashMap;

use super::{
    client_time, neighbours,
    one_way_delay::{self, OneWayDelays},
    spare_connections,
};
use crate::{
    explanation::{Connection, Direction, Explanation},
    infer::vantage::Vantage,
};

/// A connection, and the captures that contain it.
#[derive(Debug, Clone)]
pub struct PairedConnection {
    /// As the best of the captures explains it.
    pub connection: Connection,
    /// The index of that capture.
    pub capture: usize,
    /// The indices of the other captures.
    pub also_in: Vec<usize>,
    /// The one-way delays between two of them, if both kept their packets ([`crate::KeepPackets`]).
    pub one_way: Option<OneWayDelays>,
}

/// The connections of all captures, each once, in the order of their first capture.
pub fn pair_captures(captures: impl IntoIterator<Item = Explanation>) -> Vec<PairedConnection> {
    let mut all: Vec<PairedConnection> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    for (capture, explanation) in captures.into_iter().enumerate() {
        // There may be very many, and a vector that grows by itself takes up to twice the memory.
        all.reserve_exact(explanation.connections.len());
        for connection in explanation.connections {
            let key = connection.isn.map(|isn| (connection.client, connection.server, isn));
            let twin = key.and_then(|key| known.get(&key).copied());
            let paired = PairedConnection { connection, capture, also_in: Vec::new(), one_way: None };
            let Some(twin) = twin.map(|twin| &mut all[twin]).filter(|twin| twin.capture != capture) else {
                known.extend(key.map(|key| (key, all.len())));
                all.push(paired);
                continue;
            };
            let one_way = one_way_delay::between((twin.capture, &twin.connection), (capture, &paired.connection));
            // A capture of one direction says little, wherever it was taken.
            let rank = |connection: &Connection| (connection.only_from.is_some(), distance_to_sender(connection));
            let is_better = rank(&paired.connection) < rank(&twin.connection);
            let other = if is_better {
                let (also_in, one_way) = (std::mem::take(&mut twin.also_in), twin.one_way.take());
                std::mem::replace(twin, PairedConnection { also_in, one_way, ..paired })
            } else {
                paired
            };
            client_time::take(&mut twin.connection, &other.connection);
            twin.also_in.push(other.capture);
            if let (None, Some(one_way)) = (&twin.one_way, one_way) {
                one_way.attribute_delayed_acks(&mut twin.connection, &other.connection);
                twin.one_way = Some(one_way);
            }
        }
    }
    // The packets are not needed any more.
    for paired in &mut all {
        paired.connection.segments = Vec::new();
    }
    spare_connections::forget(&mut all);
    neighbours::name(&mut all);
    all
}

/// Orders captures by their distance from the sender of most bytes.
fn distance_to_sender(connection: &Connection) -> u8 {
    match (connection.vantage, connection.direction()) {
        (Vantage::Client, Direction::Upload) | (Vantage::Server, Direction::Download) => 0,
        (Vantage::Middle, _) => 1,
        (Vantage::Client, Direction::Download) | (Vantage::Server, Direction::Upload) => 2,
        (Vantage::Unknown, _) => 3,
    }
}
