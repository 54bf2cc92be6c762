//! `delayed_ack`: the receiver delayed an acknowledgement that the sender was waiting for.
//!
//! A receiver may delay an acknowledgement until a second full segment arrives or its timer fires (RFC 9293 §3.8.6.3,
//! RFC 5681 §4.2). The cause claims the time from when the acknowledgement could have come until it came, and only if the
//! sender then went on. Receivers count differently: Linux acknowledges more than one segment's worth at once and delays
//! the rest for 40 ms or more, Windows counts packets of any size (KB 328890), Solaris counts in units of the MSS.
//!
//! Sources of the fixes: ip-route(8); tcp(7); Oracle's Solaris 11.2 Tunable Parameters Reference Manual
//! (`_deferred_ack_interval`: default 100 ms, at least 1 ms) and its predecessors (`tcp_deferred_ack_interval`);
//! Microsoft's reference of `netsh interface` (`delayedackfrequency`) and, for older systems, KB 328890; KB 823764 for the
//! sender; for macOS `tcp_cc_delay_ack` in xnu's `tcp_cc.c`; FreeBSD's tcp(4).

use std::fmt::Write as _;

use super::{Cause, Chunk, Evidence, Fix, Role, Rule, SendContext, Situation, System, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::DelayedAck, avoidable: true, title: "delayed ACKs", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(SendContext { released_by: Some(ack), .. }) = wait.end else { return None };
    (ack.held > 0).then(|| (ack.time.saturating_sub(ack.held), ack.time))
}

fn why(evidence: &Evidence) -> String {
    let properties = evidence.properties;
    let mut text = match evidence.held {
        Some((min, max, count)) if count > 1 => {
            let (min, max) = (ms(min), ms(max));
            let range = if min == max { min } else { format!("{min} to {max}") };
            format!("The receiver delayed {count} ACKs by {range} each.")
        }
        _ => format!("The receiver delayed an ACK by {}.", ms(evidence.typical)),
    };
    let Some(chunk) = properties.chunk else {
        text += " It waited for a second segment to acknowledge both, while the sender waited for the ACK.";
        return text;
    };
    let (full, rest) = (chunk / properties.mss, chunk % properties.mss);
    if rest > 0 {
        let _ = write!(
            text,
            " The sender writes chunks of {chunk} bytes: {} of {} bytes and one of {rest}. The receiver does not \
             acknowledge the last {} at once, because {} than two full segments.",
            plural(full, "segment"),
            properties.mss,
            if full % 2 == 0 { "segment" } else { "two segments" },
            if full % 2 == 0 { "it is less" } else { "they are less" },
        );
    } else {
        let _ = write!(text, " The sender writes chunks of {chunk} bytes, an odd number of segments.");
    }
    text += " The sender waits for this ACK before it writes the next chunk, so every chunk pays the delay.";
    text
}

fn fixes(situation: &Situation) -> Vec<Fix> {
    let mut fixes = vec![
        Fix::on(
            System::Solaris,
            Role::Receiver,
            "ipadm set-prop -p _deferred_ack_interval=1 tcp; before Solaris 11: ndd -set /dev/tcp tcp_deferred_ack_interval 1",
            "more ACKs on every connection",
        ),
        Fix::on(
            System::Linux,
            Role::Receiver,
            "ip route change default via GATEWAY quickack 1",
            "one ACK per packet on every connection of this route",
        ),
        Fix::on(
            System::Linux,
            Role::Receiver,
            "in the receiving program: setsockopt(TCP_QUICKACK) before each read",
            "the kernel resets it",
        ),
        Fix::on(
            System::Windows,
            Role::Receiver,
            "netsh int tcp set supplemental template=internet delayedackfrequency=1; before Windows 10: TcpAckFrequency=1 \
             (DWORD) in HKLM\\SYSTEM\\CurrentControlSet\\Services\\Tcpip\\Parameters\\Interfaces\\{GUID}, and a restart",
            "one ACK per packet on every connection",
        ),
        Fix::on(System::Apple, Role::Receiver, "sysctl -w net.inet.tcp.delayed_ack=0", "more ACKs on every connection"),
        Fix::on(System::FreeBsd, Role::Receiver, "sysctl net.inet.tcp.delayed_ack=0", "more ACKs on every connection"),
    ];
    if let Some(Chunk { bytes, segment }) = situation.chunk {
        let pair = 2 * segment;
        let even = bytes.div_ceil(pair) * pair;
        fixes.push(Fix::new(
            "sending software",
            format!("write {even} bytes at a time, an even number of segments"),
            "correct for this MSS only",
        ));
        fixes.push(Fix::new("sending software", "setsockopt(SO_SNDBUF, 262144), so that a second write fits while the first is unacknowledged (Windows: KB 823764)", "memory per connection"));
    } else {
        fixes.push(Fix::new(
            "sending software",
            "setsockopt(TCP_NODELAY), and write each message in one call",
            "more packets if the program writes in small pieces",
        ));
    }
    fixes
}
