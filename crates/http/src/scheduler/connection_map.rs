//! The connections of an origin, by their number.
//!
//! They are few, each decision looks at all of them, and a new one has the highest number: a sorted vector.

use super::connection::Connection;
use crate::connection_messages::ConnectionId;

/// Connections in the order of their numbers.
#[derive(Debug, Default)]
pub(super) struct ConnectionMap(Vec<(ConnectionId, Connection)>);

impl ConnectionMap {
    fn find(&self, id: ConnectionId) -> Option<usize> {
        self.0.binary_search_by_key(&id, |(id, _)| *id).ok()
    }

    pub(super) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.find(id).map(|at| &self.0[at].1)
    }

    pub(super) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.find(id).map(|at| &mut self.0[at].1)
    }

    /// Adds a connection with a higher number than all others.
    pub(super) fn push(&mut self, id: ConnectionId, conn: Connection) {
        debug_assert!(self.0.last().is_none_or(|(last, _)| *last < id), "connections are numbered in order");
        self.0.push((id, conn));
    }

    pub(super) fn remove(&mut self, id: ConnectionId) -> Option<Connection> {
        self.find(id).map(|at| self.0.remove(at).1)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.0.iter().map(|(id, conn)| (*id, conn))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (ConnectionId, &mut Connection)> {
        self.0.iter_mut().map(|(id, conn)| (*id, conn))
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Connection> {
        self.iter().map(|(_, conn)| conn)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        self.iter_mut().map(|(_, conn)| conn)
    }
}
