//! Changes of the link while the command runs: `--at 5s:loss=100% --at 8s:loss=0%`.

use std::{
    error::Error,
    fmt,
    str::FromStr,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use link::{
    spec::{Change, LinkSpec},
    topology::{Network, Topology},
};
use units::Span;

use crate::link::lanes;

/// One value that changes at one time.
#[derive(Debug, Clone)]
pub(crate) struct TimedChange {
    at: Span,
    change: Change,
}

impl FromStr for TimedChange {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').filter(|(_, change)| change.contains('='));
        let Some((at, change)) = parts else { return Err("write it like `5s:rate=1mbit`".to_owned()) };
        let at = at.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { at, change: change.parse().map_err(|error| format!("{error}"))? })
    }
}

impl fmt::Display for TimedChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at, self.change)
    }
}

/// A coming change, and the cable as it will be then, if nothing else changes it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Coming {
    pub(crate) at: Duration,
    change: Change,
    /// The index of the cable.
    pub(crate) cable: usize,
    pub(crate) spec: LinkSpec,
}

/// The changes in order of time.
pub(crate) type Timetable = Vec<Coming>;

/// Puts the changes in order. Checks every change before anything runs; the error names the change.
pub(crate) fn timetable(topology: &Topology, changes: &[TimedChange]) -> Result<Timetable, Box<dyn Error>> {
    let mut changes = changes.to_vec();
    changes.sort_by_key(|change| change.at);
    let mut specs: Vec<_> = topology.cables.iter().map(|cable| cable.spec.clone()).collect();
    let mut table = Timetable::new();
    for timed in changes {
        let cable = topology.change(&mut specs, &timed.change);
        let cable = cable.map_err(|error| crate::usage(format!("--at {timed}: {error}")))?;
        lanes(&specs[cable], |error| format!("--at {timed}: {error}"))?;
        table.push(Coming { at: timed.at.into(), change: timed.change, cable, spec: specs[cable].clone() });
    }
    Ok(table)
}

/// Applies the changes until the last one, or until `over` is closed.
pub(crate) fn follow(table: &Timetable, network: &Network, over: &Receiver<()>) {
    let start = Instant::now();
    for Coming { at, change, .. } in table {
        let wait = at.saturating_sub(start.elapsed());
        if over.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        // Checked before the start, but a trace file may be gone, or the cable may have failed.
        if let Err(error) = network.change(std::slice::from_ref(change)) {
            crate::say(format_args!("cannot change the link: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(texts: &[&str]) -> Result<Timetable, String> {
        let changes: Result<Vec<TimedChange>, String> = texts.iter().map(|text| text.parse()).collect();
        let spec = LinkSpec { rtt: "18ms".parse().unwrap(), ..LinkSpec::default() };
        timetable(&Topology::pair(spec, None), &changes?).map_err(|error| error.to_string())
    }

    #[test]
    fn changes_accumulate_in_order_of_time() {
        let table = changes(&["8s:loss=0%", "5s:loss=100%", "8s:rate=1mbit"]).unwrap();
        let told: Vec<String> = table.iter().map(|coming| format!("{:?} {}", coming.at, coming.spec)).collect();
        assert_eq!(told, ["5s 18ms RTT, loss 100%", "8s 18ms RTT, loss 0%", "8s 18ms RTT, 1mbit, queue 100p, loss 0%"]);
    }

    #[test]
    fn invalid_changes_are_rejected_before_anything_runs() {
        for wrong in ["soon", "5s:soon", "5s"] {
            assert_eq!(changes(&[wrong]).unwrap_err(), "write it like `5s:rate=1mbit`");
        }
        assert!(changes(&["5s:rate=fast"]).unwrap_err().starts_with("`fast` is not a rate"));
        assert!(changes(&["5s:middlebox=strip-tfo strip-tof"]).unwrap_err().contains("unknown middlebox `strip-tof`"));
        assert!(changes(&["5s:queue=9p"]).unwrap_err().contains("--at 5s:queue=9p: the queue `9p` needs a bottleneck"));
        assert!(changes(&["5s:trace-up=/no/file"]).unwrap_err().contains("cannot read the trace file /no/file"));
        assert!(changes(&["5s:wan.loss=1%"]).unwrap_err().contains("--at 5s:wan.loss=1%: there is no cable `wan`"));
    }
}
