//! Asking the packets of each cell's typical sample what its time was spent on, when all is measured: while a rival
//! runs, the processors are its own.
//!
//! No result hangs on this. What cannot be read, or takes too long, is noted in the place of the answer.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use capture::{Error, Packet, Source};
use explain::Explanation;

use super::Run;
use crate::{
    attribution::{account, sentence, transfers},
    results::{Outcome, Sample, Why},
};

/// How long all cells together may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// The most packets of a capture that is read: some tens of bytes of each are kept.
const MOST: u64 = 2_000_000;

/// How many packets are read between two looks at the clock.
const STRETCH: u64 = 4096;

impl Run<'_> {
    /// What the time of each cell was spent on, in the order of the plan; none for a cell that has no result, and
    /// for all that are left when the user wants no more.
    pub fn explain(&self, outcomes: &[Outcome]) -> Vec<Option<Why>> {
        let deadline = Instant::now() + PATIENCE;
        let next = AtomicUsize::new(0);
        let work = || {
            let places = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
            let places = places.take_while(|place| *place < outcomes.len() && !self.is_cancelled());
            places.map(|place| (place, self.why(place, &outcomes[place], deadline))).collect::<Vec<_>>()
        };
        let mut reasons = vec![None; outcomes.len()];
        thread::scope(|scope| {
            let threads = thread::available_parallelism().map_or(1, usize::from).min(outcomes.len());
            let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            for (place, why) in threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()) {
                reasons[place] = why;
            }
        });
        reasons
    }

    fn why(&self, place: usize, outcome: &Outcome, deadline: Instant) -> Option<Why> {
        let Outcome::Done(samples) = outcome else { return None };
        let (capture, sample) = self.captures().typical(&self.plan.cells[place], samples)?;
        // A rule that is wrong about some odd packet must not take the whole race with it.
        let told = catch_unwind(AssertUnwindSafe(|| self.read(&capture, deadline)));
        let told = told.unwrap_or_else(|_| Err(format!("explain broke on {}", capture.display())));
        Some(told.and_then(|explanation| why(&explanation, sample)).unwrap_or_else(|error| Why {
            round: sample.round,
            seconds: [].into(),
            answer: format!("not explained: {error}"),
        }))
    }

    fn read(&self, capture: &Path, deadline: Instant) -> Result<Explanation, String> {
        let source = capture::open(capture, None).map_err(|error| error.to_string())?;
        let mut bounded = Bounded { source, run: self, deadline, packets: 0, udp: 0, stopped: None };
        let (explanation, broken) = explain::explain(&mut bounded);
        match (bounded.stopped, broken) {
            (Some(Stop::Time), _) => Err(format!("there was no time for {}", capture.display())),
            (Some(Stop::Size), _) => {
                Err(format!("{} has more than {MOST} packets; try `haul explain`", capture.display()))
            }
            (None, Some(error)) => Err(error.to_string()),
            // Where the link would seem idle, QUIC or DNS was under way.
            (None, None) if bounded.udp * 2 > bounded.packets => Err("it went over UDP, not TCP".into()),
            (None, None) => Ok(explanation),
        }
    }
}

/// A capture that ends early when there is no time for more of it.
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
        if self.packets.is_multiple_of(STRETCH) && (self.run.is_cancelled() || Instant::now() > self.deadline) {
            self.stopped = Some(Stop::Time);
        }
        let packet = if self.stopped.is_some() { None } else { self.source.next()? };
        self.packets += 1;
        self.udp += u64::from(packet.as_ref().is_some_and(|packet| packet.udp().is_some()));
        if packet.is_some() && self.packets > MOST {
            self.stopped = Some(Stop::Size);
            return Ok(None);
        }
        Ok(packet)
    }
}

fn why(explanation: &Explanation, sample: &Sample) -> Result<Why, String> {
    let began = sample.began.ok_or("the clock of the machine is before 1970")?;
    let account = account(&transfers(explanation, began), sample.seconds);
    let answer = sentence(&account, sample.methods.as_ref());
    let seconds = account.seconds.into_iter().map(|(cause, seconds)| (cause.to_owned(), seconds)).collect();
    Ok(Why { round: sample.round, seconds, answer })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, atomic::AtomicBool};

    use super::*;
    use crate::{servers, test_data};

    #[test]
    fn what_cannot_be_explained_says_so_and_fails_nothing() {
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
        assert!(run.explain(&outcomes).iter().all(Option::is_none), "the user wants no more");
    }
}
