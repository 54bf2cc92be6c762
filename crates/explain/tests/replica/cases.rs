//! The transfers that are compared with their replicas.

use std::{ops::Range, time::Duration};

use explain::replica::{AckRule, Congestion, Loss, Model, Nagle, Pause, Since, Until};
use units::{Rate, Size};

use crate::testbed::Run;

/// The parameters of a transfer; flat, so that a case is one change to one of them.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) congestion: &'static str,
    pub(crate) rtt: Duration,
    pub(crate) rate: u64,
    /// The queue of the bottleneck, in bytes.
    pub(crate) queue: u64,
    pub(crate) bytes: u64,
    pub(crate) mtu: u16,
    pub(crate) initial_window: u32,
    pub(crate) receive_buffer: Option<usize>,
    pub(crate) nodelay: bool,
    pub(crate) chunk: Option<u64>,
    /// Maximum number of unacknowledged bytes; a write beyond it waits.
    pub(crate) in_flight: Option<u64>,
    pub(crate) pauses: Vec<(u64, Duration)>,
    pub(crate) losses: Vec<(Range<u64>, u32)>,
    /// A receiver with delayed ACKs, emulated by the cable: its rule, and its timer in ms.
    pub(crate) delayed_acks: Option<(AckRule, u64)>,
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
            receive_buffer: None,
            nodelay: true,
            chunk: None,
            in_flight: None,
            pauses: Vec::new(),
            losses: Vec::new(),
            delayed_acks: None,
            reads: None,
        }
    }

    fn with(mut self, what: &str, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self.name = format!("{} {what}", self.name);
        self
    }

    pub(crate) fn spec(&self) -> String {
        let middlebox = self.delayed_acks.map_or(String::new(), |(rule, timer)| {
            let rule = if matches!(rule, AckRule::Packets(_)) { "packets" } else { "mss" };
            format!("middlebox = [\"hold-acks:rule={rule},timer={timer}ms\"]\n")
        });
        let (rtt, rate, queue) = (self.rtt.as_micros(), self.rate, self.queue);
        format!("rtt = \"{rtt}us\"\nrate = \"{rate}bit\"\nqueue = \"{queue}B\"\n{middlebox}")
    }

    /// The model that a capture of this run would give.
    pub(crate) fn model(&self, run: &Run) -> Model {
        let mut model = Model::new(Size(self.bytes), self.rtt);
        model.until = Until::Answered(Duration::ZERO);
        model.path.rate = Some(Rate::bits_per_second(self.rate));
        model.path.queue = Some(Size(self.queue));
        model.path.losses =
            self.losses.iter().map(|(bytes, times)| Loss { bytes: bytes.clone(), times: *times }).collect();
        model.sender.mss = Size(u64::from(self.mtu) - 52);
        model.sender.initial_window = self.initial_window;
        model.sender.congestion = match self.congestion {
            "reno" => Congestion::Reno,
            "cubic" => Congestion::Cubic,
            _ => Congestion::Bbr,
        };
        model.sender.nagle = if self.nodelay { Nagle::Off } else { Nagle::Small };
        model.writes.chunk = self.chunk.map(Size);
        model.writes.in_flight = self.in_flight.map(|most| u32::try_from(most / self.chunk.unwrap_or(1)).unwrap_or(1));
        let pauses = self.pauses.iter();
        model.writes.pauses = pauses.map(|(at, time)| Pause { at: *at, time: *time, since: Since::Sent }).collect();
        model.receiver.window = Some(Size(run.windows.first));
        model.receiver.largest_window = Some(Size(run.windows.largest));
        model.receiver.reads = self.reads.map(Rate::bits_per_second);
        if let Some((rule, timer)) = self.delayed_acks {
            model.receiver.acks.rule = rule;
            model.receiver.acks.timer = Duration::from_millis(timer);
            model.receiver.acks.quick = 0;
            model.receiver.acks.pushed_at_once = false;
        }
        model
    }
}

/// All cases, as one list.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for congestion in ["reno", "cubic", "bbr"] {
        let new = |rtt, mbit, kb| Case::new(congestion, rtt, mbit, kb);
        for (rtt, mbit, kb) in [(10, 20, 300), (20, 50, 3000), (60, 20, 1000), (60, 5, 200), (150, 20, 2000)] {
            cases.push(new(rtt, mbit, kb));
        }
        cases.push(new(40, 20, 1000).with("initial window 3", |case| case.initial_window = 3));
        cases.push(new(40, 20, 1000).with("initial window 30", |case| case.initial_window = 30));
        cases.push(new(20, 20, 1500).with("one loss", |case| case.losses = vec![(400_000..401_448, 1)]));
        cases.push(new(20, 20, 500).with("lost twice", |case| case.losses = vec![(200_000..201_448, 2)]));
        cases.push(new(20, 20, 200).with("last lost", |case| case.losses = vec![(199_000..200_000, 1)]));
        cases.push(new(40, 20, 600).with("receive buffer 32 KiB", |case| case.receive_buffer = Some(32 << 10)));
        cases.push(new(20, 20, 400).with("one chunk of 32 KiB at a time", |case| {
            (case.chunk, case.in_flight) = (Some(32 << 10), Some(32 << 10));
        }));
        cases.push(new(40, 20, 600).with("send buffer 64 KiB", |case| {
            (case.chunk, case.in_flight) = (Some(4 << 10), Some(64 << 10));
        }));
    }
    let new = |rtt, mbit, kb| Case::new("cubic", rtt, mbit, kb);
    let as_captured = |case: &mut Case| {
        // Writes and segments as in the printed trace.
        (case.chunk, case.in_flight, case.mtu) = (Some(8217), Some(8217), 1160 + 52);
    };
    cases.push(new(17, 4, 100).with("chunks of 8217", as_captured));
    for timer in [100, 30, 1] {
        cases.push(new(17, 4, 100).with(&format!("chunks of 8217, ACKs held {timer} ms"), |case| {
            as_captured(case);
            case.delayed_acks = Some((AckRule::Segments(2), timer));
        }));
    }
    cases.push(new(17, 4, 100).with("chunks of 8217, two at a time, ACKs held 100 ms", |case| {
        as_captured(case);
        case.in_flight = Some(2 * 8217);
        case.delayed_acks = Some((AckRule::Segments(2), 100));
    }));
    cases.push(new(17, 4, 100).with("chunks of eight segments, ACKs held 100 ms", |case| {
        as_captured(case);
        (case.chunk, case.in_flight) = (Some(9280), Some(9280));
        case.delayed_acks = Some((AckRule::Segments(2), 100));
    }));
    cases.push(new(17, 4, 100).with("chunks of 10000, packets held", |case| {
        as_captured(case);
        (case.chunk, case.in_flight) = (Some(10_000), Some(10_000));
        case.delayed_acks = Some((AckRule::Packets(2), 200));
    }));
    cases.push(new(20, 20, 200).with("chunks of 8217, Nagle", |case| {
        (case.chunk, case.in_flight, case.nodelay) = (Some(8217), Some(8217), false);
    }));
    cases.push(new(20, 20, 300).with("writes of 2072, Nagle", |case| {
        (case.chunk, case.nodelay) = (Some(2072), false);
    }));
    cases.push(new(30, 20, 300).with("pauses", |case| {
        case.chunk = Some(10_000);
        case.pauses = vec![(10_000, Duration::from_millis(100)), (20_000, Duration::from_millis(400))];
    }));
    cases.push(new(20, 50, 1000).with("slow reader", |case| {
        (case.reads, case.receive_buffer) = (Some(10_000_000), Some(64 << 10));
    }));
    cases
}
