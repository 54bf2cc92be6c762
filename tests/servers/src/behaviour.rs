//! How a server behaves that is within the rules or beside them, on every request or on one of many.
//!
//! A behaviour is one small file in `behaviours/`, and one line in its list. It says what becomes of a request, in
//! which order answers leave, and what names and validators are like; [`crate::verbs`] does the rest. A server may
//! have several. Chance comes from a seed, and what is done to one request of many is done once the server is armed:
//! a test lays out its files before.

use std::time::{Duration, SystemTime};

use crate::wire::Request;

/// In which order the requests of one connection are done and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Order {
    /// One after the other.
    InTurn,
    /// Done side by side, and answered in their order.
    SideBySide,
    /// Done side by side, and answered as they are done.
    AsDone,
}

/// What becomes of a request.
#[derive(Debug, Clone)]
pub enum Treatment {
    /// It is neither done nor answered.
    Drop,
    /// It is done and never answered.
    Forget,
    /// It is done, and answered after the request behind it.
    Swap,
    /// It is done and answered twice.
    Repeat,
    /// It is done; then the connection is reset.
    DoneAndReset,
    /// It is not done, and answered with this.
    Answer(u16, String),
}

/// A request that has come.
pub struct Asked<'a> {
    pub(crate) request: &'a Request,
    /// Another is behind it already, or before it and without an answer.
    pub pipelined: bool,
}

impl Asked<'_> {
    /// The method.
    pub fn method(&self) -> &str {
        &self.request.method
    }

    /// A header's value, by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.request.header(name)
    }
}

/// Where validators are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// In the answer to GET, HEAD or PUT.
    Answer,
    /// In a listing.
    Listing,
}

/// By what the state of a file is told from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validators {
    /// With its quotes.
    pub etag: Option<String>,
    /// When it was changed, by the server's clock.
    pub modified: Option<SystemTime>,
}

/// One thing that is special about a server.
pub trait Behaviour: Send {
    /// In which order requests are done and answered.
    fn order(&self) -> Order {
        Order::InTurn
    }

    /// How long the next request takes, where they are done side by side.
    fn work(&mut self) -> Duration {
        Duration::ZERO
    }

    /// What becomes of a request, if it is not what a good server would do.
    fn treat(&mut self, _asked: &Asked<'_>) -> Option<Treatment> {
        None
    }

    /// The length that the head of an answer names, if not its body's.
    fn length(&self, _asked: &Asked<'_>, _length: usize) -> Option<usize> {
        None
    }

    /// The body of a listing as it is sent, if not as it is.
    fn listing(&mut self, _whole: &str) -> Option<String> {
        None
    }

    /// How far the server's clock is ahead, in seconds.
    fn ahead(&self) -> i64 {
        0
    }

    /// The name by which a file is kept.
    fn kept(&self, name: String) -> String {
        name
    }

    /// What two names have in common that are one to the server.
    fn folded(&self, name: String) -> String {
        name
    }

    /// Whether something of this name is listed.
    fn lists(&self, _name: &str) -> bool {
        true
    }

    /// Changes what tells a file's state, which is of this length.
    fn validate(&self, _shown: Shown, _length: usize, _validators: &mut Validators) {}
}
