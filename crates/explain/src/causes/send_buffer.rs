//! `send_buffer`: the sender waited for its own data to be acknowledged before it wrote more.
//!
//! The windows had room, but the program writes into a socket buffer that only acknowledgements empty: one chunk at a time
//! if a write fills the buffer (Winsock: KB 823764, KB 214397), or one buffer per round trip. The evidence is an
//! acknowledgement that releases nothing although there is room, until a later one does; or the same number of bytes in
//! flight for many round trips, from a sender that goes on when acknowledgements arrive.
//!
//! Sources of the fixes: Linux's `ip-sysctl`; Oracle's Solaris 11.2 Tunable Parameters Reference Manual (`send_buf`: default
//! 49,152 bytes, at most `max_buf`) and illumos's ipadm(8); Microsoft's Windows Server 2003 TCP/IP, Appendix C
//! (`DefaultSendWindow`: default 8192 bytes); xnu's `tcp_usrreq.c`; FreeBSD's tcp(4).

use super::{Cause, Evidence, Fix, Role, Rule, Situation, System, Wait, WaitEnd, bytes, ms, plural};

pub(super) const RULE: Rule =
    Rule { cause: Cause::SendBuffer, avoidable: true, title: "send buffer full", switch: None, claim, why, fixes };

fn claim(wait: &Wait) -> Option<(u64, u64)> {
    let WaitEnd::Data(context) = wait.end else { return None };
    let (writer, ack) = (context.writer, context.released_by);
    if context.receive_window.is_limiting || writer.is_unprompted || writer.follows_peer {
        return None;
    }
    if context.receive_window.may_limit && !writer.waits_for_chunks {
        return None;
    }
    let is_steady = context.flight.is_steady && (writer.is_ack_clocked || ack.is_some());
    if is_steady || writer.waits_for_chunks && ack.is_some_and(|ack| ack.acks_all) {
        return Some((wait.from, wait.to));
    }
    let room_since = context.room_since.filter(|_| writer.is_ack_clocked && ack.is_some())?;
    Some((if context.has_loss { room_since } else { wait.from }, wait.to))
}

fn why(evidence: &Evidence) -> String {
    match evidence.properties.chunk {
        Some(chunk) => format!(
            "The sender writes {chunk} bytes and waits for their acknowledgement before it writes more. It waited {}, at \
             least one RTT ({}) each time.",
            plural(evidence.count.into(), "time"),
            ms(evidence.rtt)
        ),
        None => format!(
            "The sender never had more than {} in flight, although both windows allowed more. Its socket's send buffer \
             is no larger, and acknowledgements empty it once per RTT ({}).",
            bytes(evidence.max_in_flight),
            ms(evidence.rtt)
        ),
    }
}

fn fixes(_: &Situation) -> Vec<Fix> {
    vec![
        Fix::new(
            "sending software",
            "setsockopt(SO_SNDBUF) to twice rate × RTT; on Linux do not set it, so that it grows",
            "memory per connection",
        ),
        Fix::on(
            System::Linux,
            Role::Sender,
            "sysctl -w net.ipv4.tcp_wmem='4096 65536 16777216'",
            "more memory per connection, as needed",
        ),
        Fix::on(
            System::Windows,
            Role::Sender,
            "HKLM\\SYSTEM\\CurrentControlSet\\Services\\AFD\\Parameters DefaultSendWindow=262144",
            "memory per connection; needs a restart; documented up to Windows Server 2003",
        ),
        Fix::on(System::Solaris, Role::Sender, "ipadm set-prop -p send_buf=1048576 tcp", "memory per connection"),
        Fix::on(System::Apple, Role::Sender, "sysctl -w net.inet.tcp.sendspace=1048576", "memory per connection"),
        Fix::on(
            System::FreeBsd,
            Role::Sender,
            "sysctl net.inet.tcp.sendbuf_max=16777216",
            "more memory per connection, as needed",
        ),
    ]
}
