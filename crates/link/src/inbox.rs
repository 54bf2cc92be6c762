//! How a relay is told things: by messages, and a bell that wakes it.

use std::{
    sync::{Arc, mpsc},
    time::Instant,
};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::{cable::CableError, lanes::Lane, packet::Packet};

/// What a relay is told.
pub(crate) enum Message {
    /// A stage of the other direction sends a packet this way; it enters before the stage of this
    /// index, not before this time.
    Packet(usize, Packet, Instant),
    /// Other stages take the place of those that are there.
    Change(Lane),
    Stop,
}

/// The writing side of a relay's inbox.
#[derive(Debug, Clone)]
pub(crate) struct Outbox {
    messages: mpsc::Sender<Message>,
    bell: Arc<EventFd>,
}

impl Outbox {
    pub(crate) fn send(&self, message: Message) -> Result<(), CableError> {
        self.messages.send(message).map_err(|_| CableError::Broken)?;
        self.bell.write(1).map(drop).map_err(|_| CableError::Broken)
    }
}

/// The relay's side: messages, and a bell that ppoll(2) hears.
pub(crate) struct Inbox {
    pub(crate) messages: mpsc::Receiver<Message>,
    pub(crate) bell: Arc<EventFd>,
}

/// A new inbox, and what writes to it.
pub(crate) fn inbox() -> Result<(Outbox, Inbox), CableError> {
    let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map_err(std::io::Error::from)?;
    let bell = Arc::new(bell);
    let (sender, receiver) = mpsc::channel();
    Ok((Outbox { messages: sender, bell: bell.clone() }, Inbox { messages: receiver, bell }))
}
