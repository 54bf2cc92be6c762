//! What the machine's processors did in total: how long something waited for one, how much was used, and how much a
//! hypervisor took.

use std::{fs, time::Duration};

use nix::{
    sched::{CpuSet, sched_getaffinity},
    unistd::{Pid, SysconfVar, sysconf},
};

/// Counters of the processors that we may use. What runs on others takes nothing from us.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Processors {
    /// The time in which some thread waited for a processor (PSI); none if the kernel does not count it.
    pub(super) pressure: Option<Duration>,
    /// The time that they were busy together, in the kernel's ticks (10 ms).
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
        let ours = sched_getaffinity(Pid::from_raw(0)).ok();
        let ticks = ticks(&stat, |number| ours.as_ref().is_none_or(|set| is_in(set, number)));
        let time = |ticks: u64| Duration::from_secs_f64(ticks as f64 / per_second);
        (all.busy, all.stolen) = (time(ticks.busy), time(ticks.stolen));
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

fn is_in(set: &CpuSet, processor: usize) -> bool {
    set.is_set(processor).unwrap_or(false)
}

#[derive(Debug, Default, PartialEq)]
struct Ticks {
    busy: u64,
    stolen: u64,
}

/// The sums of the processors that are ours: of the lines `cpu0 user nice system idle iowait irq softirq steal …`
/// (proc_stat(5)).
fn ticks(stat: &str, is_ours: impl Fn(usize) -> bool) -> Ticks {
    let mut sums = Ticks::default();
    for line in stat.lines() {
        let Some((number, fields)) = line.strip_prefix("cpu").and_then(|line| line.split_once(' ')) else { continue };
        if !number.parse().is_ok_and(&is_ours) {
            continue;
        }
        let fields: Vec<u64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
        let [user, nice, system, _idle, _iowait, irq, softirq, stolen, ..] = fields[..] else { continue };
        sums.busy += user + nice + system + irq + softirq + stolen;
        sums.stolen += stolen;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_parsed() {
        let text = "some avg10=0.66 avg60=2.22 avg300=2.28 total=16075268\nfull avg10=0.00 total=7\n";
        assert_eq!(pressure(text), Some(Duration::from_micros(16_075_268)));
        assert_eq!(pressure(""), None);
        let stat =
            "cpu  20 20 30 400 50 6 7 8 9 9\ncpu0 10 20 30 400 50 6 7 8 9 9\ncpu1 10 0 0 0 0 0 0 0 0 0\ncpu2 1 2\n";
        let ticks_of = |ours: &[usize]| ticks(stat, |number| ours.contains(&number));
        assert_eq!(ticks_of(&[0]), Ticks { busy: 81, stolen: 8 });
        assert_eq!(ticks_of(&[0, 1, 2]), Ticks { busy: 91, stolen: 8 });
        assert_eq!(ticks_of(&[1]), Ticks { busy: 10, stolen: 0 }, "the others' work is not ours");
    }
}
