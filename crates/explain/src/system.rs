//! The operating system of an end, inferred from its SYN.
//!
//! A setting has a name on one system only, so advice needs to know the system. The method is that of p0f (Zalewski): each
//! TCP lays out the options of its SYN in its own order, with its own padding, and each system begins with its own time to
//! live, of which routers only take away. The window and its scale tell apart what is alike otherwise.
//!
//! The table below is small, and everything outside it is unknown: a wrong system would give advice that cannot be
//! followed. It has the order in which these sources write the options:
//!
//! - Linux: `tcp_options_write` in `net/ipv4/tcp_output.c`. Android is Linux. The scale follows from the largest receive
//!   buffer, 4 MiB or more on all but the smallest machines.
//! - Windows, whose source is closed: the orders, and the time to live of 128, that p0f's database has.
//! - macOS and iOS: `tcp_output` in xnu's `bsd/netinet/tcp_output.c`.
//! - FreeBSD: `tcp_addoptions` in `sys/netinet/tcp_output.c`; `net.inet.tcp.recvspace` is 64 KiB.
//! - OpenBSD: `tcp_output` in `sys/netinet/tcp_output.c`; a window of 16 KiB (`tcp_recvspace`).
//! - Solaris and illumos: `tcp_xmit_mp_aux_iss` in illumos's `tcp_output.c`, which answers timestamps with all other options
//!   behind them. Its own SYN is laid out like that of Linux, and only its small scale (a receive buffer of 128,000 bytes)
//!   differs; so a SYN like Linux's with a small scale is unknown. Solaris 8 writes the maximum segment size last.
//!
//! A proxy or a load balancer that ends the connection is the end that is seen here.

use capture::tcp::{Flags, Segment};

/// Option kinds (IANA, TCP Option Kind Numbers), by the names of p0f.
mod kind {
    pub(super) const EOL: u8 = 0;
    pub(super) const NOP: u8 = 1;
    pub(super) const MSS: u8 = 2;
    pub(super) const WS: u8 = 3;
    pub(super) const SOK: u8 = 4;
    pub(super) const TS: u8 = 8;
}
use kind::{EOL, MSS, NOP, SOK, TS, WS};

/// An operating system, or a family that has the same settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum System {
    Linux,
    Windows,
    /// macOS, iOS and Apple's other systems.
    Apple,
    FreeBsd,
    OpenBsd,
    /// Solaris and illumos.
    Solaris,
}

impl System {
    /// Its name in text and JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linux => "Linux",
            Self::Windows => "Windows",
            Self::Apple => "macOS or iOS",
            Self::FreeBsd => "FreeBSD",
            Self::OpenBsd => "OpenBSD",
            Self::Solaris => "Solaris or illumos",
        }
    }
}

/// The SYNs of a system.
#[derive(Debug)]
struct Signature {
    system: System,
    /// The time to live that it begins with.
    initial: u8,
    /// The kinds of its options in order, with padding between them.
    layout: &'static [u8],
    /// The windows and scales that it announces.
    window: fn(u16, Option<u8>) -> bool,
    /// Whether no other system is known to lay out its options like this, whatever the time to live.
    is_unique: bool,
}

/// The smallest scale of Linux: a receive buffer of a MiB or more.
const MIN_LINUX_SCALE: u8 = 5;

const fn any(_: u16, _: Option<u8>) -> bool {
    true
}

fn linux(_: u16, scale: Option<u8>) -> bool {
    scale.is_none_or(|scale| scale >= MIN_LINUX_SCALE)
}

fn largest(window: u16, _: Option<u8>) -> bool {
    window == u16::MAX
}

fn openbsd(window: u16, _: Option<u8>) -> bool {
    window == 16_384
}

macro_rules! signatures {
    ($($system:ident $initial:literal $window:ident $is_unique:literal [$($kind:ident)*];)*) => {
        [$(Signature {
            system: System::$system, initial: $initial, layout: &[$($kind),*], window: $window, is_unique: $is_unique,
        }),*]
    };
}

/// The known SYNs and SYN-ACKs. A SYN-ACK has those of its options that the SYN offered (RFC 7323 §1.3, RFC 2018 §2).
static SIGNATURES: [Signature; 17] = signatures! {
    Linux   64  linux   true  [MSS SOK TS NOP WS];
    Linux   64  linux   false [MSS NOP NOP SOK NOP WS];
    Linux   64  linux   true  [MSS NOP NOP TS NOP WS];
    Windows 128 any     false [MSS NOP WS NOP NOP SOK];
    Windows 128 any     false [MSS NOP WS SOK TS];
    Windows 128 any     false [MSS NOP WS NOP NOP TS];
    Windows 128 any     false [MSS NOP NOP SOK];
    Apple   64  largest true  [MSS NOP WS NOP NOP TS SOK];
    FreeBsd 64  largest false [MSS NOP WS SOK TS];
    OpenBsd 64  openbsd true  [MSS NOP NOP SOK NOP WS NOP NOP TS];
    Solaris 64  any     true  [SOK TS MSS NOP WS];
    Solaris 64  any     true  [SOK TS MSS];
    Solaris 64  any     true  [NOP NOP TS MSS NOP WS];
    Solaris 64  any     true  [NOP NOP TS MSS NOP WS NOP NOP SOK];
    Solaris 64  any     true  [NOP NOP SOK MSS];
    Solaris 64  any     true  [NOP WS NOP NOP SOK MSS];
    Solaris 64  any     true  [NOP WS NOP NOP TS NOP NOP SOK MSS];
};

/// The times to live that systems begin with.
const INITIAL: [u8; 4] = [32, 64, 128, 255];

/// No path on the Internet has more hops.
pub(crate) const MAX_HOPS: u8 = 40;

/// The number of hops that a packet has taken, if it began with the least possible time to live.
pub(crate) fn hops(time_to_live: u8) -> u8 {
    INITIAL.into_iter().find(|initial| *initial >= time_to_live).unwrap_or(u8::MAX) - time_to_live
}

/// The system of an end, and what says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Inferred {
    pub(crate) system: System,
    /// The number of its SYN or SYN-ACK.
    pub(crate) packet: u32,
    /// The time to live that it began with, and the layout of its options.
    initial: u8,
    layout: &'static [u8],
    /// When it was captured; 0 if the capture does not have it.
    time_to_live: u8,
    window: u16,
    scale: Option<u8>,
}

impl Inferred {
    /// The system that sent this SYN or SYN-ACK, if it is known.
    pub(crate) fn of(syn: &Segment) -> Option<Self> {
        if syn.lacks_options || !syn.flags.has(Flags::SYN) {
            return None;
        }
        let (seen, len) = layout(syn.options);
        let (time_to_live, window, scale) = (syn.hop_limit, syn.window, syn.window_scale());
        let signature = SIGNATURES.iter().find(|known| {
            let is_time_to_live =
                if time_to_live == 0 { known.is_unique } else { is_from(known.initial, time_to_live) };
            known.layout == &seen[..len] && is_time_to_live && (known.window)(window, scale)
        })?;
        let packet = u32::try_from(syn.number).unwrap_or(u32::MAX);
        let Signature { system, initial, layout, .. } = *signature;
        Some(Self { system, packet, initial, layout, time_to_live, window, scale })
    }

    /// What says so, in words: `time to live 52 (64 less 12 hops), options MSS, SACK, …`.
    pub(crate) fn signs(&self) -> String {
        let name = |kind: &u8| match *kind {
            MSS => "MSS",
            WS => "window scale",
            SOK => "SACK",
            TS => "timestamps",
            _ => "padding",
        };
        let mut options: Vec<&str> = self.layout.iter().map(name).collect();
        options.dedup();
        let time_to_live = match (self.time_to_live, self.initial - self.time_to_live) {
            (0, _) => "time to live not captured".to_owned(),
            (initial, 0) => format!("time to live {initial}"),
            (seen, 1) => format!("time to live {seen} ({} less 1 hop)", self.initial),
            (seen, hops) => format!("time to live {seen} ({} less {hops} hops)", self.initial),
        };
        let scale = self.scale.map(|scale| format!(" with a scale of {scale}")).unwrap_or_default();
        format!("{time_to_live}, options in the order {}, window {}{scale}", options.join(", "), self.window)
    }
}

/// Whether a packet with this time to live can have begun with `initial`.
fn is_from(initial: u8, time_to_live: u8) -> bool {
    initial - time_to_live.min(initial) <= MAX_HOPS && time_to_live <= initial
}

/// The kinds of the options in order, with their padding, and how many. Options that a program asks for, such as that of
/// Fast Open, are left out, and so is the padding at the end.
fn layout(area: &[u8]) -> ([u8; 40], usize) {
    let (mut kinds, mut len, mut at) = ([EOL; 40], 0, 0);
    while let Some(kind) = area.get(at).copied().filter(|kind| *kind != EOL && len < kinds.len()) {
        at += match kind {
            NOP => 1,
            _ => area.get(at + 1).map_or(1, |len| usize::from(*len).max(2)),
        };
        if [NOP, MSS, WS, SOK, TS].contains(&kind) {
            kinds[len] = kind;
            len += 1;
        }
    }
    while len > 0 && kinds[len - 1] == NOP {
        len -= 1;
    }
    (kinds, len)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use capture::{LinkType, Packet};

    use super::*;

    /// A SYN, or SYN-ACK, with this time to live, window and options, padded to words by ends of options.
    fn inferred(time_to_live: u8, window: u16, options: &[u8]) -> Option<System> {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), EOL);
        let len = (40 + options.len()) as u8;
        let mut packet = vec![0x45, 0, 0, len, 0, 1, 0x40, 0, time_to_live, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0x9C, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, (len - 20) << 2, 2]);
        packet.extend(window.to_be_bytes());
        packet.extend([0, 0, 0, 0]);
        packet.extend(&options);
        let packet = Packet {
            number: 1,
            time: Duration::ZERO,
            interface: 0,
            link: LinkType::RAW,
            direction: None,
            original_len: len.into(),
            bytes: &packet,
        };
        Inferred::of(&Segment::of(&packet).expect("a segment")).map(|inferred| inferred.system)
    }

    const TIMES: [u8; 10] = [TS, 10, 1, 2, 3, 4, 0, 0, 0, 0];
    const MSS_1460: [u8; 4] = [MSS, 4, 5, 180];

    fn scale(shift: u8) -> [u8; 4] {
        [NOP, WS, 3, shift]
    }

    #[test]
    fn syns_of_known_systems_are_recognised() {
        let linux = [&MSS_1460[..], &[SOK, 2], &TIMES, &scale(7)].concat();
        let fast_open = [&linux[..], &[34, 10, 1, 2, 3, 4, 5, 6, 7, 8, NOP, NOP]].concat();
        let windows = [&MSS_1460[..], &scale(8), &[NOP, NOP, SOK, 2]].concat();
        let windows_with_times = [&MSS_1460[..], &scale(8), &[SOK, 2], &TIMES].concat();
        let apple = [&MSS_1460[..], &scale(6), &[NOP, NOP], &TIMES, &[SOK, 2]].concat();
        let openbsd = [&MSS_1460[..], &[NOP, NOP, SOK, 2], &scale(6), &[NOP, NOP], &TIMES].concat();
        let solaris = [&[SOK, 2][..], &TIMES, &MSS_1460, &scale(2)].concat();
        let cases: [(System, u8, u16, &[u8]); 9] = [
            (System::Linux, 64, 64_240, &linux),
            (System::Linux, 52, 65_535, &linux),
            (System::Linux, 64, 65_160, &fast_open),
            (System::Windows, 117, 64_240, &windows),
            (System::Windows, 128, 65_535, &windows_with_times),
            (System::Apple, 51, 65_535, &apple),
            // The same layout as that of Windows, with another time to live.
            (System::FreeBsd, 50, 65_535, &windows_with_times),
            (System::OpenBsd, 63, 16_384, &openbsd),
            (System::Solaris, 60, 64_074, &solaris),
        ];
        for (system, time_to_live, window, options) in cases {
            assert_eq!(inferred(time_to_live, window, options), Some(system), "{time_to_live}, {options:?}");
        }
        // A printed capture has no time to live: only what is unique counts.
        assert_eq!(inferred(0, 64_240, &linux), Some(System::Linux));
        assert_eq!(inferred(0, 65_535, &windows_with_times), None);
    }

    #[test]
    fn system_is_unknown_where_signs_are_missing_or_disagree() {
        let linux = |shift: u8| [&MSS_1460[..], &[SOK, 2], &TIMES, &scale(shift)].concat();
        let windows = [&MSS_1460[..], &scale(8), &[NOP, NOP, SOK, 2]].concat();
        // That of illumos, too.
        assert_eq!(inferred(64, 64_240, &linux(1)), None);
        // An appliance begins with 255, and no path has 60 hops.
        assert_eq!(inferred(250, 64_240, &linux(7)), None);
        assert_eq!(inferred(4, 64_240, &linux(7)), None);
        assert_eq!(inferred(68, 64_240, &windows), None);
        assert_eq!(inferred(64, 8192, &windows), None);
        for options in [&[][..], &MSS_1460, &[MSS, 4, 5, 180, NOP, NOP, NOP, NOP], &[MSS, 0, 0, 0], &[WS], &[TS, 1]] {
            assert_eq!(inferred(64, 64_240, options), None, "{options:?}");
        }
    }
}
