//! What-if: changes to a model, in the form `rtt=20ms,deferred-ack=1ms,nodelay`.

use std::{fmt, str::FromStr, time::Duration};

use units::{ParseError, Rate, Size, Span};

use super::{Model, Nagle, Pause, Since, Until, interval};
use crate::causes::Cause;

/// Changes to a transfer, in the order given.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WhatIf(Vec<Change>);

/// One change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Rtt(Duration),
    Rate(Rate),
    Mss(Size),
    DeferredAck(Duration),
    InitialWindow(u32),
    Chunk(Size),
    SendBuffer(Size),
    ReceiveWindow(Size),
    Http2Window(Size),
    NoDelay,
    NoLoss,
    NoExpect,
    NoServerThink,
    NoClientThink,
    NoIdle,
    NoStalls,
    NoQueue,
    NoPacing,
    Alone,
}

/// The changes without a value.
const PLAIN: [(&str, Change); 10] = [
    ("nodelay", Change::NoDelay),
    ("no-loss", Change::NoLoss),
    ("no-expect", Change::NoExpect),
    ("no-server-think", Change::NoServerThink),
    ("no-client-think", Change::NoClientThink),
    ("no-idle", Change::NoIdle),
    ("no-stalls", Change::NoStalls),
    ("no-queue", Change::NoQueue),
    ("no-pacing", Change::NoPacing),
    ("alone", Change::Alone),
];

/// The names of the changes, with an example of each value.
const NAMES: [(&str, &str); 19] = [
    ("rtt", "20ms"),
    ("rate", "100mbit"),
    ("mss", "1460"),
    ("deferred-ack", "1ms"),
    ("initial-window", "10"),
    ("chunk", "64KiB"),
    ("send-buffer", "128KiB"),
    ("receive-window", "1MiB"),
    ("http2-window", "1MiB"),
    ("nodelay", ""),
    ("no-loss", ""),
    ("no-expect", ""),
    ("no-server-think", ""),
    ("no-client-think", ""),
    ("no-idle", ""),
    ("no-stalls", ""),
    ("no-queue", ""),
    ("no-pacing", ""),
    ("alone", ""),
];

/// The maximum number of chunks that get a pause.
const MAX_CHUNKS: u64 = 1_000_000;

/// Why a text is no what-if.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WhatIfError {
    /// There is no such change.
    #[error("unknown change `{name}`; use one of {}", names())]
    Unknown {
        /// The name given.
        name: String,
    },
    /// The change needs a value, or takes none: the text, and the correct form.
    #[error("`{0}` is not a valid change; write `{1}`")]
    Form(String, String),
    /// The value is invalid.
    #[error("invalid value for `{0}`: {1}")]
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
            return PLAIN.iter().find(|(plain, _)| *plain == name).map(|(_, change)| *change).ok_or_else(form);
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
            "http2-window" => bytes().map(Self::Http2Window),
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
                move_chunk_pauses(model, old);
            }
            Self::SendBuffer(bytes) => match (model.writes.chunk, model.writes.in_flight) {
                // Winsock buffers whole writes: it accepts another while the buffered bytes are less than the buffer's
                // size, and a write leaves the buffer when all of it is acknowledged (KB 823764).
                (Some(Size(chunk @ 1..)), Some(_)) => {
                    let writes = u32::try_from(bytes.0.div_ceil(chunk)).unwrap_or(u32::MAX).max(1);
                    model.writes.in_flight = Some(writes);
                    if writes > 1 {
                        // Then the program does not wait for the acknowledgement of each chunk.
                        model.writes.pauses.retain(|pause| pause.since != Since::Acknowledged);
                    }
                }
                _ => model.writes.send_buffer = Some(bytes),
            },
            // The model has one window: whichever limited the transfer.
            Self::ReceiveWindow(bytes) | Self::Http2Window(bytes) => {
                (model.receiver.window, model.receiver.largest_window) = (Some(bytes), Some(bytes));
            }
            Self::NoDelay => model.sender.nagle = Nagle::Off,
            Self::NoLoss => {
                model.path.losses.clear();
                model.path.queue = None;
            }
            Self::NoExpect => {
                (model.before.held_trips, model.before.held_time) = (0, Duration::ZERO);
            }
            Self::NoServerThink => {
                if let Until::Answered(think_time) = &mut model.until {
                    *think_time = Duration::ZERO;
                }
            }
            // Pauses without a length only end a segment.
            Self::NoIdle => model.writes.pauses.retain(|pause| pause.since != Since::Sent || pause.time.is_zero()),
            Self::NoStalls => {
                model.receiver.stalls.clear();
                model.receiver.window = model.receiver.largest_window;
            }
            Self::NoPacing => model.sender.pacing = None,
            Self::Alone => {
                if let Some(rate) = model.path.unshared_rate.take() {
                    model.path.rate = Some(rate);
                    // The queue had no room for the packets of all, and what waited in it seemed to come from an idle sender.
                    model.path.losses.clear();
                    Self::NoIdle.apply(model);
                }
            }
            // They change only what happens before the first byte.
            Self::NoClientThink | Self::NoQueue => {}
        }
    }
}

/// Moves the pauses before each old chunk to each new one.
fn move_chunk_pauses(model: &mut Model, old: Option<Size>) {
    let (Some(Size(old @ 1..)), Some(Size(chunk @ 1..))) = (old, model.writes.chunk) else { return };
    let is_before_chunk = |pause: &Pause| pause.since == Since::Acknowledged && pause.at.is_multiple_of(old);
    let Some(time) = model.writes.pauses.iter().find(|pause| is_before_chunk(pause)).map(|pause| pause.time) else {
        return;
    };
    model.writes.pauses.retain(|pause| !is_before_chunk(pause));
    let chunks = model.bytes.0 / chunk;
    if chunks <= MAX_CHUNKS {
        let each = (1..=chunks).map(|count| Pause { at: count * chunk, time, since: Since::Acknowledged });
        model.writes.pauses.extend(each);
        model.writes.pauses.sort_by_key(|pause| pause.at);
    }
}

impl WhatIf {
    /// Whether it contains no change.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it is only that a client does not wait for `100 Continue`.
    pub(super) fn is_no_expect(&self) -> bool {
        self.0 == [Change::NoExpect]
    }

    /// Where nine in ten measured times are if this one is predicted.
    pub(super) fn interval(&self, predicted: Duration) -> Option<[Duration; 2]> {
        interval::interval(&self.0, predicted)
    }

    /// The causes whose time before the first byte it removes, which the model only knows as a sum.
    pub(crate) fn removed(&self) -> impl Iterator<Item = Cause> {
        self.0.iter().filter_map(|change| match change {
            Change::NoDelay => Some(Cause::Nagle),
            Change::NoLoss | Change::Alone => Some(Cause::ConnectRetry),
            Change::NoServerThink => Some(Cause::ServerThink),
            Change::NoClientThink => Some(Cause::ClientThink),
            Change::NoIdle => Some(Cause::SenderIdle),
            Change::NoQueue => Some(Cause::Queueing),
            _ => None,
        })
    }

    /// The transfer with these changes.
    ///
    /// A change includes its consequences: a program that waits for each write gets as many in flight as its send buffer
    /// holds; a receive window does not grow; without loss, no queue is full.
    #[must_use]
    pub fn apply(&self, model: &Model) -> Model {
        let mut model = model.clone();
        // The chunk first, because the effect of a send buffer depends on it.
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
                Change::Http2Window(bytes) => write!(f, "http2-window={bytes}"),
                plain => f.write_str(PLAIN.iter().find(|(_, change)| change == plain).map_or("", |(name, _)| name)),
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
                       send-buffer=128KiB,receive-window=1MiB,http2-window=2MiB,nodelay,no-loss,no-expect,\
                       no-server-think,no-client-think,no-idle,no-stalls,no-queue,no-pacing,alone";

    #[test]
    fn every_change_is_parsed_printed_and_applied() {
        let what_if: WhatIf = ALL.parse().unwrap();
        assert_eq!(what_if.to_string(), ALL);
        let mut before = Model::new(Size(1000), Duration::from_millis(5));
        before.writes.in_flight = Some(1);
        before.path.queue = Some(Size(1));
        before.sender.pacing = Some(Rate::bits_per_second(1));
        before.path.unshared_rate = Some(Rate::bits_per_second(100_000_000));
        (before.before.held_trips, before.before.held_time) = (2, Duration::from_secs(1));
        let after = what_if.apply(&before);
        assert_eq!(
            (after.path.rtt, after.path.rate),
            (Duration::from_millis(20), Some(Rate::bits_per_second(100_000_000)))
        );
        assert_eq!((after.sender.mss, after.sender.initial_window, after.sender.nagle), (Size(1460), 30, Nagle::Off));
        assert_eq!(after.receiver.acks.timer, Duration::from_millis(1));
        assert_eq!(after.receiver.window, Some(Size(2 << 20)));
        assert_eq!((after.writes.chunk, after.writes.in_flight), (Some(Size(65536)), Some(2)));
        assert_eq!((after.path.queue, after.sender.pacing, after.bytes), (None, None, before.bytes));
        assert_eq!(after.path.unshared_rate, None);
        assert_eq!((after.before.held_trips, after.before.held_time), (0, Duration::ZERO));
    }

    #[test]
    fn send_buffer_holds_whole_writes_when_the_program_waits_for_each() {
        let mut model = Model::new(Size(1000), Duration::ZERO);
        (model.writes.in_flight, model.writes.chunk) = (Some(1), Some(Size(8217)));
        let held = |text: &str| text.parse::<WhatIf>().unwrap().apply(&model).writes.in_flight;
        let sizes = ["4KiB", "8217B", "8218B", "16KiB", "16434B", "64KiB"].map(|size| format!("send-buffer={size}"));
        assert_eq!(sizes.map(|text| held(&text)), [1, 1, 2, 2, 2, 8].map(Some));
        // In either order.
        assert_eq!(["send-buffer=9KB,chunk=9KB", "chunk=8KB,send-buffer=9KB"].map(held), [Some(1), Some(2)]);
    }

    #[test]
    fn errors_name_the_mistake() {
        let error = |text: &str| text.parse::<WhatIf>().unwrap_err().to_string();
        assert!(error("speed=3").starts_with("unknown change `speed`; use one of rtt, rate,"));
        assert!(error("rtt").contains("write `rtt=20ms`") && error("nodelay=1").contains("write `nodelay`"));
        assert!(error("rtt=20").contains("`20` is not a time") && error("initial-window=ten").contains("write"));
    }

    proptest! {
        #[test]
        fn never_panics(text in "[a-z=,0-9. -]{0,40}|.*") {
            let _ = text.parse::<WhatIf>();
        }
    }
}
