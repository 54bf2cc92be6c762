//! Failures for the terminal: those with the same reason are one line.
//!
//! A server that fails for one file fails for twenty. So failures wait until the command ends, and are then grouped by reason.
//! A long transfer prints them earlier, at growing intervals, since nobody should hear after hours what went wrong in the
//! first minute.

use std::{
    fmt::Write,
    time::{Duration, Instant},
};

/// Failures with the same reason are listed one by one up to this number, and so many names are in their line otherwise.
const FEW: usize = 3;
/// How long failures wait the first time; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_secs(5);

/// Failures that have not been printed yet.
#[derive(Debug)]
pub(crate) struct Failures {
    groups: Vec<Group>,
    oldest: Option<Instant>,
    wait: Duration,
}

#[derive(Debug)]
struct Group {
    reason: String,
    /// The first messages, each once: all files of a folder fail with the message of the folder.
    messages: Vec<String>,
    names: Vec<String>,
    count: usize,
}

impl Default for Failures {
    fn default() -> Self {
        Self { groups: Vec::new(), oldest: None, wait: FIRST_WAIT }
    }
}

impl Failures {
    /// Adds a failure with its whole message, and what of it is the reason.
    pub(crate) fn add(&mut self, name: &str, message: &str, reason: &str) {
        self.oldest.get_or_insert_with(Instant::now);
        let index = self.groups.iter().position(|group| group.reason == reason).unwrap_or_else(|| {
            let (messages, names, count) = Default::default();
            self.groups.push(Group { reason: reason.to_owned(), messages, names, count });
            self.groups.len() - 1
        });
        let group = &mut self.groups[index];
        group.count += 1;
        if group.names.len() < FEW {
            group.names.push(name.to_owned());
        }
        if group.messages.len() <= FEW && !group.messages.iter().any(|known| known == message) {
            group.messages.push(message.to_owned());
        }
    }

    /// The lines to print in a command that goes on: none before the failures have waited long enough.
    pub(crate) fn due(&mut self, now: Instant) -> Vec<String> {
        match self.oldest {
            Some(oldest) if now.duration_since(oldest) >= self.wait => {
                self.wait *= 2;
                self.take()
            }
            _ => Vec::new(),
        }
    }

    /// The lines to print now.
    pub(crate) fn take(&mut self) -> Vec<String> {
        self.oldest = None;
        self.groups.drain(..).flat_map(Group::lines).collect()
    }
}

impl Group {
    fn lines(self) -> Vec<String> {
        let Self { reason, messages, names, count } = self;
        if messages.len() <= FEW {
            return messages;
        }
        let mut line = format!("{count} files: {reason} ({}", names.join(", "));
        if let Some(more @ 1..) = count.checked_sub(names.len()) {
            let _ = write!(line, " and {more} more; -v lists all");
        }
        vec![line + ")"]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_reasons_become_one_line_and_others_stay() {
        let mut failures = Failures::default();
        for number in 0..20 {
            failures.add(
                &format!("/{number}"),
                &format!("PUT /{number}: the server failed (500)"),
                "the server failed (500)",
            );
        }
        failures.add("/x", "/x: not found", "not found");
        let lines = failures.take();
        assert_eq!(
            lines,
            ["20 files: the server failed (500) (/0, /1, /2 and 17 more; -v lists all)", "/x: not found"]
        );
        assert!(failures.take().is_empty());
    }

    #[test]
    fn message_of_a_folder_is_printed_once_for_all_its_files() {
        let mut failures = Failures::default();
        for number in 0..20 {
            failures.add(&format!("/a/{number}"), "/a/: permission denied", "permission denied");
        }
        assert_eq!(failures.take(), ["/a/: permission denied"]);
    }

    #[test]
    fn failures_of_a_long_command_are_printed_at_growing_intervals() {
        let (mut failures, begin) = (Failures::default(), Instant::now());
        let mut printed = Vec::new();
        for second in 0..3600 {
            failures.add("/a", &format!("/{second}: gone"), "gone");
            // The failure was added no earlier than `begin`.
            printed.extend((!failures.due(begin + Duration::from_secs(second)).is_empty()).then_some(second));
            failures.oldest =
                failures.oldest.map(|_| begin + Duration::from_secs(printed.last().copied().unwrap_or(0)));
        }
        assert!((5..15).contains(&printed.len()), "{printed:?}");
    }
}
