//! Links that change while the command runs: `--at 5s:loss=100% --at 8s:loss=0%`.

use std::{
    error::Error,
    str::FromStr,
    sync::mpsc::{Receiver, RecvTimeoutError},
    time::{Duration, Instant},
};

use link::{cable::Cable, lanes::Lanes, spec::LinkSpec, units::Span};

/// One value that changes at one time.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    at: Span,
    key: String,
    value: String,
}

impl FromStr for Change {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(at, rest)| Some((at, rest.split_once('=')?)));
        let Some((at, (key, value))) = parts else { return Err("write it like 5s:rate=1mbit".to_owned()) };
        let at = at.parse().map_err(|error| format!("{error}"))?;
        Ok(Self { at, key: key.trim().replace('-', "_"), value: value.trim().to_owned() })
    }
}

/// What a link is, and from when on.
pub(crate) type Timetable = Vec<(Duration, LinkSpec)>;

/// The link after each change, in the order of their times. Every one is checked here, before anything
/// runs.
pub(crate) fn timetable(first: &LinkSpec, changes: &[Change]) -> Result<Timetable, Box<dyn Error>> {
    let mut changes = changes.to_vec();
    changes.sort_by_key(|change| change.at);
    let mut spec = first.clone();
    let mut table = Timetable::new();
    for Change { at, key, value } in changes {
        let mut fields = serde_json::to_value(&spec)?;
        let boxes: Vec<&str> = value.split_whitespace().collect();
        fields[&key] = if key == "middlebox" { boxes.into() } else { value.as_str().into() };
        spec = serde_json::from_value(fields).map_err(|error| format!("--at {at}:{key}={value}: {error}"))?;
        spec.lanes()?;
        table.push((at.into(), spec.clone()));
    }
    Ok(table)
}

/// Changes the cable by the timetable until that ends or `over` is closed.
pub(crate) fn follow(table: &Timetable, cable: &Cable, over: &Receiver<()>) {
    let start = Instant::now();
    for (at, spec) in table {
        let wait = at.saturating_sub(start.elapsed());
        if over.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
            return;
        }
        // Checked before; a trace file that has gone since, or a broken cable, leaves the link as it is.
        if let Err(error) =
            spec.lanes().map_err(Box::<dyn Error>::from).and_then(|lanes: Lanes| Ok(cable.change(lanes)?))
        {
            eprintln!("haul: the link stays as it is: {error}");
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
    fn changes_add_up_in_the_order_of_their_times() {
        let table = changes(&["8s:loss=0%", "5s:loss=100%", "8s:rate=1mbit"]).unwrap();
        let told: Vec<String> = table.iter().map(|(at, spec)| format!("{at:?} {spec}")).collect();
        assert_eq!(told, ["5s 18ms RTT, loss 100%", "8s 18ms RTT, loss 0%", "8s 18ms RTT, 1mbit, queue 100p, loss 0%"]);
    }

    #[test]
    fn what_makes_no_sense_is_told_before_anything_runs() {
        assert_eq!(changes(&["soon"]).unwrap_err(), "write it like 5s:rate=1mbit");
        assert!(changes(&["5s:rate=fast"]).unwrap_err().starts_with("--at 5s:rate=fast: `fast` is not a rate"));
        assert!(changes(&["5s:speed=1mbit"]).unwrap_err().contains("unknown field `speed`"));
    }
}
