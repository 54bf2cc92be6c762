//! What the machine's processors did in total: how long something waited for one, how much was used, and how much a
//! hypervisor took.

use std::{fs, time::Duration};

use nix::unistd::{SysconfVar, sysconf};

/// Counters of the whole machine.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Processors {
    /// The time in which some thread waited for a processor (PSI); none if the kernel does not count it.
    pub(super) pressure: Option<Duration>,
    /// The time that all processors together were busy, in the kernel's ticks (10 ms).
    pub(super) busy: Duration,
    /// The part of it that the hypervisor took for other machines.
    pub(super) stolen: Duration,
    /// Threads that want a processor right now.
    pub(super) running: u32,
}

impl Processors {
    pub(super) fn read() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let mut all = Self { pressure: pressure(&read("/proc/pressure/cpu")), ..Self::default() };
        let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().unwrap_or(100) as f64;
        let stat = read("/proc/stat");
        if let Some(ticks) = stat.lines().next().and_then(ticks) {
            let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / per_second);
            (all.busy, all.stolen) = (time(ticks.busy), time(ticks.stolen));
        }
        let running = stat.lines().find_map(|line| line.strip_prefix("procs_running ")?.trim().parse().ok());
        all.running = running.unwrap_or_default();
        all
    }
}

/// `some avg10=… avg60=… avg300=… total=MICROSECONDS` (psi.rst).
fn pressure(text: &str) -> Option<Duration> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    Some(Duration::from_micros(some.rsplit_once("total=")?.1.trim().parse().ok()?))
}

struct Ticks {
    busy: u64,
    stolen: u64,
}

/// `cpu  user nice system idle iowait irq softirq steal …` (proc_stat(5)).
fn ticks(line: &str) -> Option<Ticks> {
    let fields: Vec<u64> =
        line.strip_prefix("cpu ")?.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = fields[..] else { return None };
    Some(Ticks { busy: user + nice + system + irq + softirq + stolen, stolen })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed() {
        let text = "some avg10=0.66 avg60=2.22 avg300=2.28 total=16075268\nfull avg10=0.00 total=7\n";
        assert_eq!(pressure(text), Some(Duration::from_micros(16_075_268)));
        assert_eq!(pressure(""), None);
        let ticks = ticks("cpu  10 20 30 400 50 6 7 8 9 9").unwrap();
        assert_eq!((ticks.busy, ticks.stolen), (81, 8));
        assert!(super::ticks("cpu  1 2").is_none());
    }
}
