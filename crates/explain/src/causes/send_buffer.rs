//! `send_buffer`: the sender waited for its own data to be acknowledged before it wrote on.
//!
//! The windows had room, but the program's writes go into a socket buffer that empties only by acknowledgements: a
//! chunk at a time where a write fills it (Winsock: KB 823764, KB 214397), or as much as it holds for each round trip.
//! Told by an acknowledgement that lets nothing go although there is room, until a later one does; or by an amount
//! outstanding that stays the same for many round trips, of a sender that goes on when acknowledgements come.
//!
//! Fixes: Linux' `ip-sysctl`; Oracle's Solaris 11.2 Tunable Parameters Reference Manual (`send_buf`: 49,152 bytes
//! unless told, up to `max_buf`) and illumos' ipadm(8); Microsoft's Windows Server 2003 TCP/IP, Appendix C
//! (`DefaultSendWindow`: 8192 bytes unless told); xnu's `tcp_usrreq.c`.

use super::{Cause, Chunk, Evidence, Fix, Rule, Wait, WaitEnd, bytes, ms, plural};

pub(super) const RULE: Rule = Rule {
    cause: Cause::SendBuffer,
    avoidable: true,
    title: "a sender that waited for its own writes to be acknowledged",
    claim,
    why,
    fixes,
};

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(data) = wait.end else { return None };
    if data.window || data.idle || data.answers {
        return None;
    }
    let all = data.released.is_some_and(|release| release.all);
    if data.steady && (data.answers_acks || data.released.is_some()) || data.chunks && all {
        return Some((wait.from, wait.to));
    }
    let room = data.room.filter(|_| data.answers_acks && data.released.is_some())?;
    Some((if data.lost { room } else { wait.from }, wait.to))
}

fn why(evidence: &Evidence) -> String {
    match evidence.facts.chunk {
        Some(chunk) => format!(
            "The sender writes {chunk} bytes and waits until they are acknowledged before it writes more: {}, at least \
             a round trip of {} each.",
            plural(evidence.count.into(), "time"),
            ms(evidence.rtt)
        ),
        None => format!(
            "The sender never had more than {} outstanding although the windows allowed more: its socket's buffer \
             holds no more, and is emptied once in a round trip of {}.",
            bytes(evidence.max_in_flight),
            ms(evidence.rtt)
        ),
    }
}

fn fixes(_: Option<Chunk>) -> Vec<Fix> {
    vec![
        Fix::new(
            "sending software",
            "setsockopt(SO_SNDBUF) of twice rate × RTT, or on Linux none at all: it then grows",
            "memory for each connection",
        ),
        Fix::new(
            "Linux sender",
            "sysctl -w net.ipv4.tcp_wmem='4096 65536 16777216'",
            "more memory for each connection that needs it",
        ),
        Fix::new(
            "Windows sender",
            "HKLM\\SYSTEM\\CurrentControlSet\\Services\\AFD\\Parameters DefaultSendWindow=262144",
            "memory for each connection; a restart is needed; documented up to Windows Server 2003",
        ),
        Fix::new("Solaris/illumos sender", "ipadm set-prop -p send_buf=1048576 tcp", "memory for each connection"),
        Fix::new("macOS sender", "sysctl -w net.inet.tcp.sendspace=1048576", "memory for each connection"),
    ]
}
