//! Values of a [`super::LinkSpec`] with more than one quantity, and their text forms.

use std::{fmt, str::FromStr, time::Duration};
use units::{Percent, Rate, Size, Span, text_form};

use crate::{
    stage::Direction,
    stages::{Bursts, Mtu},
};

/// One value for each direction. Its text is `A` if both are equal, and `A/B` for up and down otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PerDirection<T> {
    /// From the client to the server.
    pub up: T,
    /// From the server to the client.
    pub down: T,
}

impl<T> PerDirection<T> {
    /// The same value in both directions.
    pub fn both(value: T) -> Self
    where
        T: Clone,
    {
        Self { up: value.clone(), down: value }
    }

    /// The value of one direction.
    pub fn of(&self, direction: Direction) -> &T {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// The value of one direction, to change it.
    pub(super) fn of_mut(&mut self, direction: Direction) -> &mut T {
        match direction {
            Direction::Up => &mut self.up,
            Direction::Down => &mut self.down,
        }
    }
}

impl<T: FromStr + Clone> PerDirection<T> {
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok().map(Self::both).or_else(|| halves(text).map(|[up, down]| Self { up, down }))
    }
}

/// The values on both sides of a slash. `20mbit/s/100mbit/s` has more than one slash.
fn halves<T: FromStr>(text: &str) -> Option<[T; 2]> {
    text.match_indices('/').find_map(|(slash, _)| Some([text[..slash].parse().ok()?, text[slash + 1..].parse().ok()?]))
}

impl<T: fmt::Display + PartialEq> fmt::Display for PerDirection<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.up)?;
        if self.up == self.down { Ok(()) } else { write!(f, "/{}", self.down) }
    }
}

/// The round-trip time: `18ms`, half of it in each direction; or the one-way delays up/down: `10ms/30ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RttSpec {
    /// From the client to the server.
    pub up: Duration,
    /// From the server to the client.
    pub down: Duration,
}

impl RttSpec {
    /// Both ways together.
    pub fn total(self) -> Duration {
        self.up.saturating_add(self.down)
    }

    /// Whether neither direction has a delay.
    pub fn is_zero(&self) -> bool {
        self.total().is_zero()
    }

    /// The one-way delay of a direction.
    pub fn of(self, direction: Direction) -> Duration {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let one_way = || halves::<Span>(text).map(|[up, down]| Self { up: up.0, down: down.0 });
        text.parse().ok().map(|rtt: Span| rtt.into()).or_else(one_way)
    }
}

impl From<Span> for RttSpec {
    fn from(rtt: Span) -> Self {
        let up = rtt.0 / 2;
        Self { up, down: rtt.0.saturating_sub(up) }
    }
}

text_form!(RttSpec, "a time", "`18ms`, or `10ms/30ms` for up and down", RttSpec::parse);

impl fmt::Display for RttSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::from(Span(self.total())) {
            return write!(f, "{}", Span(self.total()));
        }
        write!(f, "{}/{}", Span(self.up), Span(self.down))
    }
}

/// Jitter of one direction: `2ms`, `2ms normal`, `2ms reorder`, `2ms normal reorder`. See [`crate::stages::Jitter`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JitterModel {
    /// Maximum (uniform) or standard deviation (normal).
    pub time: Duration,
    /// Whether the distribution is normal instead of uniform.
    pub normal: bool,
    /// Whether packets may overtake one another.
    pub reorder: bool,
}

impl JitterModel {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let time = words.next()?.parse::<Span>().ok()?.0;
        let mut jitter = Self { time, normal: false, reorder: false };
        for word in words {
            match word {
                "normal" => jitter.normal = true,
                "uniform" => jitter.normal = false,
                "reorder" => jitter.reorder = true,
                _ => return None,
            }
        }
        Some(jitter)
    }
}

text_form!(JitterModel, "jitter", "`2ms`, `2ms normal` or `2ms normal reorder`", JitterModel::parse);

impl fmt::Display for JitterModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (normal, reorder) = (if self.normal { " normal" } else { "" }, if self.reorder { " reorder" } else { "" });
        write!(f, "{}{normal}{reorder}", Span(self.time))
    }
}

/// The jitter of both directions: `2ms` for both, or `1ms/5ms` for up and down.
pub type JitterSpec = PerDirection<JitterModel>;

text_form!(
    JitterSpec,
    "jitter",
    "`2ms`, `2ms normal` or `2ms normal reorder`, or `1ms/5ms` for up and down",
    JitterSpec::parse
);

/// The rates of both directions: `100mbit` for both, or `20mbit/100mbit` for up and down.
pub type RateSpec = PerDirection<Rate>;

text_form!(RateSpec, "a rate", "`100mbit`, or `20mbit/100mbit` for up and down", RateSpec::parse);

/// The queue in front of a link of limited rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QueueSpec {
    /// `bdp`, the default: droptail, with room for the bandwidth-delay product in full packets, at least 100.
    ///
    /// This is the smallest queue with which one TCP connection keeps the link busy (Villamizar and Song, 1994), so that
    /// the link reaches its rate. And it at most doubles the RTT, so that measurements are not dominated by bufferbloat,
    /// which the usual 1000 packets cause at 20 Mbit/s.
    #[default]
    Bdp,
    /// `100p`: droptail by packets.
    Packets(usize),
    /// `64KiB`: droptail by bytes.
    Bytes(Size),
    /// `infinite`.
    Infinite,
    /// `codel`: RFC 8289.
    CoDel,
}

impl QueueSpec {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "bdp" => Some(Self::Bdp),
            "infinite" => Some(Self::Infinite),
            "codel" => Some(Self::CoDel),
            _ => {
                let packets = text.strip_suffix('p').and_then(|number| number.trim().parse().ok()).map(Self::Packets);
                packets.or_else(|| text.parse().ok().map(Self::Bytes))
            }
        }
    }
}

text_form!(QueueSpec, "a queue", "`100p`, `64KiB`, `bdp`, `codel` or `infinite`", QueueSpec::parse);

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bdp => f.write_str("bdp"),
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Infinite => f.write_str("infinite"),
            Self::CoDel => f.write_str("codel"),
        }
    }
}

/// Loss in one direction: `0.1%`, or in bursts `ge:p=1%,r=20%,bad=100%,good=0%`; `bad` and `good` are optional. See
/// [`crate::stages::GilbertElliott`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossModel {
    /// Independent for each packet.
    Independent(Percent),
    /// In bursts.
    Bursts(Bursts),
}

impl Default for LossModel {
    /// No loss.
    fn default() -> Self {
        Self::Independent(Percent::default())
    }
}

impl LossModel {
    fn parse(text: &str) -> Option<Self> {
        let Some(list) = text.strip_prefix("ge:") else { return text.parse().ok().map(Self::Independent) };
        let [mut p, mut r, mut bad, mut good] = [None; 4];
        for pair in list.split(',') {
            let (key, value) = pair.split_once('=')?;
            let slot = match key.trim() {
                "p" => &mut p,
                "r" => &mut r,
                "bad" => &mut bad,
                "good" => &mut good,
                _ => return None,
            };
            if slot.replace(value.parse().ok()?).is_some() {
                return None;
            }
        }
        let bad = bad.unwrap_or(Percent::from_fraction(1.0));
        Some(Self::Bursts(Bursts { p: p?, r: r?, bad, good: good.unwrap_or_default() }))
    }
}

text_form!(LossModel, "a loss", "`0.1%`, or `ge:p=1%,r=20%` for bursts", LossModel::parse);

impl fmt::Display for LossModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Independent(probability) => write!(f, "{probability}"),
            Self::Bursts(Bursts { p, r, bad, good }) => write!(f, "ge:p={p},r={r},bad={bad},good={good}"),
        }
    }
}

/// The loss of both directions: `0.1%` for both, or `1%/0%` for up and down.
pub type LossSpec = PerDirection<LossModel>;

text_form!(LossSpec, "a loss", "`0.1%`, `1%/0%` for up and down, or `ge:p=1%,r=20%` for bursts", LossSpec::parse);

/// Reordering: `1%`, or `1% 5ms` with the time for which these packets are held, by default 1 ms. See [`crate::stages::Reorder`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReorderSpec {
    /// Share of the packets.
    pub probability: Percent,
    /// How long they are held.
    pub by: Duration,
}

impl ReorderSpec {
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let probability = words.next()?.parse().ok()?;
        let by =
            words.next().map_or(Some(Duration::from_millis(1)), |time| time.parse::<Span>().ok().map(Into::into))?;
        words.next().is_none().then_some(Self { probability, by })
    }
}

text_form!(ReorderSpec, "a reordering", "`1%` or `1% 5ms`", ReorderSpec::parse);

impl fmt::Display for ReorderSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.probability, Span(self.by))
    }
}

/// An MTU in bytes: `1400`, or `1400 black-hole` for a link that drops larger packets without ICMP. Above
/// [`crate::cable::DEFAULT_MTU`] it is also the MTU of the hosts' devices ([`super::LinkSpec::device_mtu`]). See
/// [`crate::stages::Mtu`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MtuSpec {
    /// Maximum size of an IP packet.
    pub bytes: u16,
    /// Whether larger packets are dropped without ICMP.
    pub black_hole: bool,
}

impl MtuSpec {
    fn parse(text: &str) -> Option<Self> {
        let (size, black_hole) = match text.strip_suffix("black-hole") {
            Some(size) => (size.trim(), true),
            None => (text, false),
        };
        let bytes = size.trim_end_matches(['B', 'b']).trim().parse().ok()?;
        (Mtu::MIN <= bytes).then_some(Self { bytes, black_hole })
    }
}

text_form!(MtuSpec, "an MTU from 68 to 65535 bytes", "`1400`, `9000` or `1400 black-hole`", MtuSpec::parse);

impl fmt::Display for MtuSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.bytes, if self.black_hole { " black-hole" } else { "" })
    }
}

/// The serde form of a middlebox is its text form.
mod middlebox {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use crate::middleboxes::Middlebox;

    impl<'de> Deserialize<'de> for Middlebox {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            String::deserialize(from)?.parse().map_err(de::Error::custom)
        }
    }

    impl Serialize for Middlebox {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            to.collect_str(self)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::str::FromStr;

    use super::*;
    use units::ParseError;

    fn round_trips<T: FromStr<Err = ParseError> + fmt::Display>(texts: &[(&str, &str)]) {
        for (text, printed) in texts {
            let value: T = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(value.to_string(), *printed);
            assert_eq!(printed.parse::<T>().unwrap_or_else(|error| panic!("{error}")).to_string(), *printed);
        }
    }

    #[test]
    fn text_forms_round_trip() {
        round_trips::<RttSpec>(&[
            ("18ms", "18ms"),
            ("10ms/30ms", "10ms/30ms"),
            ("9 ms / 9ms", "18ms"),
            ("0ms/30ms", "0ms/30ms"),
            ("3ns", "3ns"),
        ]);
        round_trips::<JitterSpec>(&[
            ("2ms", "2ms"),
            ("2ms reorder normal", "2ms normal reorder"),
            ("1ms/5ms", "1ms/5ms"),
            ("1ms normal / 5ms reorder", "1ms normal/5ms reorder"),
        ]);
        round_trips::<RateSpec>(&[
            ("100mbit", "100mbit"),
            ("100mbit/s", "100mbit"),
            ("20mbit/100mbit", "20mbit/100mbit"),
            ("20 Mbit/s / 1 gbit/s", "20mbit/1gbit"),
            ("5mbit/5mbit", "5mbit"),
        ]);
        round_trips::<QueueSpec>(&[("100p", "100p"), ("64KiB", "64KiB"), ("codel", "codel"), ("bdp", "bdp")]);
        round_trips::<LossSpec>(&[
            ("0.1%", "0.1%"),
            ("ge:p=1%,r=20%", "ge:p=1%,r=20%,bad=100%,good=0%"),
            ("ge:r=20%,p=1%,good=0.5%,bad=50%", "ge:p=1%,r=20%,bad=50%,good=0.5%"),
            ("1%/0%", "1%/0%"),
            ("0.1%/ge:p=1%,r=20%", "0.1%/ge:p=1%,r=20%,bad=100%,good=0%"),
        ]);
        round_trips::<ReorderSpec>(&[("1%", "1% 1ms"), ("1% 5ms", "1% 5ms")]);
        round_trips::<MtuSpec>(&[
            ("1400", "1400"),
            ("1400B", "1400"),
            ("1280 black-hole", "1280 black-hole"),
            ("68", "68"),
            ("1500", "1500"),
            ("9000", "9000"),
            ("65535", "65535"),
        ]);
    }

    #[test]
    fn errors_show_the_right_form() {
        assert_eq!(
            "lots".parse::<QueueSpec>().unwrap_err().to_string(),
            "`lots` is not a queue; write it like `100p`, `64KiB`, `bdp`, `codel` or `infinite`"
        );
        assert_eq!(
            "65536".parse::<MtuSpec>().unwrap_err().to_string(),
            "`65536` is not an MTU from 68 to 65535 bytes; write it like `1400`, `9000` or `1400 black-hole`"
        );
        for bad in [
            "",
            "2",
            "1ms x",
            "100",
            "ge:p=1%",
            "ge:p=1%,p=1%,r=1%",
            "67",
            "70000",
            "1% 2ms 3ms",
            "/",
            "1mbit/",
            "1ms/",
            "/1%",
            "1%/2%/3%",
            "1ms/2ms/3ms",
        ] {
            assert!(bad.parse::<JitterSpec>().is_err() && bad.parse::<LossSpec>().is_err(), "{bad}");
            assert!(
                bad.parse::<RttSpec>().is_err()
                    && bad.parse::<RateSpec>().is_err()
                    && bad.parse::<ReorderSpec>().is_err(),
                "{bad}"
            );
            assert!(bad == "100" || bad.parse::<MtuSpec>().is_err(), "{bad}");
        }
    }
}
