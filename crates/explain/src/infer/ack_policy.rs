//! When a receiver acknowledges: inferred from what each acknowledgement covers.
//!
//! RFC 9293 §3.8.6.3 lets a receiver wait for a second full segment, and receivers differ in what they wait for:
//! Solaris counts bytes in units of the MSS, Windows packets of any size, Linux what is more than one segment, macOS
//! and cards that merge segments (GRO, LRO) many segments at once; and at the start Linux waits for nothing. So each
//! rule is asked of each acknowledgement: should it have come with this packet, and not with the one before? One that a
//! timer sent must be of too little for the rule. The rule that is right most often is the receiver's, if it nearly
//! always is.

use std::{fmt::Write as _, time::Duration};

use units::Size;

use super::sender_state::AckRecord;
use crate::{
    format::{bytes, plural, time_text},
    replica::AckRule,
};

/// How many acknowledgements must tell something.
const ENOUGH: usize = 4;

/// The share of them that a rule must be right about.
const RIGHT: f64 = 0.8;

/// When a receiver acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckPolicy {
    /// What makes it acknowledge at once.
    pub rule: AckRule,
    /// How long it holds what is less, where it was seen to.
    pub timer: Option<Duration>,
    /// How many packets it acknowledged one by one at the start, before it followed its rule.
    pub quick: u32,
}

impl AckPolicy {
    /// `every second full segment, else after 100 ms`.
    pub fn says(&self) -> String {
        let mut text = match self.rule {
            AckRule::Packets(1) => "every packet".to_owned(),
            AckRule::Packets(2) => "every second packet of any size".to_owned(),
            AckRule::Segments(2) => "every second full segment".to_owned(),
            AckRule::MoreThanSegment => "what is more than one segment".to_owned(),
            AckRule::Packets(count) => format!("every {} of any size", plural(count.into(), "packet")),
            AckRule::Segments(count) => format!("every {}", plural(count.into(), "full segment")),
            AckRule::Bytes(Size(size)) => format!("every {}", bytes(size)),
        };
        if let Some(timer) = self.timer {
            let _ = write!(text, ", less after {}", time_text(timer));
        }
        if self.quick > 1 && self.rule != AckRule::Packets(1) {
            let _ = write!(text, ", the first {} packets one by one", self.quick);
        }
        text
    }

    /// The habit that acknowledgements show; none where too few of them tell anything, or no rule is right.
    pub(crate) fn of(acks: &[AckRecord], mss: u64) -> Option<Self> {
        let mut held: Vec<u64> = acks.iter().map(|acked| acked.held).filter(|held| *held > 0).collect();
        held.sort_unstable();
        let timer = held.get(held.len() / 2).map(|held| Duration::from_nanos(*held));
        let one_by_one = acks.iter().take_while(|acked| acked.plain && acked.packets == 1 && acked.held == 0);
        let quick = one_by_one.count();
        let rest = acks[quick..].iter().filter(|acked| acked.plain);
        // What ends a flight at once tells nothing: the program may have read it, and so moved the window.
        let telling: Vec<&AckRecord> = rest.filter(|acked| acked.held > 0 || !acked.all).collect();
        if telling.is_empty() && quick >= 2 * ENOUGH {
            return Some(Self { rule: AckRule::Packets(1), timer, quick: 0 });
        }
        if telling.len() < ENOUGH {
            return None;
        }
        let rules = [AckRule::MoreThanSegment, AckRule::Segments(2), AckRule::Packets(2), AckRule::Packets(1)];
        let rules = rules.into_iter().chain(threshold(&telling, mss));
        let right = |rule: &AckRule| telling.iter().filter(|acked| agrees(*rule, acked, mss)).count();
        // Of rules that are right as often the first.
        let judged = rules.map(|rule| (right(&rule), rule));
        let (count, rule) = judged.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
        let quick = u32::try_from(quick).unwrap_or(u32::MAX);
        (count as f64 >= RIGHT * telling.len() as f64).then_some(Self { rule, timer, quick })
    }
}

/// Whether a rule asks for an acknowledgement of so much.
fn is_due(rule: AckRule, packets: u32, bytes: u64, mss: u64) -> bool {
    match rule {
        AckRule::Packets(count) => packets >= count,
        AckRule::Segments(count) => bytes >= mss * u64::from(count),
        AckRule::MoreThanSegment => bytes > mss,
        AckRule::Bytes(least) => bytes >= least.0,
    }
}

/// Whether a rule would have sent an acknowledgement when it was sent.
fn agrees(rule: AckRule, acked: &AckRecord, mss: u64) -> bool {
    let now = is_due(rule, acked.packets, acked.bytes, mss);
    if acked.held > 0 {
        return !now;
    }
    now && !is_due(rule, acked.packets.saturating_sub(1), acked.bytes.saturating_sub(acked.last), mss)
}

/// The number of bytes that is acknowledged at once, if it is three segments or more.
fn threshold(telling: &[&AckRecord], mss: u64) -> Option<AckRule> {
    let mut sizes: Vec<u64> = telling.iter().filter(|acked| acked.held == 0).map(|acked| acked.bytes).collect();
    sizes.sort_unstable();
    // Now and then a timer sends less.
    let least = *sizes.get(sizes.len() / 10)?;
    (least >= 3 * mss).then_some(AckRule::Bytes(Size(least)))
}
