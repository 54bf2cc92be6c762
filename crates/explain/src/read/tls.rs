//! TLS records (RFC 8446 §5.1): enough to see where the handshake ends.
//!
//! The client's first record of application data ends it: in TLS 1.2 that is the request itself. In TLS 1.3, where
//! the server sends such records before the client does, the first is the client's Finished and the next the request.

/// Whether a stream that begins like this is TLS.
pub(super) fn looks_like(bytes: &[u8]) -> bool {
    matches!(*bytes, [20..=23, 3, 0..=4, high, _, ..] if high <= 0x41)
}

/// Whether a record of application data begins like this.
pub(super) fn is_data(bytes: &[u8]) -> bool {
    looks_like(bytes) && bytes[0] == APPLICATION
}

/// The record type of application data.
const APPLICATION: u8 = 23;

#[derive(Debug)]
pub(super) struct Reader {
    /// The incomplete header of a record.
    header: Vec<u8>,
    at: u64,
    /// Whether the next record of application data is the client's Finished.
    finished: bool,
    /// The description of a fatal alert that was not encrypted.
    pub(super) alert: Option<u8>,
}

/// The record type of alerts, and the alert that only says that no more will follow (RFC 8446 §6).
const ALERT: u8 = 21;
const CLOSE_NOTIFY: u8 = 0;

/// What an alert says (RFC 8446 §6, RFC 5246 §7.2).
pub(crate) fn alert_name(description: u8) -> String {
    let known = match description {
        10 => "unexpected message",
        20 => "bad record MAC",
        22 => "record overflow",
        40 => "handshake failure: no common version, cipher or curve",
        42 => "bad certificate",
        43 => "unsupported certificate",
        44 => "certificate revoked",
        45 => "certificate expired",
        46 => "certificate unknown",
        47 => "illegal parameter",
        48 => "unknown CA: the certificate's issuer is not trusted",
        49 => "access denied",
        50 => "decode error",
        51 => "decrypt error",
        70 => "protocol version not supported",
        71 => "insufficient security",
        80 => "internal error",
        86 => "inappropriate fallback",
        90 => "user cancelled",
        109 => "missing extension",
        112 => "unrecognized name: the server has no such host",
        116 => "certificate required",
        120 => "no application protocol in common",
        _ => return format!("number {description}"),
    };
    known.to_owned()
}

impl Reader {
    pub(super) fn new(at: u64) -> Self {
        Self { header: Vec::with_capacity(5), at, finished: false, alert: None }
    }

    /// In TLS 1.3, the server sends records of application data before the client; the client's first is its Finished.
    pub(super) fn expect_finished(&mut self) {
        self.finished = true;
    }

    /// Whether the client's Finished has not been read yet.
    pub(super) fn expects_finished(&self) -> bool {
        self.finished
    }

    /// Reads on; returns the next byte needed, or none if the data is invalid.
    pub(super) fn read(&mut self, mut bytes: &[u8], secured: &mut Option<u64>) -> Option<u64> {
        loop {
            let (head, rest) = bytes.split_at(bytes.len().min(5 - self.header.len()));
            self.header.extend_from_slice(head);
            let [kind, _, _, high, low] = self.header[..] else { break };
            if !looks_like(&self.header) {
                return None;
            }
            if kind == APPLICATION && !std::mem::take(&mut self.finished) {
                secured.get_or_insert(self.at);
                return Some(u64::MAX);
            }
            let body = usize::from(u16::from_be_bytes([high, low]));
            // An encrypted alert is longer.
            if let (ALERT, 2, [_, description, ..]) = (kind, body, rest)
                && *description != CLOSE_NOTIFY
            {
                self.alert.get_or_insert(*description);
            }
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
