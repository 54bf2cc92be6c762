//! The transfers that are compared.

use std::{ops::Range, time::Duration};

use explain::replica::{AckRule, Bytes, Congestion, Loss, Model, Nagle, Pause, Rate, Since, Until};

use crate::world::Run;

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) congestion: &'static str,
    pub(crate) rtt: Duration,
    pub(crate) rate: u64,
    /// In front of the rate, in bytes.
    pub(crate) queue: u64,
    pub(crate) bytes: u64,
    pub(crate) mtu: u16,
    pub(crate) initial_window: u32,
    pub(crate) send_buffer: Option<usize>,
    pub(crate) receive_buffer: Option<usize>,
    pub(crate) nodelay: bool,
    pub(crate) chunk: Option<u64>,
    /// Whether each write waits until the one before is acknowledged.
    pub(crate) waits: bool,
    pub(crate) pauses: Vec<(u64, Duration)>,
    pub(crate) losses: Vec<(Range<u64>, u32)>,
    /// A receiver that defers, made by the cable: its rule and its timer.
    pub(crate) holds: Option<(AckRule, u64)>,
    pub(crate) reads: Option<u64>,
}

impl Case {
    fn new(congestion: &'static str, rtt: u64, mbit: u64, kb: u64) -> Self {
        Self {
            name: format!("{congestion} {rtt} ms {mbit} Mbit/s {kb} kB"),
            congestion,
            rtt: Duration::from_millis(rtt),
            rate: mbit * 1_000_000,
            queue: (rtt * mbit * 125).max(60_000),
            bytes: kb * 1000,
            mtu: 1500,
            initial_window: 10,
            send_buffer: None,
            receive_buffer: None,
            nodelay: true,
            chunk: None,
            waits: false,
            pauses: Vec::new(),
            losses: Vec::new(),
            holds: None,
            reads: None,
        }
    }

    fn with(mut self, what: &str, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self.name = format!("{} {what}", self.name);
        self
    }

    pub(crate) fn spec(&self) -> String {
        let mut spec =
            format!("rtt = \"{}us\"\nrate = \"{}bit\"\nqueue = \"{}B\"\n", self.rtt.as_micros(), self.rate, self.queue);
        if let Some((rule, timer)) = self.holds {
            let rule = if matches!(rule, AckRule::Packets(_)) { "packets" } else { "mss" };
            spec += &format!("middlebox = [\"hold-acks:rule={rule},timer={timer}ms\"]\n");
        }
        spec
    }

    /// What a capture of this run would have told.
    pub(crate) fn model(&self, run: &Run) -> Model {
        let mut model = Model::new(Bytes(self.bytes), self.rtt);
        model.until = Until::Answered(Duration::ZERO);
        model.path.rate = Some(Rate(self.rate));
        model.path.queue = Some(Bytes(self.queue));
        model.path.losses =
            self.losses.iter().map(|(bytes, times)| Loss { bytes: bytes.clone(), times: *times }).collect();
        model.sender.mss = Bytes(u64::from(self.mtu) - 52);
        model.sender.initial_window = self.initial_window;
        model.sender.congestion = match self.congestion {
            "reno" => Congestion::Reno,
            "cubic" => Congestion::Cubic,
            _ => Congestion::Bbr,
        };
        model.sender.nagle = if self.nodelay { Nagle::Off } else { Nagle::Small };
        model.writes.chunk = self.chunk.map(Bytes);
        model.writes.in_flight = self.waits.then_some(1);
        model.writes.pauses =
            self.pauses.iter().map(|(at, time)| Pause { at: *at, time: *time, since: Since::Sent }).collect();
        if self.send_buffer.is_some() {
            model.writes.send_buffer = Some(Bytes(run.capacity));
            model.writes.low_water = Bytes(run.capacity / 3);
        }
        model.receiver.window = Some(Bytes(run.windows.first));
        model.receiver.largest_window = Some(Bytes(run.windows.largest));
        model.receiver.reads = self.reads.map(Rate);
        if let Some((rule, timer)) = self.holds {
            model.receiver.acks.rule = rule;
            model.receiver.acks.timer = Duration::from_millis(timer);
            model.receiver.acks.quick = 0;
            model.receiver.acks.pushed_at_once = false;
        }
        model
    }
}

pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for congestion in ["reno", "cubic", "bbr"] {
        for (rtt, mbit, kb) in [(10, 20, 300), (20, 50, 3000), (60, 20, 1000), (60, 5, 200), (150, 20, 2000)] {
            cases.push(Case::new(congestion, rtt, mbit, kb));
        }
        cases.push(Case::new(congestion, 40, 20, 400).with("initial window 3", |case| case.initial_window = 3));
        cases.push(Case::new(congestion, 40, 20, 400).with("initial window 30", |case| case.initial_window = 30));
        cases.push(
            Case::new(congestion, 20, 20, 1500).with("one loss", |case| case.losses = vec![(400_000..401_448, 1)]),
        );
        cases.push(
            Case::new(congestion, 20, 20, 200).with("last lost", |case| case.losses = vec![(199_000..200_000, 1)]),
        );
        cases.push(
            Case::new(congestion, 20, 20, 500).with("lost twice", |case| case.losses = vec![(200_000..201_448, 2)]),
        );
        cases.push(
            Case::new(congestion, 40, 20, 600)
                .with("small receive buffer", |case| case.receive_buffer = Some(32 << 10)),
        );
    }
    let cubic = |rtt, mbit, kb| Case::new("cubic", rtt, mbit, kb);
    for (kb, congestion) in [(16, "cubic"), (64, "cubic"), (64, "bbr")] {
        cases.push(
            Case::new(congestion, 40, 20, 600)
                .with(&format!("send buffer {kb} KiB"), |case| case.send_buffer = Some(kb << 10)),
        );
    }
    cases.push(cubic(20, 20, 200).with("chunks wait", |case| (case.chunk, case.waits) = (Some(8217), true)));
    cases.push(cubic(20, 20, 800).with("64 KiB chunks wait", |case| (case.chunk, case.waits) = (Some(65536), true)));
    cases.push(
        cubic(20, 20, 200)
            .with("chunks wait, Nagle", |case| (case.chunk, case.waits, case.nodelay) = (Some(8217), true, false)),
    );
    for timer in [100, 30, 1] {
        cases.push(cubic(17, 10, 100).with(&format!("chunks wait, ACKs held {timer} ms"), |case| {
            (case.chunk, case.waits, case.mtu) = (Some(8217), true, 1200 + 12);
            case.holds = Some((AckRule::Segments(2), timer));
        }));
    }
    cases.push(cubic(17, 10, 100).with("chunks wait, packets held", |case| {
        (case.chunk, case.waits, case.mtu) = (Some(10_000), true, 1200 + 12);
        case.holds = Some((AckRule::Packets(2), 200));
    }));
    cases.push(cubic(30, 20, 300).with("pauses", |case| {
        case.chunk = Some(10_000);
        case.pauses = vec![(10_000, Duration::from_millis(100)), (20_000, Duration::from_millis(400))];
    }));
    cases.push(cubic(20, 50, 1000).with("slow reader", |case| {
        (case.reads, case.receive_buffer) = (Some(10_000_000), Some(64 << 10));
    }));
    cases.push(cubic(20, 20, 300).with("small writes, Nagle", |case| (case.chunk, case.nodelay) = (Some(2072), false)));
    cases
}
