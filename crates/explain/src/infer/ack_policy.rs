//! When a receiver acknowledges: inferred from what each acknowledgement covers.
//!
//! RFC 9293 §3.8.6.3 allows a receiver to wait for a second full segment, and receivers differ in what they wait for.
//! Solaris counts bytes in units of the MSS, Windows packets of any size, Linux waits for more than one segment; macOS
//! and network cards that merge segments (GRO, LRO) acknowledge many segments at once; and Linux acknowledges the first
//! packets of a connection individually. So each rule is compared with each acknowledgement: does it call for one at
//! this packet, and not at the packet before? An acknowledgement that a timer sent must cover less than the rule
//! requires. The rule that agrees most often is the receiver's, if it nearly always agrees.

use std::{fmt, time::Duration};

use units::Size;

use super::sender_state::AckRecord;
use crate::{
    number_format::{bytes, plural, time_text},
    replica::AckRule,
};

/// The minimum number of acknowledgements that say something about the rule.
const MIN_ACKS: usize = 4;

/// The share of them that a rule must agree with.
const MIN_AGREEMENT: f64 = 0.8;

/// When a receiver acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPolicy {
    /// What makes it acknowledge at once.
    pub rule: AckRule,
    /// How long it delays an acknowledgement of less, where the capture shows it.
    pub timer: Option<Duration>,
    /// How many packets it acknowledged individually at the start, before it followed its rule.
    pub quick: u32,
}

impl fmt::Display for AckPolicy {
    /// `every second full segment, otherwise after 100 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rule {
            AckRule::Packets(1) => f.write_str("every packet")?,
            AckRule::Packets(2) => f.write_str("every second packet of any size")?,
            AckRule::Segments(2) => f.write_str("every second full segment")?,
            AckRule::MoreThanSegment => f.write_str("more than one full segment")?,
            AckRule::Packets(count) => write!(f, "every {} of any size", plural(count.into(), "packet"))?,
            AckRule::Segments(count) => write!(f, "every {}", plural(count.into(), "full segment"))?,
            AckRule::Bytes(Size(size)) => write!(f, "every {}", bytes(size))?,
        }
        if let Some(timer) = self.timer {
            write!(f, ", otherwise after {}", time_text(timer))?;
        }
        if self.quick > 1 && self.rule != AckRule::Packets(1) {
            write!(f, ", the first {} packets individually", self.quick)?;
        }
        Ok(())
    }
}

impl AckPolicy {
    /// Infers the policy; none if too few acknowledgements say anything, or no rule agrees with them.
    pub(crate) fn of(acks: &[AckRecord], mss: u64) -> Option<Self> {
        let mut held: Vec<u64> = acks.iter().map(|ack| ack.held).filter(|held| *held > 0).collect();
        held.sort_unstable();
        let timer = held.get(held.len() / 2).map(|held| Duration::from_nanos(*held));
        let quick = acks.iter().take_while(|ack| ack.is_plain && ack.packets == 1 && ack.held == 0).count();
        let rest = acks[quick..].iter().filter(|ack| ack.is_plain);
        // An immediate acknowledgement of everything in flight says nothing: it may be a window update, sent because
        // the program has read the data.
        let telling: Vec<&AckRecord> = rest.filter(|ack| ack.held > 0 || !ack.acks_all).collect();
        if telling.is_empty() && quick >= 2 * MIN_ACKS {
            return Some(Self { rule: AckRule::Packets(1), timer, quick: 0 });
        }
        if telling.len() < MIN_ACKS {
            return None;
        }
        let rules = [AckRule::MoreThanSegment, AckRule::Segments(2), AckRule::Packets(2), AckRule::Packets(1)];
        let rules = rules.into_iter().chain(byte_rule(&telling, mss));
        let agreement = |rule: &AckRule| telling.iter().filter(|ack| agrees(*rule, ack, mss)).count();
        // Of rules that agree equally often, the first.
        let judged = rules.map(|rule| (agreement(&rule), rule));
        let (count, rule) = judged.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
        let quick = u32::try_from(quick).unwrap_or(u32::MAX);
        (count as f64 >= MIN_AGREEMENT * telling.len() as f64).then_some(Self { rule, timer, quick })
    }
}

/// Whether a rule calls for an acknowledgement of this many packets and bytes.
fn is_due(rule: AckRule, packets: u32, bytes: u64, mss: u64) -> bool {
    match rule {
        AckRule::Packets(count) => packets >= count,
        AckRule::Segments(count) => bytes >= mss * u64::from(count),
        AckRule::MoreThanSegment => bytes > mss,
        AckRule::Bytes(least) => bytes >= least.0,
    }
}

/// Whether a rule would have sent an acknowledgement when it was sent.
fn agrees(rule: AckRule, ack: &AckRecord, mss: u64) -> bool {
    let is_due_now = is_due(rule, ack.packets, ack.bytes, mss);
    if ack.held > 0 {
        return !is_due_now;
    }
    let bytes_before = ack.bytes.saturating_sub(ack.last_packet_bytes);
    is_due_now && !is_due(rule, ack.packets.saturating_sub(1), bytes_before, mss)
}

/// The rule that acknowledges a number of bytes at once, if that is three segments or more.
fn byte_rule(telling: &[&AckRecord], mss: u64) -> Option<AckRule> {
    let mut sizes: Vec<u64> = telling.iter().filter(|ack| ack.held == 0).map(|ack| ack.bytes).collect();
    sizes.sort_unstable();
    // Occasionally a timer sends an acknowledgement of less.
    let least = *sizes.get(sizes.len() / 10)?;
    (least >= 3 * mss).then_some(AckRule::Bytes(Size(least)))
}
