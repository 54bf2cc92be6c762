//! A run that takes hours is confirmed on a terminal first.

use std::{
    io::{self, BufRead, IsTerminal, Write as _},
    time::Duration,
};

use units::rounded;

use crate::say;

/// Shorter runs start at once.
const LONG: Duration = Duration::from_hours(1);

/// Says how long a long run takes and, on a terminal, asks whether to start it. `what` is its size: `1645 samples`.
pub(super) fn ask(what: &str, time: Duration, has_consent: bool) -> Result<(), String> {
    if time < LONG {
        return Ok(());
    }
    say(format_args!("{what}: {}; --quick, --samples or --network measure less", about(time)));
    if has_consent || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(());
    }
    let _ = write!(io::stderr(), "Start? [y/N] ");
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    Err("not started; --yes starts it without a question".to_owned())
}

/// `about 4 hours`, from 90 minutes on.
fn about(time: Duration) -> String {
    let hours = (time.as_secs_f64() / 3600.0).round();
    if hours < 2.0 { format!("about {}", rounded::time(time)) } else { format!("about {hours:.0} hours") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_said_in_hours() {
        let said = [75, 240].map(|minutes| about(Duration::from_mins(minutes)));
        assert_eq!(said, ["about 75 min", "about 4 hours"]);
    }

    #[test]
    fn short_run_needs_no_consent() {
        assert_eq!(ask("48 samples", Duration::from_mins(3), false), Ok(()));
    }
}
