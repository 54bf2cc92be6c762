//! Explaining the capture of each cell's typical sample. This happens after all measurements, since until then the
//! processors belong to the contenders.
//!
//! No result depends on it. A capture that cannot be read, or takes too long, gets a note instead of an answer.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use capture::{Error, Packet, Source};
use explain::{Explanation, KeepPackets, KnownLink};

use super::Run;
use crate::{
    attribution::{account, sentence, transfers},
    known_link::known_link,
    results::{Outcome, Sample, TimeAttribution},
};

/// Time limit for all cells together.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// The maximum number of packets read from a capture; each takes some tens of bytes of memory.
const MAX_PACKETS: u64 = 2_000_000;

/// The number of packets between two checks of the clock.
const CHECK_INTERVAL: u64 = 4096;

impl Run<'_> {
    /// The attribution of each cell's time, in the order of the plan; none for a cell without a result, and for the
    /// remaining cells after a cancellation.
    pub fn explain(&self, outcomes: &[Outcome]) -> Vec<Option<TimeAttribution>> {
        let deadline = Instant::now() + TIME_LIMIT;
        let next = AtomicUsize::new(0);
        let work = || {
            let indices = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            let indices = indices.take_while(|index| *index < outcomes.len() && !self.is_cancelled());
            indices.map(|index| (index, self.why(index, &outcomes[index], deadline))).collect::<Vec<_>>()
        };
        let mut reasons = vec![None; outcomes.len()];
        thread::scope(|scope| {
            let threads = thread::available_parallelism().map_or(1, usize::from).min(outcomes.len());
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for (index, why) in threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()) {
                reasons[index] = why;
            }
        });
        reasons
    }

    fn why(&self, index: usize, outcome: &Outcome, deadline: Instant) -> Option<TimeAttribution> {
        let Outcome::Done(samples) = outcome else { return None };
        let cell = &self.plan.cells[index];
        let (capture, sample) = self.captures().typical(cell, samples)?;
        // A bug in a rule, triggered by an odd packet, must not lose the results of the race.
        let result = catch_unwind(AssertUnwindSafe(|| self.read(&capture, known_link(&cell.network.link), deadline)));
        let result = result.unwrap_or_else(|_| Err(format!("explain panicked on {}", capture.display())));
        Some(result.and_then(|explanation| why(&explanation, sample, cell.network.rtt())).unwrap_or_else(|error| {
            TimeAttribution { round: sample.round, seconds: [].into(), answer: format!("not explained: {error}") }
        }))
    }

    fn read(&self, capture: &Path, link: Option<KnownLink>, deadline: Instant) -> Result<Explanation, String> {
        let source = capture::open(capture, None).map_err(|error| error.to_string())?;
        let mut bounded = Bounded { source, run: self, deadline, packets: 0, udp: 0, stopped: None };
        let (explanation, broken) = explain::explain_on(link, &mut bounded, KeepPackets::default());
        match (bounded.stopped, broken) {
            (Some(Stop::Time), _) => Err(format!("no time left for {}", capture.display())),
            (Some(Stop::Size), _) => {
                Err(format!("{} has more than {MAX_PACKETS} packets; try `haul explain`", capture.display()))
            }
            (None, Some(error)) => Err(error.to_string()),
            // TCP alone would show an idle link while QUIC or DNS was in flight.
            (None, None) if bounded.udp * 2 > bounded.packets => Err("the traffic was UDP, not TCP".into()),
            (None, None) => Ok(explanation),
        }
    }
}

/// A capture that ends early when the time or the packets run out.
struct Bounded<'a> {
    source: Box<dyn Source + Send>,
    run: &'a Run<'a>,
    deadline: Instant,
    packets: u64,
    udp: u64,
    stopped: Option<Stop>,
}

enum Stop {
    Time,
    Size,
}

impl Source for Bounded<'_> {
    fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        if self.packets.is_multiple_of(CHECK_INTERVAL) && (self.run.is_cancelled() || Instant::now() > self.deadline) {
            self.stopped = Some(Stop::Time);
        }
        let packet = if self.stopped.is_some() { None } else { self.source.next()? };
        self.packets += 1;
        self.udp += u64::from(packet.as_ref().is_some_and(|packet| packet.udp().is_some()));
        if packet.is_some() && self.packets > MAX_PACKETS {
            self.stopped = Some(Stop::Size);
            return Ok(None);
        }
        Ok(packet)
    }
}

fn why(explanation: &Explanation, sample: &Sample, rtt: Duration) -> Result<TimeAttribution, String> {
    let began = sample.began.ok_or("the clock of the machine is before 1970")?;
    let mut account = account(&transfers(explanation, began), sample.seconds);
    if let Some(machine) = &sample.machine {
        account.charge_machine(machine.delays(sample.measured(rtt)));
    }
    let answer = sentence(&account, sample.methods.as_ref());
    let seconds = account.seconds.into_iter().map(|(cause, seconds)| (cause.to_owned(), seconds)).collect();
    Ok(TimeAttribution { round: sample.round, seconds, answer })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicBool};

    use super::*;
    use crate::{servers, test_data};

    #[test]
    fn captures_that_cannot_be_explained_get_a_note() {
        let folder = tempfile::tempdir().unwrap();
        let (plan, servers) = (test_data::plan(1), servers::all());
        let outcomes = test_data::outcomes(&plan, 1.0, &["davfs2"]);
        let broken = folder.path().join("upload-small-article-curl.pcapng");
        std::fs::write(&broken, "no capture").unwrap();
        let mut run = Run {
            plan: &plan,
            server: servers[0].as_ref(),
            tls: false,
            seed: 1,
            sample_timeout: Duration::ZERO,
            scratch: folder.path(),
            captures: folder.path(),
            cancel: Arc::default(),
        };
        let reasons = run.explain(&outcomes);
        assert_eq!(reasons.len(), outcomes.len());
        for (outcome, why) in outcomes.iter().zip(reasons) {
            let Outcome::Done(_) = outcome else {
                assert_eq!(why, None);
                continue;
            };
            let why = why.unwrap();
            assert!(why.answer.starts_with("not explained: ") && why.answer.contains(".pcapng"), "{why:?}");
            assert!(why.seconds.is_empty());
        }
        run.cancel = Arc::new(AtomicBool::new(true));
        assert!(run.explain(&outcomes).iter().all(Option::is_none), "cancelled");
    }
}
