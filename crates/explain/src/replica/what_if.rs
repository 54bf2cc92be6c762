//! What-if: changes to a model, as somebody writes them: `rtt=20ms,deferred-ack=1ms,nodelay`.

use std::{fmt, str::FromStr, time::Duration};

use units::{ParseError, Rate, Size, Span};

use super::{Model, Nagle, Pause, Since};

/// Changes to a transfer, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WhatIf(Vec<Change>);

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Rtt(Duration),
    Rate(Rate),
    Mss(Size),
    DeferredAck(Duration),
    InitialWindow(u32),
    Chunk(Size),
    SendBuffer(Size),
    ReceiveWindow(Size),
    NoDelay,
    NoLoss,
}

/// The names, with an example of each value.
const NAMES: [(&str, &str); 10] = [
    ("rtt", "20ms"),
    ("rate", "100mbit"),
    ("mss", "1460"),
    ("deferred-ack", "1ms"),
    ("initial-window", "10"),
    ("chunk", "64KiB"),
    ("send-buffer", "128KiB"),
    ("receive-window", "1MiB"),
    ("nodelay", ""),
    ("no-loss", ""),
];

/// How many chunks are paced at most.
const MOST_CHUNKS: u64 = 1_000_000;

/// A text that is no what-if.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WhatIfError {
    /// No such change.
    #[error("there is no what-if `{name}`; write one of {}", names())]
    Unknown {
        /// What was written.
        name: String,
    },
    /// It needs a value, or takes none.
    #[error("the what-if `{0}` is incomplete or has too much; write `{1}`")]
    Form(String, String),
    /// Its value is none.
    #[error("the what-if `{0}` has a value that does not fit it: {1}")]
    Value(&'static str, ParseError),
}

fn names() -> String {
    NAMES.map(|(name, _)| name).join(", ")
}

impl FromStr for WhatIf {
    type Err = WhatIfError;

    fn from_str(text: &str) -> Result<Self, WhatIfError> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts.map(Change::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl Change {
    fn parse(part: &str) -> Result<Self, WhatIfError> {
        let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name.trim(), Some(value)));
        let known = NAMES.into_iter().find(|(known, _)| *known == name);
        let Some((name, example)) = known else { return Err(WhatIfError::Unknown { name: name.to_owned() }) };
        let form = || match example {
            "" => WhatIfError::Form(part.to_owned(), name.to_owned()),
            _ => WhatIfError::Form(part.to_owned(), format!("{name}={example}")),
        };
        let Some(value) = value else {
            return match name {
                "nodelay" => Ok(Self::NoDelay),
                "no-loss" => Ok(Self::NoLoss),
                _ => Err(form()),
            };
        };
        let wrong = |error| WhatIfError::Value(name, error);
        let time = || value.parse().map(|Span(time)| time).map_err(wrong);
        // Without a unit, as in `mss=1460`, it is a number of bytes.
        let bytes = || value.trim().parse().map(Size).or_else(|_| value.parse()).map_err(wrong);
        match name {
            "rtt" => time().map(Self::Rtt),
            "rate" => value.parse().map(Self::Rate).map_err(wrong),
            "mss" => bytes().map(Self::Mss),
            "deferred-ack" => time().map(Self::DeferredAck),
            "initial-window" => value.trim().parse().map(Self::InitialWindow).map_err(|_| form()),
            "chunk" => bytes().map(Self::Chunk),
            "send-buffer" => bytes().map(Self::SendBuffer),
            "receive-window" => bytes().map(Self::ReceiveWindow),
            _ => Err(form()),
        }
    }

    fn apply(self, model: &mut Model) {
        match self {
            Self::Rtt(rtt) => model.path.rtt = rtt,
            Self::Rate(rate) => model.path.rate = Some(rate),
            Self::Mss(mss) => model.sender.mss = mss,
            Self::DeferredAck(timer) => model.receiver.acks.timer = timer,
            Self::InitialWindow(segments) => model.sender.initial_window = segments,
            Self::Chunk(chunk) => {
                let old = model.writes.chunk.replace(chunk);
                pace(model, old);
            }
            Self::SendBuffer(bytes) => match (model.writes.chunk, model.writes.in_flight) {
                // A program that is held in a write is held by whole ones: its socket takes another as long as what
                // it holds is less than its size, and a write leaves it when all of it is acknowledged (KB 823764).
                (Some(Size(chunk @ 1..)), Some(_)) => {
                    let writes = u32::try_from(bytes.0.div_ceil(chunk)).unwrap_or(u32::MAX).max(1);
                    model.writes.in_flight = Some(writes);
                    if writes > 1 {
                        // Nor does it wait for an acknowledgement otherwise.
                        model.writes.pauses.retain(|pause| pause.since != Since::Acknowledged);
                    }
                }
                _ => model.writes.send_buffer = Some(bytes),
            },
            Self::ReceiveWindow(bytes) => {
                (model.receiver.window, model.receiver.largest_window) = (Some(bytes), Some(bytes));
            }
            Self::NoDelay => model.sender.nagle = Nagle::Off,
            Self::NoLoss => {
                model.path.losses.clear();
                model.path.queue = None;
            }
        }
    }
}

/// What was paused before each chunk is paused before each new one.
fn pace(model: &mut Model, old: Option<Size>) {
    let (Some(Size(old @ 1..)), Some(Size(chunk @ 1..))) = (old, model.writes.chunk) else { return };
    let paced = |pause: &Pause| pause.since == Since::Acknowledged && pause.at.is_multiple_of(old);
    let Some(time) = model.writes.pauses.iter().find(|pause| paced(pause)).map(|pause| pause.time) else { return };
    model.writes.pauses.retain(|pause| !paced(pause));
    let chunks = model.bytes.0 / chunk;
    if chunks <= MOST_CHUNKS {
        let each = (1..=chunks).map(|count| Pause { at: count * chunk, time, since: Since::Acknowledged });
        model.writes.pauses.extend(each);
        model.writes.pauses.sort_by_key(|pause| pause.at);
    }
}

impl WhatIf {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether nothing is lost any more.
    pub fn removes_loss(&self) -> bool {
        self.0.contains(&Change::NoLoss)
    }

    /// The transfer with these changes.
    ///
    /// What follows from a change goes with it: a program that was held in each write has as many under way as its
    /// send buffer takes; a receive window is one that does not grow; without loss no queue is too short.
    #[must_use]
    pub fn apply(&self, model: &Model) -> Model {
        let mut model = model.clone();
        // The chunk first: what a send buffer does depends on it.
        let chunk = |change: &&Change| matches!(change, Change::Chunk(_));
        for change in self.0.iter().filter(chunk).chain(self.0.iter().filter(|change| !chunk(change))) {
            change.apply(&mut model);
        }
        model
    }
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, change) in self.0.iter().enumerate() {
            f.write_str(if n > 0 { "," } else { "" })?;
            match change {
                Change::Rtt(time) => write!(f, "rtt={time:?}"),
                Change::Rate(rate) => write!(f, "rate={rate}"),
                Change::Mss(bytes) => write!(f, "mss={}", bytes.0),
                Change::DeferredAck(time) => write!(f, "deferred-ack={time:?}"),
                Change::InitialWindow(segments) => write!(f, "initial-window={segments}"),
                Change::Chunk(bytes) => write!(f, "chunk={bytes}"),
                Change::SendBuffer(bytes) => write!(f, "send-buffer={bytes}"),
                Change::ReceiveWindow(bytes) => write!(f, "receive-window={bytes}"),
                Change::NoDelay => f.write_str("nodelay"),
                Change::NoLoss => f.write_str("no-loss"),
            }?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: &str = "rtt=20ms,rate=100mbit,mss=1460,deferred-ack=1ms,initial-window=30,chunk=64KiB,\
                       send-buffer=128KiB,receive-window=1MiB,nodelay,no-loss";

    #[test]
    fn every_change_is_parsed_printed_and_applied() {
        let what_if: WhatIf = ALL.parse().unwrap();
        assert_eq!(what_if.to_string(), ALL);
        let mut before = Model::new(Size(1000), Duration::from_millis(5));
        before.writes.in_flight = Some(1);
        before.path.queue = Some(Size(1));
        let after = what_if.apply(&before);
        assert_eq!(
            (after.path.rtt, after.path.rate),
            (Duration::from_millis(20), Some(Rate::bits_per_second(100_000_000)))
        );
        assert_eq!((after.sender.mss, after.sender.initial_window, after.sender.nagle), (Size(1460), 30, Nagle::Off));
        assert_eq!(after.receiver.acks.timer, Duration::from_millis(1));
        assert_eq!(after.receiver.window, Some(Size(1 << 20)));
        assert_eq!((after.writes.chunk, after.writes.in_flight), (Some(Size(65536)), Some(2)));
        assert_eq!((after.path.queue, after.bytes), (None, before.bytes));
    }

    #[test]
    fn a_send_buffer_holds_whole_writes_of_a_program_that_waits_for_them() {
        let mut model = Model::new(Size(1000), Duration::ZERO);
        (model.writes.in_flight, model.writes.chunk) = (Some(1), Some(Size(8217)));
        let held = |text: &str| text.parse::<WhatIf>().unwrap().apply(&model).writes.in_flight;
        let sizes = ["4KiB", "8217B", "8218B", "16KiB", "16434B", "64KiB"].map(|size| format!("send-buffer={size}"));
        assert_eq!(sizes.map(|text| held(&text)), [1, 1, 2, 2, 2, 8].map(Some));
        // Whichever is written first.
        assert_eq!(["send-buffer=9KB,chunk=9KB", "chunk=8KB,send-buffer=9KB"].map(held), [Some(1), Some(2)]);
    }

    #[test]
    fn mistakes_are_named() {
        let told = |text: &str| text.parse::<WhatIf>().unwrap_err().to_string();
        assert!(told("speed=3").starts_with("there is no what-if `speed`; write one of rtt, rate,"));
        assert!(told("rtt").contains("write `rtt=20ms`") && told("nodelay=1").contains("write `nodelay`"));
        assert!(told("rtt=20").contains("`20` is not a time") && told("initial-window=ten").contains("write"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a-z=,0-9. -]{0,40}|.*") {
            let _ = text.parse::<WhatIf>();
        }
    }
}
