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
/// A middlebox that imitates a host's own stack (`hold-acks`) belongs to that host. So the captures at the ends are on the
/// cable's side of the middleboxes, while the cable's own taps are on the hosts' side.
pub(crate) fn lanes(scenario: &Scenario, taps: &[Tap; 3]) -> Result<Lanes, SpecError> {
    let path = &scenario.path;
    let boxes = |side| {
        let middlebox = path.middlebox.iter().filter(|middlebox| middlebox.side() == side).cloned().collect();
        LinkSpec { middlebox, ..LinkSpec::default() }.lanes()
    };
    let near_delay = path.rtt.total().mul_f64(scenario.middle);
    let near = LinkSpec {
        rtt: Span(near_delay).into(),
        middlebox: Vec::new(),
        loss: None,
        reorder: None,
        duplicate: None,
        corrupt: None,
        ..path.clone()
    };
    let far = LinkSpec {
        rtt: Span(path.rtt.total().saturating_sub(near_delay)).into(),
        middlebox: Vec::new(),
        rate: None,
        queue: None,
        jitter: None,
        mtu: None,
        ..path.clone()
    };
    let drops = |near| {
        let lane = |way| {
            let here = scenario.lose.iter().filter(|lose| lose.near == near && lose.way == way);
            here.map(|lose| Box::new(DropPackets { lose: *lose, isn: None }) as Box<dyn Stage>)
                .collect::<Vec<_>>()
                .into()
        };
        Lanes { up: lane(Way::Up), down: lane(Way::Down) }
    };
    let parts = [
        boxes(Side::Client)?,
        taps[0].lanes(Some(Direction::Outbound)),
        near.lanes()?,
        drops(true),
        taps[1].lanes(None),
        drops(false),
        far.lanes()?,
        taps[2].lanes(Some(Direction::Inbound)),
        boxes(Side::Server)?,
    ];
    Ok(parts.into_iter().fold(Lanes::default(), join))
}

/// Joins two parts of a cable, the client's first.
fn join(mut near: Lanes, mut far: Lanes) -> Lanes {
    let (ups, downs) = (near.up.stages.len(), far.down.stages.len());
    // A packet that a stage sends back enters the other direction just after the stage.
    near.up.back.iter_mut().for_each(|index| *index += downs);
    far.down.back.iter_mut().for_each(|index| *index += ups);
    let chain = |mut first: Lane, second: Lane| {
        first.stages.extend(second.stages);
        first.back.extend(second.back);
        first
    };
    Lanes { up: chain(near.up, far.up), down: chain(far.down, near.down) }
}

/// Drops the first transmissions of a packet.
struct DropPackets {
    lose: Lose,
    /// The initial sequence number of the connection, after its SYN.
    isn: Option<u32>,
}

impl DropPackets {
    fn matches(&mut self, packet: &Packet) -> Option<bool> {
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

impl Stage for DropPackets {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        if self.matches(&packet) == Some(true) && self.lose.times > 0 {
            self.lose.times -= 1;
        } else {
            out.forward(packet);
        }
    }
}

/// The same time on the monotonic clock and since the epoch.
static CLOCK_START: LazyLock<(Instant, Duration)> = LazyLock::new(|| {
    let wall = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    (Instant::now(), wall.unwrap_or_default())
});

/// A capture at any point of a cable. The cable's own taps are at its ends.
pub(crate) struct Tap(Arc<Mutex<Writer<Vec<u8>>>>);

impl Tap {
    pub(crate) fn new(name: &str) -> std::io::Result<Self> {
        LazyLock::force(&CLOCK_START);
        let mut writer = Writer::new(Vec::new())?;
        writer.interface(name, LinkType::RAW, None)?;
        Ok(Self(Arc::new(Mutex::new(writer))))
    }

    pub(crate) fn save(&self, path: &Path) -> std::io::Result<()> {
        std::fs::write(path, self.0.lock().expect("no panic").output())
    }

    /// Stages that record packets; those to the server have direction `up`, or none in the middle of the cable.
    fn lanes(&self, up: Option<Direction>) -> Lanes {
        let down = up.map(|up| if up == Direction::Inbound { Direction::Outbound } else { Direction::Inbound });
        let lane = |direction| {
            let stage: Box<dyn Stage> = Box::new(RecordPackets { writer: Arc::clone(&self.0), direction });
            Lane::from(vec![stage])
        };
        Lanes { up: lane(up), down: lane(down) }
    }
}

struct RecordPackets {
    writer: Arc<Mutex<Writer<Vec<u8>>>>,
    direction: Option<Direction>,
}

impl Stage for RecordPackets {
    fn push(&mut self, packet: Packet, _now: Instant, out: &mut Out) {
        let mut writer = self.writer.lock().expect("no panic");
        let time = CLOCK_START.1 + CLOCK_START.0.elapsed();
        let written = writer.packet(0, time, self.direction, &packet.bytes);
        written.expect("memory and a known interface");
        out.forward(packet);
    }
}
