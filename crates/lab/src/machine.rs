//! The machine of a run: whether its memory suffices, and what it is. The record holds everything that
//! influences a result.

use std::{collections::BTreeMap, fs, path::Path};

use link::host::Host;
use nix::sys::statvfs::statvfs;
use units::rounded::binary_size;

use crate::{
    contenders,
    experiment::{Plan, Workload},
    results,
    servers::Server,
    testbed::{self, TestbedError},
    work::Work,
};

/// The sysctl that names a host's congestion control.
pub const CONGESTION_CONTROL: &str = "net.ipv4.tcp_congestion_control";

/// The settings of TCP that decide how fast a transfer is.
const SYSCTLS: [&str; 9] = [
    CONGESTION_CONTROL,
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_wmem",
];

/// The machine, the settings of its hosts, and the programs of `plan`.
pub fn record(plan: &Plan, server: &dyn Server) -> Result<results::Host, TestbedError> {
    let host = Host::new("probe")?;
    let _ = host.sysctl(CONGESTION_CONTROL, testbed::CONGESTION_CONTROL);
    let sysctls = SYSCTLS.iter().filter_map(|name| Some(((*name).to_owned(), host.read_sysctl(name).ok()?))).collect();
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    Ok(results::Host {
        name: read("/proc/sys/kernel/hostname").trim().to_owned(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        cpu: processor(&read("/proc/cpuinfo")),
        sysctls,
        tools: tools(plan, server),
    })
}

fn processor(cpuinfo: &str) -> String {
    let models: Vec<&str> = cpuinfo
        .lines()
        .filter_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map(|(_, model)| model)
        .collect();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{} × {}", cores, models.first().unwrap_or(&"unknown processor"))
}

/// The versions of all programs, and the settings of server and contenders that differ from the defaults.
fn tools(plan: &Plan, server: &dyn Server) -> BTreeMap<String, String> {
    let mut tools = BTreeMap::new();
    let mut add = |owner: &str, settings: Vec<(String, String)>| {
        let text: Vec<String> = settings.iter().map(|(name, value)| setting(name, value)).collect();
        if !text.is_empty() {
            tools.insert(owner.to_owned(), text.join(", "));
        }
    };
    add(server.name(), server.settings());
    let mut seen: Vec<&str> = Vec::new();
    let rows = plan.cells.iter().map(|cell| &cell.row);
    let chosen = contenders::all().iter().filter(|registered| rows.clone().any(|row| row.contender == registered.name));
    for contender in chosen.filter_map(|registered| registered.with(&contenders::Parameters::new()).ok()) {
        let versions = contender.needs().iter().filter(|program| program.find().is_ok());
        let versions = versions.map(|program| (program.name.to_owned(), program.version()));
        add(&contender.name(), versions.chain(contender.settings()).collect());
    }
    for row in plan.cells.iter().map(|cell| &cell.row) {
        if let Some(custom) = row.custom.as_ref().filter(|custom| !seen.contains(&custom.name())) {
            seen.push(custom.name());
            add(custom.name(), contenders::custom::client(custom, &row.settings).settings());
        }
    }
    // The kernel's constant (TCP_INIT_CWND, RFC 6928), which cannot be read. Only a route can change it, and only a
    // network's server may have such a route; then its description says so.
    tools.insert("initial window".to_owned(), "10 segments".to_owned());
    tools.insert("haul".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    tools
}

/// The contenders of `plan`, in the order of the experiment, with the versions of their programs.
pub fn contenders(plan: &Plan) -> Vec<results::ContenderRecord> {
    let mut records = Vec::<results::ContenderRecord>::new();
    for name in plan.cells.iter().map(|cell| &cell.row.contender) {
        let registered = contenders::all().iter().find(|registered| registered.name == name);
        let contender = registered.and_then(|registered| registered.with(&contenders::Parameters::new()).ok());
        if let Some(contender) = contender.filter(|_| records.iter().all(|record| record.name != *name)) {
            let own = contender.needs().first().filter(|program| program.find().is_ok());
            records.push(results::ContenderRecord {
                name: name.clone(),
                version: own.map(|program| brief(&program.version()).to_owned()).unwrap_or_default(),
                about: contender.describe().to_owned(),
            });
        }
    }
    records
}

/// A version text without the build and the libraries that follow: `curl 7.88.1`.
fn brief(version: &str) -> &str {
    version.split(" (").next().and_then(|text| text.split("  ").next()).unwrap_or_default().trim()
}

/// A setting with its name, unless the value contains the name, as many version texts do.
fn setting(name: &str, value: &str) -> String {
    let value = value.split_once("version: ").map_or(value, |(_, version)| version);
    let first = value.split([' ', '/']).next().unwrap_or_default();
    if first.eq_ignore_ascii_case(name) { value.to_owned() } else { format!("{name} {value}") }
}

/// The number of copies of each byte: in memory, in the client's and the server's files, in their caches or temporary
/// files, and in the capture.
const COPIES: u64 = 6;

/// The bytes that a file needs besides its content: its inode and name, and its name in our memory.
const FILE: u64 = 2048;

/// Fails for the first workload that does not fit into memory, where everything of a sample is kept, `scratch`
/// included.
pub fn check_memory(plan: &Plan, scratch: &Path) -> Result<(), NotEnoughMemory> {
    let memory = available_memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let folder = statvfs(scratch).map_or(u64::MAX, |stat| stat.blocks_available() * stat.fragment_size());
    let room = memory.min(folder);
    for Workload { name, work, .. } in plan.cells.iter().map(|cell| &cell.workload) {
        let needed = needed(work);
        if needed > room {
            return Err(NotEnoughMemory { workload: name.clone(), needed, room });
        }
    }
    Ok(())
}

/// The bytes of memory that a sample of `work` takes.
fn needed(work: &Work) -> u64 {
    let bytes = match work {
        // Computed without listing them, since the number may be huge.
        Work::Upload { files, size } | Work::Tree { files, size, .. } | Work::Edit { times: files, size } => {
            u64::from(*files).saturating_mul(size.as_bytes())
        }
        Work::Chore(chore) => u64::from(chore.files).saturating_mul(chore.size.as_bytes()),
        Work::List { .. } | Work::LookUp { .. } => 0,
        Work::Load { page } => page.0.response_bytes(),
        Work::Download { files, size } => {
            let round = size.iter().fold(0, |sum: u64, size| sum.saturating_add(size.as_bytes()));
            u64::from(*files).div_ceil(size.len() as u64).saturating_mul(round)
        }
        Work::Page { .. } => work.sizes().fold(0, |sum: u64, size| sum.saturating_add(size.as_bytes())),
    };
    let files = match work {
        Work::List { entries } => u64::from(*entries),
        Work::Page { objects, .. } => objects.len() as u64 + 1,
        _ => work.steps().into(),
    };
    bytes.saturating_add(files.saturating_mul(FILE)).saturating_mul(COPIES)
}

/// `MemAvailable` in /proc/meminfo, in bytes; no limit if it is missing.
fn available_memory(meminfo: &str) -> u64 {
    let kib = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    kib.and_then(|kib| kib.trim().parse::<u64>().ok()).map_or(u64::MAX, |kib| kib.saturating_mul(1024))
}

/// A workload that is too large for the machine.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "workload `{workload}` needs about {} of memory, and this machine has {} available; use fewer or smaller files",
    binary_size(*needed),
    binary_size(*room)
)]
pub struct NotEnoughMemory {
    workload: String,
    needed: u64,
    room: u64,
}

#[cfg(test)]
mod tests {
    use units::Size;

    use super::*;

    #[test]
    fn work_larger_than_memory_is_rejected() {
        let mut plan = crate::test_data::plan(1);
        assert_eq!(check_memory(&plan, Path::new("/")), Ok(()));
        plan.cells[3].workload.work = Work::Upload { files: u32::MAX, size: Size::bytes(u64::MAX) };
        let said = check_memory(&plan, Path::new("/")).unwrap_err().to_string();
        assert!(said.starts_with("workload `upload-small` needs about "), "{said}");
        assert!(needed(&Work::List { entries: u32::MAX }) > 1 << 40);
    }

    #[test]
    fn setting_does_not_repeat_its_name() {
        for (name, value, said) in [
            ("curl", "curl 7.88.1 (x86_64-pc-linux-gnu)", "curl 7.88.1 (x86_64-pc-linux-gnu)"),
            ("version", "Server version: Apache/2.4.71 (Debian)", "version Apache/2.4.71 (Debian)"),
            ("version", "nginx version: nginx/1.22.1", "version nginx/1.22.1"),
            ("version", "0.1.0", "version 0.1.0"),
            ("use_locks", "1", "use_locks 1"),
            ("smbd", "Version 4.17.12-Debian", "smbd Version 4.17.12-Debian"),
        ] {
            assert_eq!(setting(name, value), said);
        }
    }

    #[test]
    fn version_is_brief() {
        assert_eq!(brief("curl 7.88.1 (x86_64-pc-linux-gnu) libcurl/7.88.1"), "curl 7.88.1");
        assert_eq!(brief("davfs2 1.6.1  <http://savannah.nongnu.org/projects/davfs2>"), "davfs2 1.6.1");
        assert_eq!(brief("rclone v1.76.0"), "rclone v1.76.0");
    }

    #[test]
    fn available_memory_is_parsed() {
        assert_eq!(available_memory("MemTotal:  100 kB\nMemAvailable:     12 kB\n"), 12 * 1024);
        assert_eq!(available_memory(""), u64::MAX);
    }
}
