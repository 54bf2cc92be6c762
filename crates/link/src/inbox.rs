//! How a relay is told things: by messages, and a bell that wakes it.

use std::{
    sync::{Arc, mpsc},
    time::Instant,
};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::{lanes::Lane, packet::Packet};

/// What a relay is told.
pub(crate) enum Message {
    /// A stage of the other direction sends a packet this way; it enters before the stage of this
    /// index, not before this time.
    Packet(usize, Packet, Instant),
    /// Other stages take the place of those that are there; then, with the second lane, in the other
    /// direction.
    Change(Lane, Option<Lane>),
    /// The other direction has changed as well: the places of the packets that come from now on are those
    /// of the new stages.
    Changed,
    Stop,
}

/// The writing side of a relay's inbox.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    messages: mpsc::Sender<Message>,
    bell: Arc<EventFd>,
}

impl Outbox {
    /// Tells the relay; one that has ended hears nothing any more.
    pub(crate) fn send(&self, message: Message) {
        if self.messages.send(message).is_ok() {
            let _ = self.bell.write(1); // fails only where it rings already
        }
    }
}

/// The relay's side: messages, and a bell that ppoll(2) hears.
pub(crate) struct Inbox {
    pub(crate) messages: mpsc::Receiver<Message>,
    pub(crate) bell: Arc<EventFd>,
}

/// A new inbox, and what writes to it.
pub(crate) fn inbox() -> std::io::Result<(Outbox, Inbox)> {
    let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
    let bell = Arc::new(bell);
    let (sender, receiver) = mpsc::channel();
    Ok((Outbox { messages: sender, bell: bell.clone() }, Inbox { messages: receiver, bell }))
}
