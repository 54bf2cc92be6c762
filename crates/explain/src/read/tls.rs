//! TLS records (RFC 8446 §5.1): enough to see where the handshake ends.
//!
//! The client's first record of application data ends it. In TLS 1.3 that record is the client's Finished, which
//! goes ahead of the first request and mostly in the same packet; in TLS 1.2 it is the request itself.

/// Whether a stream that begins so is TLS.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    matches!(*bytes, [20..=23, 3, 0..=4, high, _, ..] if high <= 0x41)
}

/// The record type of application data.
const APPLICATION: u8 = 23;

#[derive(Debug)]
pub(super) struct Reader {
    /// A record's header, as far as it was given.
    header: Vec<u8>,
    at: u64,
}

impl Reader {
    pub(super) fn new(at: u64) -> Self {
        Self { header: Vec::with_capacity(5), at }
    }

    /// Reads on; the next byte wanted, or none where it makes no sense or nothing more is to be learnt.
    pub(super) fn read(&mut self, mut bytes: &[u8], secured: &mut Option<u64>) -> Option<u64> {
        loop {
            let (head, rest) = bytes.split_at(bytes.len().min(5 - self.header.len()));
            self.header.extend_from_slice(head);
            let [kind, _, _, high, low] = self.header[..] else { break };
            if !looks_like(&self.header) {
                return None;
            }
            if kind == APPLICATION {
                secured.get_or_insert(self.at);
                return Some(u64::MAX);
            }
            let body = usize::from(u16::from_be_bytes([high, low]));
            self.at += 5 + body as u64;
            self.header.clear();
            match rest.get(body..) {
                Some(rest) => bytes = rest,
                None => return Some(self.at),
            }
        }
        Some(self.at + self.header.len() as u64)
    }
}
