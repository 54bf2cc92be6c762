//! Refuses a capture in which no packet can contain IP.
//!
//! Read as a capture of IP, one of USB or Bluetooth would look like an empty network. Which link types a pcapng capture has
//! is known at its end only, and so is whether all frames of a wireless network are encrypted.

use std::{net::IpAddr, path::PathBuf};

use crate::{Drops, Error, LinkRates, LinkType, Packet, Source, link_layer};

/// A capture that ends with an error if none of its packets can contain IP.
pub(crate) struct OnlyIp<S> {
    source: S,
    file: PathBuf,
    seen: Seen,
}

/// What the packets were so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Nothing,
    Unreadable(LinkType),
    Encrypted,
    /// At least one may contain IP.
    Readable,
}

impl<S: Source> OnlyIp<S> {
    pub(crate) fn new(source: S, file: PathBuf) -> Self {
        Self { source, file, seen: Seen::Nothing }
    }
}

impl Seen {
    fn with(self, packet: &Packet) -> Self {
        match self {
            Self::Nothing if !packet.link.is_readable() => Self::Unreadable(packet.link),
            _ if !packet.link.is_readable() => self,
            _ if link_layer::is_encrypted(packet) => Self::Encrypted,
            // Beacons and acknowledgements say nothing of the data.
            _ if packet.link.is_wireless() && packet.network().is_none() => self,
            _ => Self::Readable,
        }
    }
}

impl<S: Source> Source for OnlyIp<S> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        if self.seen == Seen::Readable {
            return self.source.next();
        }
        let next = self.source.next();
        if let Ok(Some(packet)) = &next {
            self.seen = self.seen.with(packet);
            return next;
        }
        // The end, or the reason why it is not reached: without IP it does not matter.
        match std::mem::replace(&mut self.seen, Seen::Nothing) {
            Seen::Nothing | Seen::Readable => next,
            Seen::Unreadable(link) => Err(Error::LinkType { file: self.file.clone(), link }),
            Seen::Encrypted => Err(Error::Encrypted { file: self.file.clone() }),
        }
    }

    fn name(&self, address: IpAddr) -> Option<&str> {
        self.source.name(address)
    }

    fn drops(&self) -> Drops {
        self.source.drops()
    }

    fn link_rates(&self) -> Option<LinkRates> {
        self.source.link_rates()
    }
}
