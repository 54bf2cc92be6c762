//! Merging: one run out of runs of parts of the same experiment, made at other times or on other machines.
//!
//! Rivals must have taken turns on one machine, so a part has all contenders of a network and workload, or none. Claims
//! may compare networks, so they are judged over all parts. What would make the whole misleading is refused: a part that
//! was stopped, that is in two parts, or whose server, networks or workloads differ from those of the others.

mod files;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use crate::{
    conditions::conditions,
    experiment::{Cell, Experiment, Network, Selection},
    format::counted,
    results::{
        Calibration, CellResult, ContenderRecord, Host, NetworkRecord, Part, ResultsError, RunResult, SCHEMA, Status,
        WorkloadRecord, read,
    },
    summarize::comparisons,
};

pub use files::copy_files;

/// Settings that must be the same in all parts: they change what is measured.
const SAME: [&str; 6] = ["server", "tls", "quick", "congestion control", "samples", "seed"];

/// A run to merge.
#[derive(Debug)]
pub struct Source {
    /// Its folder.
    pub folder: PathBuf,
    /// Its results.
    pub run: RunResult,
}

/// Why runs cannot be merged.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// A run's results cannot be read, or the merged ones not written.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// Another experiment.
    #[error("{} is a run of the experiment `{found}`, not of `{wanted}`; leave it out", folder.display())]
    Experiment {
        /// The run.
        folder: PathBuf,
        /// Its experiment.
        found: String,
        /// The experiment of the merged run.
        wanted: String,
    },
    /// A network or a workload that the experiment does not have, or has with another definition.
    #[error(
        "the {what} `{name}` of {} is not that of the experiment; merge with the file and the --sweep options of its run", folder.display()
    )]
    Definition {
        /// The run.
        folder: PathBuf,
        /// Network, workload or contender.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A run that did not reach its end.
    #[error("{} was stopped before {cell} was complete; run that part again", folder.display())]
    Incomplete {
        /// The run.
        folder: PathBuf,
        /// The first incomplete cell.
        cell: String,
    },
    /// A cell in two parts, or rivals in two parts.
    #[error("{} and {} both have cells of {block}; leave one of them out", first.display(), second.display())]
    Twice {
        /// A run.
        first: PathBuf,
        /// Another run.
        second: PathBuf,
        /// Workload and network.
        block: String,
    },
    /// A part without a contender that others have.
    #[error(
        "{} lacks the contender of {cell}, a rival in the other parts; run that part again with it", folder.display()
    )]
    Rival {
        /// The run.
        folder: PathBuf,
        /// The missing cell.
        cell: String,
    },
    /// A setting that differs.
    #[error("the setting `{name}` is `{}` in {} and `{}` in {}; runs with different ones cannot be merged",
        values[0], folders[0].display(), values[1], folders[1].display())]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its values.
        values: [String; 2],
        /// The runs.
        folders: [PathBuf; 2],
    },
    /// Fewer than one run.
    #[error("there is no run to merge")]
    Nothing,
}

impl Source {
    /// Reads the results of a run.
    pub fn read(file: &Path) -> Result<Self, ResultsError> {
        Ok(Self { folder: file.parent().unwrap_or(Path::new("")).to_owned(), run: read(file)? })
    }

    /// Fails if the run is not a whole part of the experiment.
    fn check(&self, experiment: &Experiment) -> Result<(), MergeError> {
        let (folder, run) = (|| self.folder.clone(), &self.run);
        if run.experiment != experiment.name {
            let (found, wanted) = (run.experiment.clone(), experiment.name.clone());
            return Err(MergeError::Experiment { folder: folder(), found, wanted });
        }
        let other = |what, name: &str| Err(MergeError::Definition { folder: folder(), what, name: name.to_owned() });
        let quick = experiment.quick.iter().flat_map(|quick| &quick.workloads);
        let workloads: Vec<_> = experiment.workloads.iter().chain(quick).collect();
        if let Some(record) =
            run.networks.iter().find(|record| !experiment.networks.iter().any(|it| NetworkRecord::from(it) == **record))
        {
            return other("network", &record.name);
        }
        if let Some(record) =
            run.workloads.iter().find(|record| !workloads.iter().any(|it| WorkloadRecord::from(*it) == **record))
        {
            return other("workload", &record.name);
        }
        let samples = run.settings.get("samples").and_then(|samples| samples.parse::<usize>().ok());
        for cell in &run.cells {
            if !experiment.contenders.iter().any(|row| row.name() == cell.contender) {
                return other("contender", &cell.contender);
            }
            let is_short = cell.status == Status::Ok && samples.is_some_and(|samples| cell.samples_s.len() < samples);
            if !cell.was_reached() || is_short {
                return Err(MergeError::Incomplete { folder: folder(), cell: cell.path() });
            }
        }
        Ok(())
    }

    /// The records of the parts that this run is or has.
    fn parts(&self) -> Vec<Part> {
        if !self.run.parts.is_empty() {
            return self.run.parts.clone();
        }
        let RunResult { command, started, host, calibration, .. } = self.run.clone();
        vec![Part { command, started, host, calibration }]
    }
}

/// Merges runs of parts of an experiment. `command` is what repeats it.
pub fn merge(experiment: &Experiment, sources: &[Source], command: String) -> Result<RunResult, MergeError> {
    let first = sources.first().ok_or(MergeError::Nothing)?;
    let mut blocks: BTreeMap<String, &Path> = BTreeMap::new();
    let (mut cells, mut parts) = (Vec::<CellResult>::new(), Vec::new());
    for source in sources {
        source.check(experiment)?;
        same_settings(first, source)?;
        let here: BTreeSet<String> =
            source.run.cells.iter().map(|cell| format!("{}/{}", cell.workload, cell.network)).collect();
        for block in here {
            if let Some(first) = blocks.insert(block.clone(), &source.folder) {
                return Err(MergeError::Twice { first: first.to_owned(), second: source.folder.clone(), block });
            }
        }
        let part = |cell: &CellResult| Some(parts.len() + cell.part.unwrap_or(0));
        cells.extend(source.run.cells.iter().map(|cell| CellResult { part: part(cell), ..cell.clone() }));
        parts.extend(source.parts());
    }
    if let Some(missing) = missing_rival(experiment, &cells) {
        let folder = blocks.get(&format!("{}/{}", missing.workload.name, missing.network.name));
        let cell = format!("{}/{}/{}", missing.workload.name, missing.network.name, missing.row.name());
        return Err(MergeError::Rival { folder: folder.copied().unwrap_or(&first.folder).to_owned(), cell });
    }
    let place = |cell: &CellResult| {
        let network = experiment.networks.iter().position(|network| network.name == cell.network);
        let workload = experiment.workloads.iter().position(|workload| workload.name == cell.workload);
        let row = experiment.contenders.iter().position(|row| row.name() == cell.contender);
        (network, workload, row)
    };
    cells.sort_by_key(place);
    let seed = first.run.settings.get("seed").and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let has_network = |network: &&Network| cells.iter().any(|cell| cell.network == network.name);
    let networks: Vec<_> = experiment.networks.iter().filter(has_network).map(NetworkRecord::from).collect();
    let mut contenders = Vec::<ContenderRecord>::new();
    for record in sources.iter().flat_map(|source| &source.run.contenders) {
        if !contenders.contains(record) {
            contenders.push(record.clone());
        }
    }
    let (host, settings) = (host(&parts), settings(sources, &parts));
    let conditions = conditions(experiment, &networks, &contenders, &host, settings.get("server"));
    let records = || sources.iter().flat_map(|source| &source.run.workloads);
    let workloads = experiment.workloads.iter();
    let workloads: Vec<_> =
        workloads.filter_map(|one| records().find(|record| record.name == one.name)).cloned().collect();
    let claims = experiment.claims.iter().map(|claim| experiment.judge(claim, &cells, &workloads, seed)).collect();
    Ok(RunResult {
        schema: SCHEMA.to_owned(),
        experiment: experiment.name.clone(),
        title: experiment.title.clone(),
        question: experiment.question.clone(),
        command,
        started: parts.iter().map(|part| part.started.clone()).min().unwrap_or_default(),
        host,
        calibration: worst(&parts),
        settings,
        commands: all(sources.iter().map(|source| &source.run.commands)),
        networks,
        workloads,
        contenders,
        conditions,
        comparisons: comparisons(&cells),
        claims,
        cells,
        parts,
    })
}

/// A cell that its block lacks although another block has its contender.
fn missing_rival(experiment: &Experiment, cells: &[CellResult]) -> Option<Cell> {
    let contenders: BTreeSet<&str> = cells.iter().map(|cell| cell.contender.as_str()).collect();
    let blocks: BTreeSet<(&str, &str)> =
        cells.iter().map(|cell| (cell.workload.as_str(), cell.network.as_str())).collect();
    let planned = experiment.plan(&Selection::default()).ok()?.cells;
    planned.into_iter().find(|cell| {
        let (workload, network, row) = (cell.workload.name.as_str(), cell.network.name.as_str(), cell.row.name());
        let is_there = || cells.iter().any(|other| other.is(workload, network, &row));
        blocks.contains(&(workload, network)) && contenders.contains(row.as_str()) && !is_there()
    })
}

fn same_settings(first: &Source, other: &Source) -> Result<(), MergeError> {
    for name in SAME {
        let value = |source: &Source| source.run.settings.get(name).cloned().unwrap_or_default();
        if value(first) != value(other) {
            let folders = [first.folder.clone(), other.folder.clone()];
            return Err(MergeError::Setting { name, values: [value(first), value(other)], folders });
        }
    }
    Ok(())
}

/// The settings of the parts, of those that differ all values; and that there are parts.
fn settings(sources: &[Source], parts: &[Part]) -> BTreeMap<String, String> {
    let machines: BTreeSet<&str> = parts.iter().map(|part| part.host.name.as_str()).collect();
    let (runs, machines) = (counted(parts.len() as u64, "run"), counted(machines.len() as u64, "machine"));
    let mut settings = all(sources.iter().map(|source| &source.run.settings));
    settings.insert("merged from".to_owned(), format!("{runs} on {machines}"));
    settings
}

/// The machines of the parts.
fn host(parts: &[Part]) -> Host {
    let hosts = || parts.iter().map(|part| &part.host);
    Host {
        name: distinct(hosts().map(|host| host.name.as_str())),
        kernel: distinct(hosts().map(|host| host.kernel.as_str())),
        cpu: distinct(hosts().map(|host| host.cpu.as_str())),
        sysctls: all(hosts().map(|host| &host.sysctls)),
        tools: all(hosts().map(|host| &host.tools)),
    }
}

fn all<'a>(maps: impl IntoIterator<Item = &'a BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let maps: Vec<_> = maps.into_iter().collect();
    let keys: BTreeSet<&String> = maps.iter().flat_map(|map| map.keys()).collect();
    let values = |key: &String| distinct(maps.iter().filter_map(|map| map.get(key)).map(String::as_str));
    keys.into_iter().map(|key| (key.clone(), values(key))).collect()
}

/// The values, each once, in their order.
fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let mut seen = BTreeSet::new();
    values.filter(|value| seen.insert(*value)).collect::<Vec<_>>().join(", ")
}

/// The accuracy of the part whose packets were latest.
fn worst(parts: &[Part]) -> Option<Calibration> {
    let calibrations = parts.iter().filter_map(|part| part.calibration.clone());
    calibrations.max_by(|a, b| a.delay_error_p99_us.total_cmp(&b.delay_error_p99_us))
}

#[cfg(test)]
mod tests;
