//! Whether a program that waits for a call has been asked to stop.
//!
//! The kernel tells a FUSE file system of signals by FUSE_INTERRUPT, which `fuser` answers with ENOSYS; from then on the kernel
//! waits until the call is answered, even if the program is killed (`request_wait_answer` in fs/fuse/dev.c). So /proc has to
//! tell. It may hide the program (hidepid, another PID namespace): then nothing is interrupted, and calls end after
//! `--timeout`.
//!
//! EINTR ends a call for good, because a file system cannot have it restarted (SA_RESTART). Many programs get signals all the
//! time and do not expect that of files: `git` has a timer for its progress, `make` is told of its children. So what counts
//! is what ends the program, and of the signals that it catches those by which somebody asks it to stop.

use std::fs;

use nix::libc::{
    SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH,
};

/// Those that end no program unless it catches them (signal(7)).
const HARMLESS: u64 = bits(&[SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU, SIGURG, SIGWINCH]);
/// Those that ask a program to stop.
const REQUESTS: u64 = bits(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM]);
/// The flag of a task that ends (`PF_EXITING` in include/linux/sched.h).
const EXITING: u64 = 4;
/// The places of the flags and the exit code in /proc/PID/stat, behind the name (proc_pid_stat(5)).
const FLAGS: usize = 9 - 3;
const EXIT_CODE: usize = 52 - 3;

const fn bits(signals: &[i32]) -> u64 {
    let (mut bits, mut at) = (0, 0);
    while at < signals.len() {
        bits |= 1 << (signals[at] - 1);
        at += 1;
    }
    bits
}

/// Whether the thread `pid` should not wait for a call any longer.
pub(crate) fn has_to_stop(pid: u32) -> bool {
    let read = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
    // 0: it is in another PID namespace, or the kernel itself.
    pid != 0 && (is_asked_to_stop(&read("status")) || was_killed(&read("stat")))
}

/// Whether a signal is pending that should end a call, by /proc/PID/status.
fn is_asked_to_stop(status: &str) -> bool {
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    };
    let pending = mask("SigPnd") | mask("ShdPnd");
    let caught = mask("SigCgt");
    let deadly = !caught & !HARMLESS;
    let open = pending & !mask("SigBlk") & !mask("SigIgn");
    pending & bits(&[SIGKILL]) != 0 || open & (deadly | caught & REQUESTS) != 0
}

/// Whether a signal is ending it, by /proc/PID/stat. What was open is then closed, and nobody learns whether that failed.
fn was_killed(stat: &str) -> bool {
    // The name may contain anything.
    let Some((_, fields)) = stat.rsplit_once(')') else { return false };
    let number = |at: usize| fields.split_whitespace().nth(at).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    number(FLAGS) & EXITING != 0 && number(EXIT_CODE) & 0x7f != 0
}

#[cfg(test)]
mod tests {
    use nix::libc::{SIGALRM, SIGUSR1};

    use super::*;

    fn status(own: &[i32], shared: &[i32], blocked: &[i32], ignored: &[i32], caught: &[i32]) -> String {
        let [own, shared, blocked, ignored, caught] = [own, shared, blocked, ignored, caught].map(bits);
        format!(
            "Name:\tSigPnd: ffffffffffffffff\nState:\tD (disk sleep)\nSigPnd:\t{own:016x}\nShdPnd:\t{shared:016x}\n\
             SigBlk:\t{blocked:016x}\nSigIgn:\t{ignored:016x}\nSigCgt:\t{caught:016x}\nCapInh:\t0000000000000000\n"
        )
    }

    #[test]
    fn a_deadly_signal_ends_a_call() {
        for signal in [SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGKILL] {
            assert!(is_asked_to_stop(&status(&[signal], &[], &[], &[], &[])));
            assert!(is_asked_to_stop(&status(&[], &[signal], &[], &[], &[])));
        }
        assert!(is_asked_to_stop(&status(&[], &[SIGKILL], &[SIGKILL], &[SIGKILL], &[])), "nobody can block it");
        assert!(!is_asked_to_stop(&status(&[], &[], &[], &[], &[SIGINT])));
    }

    #[test]
    fn a_signal_that_the_program_does_not_want_ends_no_call() {
        assert!(!is_asked_to_stop(&status(&[SIGINT], &[], &[SIGINT], &[], &[])));
        assert!(!is_asked_to_stop(&status(&[], &[SIGINT], &[], &[SIGINT], &[])));
    }

    #[test]
    fn a_program_that_catches_signals_is_interrupted_only_by_requests_to_stop() {
        let caught = [SIGINT, SIGTERM, SIGALRM, SIGCHLD, SIGURG];
        assert!(is_asked_to_stop(&status(&[], &[SIGINT], &[], &[], &caught)));
        assert!(is_asked_to_stop(&status(&[], &[SIGTERM], &[], &[], &caught)));
        for signal in [SIGALRM, SIGCHLD, SIGURG] {
            assert!(!is_asked_to_stop(&status(&[], &[signal], &[], &[], &caught)));
        }
    }

    #[test]
    fn stopping_a_program_ends_no_call() {
        for signal in [SIGSTOP, SIGTSTP, SIGCONT, SIGCHLD] {
            assert!(!is_asked_to_stop(&status(&[], &[signal], &[], &[], &[])));
        }
    }

    #[test]
    fn only_a_program_that_a_signal_ends_was_killed() {
        let stat = |flags: u64, code: u64| {
            let between = ["0"; 42].join(" ");
            format!("12 (a) b) D 1 12 12 0 -1 {flags} {between} {code}\n")
        };
        assert!(was_killed(&stat(0x40_0004, 9)));
        assert!(was_killed(&stat(EXITING, 0x80 | 0xb)), "with a core");
        assert!(!was_killed(&stat(EXITING, 0)));
        assert!(!was_killed(&stat(EXITING, 1 << 8)), "exit(1)");
        assert!(!was_killed(&stat(0x40_0000, 9)));
    }

    #[test]
    fn nonsense_ends_no_call() {
        for text in ["", "SigPnd:", "SigPnd:\tzz\n", "1 (x", ")", "12 (a) D"] {
            assert!(!is_asked_to_stop(text) && !was_killed(text), "{text}");
        }
        assert!(!has_to_stop(0) && !has_to_stop(std::process::id()));
    }
}
