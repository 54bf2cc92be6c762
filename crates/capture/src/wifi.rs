//! IEEE 802.11 frames, as captured in monitor mode.
//!
//! Only data frames that are not encrypted contain something to read. Aggregates of several packets in one frame (A-MSDU)
//! and fragments are left out.

/// Bits of the frame control field (IEEE 802.11-2020 §9.2.4.1): its first byte …
const TYPE: u8 = 0x0C;
const DATA: u8 = 0x08;
/// A data frame without data.
const NULL: u8 = 0x40;
const QOS: u8 = 0x80;
/// … and its second.
const TO_DS: u8 = 0x01;
const FROM_DS: u8 = 0x02;
const MORE_FRAGMENTS: u8 = 0x04;
const PROTECTED: u8 = 0x40;
const HAS_HT_CONTROL: u8 = 0x80;

/// A-MSDU present, in the first byte of the QoS control field.
const AGGREGATE: u8 = 0x80;

/// Radiotap's flags: bytes are inserted before the data, so that it is aligned.
const DATA_PAD: u8 = 0x20;

/// A frame, and whether its data is aligned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'a> {
    bytes: &'a [u8],
    is_padded: bool,
}

impl<'a> Frame<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, is_padded: false }
    }

    /// The frame after a radiotap header (radiotap.org): the length, a bit for each field, then the fields.
    pub(crate) fn radiotap(bytes: &'a [u8]) -> Option<Self> {
        let ([0, _, low, high], mut rest) = bytes.split_first_chunk::<4>()? else { return None };
        let len = usize::from(u16::from_le_bytes([*low, *high]));
        let (first, mut at) = (u32::from_le_bytes(*rest.first_chunk()?), 4_usize);
        loop {
            let (present, fields) = rest.split_first_chunk()?;
            (rest, at) = (fields, at + 4);
            if u32::from_le_bytes(*present) >> 31 == 0 {
                break;
            }
        }
        // The first field is a time of eight bytes, the second the flags.
        let flags_at = if first & 1 == 0 { at } else { at.next_multiple_of(8) + 8 };
        let is_padded = first & 2 != 0 && bytes.get(flags_at).is_some_and(|flags| flags & DATA_PAD != 0);
        Some(Self { bytes: bytes.get(len..)?, is_padded })
    }

    /// Whether it is an encrypted data frame.
    pub(crate) fn is_encrypted(self) -> bool {
        matches!(self.bytes, [first, second, ..] if first & (TYPE | NULL) == DATA && second & PROTECTED != 0)
    }

    /// The data from its LLC header on.
    pub(crate) fn data(self) -> Option<&'a [u8]> {
        let [first, second, ..] = *self.bytes else { return None };
        // The fragment's number is in the lowest bits of the sequence control field.
        let is_fragment = second & MORE_FRAGMENTS != 0 || self.bytes.get(22)? & 0x0F != 0;
        if first & (TYPE | NULL) != DATA || second & PROTECTED != 0 || is_fragment {
            return None;
        }
        let mut len = if second & (TO_DS | FROM_DS) == TO_DS | FROM_DS { 30 } else { 24 };
        if first & QOS != 0 {
            if self.bytes.get(len)? & AGGREGATE != 0 {
                return None;
            }
            len += if second & HAS_HT_CONTROL == 0 { 2 } else { 6 };
        }
        self.bytes.get(if self.is_padded { len.next_multiple_of(4) } else { len }..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LLC: &[u8] = &[0xAA, 0xAA, 3, 0, 0, 0, 8, 0, 0x45];

    fn frame(control: [u8; 2], len: usize) -> Vec<u8> {
        let mut bytes = control.to_vec();
        bytes.resize(len, 0);
        [&bytes[..], LLC].concat()
    }

    #[test]
    fn data_follows_headers_of_every_length() {
        for (control, len) in [([8, TO_DS], 24), ([8, 3], 30), ([0x88, FROM_DS], 26), ([0x88, 0x83], 36)] {
            let bytes = frame(control, len);
            assert_eq!(Frame::new(&bytes).data(), Some(LLC), "{control:?}");
            for cut in 0..len {
                assert_eq!(Frame::new(&bytes[..cut]).data().unwrap_or_default(), [], "{control:?}, {cut}");
            }
        }
    }

    #[test]
    fn frame_without_readable_data_has_none() {
        for control in [[0x80, 0], [0xB4, 0], [0x48, 1], [8, 1 | PROTECTED], [8, 1 | MORE_FRAGMENTS]] {
            let bytes = frame(control, 24);
            assert_eq!(Frame::new(&bytes).data(), None, "{control:?}");
            assert_eq!(Frame::new(&bytes).is_encrypted(), control[1] & PROTECTED != 0);
        }
        let mut aggregate = frame([0x88, 1], 26);
        aggregate[24] = AGGREGATE;
        assert_eq!(Frame::new(&aggregate).data(), None);
    }

    #[test]
    fn radiotap_header_says_where_the_data_is() {
        let (plain, padded) = (frame([0x88, 1], 26), frame([0x88, 1], 28));
        let with = |header: &[u8], frame: &[u8]| [header, frame].concat();
        let cases = [
            with(&[0, 0, 8, 0, 0, 0, 0, 0], &plain),
            with(&[0, 0, 9, 0, 2, 0, 0, 0, 0x10], &plain),
            with(&[0, 0, 9, 0, 2, 0, 0, 0, 0x20], &padded),
            // A time before the flags, and a second word of bits.
            with(&[0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0x20], &padded),
        ];
        for bytes in &cases {
            assert_eq!(Frame::radiotap(bytes).and_then(Frame::data), Some(LLC), "{bytes:?}");
            for cut in 0..bytes.len() - LLC.len() {
                assert_eq!(Frame::radiotap(&bytes[..cut]).and_then(Frame::data).unwrap_or_default(), [], "{cut}");
            }
        }
    }
}
