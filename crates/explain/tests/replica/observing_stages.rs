//! Stages that read TCP: one drops packets with given bytes, one records the windows of acknowledgements.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
    time::Instant,
};

use link::{
    packet::Packet,
    stage::{Out, Stage},
};

/// The TCP header of an IPv4 packet without options, and the length of its payload.
fn tcp(packet: &Packet) -> Option<(&[u8], usize)> {
    let bytes = &packet.bytes;
    let tcp = bytes.get(20..).filter(|tcp| bytes[0] == 0x45 && bytes[9] == 6 && tcp.len() >= 20)?;
    Some((tcp, tcp.len() - usize::from(tcp[12] >> 4) * 4))
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

/// Drops the first transmissions of packets that begin in a range of the upload's bytes.
pub(crate) struct DropRanges {
    pub(crate) losses: Vec<(Range<u64>, u32)>,
    first: u32,
    sent: Vec<u32>,
}

impl DropRanges {
    pub(crate) fn new(losses: Vec<(Range<u64>, u32)>) -> Self {
        Self { losses, first: 0, sent: Vec::new() }
    }
}

impl Stage for DropRanges {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        let Some((tcp, payload)) = tcp(&packet) else { return out.forward(packet) };
        let at = number(&tcp[4..]);
        if tcp[13] & 2 != 0 {
            self.first = at.wrapping_add(1);
        } else if payload > 0 {
            let offset = at.wrapping_sub(self.first);
            let times = 1 + self.sent.iter().filter(|other| **other == offset).count() as u32;
            if self.losses.iter().any(|(range, most)| range.contains(&offset.into()) && times <= *most) {
                self.sent.push(offset);
                return;
            }
        }
        out.forward(packet);
    }
}

/// The windows that a receiver advertised.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Windows {
    scale: u8,
    pub(crate) first: u64,
    pub(crate) largest: u64,
    pub(crate) acks: u64,
}

pub(crate) struct RecordWindows(pub(crate) Arc<Mutex<Windows>>);

impl Stage for RecordWindows {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        if let Some((tcp, _)) = tcp(&packet) {
            let mut windows = self.0.lock().unwrap();
            let window = u64::from(u16::from_be_bytes([tcp[14], tcp[15]]));
            if tcp[13] & 2 != 0 {
                let mut options = &tcp[20..usize::from(tcp[12] >> 4) * 4];
                while let [kind, rest @ ..] = options {
                    match (kind, rest) {
                        (1, _) => options = rest,
                        (3, [_, scale, ..]) => {
                            windows.scale = *scale;
                            break;
                        }
                        (0, _) | (_, []) => break,
                        (_, [length, ..]) => options = options.get(usize::from(*length).max(2)..).unwrap_or(&[]),
                    }
                }
            } else {
                let window = window << windows.scale;
                windows.acks += 1;
                if windows.first == 0 {
                    windows.first = window;
                }
                windows.largest = windows.largest.max(window);
            }
        }
        out.forward(packet);
    }
}
