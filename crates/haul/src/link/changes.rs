//! Changes of the link while the command runs: `--at 5s:loss=100% --at 8s:loss=0%`.

use std::{
    error::Error,
    fmt,
    str::FromStr,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use link::{cable::Cable, lanes::Lanes, spec::LinkSpec};
use units::Span;

use crate::link::lanes;

/// The options that can change: all but the seed, since the random sequences continue.
const KEYS: [&str; 12] = [
    "rtt",
    "jitter",
    "rate",
    "trace-up",
    "trace-down",
    "queue",
    "loss",
    "reorder",
    "duplicate",
    "corrupt",
    "mtu",
    "middlebox",
];

/// One value that changes at one time.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    at: Span,
    key: &'static str,
    value: String,
}

impl FromStr for Change {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(at, rest)| Some((at, rest.split_once('=')?)));
        let Some((at, (key, value))) = parts else { return Err("write it like `5s:rate=1mbit`".to_owned()) };
        let at = at.parse().map_err(|error| format!("{error}"))?;
        let key = key.trim();
        let Some(key) = KEYS.into_iter().find(|known| *known == key) else {
            return Err(format!("`{key}` cannot change; these can: {}", KEYS.join(", ")));
        };
        let change = Self { at, key, value: value.trim().to_owned() };
        change.apply(&LinkSpec::default())?;
        Ok(change)
    }
}

impl Change {
    /// The link after this change.
    fn apply(&self, spec: &LinkSpec) -> Result<LinkSpec, String> {
        let say = |error: serde_json::Error| error.to_string();
        let mut fields = serde_json::to_value(spec).map_err(say)?;
        fields[self.key.replace('-', "_")] =
            if self.key == "middlebox" { self.value.split_whitespace().collect() } else { self.value.as_str().into() };
        serde_json::from_value(fields).map_err(say)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}={}", self.at, self.key, self.value)
    }
}

/// The descriptions of the link, with the time of each.
pub(crate) type Timetable = Vec<(Duration, LinkSpec)>;

/// The link after each change, in order of time. Checks every change before anything runs; the error names the change.
pub(crate) fn timetable(first: &LinkSpec, changes: &[Change]) -> Result<Timetable, Box<dyn Error>> {
    let mut changes = changes.to_vec();
    changes.sort_by_key(|change| change.at);
    let mut spec = first.clone();
    let mut table = Timetable::new();
    for change in changes {
        spec = change.apply(&spec)?;
        lanes(&spec, |error| format!("--at {change}: {error}"))?;
        table.push((change.at.into(), spec.clone()));
    }
    Ok(table)
}

/// Applies the changes until the last one, or until `over` is closed.
pub(crate) fn follow(table: &Timetable, cable: &Cable, over: &Receiver<()>) {
    let start = Instant::now();
    for (at, spec) in table {
        let wait = at.saturating_sub(start.elapsed());
        if over.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        // Checked before the start, but a trace file may be gone, or the cable may have failed.
        if let Err(error) =
            spec.lanes().map_err(Box::<dyn Error>::from).and_then(|lanes: Lanes| Ok(cable.change(lanes)?))
        {
            crate::say(format_args!("cannot change the link: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(texts: &[&str]) -> Result<Timetable, String> {
        let changes: Result<Vec<Change>, String> = texts.iter().map(|text| text.parse()).collect();
        timetable(&LinkSpec { rtt: "18ms".parse().unwrap(), ..LinkSpec::default() }, &changes?)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn changes_accumulate_in_order_of_time() {
        let table = changes(&["8s:loss=0%", "5s:loss=100%", "8s:rate=1mbit"]).unwrap();
        let told: Vec<String> = table.iter().map(|(at, spec)| format!("{at:?} {spec}")).collect();
        assert_eq!(told, ["5s 18ms RTT, loss 100%", "8s 18ms RTT, loss 0%", "8s 18ms RTT, 1mbit, queue 100p, loss 0%"]);
    }

    #[test]
    fn invalid_changes_are_rejected_before_anything_runs() {
        assert_eq!(changes(&["soon"]).unwrap_err(), "write it like `5s:rate=1mbit`");
        assert!(changes(&["5s:rate=fast"]).unwrap_err().starts_with("`fast` is not a rate"));
        assert!(changes(&["5s:middlebox=strip-tfo strip-tof"]).unwrap_err().contains("unknown middlebox `strip-tof`"));
        assert!(changes(&["5s:queue=9p"]).unwrap_err().contains("--at 5s:queue=9p: the queue `9p` needs a bottleneck"));
        assert!(changes(&["5s:trace-up=/no/file"]).unwrap_err().contains("cannot read the trace file /no/file"));
    }

    #[test]
    fn error_lists_the_options_that_can_change() {
        for key in ["speed", "seed", "trace_up", ""] {
            let told = changes(&[&format!("5s:{key}=1")]).unwrap_err();
            assert!(told.starts_with(&format!("`{key}` cannot change; these can: rtt, ")), "{told}");
            assert!(told.contains("trace-up") && !told.contains(", seed"), "{told}");
        }
    }

    #[test]
    fn all_options_but_the_seed_can_change() {
        let unknown = serde_json::from_str::<LinkSpec>(r#"{"": 0}"#).unwrap_err().to_string();
        let names = unknown.split('`').skip(1).step_by(2).filter(|name| !name.is_empty() && *name != "seed");
        assert_eq!(names.collect::<Vec<_>>(), KEYS.map(|key| key.replace('-', "_")));
    }
}
