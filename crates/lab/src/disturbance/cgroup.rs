//! CPU limits of control groups (cgroups): how long the kernel stopped our threads because their group had used up its
//! quota.
//!
//! Container hosts limit CPU this way. A group may run for so long in each period (100 ms by default), and is **throttled**
//! for the rest: all its threads stop, as if there were no processor. Neither other programs nor a hypervisor need have
//! used any time, so that nothing else says it. The kernel counts it in the group's `cpu.stat` (cgroup-v2.rst,
//! sched-bwc.rst).
//!
//! A limit of any group above ours holds us back too. In a container, the groups above are out of sight, and a path of the
//! host's may be all that `/proc/self/cgroup` tells; its own group is then the root of what is mounted. So each group
//! on the way from the path to the root counts if it is there.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// Where cgroups are mounted.
const ROOT: &str = "/sys/fs/cgroup";

/// The kernel's default period of a quota.
const DEFAULT_PERIOD: Duration = Duration::from_millis(100);

/// What the limits of our groups have done until now.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Limits(Vec<Limit>);

/// What the limit of a group has done until now.
#[derive(Debug, Clone, PartialEq)]
struct Limit {
    group: PathBuf,
    /// Periods in which it was throttled.
    throttled: u32,
    /// The time for which it was, summed over its processors.
    time: Duration,
    period: Duration,
}

impl Limits {
    pub(super) fn read() -> Self {
        Self::of(&fs::read_to_string("/proc/self/cgroup").unwrap_or_default(), Path::new(ROOT))
    }

    /// The limits of the groups in `/proc/self/cgroup`, of which each line is `NUMBER:CONTROLLERS:PATH`; version 2 has
    /// no controllers.
    fn of(cgroup: &str, root: &Path) -> Self {
        let mut limits = Vec::new();
        for line in cgroup.lines() {
            let Some((controllers, path)) = line.split_once(':').and_then(|(_, rest)| rest.split_once(':')) else {
                continue;
            };
            // Beside version 1, version 2 is mounted at `unified`, and has no CPU limits.
            let mounted = match controllers {
                "" => root.to_owned(),
                _ if controllers.split(',').any(|one| one == "cpu") => {
                    let usual = root.join("cpu");
                    if usual.exists() { usual } else { root.join(controllers) }
                }
                _ => continue,
            };
            let own = mounted.join(path.trim_start_matches('/'));
            let groups = own.ancestors().take_while(|group| group.starts_with(&mounted));
            limits.extend(groups.filter_map(Limit::of));
        }
        Self(limits)
    }

    /// For how long the limits stopped our threads since `earlier`, at most.
    pub(super) fn since(&self, earlier: &Self) -> Duration {
        let then = |group: &Path| earlier.0.iter().find(|limit| limit.group == group);
        self.0.iter().filter_map(|limit| Some(limit.since(then(&limit.group)?))).sum()
    }
}

impl Limit {
    fn of(group: &Path) -> Option<Self> {
        let stat = fs::read_to_string(group.join("cpu.stat")).ok()?;
        let (throttled, time) = throttling(&stat)?;
        let microseconds = |text: &str| text.trim().parse().ok().map(Duration::from_micros);
        let period = fs::read_to_string(group.join("cpu.max"))
            .ok()
            .and_then(|text| microseconds(text.split_once(' ')?.1))
            .or_else(|| microseconds(&fs::read_to_string(group.join("cpu.cfs_period_us")).ok()?));
        Some(Self { group: group.to_owned(), throttled, time, period: period.unwrap_or(DEFAULT_PERIOD) })
    }

    /// The time is a sum over processors, which are throttled at the same time. In a period they are for less than the period.
    fn since(&self, earlier: &Self) -> Duration {
        let periods = self.throttled.saturating_sub(earlier.throttled).saturating_add(1);
        self.time.saturating_sub(earlier.time).min(self.period.saturating_mul(periods))
    }
}

/// The number of throttled periods and the throttled time in a `cpu.stat`: `throttled_usec` of version 2, `throttled_time`
/// (in nanoseconds) of version 1; none if the group has no limit to count for.
fn throttling(stat: &str) -> Option<(u32, Duration)> {
    let value = |name: &str| {
        let mut fields = stat.lines().filter_map(|line| line.split_once(' '));
        fields.find(|(field, _)| *field == name)?.1.trim().parse::<u64>().ok()
    };
    let time = value("throttled_usec").map(Duration::from_micros);
    let time = time.or_else(|| value("throttled_time").map(Duration::from_nanos))?;
    Some((u32::try_from(value("nr_throttled")?).unwrap_or(u32::MAX), time))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const V2: &str = "usage_usec 9000\nuser_usec 1\nsystem_usec 1\nnr_periods 90\nnr_throttled 40\nthrottled_usec 1500000\n\
         nr_bursts 0\nburst_usec 0\n";
    const V1: &str = "nr_periods 90\nnr_throttled 40\nthrottled_time 1500000000\n";

    fn group(root: &TempDir, path: &str, files: &[(&str, &str)]) {
        let folder = root.path().join(path);
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    /// Milliseconds since nothing had been throttled.
    fn throttled_ms(cgroup: &str, root: &TempDir) -> u128 {
        let now = Limits::of(cgroup, root.path());
        let mut earlier = now.clone();
        for limit in &mut earlier.0 {
            (limit.throttled, limit.time) = (0, Duration::ZERO);
        }
        now.since(&earlier).as_millis()
    }

    #[test]
    fn cpu_stat_of_both_versions_is_parsed() {
        let expected = Some((40, Duration::from_millis(1500)));
        assert_eq!([V2, V1].map(throttling), [expected, expected]);
        // Without the CPU controller, and cut off.
        for text in
            ["usage_usec 9000\nuser_usec 1\nsystem_usec 1\n", "", "nr_throttled 40\n", "throttled_usec 7\n", "x"]
        {
            assert_eq!(throttling(text), None, "{text}");
        }
        assert_eq!(throttling("nr_throttled 40\nthrottled_usec -1\n"), None);
    }

    #[test]
    fn limits_of_all_groups_above_count() {
        let root = TempDir::new().unwrap();
        group(&root, "a/b/c", &[("cpu.stat", V2), ("cpu.max", "50000 100000\n")]);
        group(&root, "a/b", &[("cpu.stat", V2), ("cpu.max", "max 100000\n")]);
        group(&root, "", &[("cpu.stat", "usage_usec 9000\n")]);
        group(&root, "a/b/sibling", &[("cpu.stat", V2)]);
        assert_eq!(throttled_ms("0::/a/b/c\n", &root), 3000);
        assert_eq!(throttled_ms("0::/a/b\n", &root), 1500);
        assert_eq!(throttled_ms("0::/a\n", &root), 0);
    }

    #[test]
    fn version_1_is_found_where_it_is_mounted() {
        let root = TempDir::new().unwrap();
        group(&root, "cpu,cpuacct/a", &[("cpu.stat", V1), ("cpu.cfs_period_us", "100000\n")]);
        assert_eq!(throttled_ms("4:cpu,cpuacct:/a\n3:cpuset:/a\n0::/a\n", &root), 1500);
        let root = TempDir::new().unwrap();
        group(&root, "cpu/a", &[("cpu.stat", V1)]);
        assert_eq!(throttled_ms("1:cpu:/a\n9:name=systemd:/\n", &root), 1500);
    }

    #[test]
    fn container_that_shows_the_path_of_its_host_has_its_group_at_the_root() {
        let root = TempDir::new().unwrap();
        group(&root, "cpu", &[("cpu.stat", V1)]);
        assert_eq!(throttled_ms("4:cpu:/docker/0123\n", &root), 1500);
    }

    #[test]
    fn processors_that_are_throttled_at_the_same_time_count_once() {
        let root = TempDir::new().unwrap();
        let many = "nr_throttled 4\nthrottled_usec 9000000\n";
        group(&root, "a", &[("cpu.stat", many), ("cpu.max", "50000 20000\n")]);
        // One more, which may have begun before.
        assert_eq!(throttled_ms("0::/a\n", &root), 5 * 20);
        group(&root, "a", &[("cpu.max", "unreadable")]);
        assert_eq!(throttled_ms("0::/a\n", &root), 5 * 100);
    }

    #[test]
    fn missing_files_are_no_limit() {
        let root = TempDir::new().unwrap();
        for cgroup in ["", "0::/gone\n", "4:cpu:/gone\n", "no cgroup\n", "0::/../..\n"] {
            assert_eq!(throttled_ms(cgroup, &root), 0, "{cgroup}");
        }
        // A group that appears while we measure.
        group(&root, "new", &[("cpu.stat", V2)]);
        assert_eq!(Limits::of("0::/new", root.path()).since(&Limits::default()), Duration::ZERO);
    }
}
