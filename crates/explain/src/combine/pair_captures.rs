//! Captures of both ends, matched.
//!
//! A connection that was captured twice has the same ends and the same initial sequence number. One capture is
//! enough to explain it, and best is the one at the sender's end, where waits are seen and not inferred; the others
//! are named beside it, and with the packets of both the way between them is told ([`crate::combine::one_way_delay`]).

use std::collections::HashMap;

use super::one_way_delay::{self, OneWayDelays};
use crate::{
    explanation::{Connection, Direction, Explanation},
    infer::vantage::Vantage,
};

/// A connection, and which captures it was seen in.
#[derive(Debug, Clone)]
pub struct PairedConnection {
    /// As the best of the captures explains it.
    pub connection: Connection,
    /// That capture: its place in the list.
    pub capture: usize,
    /// The others.
    pub also_in: Vec<usize>,
    /// The way between two of them, where both kept their packets ([`crate::Keep`]).
    pub one_way: Option<OneWayDelays>,
}

/// The connections of captures, each once, those of the first capture first.
pub fn pair_captures(captures: impl IntoIterator<Item = Explanation>) -> Vec<PairedConnection> {
    let mut all: Vec<PairedConnection> = Vec::new();
    let mut known: HashMap<_, usize> = HashMap::new();
    for (capture, explanation) in captures.into_iter().enumerate() {
        // There may be very many, and what grows by itself takes up to twice as much.
        all.reserve_exact(explanation.connections.len());
        for connection in explanation.connections {
            let key = connection.isn.map(|isn| (connection.client, connection.server, isn));
            let twin = key.and_then(|key| known.get(&key).copied());
            let seen = PairedConnection { connection, capture, also_in: Vec::new(), one_way: None };
            let Some(twin) = twin.map(|twin| &mut all[twin]).filter(|twin| twin.capture != capture) else {
                known.extend(key.map(|key| (key, all.len())));
                all.push(seen);
                continue;
            };
            let ways = one_way_delay::between((twin.capture, &twin.connection), (capture, &seen.connection));
            let better = distance(&seen.connection) < distance(&twin.connection);
            let other = if better {
                let (also, known) = (std::mem::take(&mut twin.also_in), twin.one_way.take());
                std::mem::replace(twin, PairedConnection { also_in: also, one_way: known, ..seen })
            } else {
                seen
            };
            twin.also_in.push(other.capture);
            if let (None, Some(ways)) = (&twin.one_way, ways) {
                ways.judge(&mut twin.connection, &other.connection);
                twin.one_way = Some(ways);
            }
        }
    }
    // Nobody looks at single packets any more.
    for seen in &mut all {
        seen.connection.segments = Vec::new();
    }
    all
}

/// How far a capture is from the sender of most bytes.
fn distance(connection: &Connection) -> u8 {
    match (connection.vantage, connection.direction()) {
        (Vantage::Client, Direction::Upload) | (Vantage::Server, Direction::Download) => 0,
        (Vantage::Middle, _) => 1,
        (Vantage::Client, Direction::Download) | (Vantage::Server, Direction::Upload) => 2,
        (Vantage::Unknown, _) => 3,
    }
}
