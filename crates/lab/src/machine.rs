//! The machine a run is made on, for the record: nothing that bears on a result stays hidden.

use std::{collections::BTreeMap, fs};

use link::host::Host;

use crate::{
    contenders,
    experiment::Plan,
    results,
    servers::Server,
    world::{CONGESTION_CONTROL, WorldError},
};

/// The settings of TCP that decide how fast a transfer is.
const SYSCTLS: [&str; 9] = [
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_wmem",
];

/// What the machine is, what its hosts are set to, and which programs take part in `plan`.
pub fn record(plan: &Plan, server: &dyn Server) -> Result<results::Host, WorldError> {
    let host = Host::new("probe")?;
    let _ = host.sysctl("net.ipv4.tcp_congestion_control", CONGESTION_CONTROL);
    let sysctls = SYSCTLS.iter().filter_map(|name| Some(((*name).to_owned(), host.read_sysctl(name).ok()?))).collect();
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    Ok(results::Host {
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

/// Every program's version, and what server and contenders are set to other than by default.
fn tools(plan: &Plan, server: &dyn Server) -> BTreeMap<String, String> {
    let mut tools = BTreeMap::new();
    let mut add = |owner: &str, settings: Vec<(String, String)>| {
        let text: Vec<String> = settings.into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        if !text.is_empty() {
            tools.insert(owner.to_owned(), text.join(", "));
        }
    };
    add(server.name(), server.settings());
    let rows = plan.cells.iter().map(|cell| &cell.row);
    let chosen = contenders::all().iter().filter(|registered| rows.clone().any(|row| row.contender == registered.name));
    for contender in chosen.filter_map(|registered| registered.with(&contenders::Parameters::new()).ok()) {
        let versions = contender.needs().iter().filter(|program| program.find().is_ok());
        let versions = versions.map(|program| (program.name.to_owned(), program.version()));
        add(&contender.name(), versions.chain(contender.settings()).collect());
    }
    // Not to be read anywhere: the kernel's constant (TCP_INIT_CWND, RFC 6928), which only a route
    // could change, and no route of our hosts does.
    tools.insert("initial window".to_owned(), "10 segments".to_owned());
    tools.insert("haul".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    tools
}
