//! Ending with the program that started `haul`.
//!
//! A program that calls `haul` may be killed before it can end it. So that no measurement goes on without its caller, the
//! caller gives its process ID in `HAUL_PARENT`, and the kernel then tells us of its end (prctl(2), `PR_SET_PDEATHSIG`).

use nix::{
    sys::{prctl, signal::Signal},
    unistd::getppid,
};

/// Receives SIGTERM when the thread that started this process ends, if `HAUL_PARENT` names its process. Programs that
/// this one starts inherit the variable, but have another parent.
pub(crate) fn end_with_parent() {
    let parent = std::env::var("HAUL_PARENT").ok().and_then(|pid| pid.parse().ok());
    if parent == Some(getppid().as_raw()) {
        let _ = prctl::set_pdeathsig(Signal::SIGTERM);
    }
}
