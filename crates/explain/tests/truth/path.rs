//! The cable of a scenario: its stages, the packets that are lost on purpose, and the captures along it.

use std::{
    path::Path,
    sync::{Arc, LazyLock, Mutex},
    time::{Duration, Instant, SystemTime},
};

use capture::{Direction, LinkType, pcapng::Writer};
use etherparse::{IpSlice, TcpSlice, ip_number};
use link::{
    lanes::{Lane, Lanes},
    middleboxes::Side,
    packet::Packet,
    spec::{LinkSpec, SpecError},
    stage::{Out, Stage},
};
use units::Span;

use crate::scenario::{Lose, Scenario, Way, Which};

/// The lanes of a scenario's cable, with captures at the client's end, in the middle and at the server's end.
///
/// A box that plays a part of a host's own stack (`hold-acks`) belongs to that host, so the captures at the ends
/// stand in front of the boxes, where those of the cable itself would stand behind.
pub(crate) fn lanes(scenario: &Scenario, taps: &[Tap; 3]) -> Result<Lanes, SpecError> {
    let path = &scenario.path;
    let boxes = |side| {
        let middlebox = path.middlebox.iter().filter(|middlebox| middlebox.side() == side).cloned().collect();
        LinkSpec { middlebox, ..LinkSpec::default() }.lanes()
    };
    let near_delay = path.rtt.0.mul_f64(scenario.middle);
    let near = LinkSpec {
        rtt: Span(near_delay),
        middlebox: Vec::new(),
        loss: None,
        reorder: None,
        duplicate: None,
        corrupt: None,
        ..path.clone()
    };
    let far = LinkSpec {
        rtt: Span(path.rtt.0.saturating_sub(near_delay)),
        middlebox: Vec::new(),
        rate: None,
        queue: None,
        jitter: None,
        mtu: None,
        ..path.clone()
    };
    let loses = |near| {
        let way = |way| {
            let here = scenario.lose.iter().filter(|lose| lose.near == near && lose.way == way);
            here.map(|lose| Box::new(Loses { lose: *lose, isn: None }) as Box<dyn Stage>).collect::<Vec<_>>().into()
        };
        Lanes { up: way(Way::Up), down: way(Way::Down) }
    };
    let parts = [
        boxes(Side::Client)?,
        taps[0].lanes(Some(Direction::Outbound)),
        near.lanes()?,
        loses(true),
        taps[1].lanes(None),
        loses(false),
        far.lanes()?,
        taps[2].lanes(Some(Direction::Inbound)),
        boxes(Side::Server)?,
    ];
    Ok(parts.into_iter().fold(Lanes::default(), join))
}

/// Two pieces of cable as one, the client's first.
fn join(mut near: Lanes, mut far: Lanes) -> Lanes {
    let (ups, downs) = (near.up.stages.len(), far.down.stages.len());
    // What a stage sends back enters the other way just past it.
    near.up.back.iter_mut().for_each(|place| *place += downs);
    far.down.back.iter_mut().for_each(|place| *place += ups);
    let chain = |mut first: Lane, second: Lane| {
        first.stages.extend(second.stages);
        first.back.extend(second.back);
        first
    };
    Lanes { up: chain(near.up, far.up), down: chain(far.down, near.down) }
}

/// Loses one packet, the first so many times that it comes.
struct Loses {
    lose: Lose,
    /// The initial sequence number of the connection, once its SYN has come.
    isn: Option<u32>,
}

impl Loses {
    fn is_it(&mut self, packet: &Packet) -> Option<bool> {
        let ip = IpSlice::from_slice(&packet.bytes).ok()?;
        let protocol = ip.payload_ip_number();
        if protocol != ip_number::TCP {
            return Some(matches!(self.lose.packet, Which::Udp) && protocol == ip_number::UDP);
        }
        let tcp = TcpSlice::from_slice(ip.payload().payload).ok()?;
        if tcp.syn() {
            self.isn = Some(tcp.sequence_number());
            return Some(matches!(self.lose.packet, Which::Syn));
        }
        let Which::At(at) = self.lose.packet else { return None };
        let begin = u64::from(tcp.sequence_number().wrapping_sub(self.isn?.wrapping_add(1)));
        Some((begin..begin + tcp.payload().len() as u64).contains(&at.as_bytes()))
    }
}

impl Stage for Loses {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        if self.is_it(&packet) == Some(true) && self.lose.times > 0 {
            self.lose.times -= 1;
        } else {
            out.forward(packet);
        }
    }
}

/// An instant on the monotonic clock, and since the epoch.
static BEGAN: LazyLock<(Instant, Duration)> = LazyLock::new(|| {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    (Instant::now(), wall.unwrap_or_default())
});

/// A capture somewhere along a cable. The cable's own stand at its very ends.
pub(crate) struct Tap(Arc<Mutex<Writer<Vec<u8>>>>);

impl Tap {
    pub(crate) fn new(name: &str) -> std::io::Result<Self> {
        LazyLock::force(&BEGAN);
        let mut writer = Writer::new(Vec::new())?;
        writer.interface(name, LinkType::RAW, None)?;
        Ok(Self(Arc::new(Mutex::new(writer))))
    }

    pub(crate) fn save(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, self.0.lock().expect("no panic").output())
    }

    /// Records what goes up as of this direction, and what comes down as of the other; in the middle nobody can
    /// tell.
    fn lanes(&self, up: Option<Direction>) -> Lanes {
        let down = up.map(|up| if up == Direction::Inbound { Direction::Outbound } else { Direction::Inbound });
        let way = |direction| {
            let stage: Box<dyn Stage> = Box::new(Records { writer: Arc::clone(&self.0), direction });
            Lane::from(vec![stage])
        };
        Lanes { up: way(up), down: way(down) }
    }
}

struct Records {
    writer: Arc<Mutex<Writer<Vec<u8>>>>,
    direction: Option<Direction>,
}

impl Stage for Records {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        let mut writer = self.writer.lock().expect("no panic");
        let time = BEGAN.1 + BEGAN.0.elapsed();
        let written = writer.packet(0, time, self.direction, &packet.bytes);
        written.expect("the interface is described, and memory takes all");
        out.forward(packet);
    }
}
