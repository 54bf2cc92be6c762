//! A relay's mailbox: messages, and an eventfd(2) that wakes the relay.

use std::{
    sync::{Arc, mpsc},
    time::Instant,
};

use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::{lanes::Lane, lateness::Lateness, packet::Packet};

/// A message to a relay.
pub(crate) enum Message {
    /// A stage of the other direction sends a packet back. It enters before the stage of this index, at this time at
    /// the earliest.
    Packet(usize, Packet, Instant),
    /// Replace the stages by these; then, with the second lane, those of the other direction.
    Change(Lane, Option<Lane>),
    /// The other direction has changed as well: indices in later messages are those of the new stages.
    Changed,
    /// Reply with how late packets have been so far.
    Report(mpsc::Sender<Lateness>),
    /// End, and return the counters.
    Stop,
}

/// The sending side of a mailbox.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    messages: mpsc::Sender<Message>,
    wakeup: Arc<EventFd>,
}

impl Sender {
    /// Sends a message; a relay that has ended ignores it.
    pub(crate) fn send(&self, message: Message) {
        if self.messages.send(message).is_ok() {
            let _ = self.wakeup.write(1); // fails only if the counter is full, and then the relay wakes anyway
        }
    }
}

/// The receiving side: messages, and the eventfd for ppoll(2).
pub(crate) struct Mailbox {
    pub(crate) messages: mpsc::Receiver<Message>,
    pub(crate) wakeup: Arc<EventFd>,
}

/// A new mailbox and its sender.
pub(crate) fn mailbox() -> std::io::Result<(Sender, Mailbox)> {
    let wakeup = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
    let wakeup = Arc::new(wakeup);
    let (sender, receiver) = mpsc::channel();
    Ok((Sender { messages: sender, wakeup: wakeup.clone() }, Mailbox { messages: receiver, wakeup }))
}
