//! `delayed_ack`: the receiver held an acknowledgement back, and the sender waited for it.
//!
//! A receiver may defer an acknowledgement until a second full segment has come, or its timer fires (RFC 9293 §3.8.6.3,
//! RFC 5681 §4.2). From when the acknowledgement would have come to when it came; and only where the sender went on
//! upon it. Receivers count differently: Linux acknowledges more than one segment's worth at once and defers the rest
//! for 40 ms or more, Windows counts packets of any size (KB 328890), Solaris counts in units of the MSS.
//!
//! Fixes: ip-route(8); tcp(7); Oracle's Solaris 11.2 Tunable Parameters Reference Manual (`_deferred_ack_interval`:
//! 100 ms, from 1 ms on) and its predecessors (`tcp_deferred_ack_interval`); Microsoft's reference of `netsh
//! interface` (`delayedackfrequency`) and, for what came before it, KB 328890; KB 823764 for the sender; for macOS
//! `tcp_cc_delay_ack` in xnu's `tcp_cc.c`.

use std::fmt::Write as _;

use super::{Cause, Chunk, Evidence, Fix, Rule, SendContext, Wait, WaitEnd, ms, plural};

pub(super) const RULE: Rule = Rule {
    cause: Cause::DelayedAck,
    avoidable: true,
    title: "acknowledgements that the receiver held back",
    claim,
    why,
    fixes,
};

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(SendContext { released: Some(release), .. }) = wait.end else { return None };
    (release.held > 0).then(|| (release.at.saturating_sub(release.held), release.at))
}

fn why(evidence: &Evidence) -> String {
    let facts = evidence.facts;
    let mut text = match evidence.held {
        Some((least, most, count)) if count > 1 => {
            format!("The receiver held acknowledgements back, {} to {} in each of {count} cases", ms(least), ms(most))
        }
        _ => format!("The receiver held an acknowledgement back for {}", ms(evidence.typical)),
    };
    if let Some(chunk) = facts.chunk {
        let (full, rest) = (chunk / facts.mss, chunk % facts.mss);
        if rest > 0 {
            let _ = write!(
                text,
                ": the sender writes chunks of {chunk} bytes, {} of {} bytes and one of {rest}, and the last {} too \
                 little to be acknowledged at once",
                plural(full, "full segment"),
                facts.mss,
                if full % 2 == 0 { "is" } else { "two are" },
            );
        } else {
            let _ = write!(text, ": the sender writes chunks of {chunk} bytes, an odd number of segments");
        }
        text += ". It sends the next chunk when this one is acknowledged, so that time passes in each.";
    } else {
        text +=
            ", waiting for a second segment to acknowledge with it, while the sender waited for the acknowledgement.";
    }
    text
}

fn fixes(chunk: Option<Chunk>) -> Vec<Fix> {
    let mut fixes = vec![
        Fix::new(
            "Solaris/illumos receiver",
            "ipadm set-prop -p _deferred_ack_interval=1 tcp; before Solaris 11: ndd -set /dev/tcp tcp_deferred_ack_interval 1",
            "more acknowledgements on every connection",
        ),
        Fix::new(
            "Linux receiver",
            "ip route change default via GATEWAY quickack 1",
            "an acknowledgement for every packet, on every connection of this route",
        ),
        Fix::new(
            "Windows receiver",
            "netsh int tcp set supplemental template=internet delayedackfrequency=1; before Windows 10: TcpAckFrequency=1 \
             (DWORD) in HKLM\\SYSTEM\\CurrentControlSet\\Services\\Tcpip\\Parameters\\Interfaces\\{GUID}, and a restart",
            "an acknowledgement for every packet, on every connection",
        ),
        Fix::new("macOS receiver", "sysctl -w net.inet.tcp.delayed_ack=0", "more acknowledgements on every connection"),
        Fix::new(
            "receiving software",
            "setsockopt(TCP_QUICKACK) before each read",
            "Linux alone, and the kernel takes it back",
        ),
    ];
    if let Some(Chunk { bytes, segment }) = chunk {
        let pair = 2 * segment;
        let even = bytes.div_ceil(pair) * pair;
        fixes.push(Fix::new(
            "sending software",
            format!("write {even} bytes at a time, an even number of segments"),
            "only right for this MSS",
        ));
        fixes.push(Fix::new("sending software", "setsockopt(SO_SNDBUF, 262144): a second write fits while the first is not yet acknowledged (Windows: KB 823764)", "memory for each connection"));
    } else {
        fixes.push(Fix::new(
            "sending software",
            "setsockopt(TCP_NODELAY), and write each message whole",
            "more packets if it writes little by little",
        ));
    }
    fixes
}
