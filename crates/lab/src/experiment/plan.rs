//! The plan: which cells to run, and in which order.
//!
//! Machines warm up, throttle and have other users: a sample late in the hour runs on a different machine than an early
//! one. So contenders take turns: on each network and workload, every contender runs once before any runs twice, in an
//! order that is drawn anew for each round. A contender may also suffer from its predecessor (a full cache, connections
//! in TIME-WAIT). So of many drawn orders, the plan takes the one that repeats the fewest pairs of neighbours.

use std::collections::BTreeSet;

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use super::{Experiment, Network, Quick, Row, Workload, check::MOST_SAMPLES, did_you_mean::advice};

/// The number of orders that are drawn for a round.
const DRAWS: usize = 200;

/// The part of an experiment to run. An empty list selects everything in the experiment, or in its quick part; names
/// outside the quick part may be selected too.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only the quick part.
    pub quick: bool,
    /// Only these networks.
    pub networks: Vec<String>,
    /// Only these workloads.
    pub workloads: Vec<String>,
    /// Only these contenders: `rclone` means all its rows, `rclone transfers=16` that one.
    pub contenders: Vec<String>,
    /// Samples per cell, if not as in the file.
    pub samples: Option<u32>,
    /// Runs of each cell before its first sample, if not as in the file.
    pub warmup: Option<u32>,
}

/// Why a selection leaves nothing to run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A name that the experiment does not have.
    #[error("unknown {what} `{name}` in this experiment; {advice}")]
    Unknown {
        /// Network, workload or contender.
        what: &'static str,
        /// The name.
        name: String,
        /// Advice: the nearest name, or all names.
        advice: String,
    },
    /// A setting of a network, or a value of it, is invalid.
    #[error("network.{setting}={value}: {why}")]
    NetworkSetting {
        /// The setting.
        setting: String,
        /// The value.
        value: String,
        /// What is wrong.
        why: String,
    },
    /// The experiment has no quick part.
    #[error(
        "the experiment has no `quick` part; leave out --quick, or select with --network, --workload and --contender"
    )]
    NoQuick,
    /// No cell is left.
    #[error("the selection has no cells; a workload may be limited to certain networks and contenders")]
    Nothing,
    /// A placeholder of a command of the user's own has no value.
    #[error("{0}")]
    Custom(String),
    /// The number of samples is out of range.
    #[error("a cell takes 1 to {MOST_SAMPLES} samples, not {0}")]
    Samples(u32),
}

/// The cells to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Samples per cell.
    pub samples: u32,
    /// Runs of each cell before its first sample, which do not count.
    pub warmup: u32,
    /// The cells: network by network, workload by workload, contender by contender.
    pub cells: Vec<Cell>,
}

/// A workload, a network and a contender.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// The workload.
    pub workload: Workload,
    /// The network.
    pub network: Network,
    /// The contender, with its settings.
    pub row: Row,
}

/// The contenders on one network and workload, in the order in which they run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Each round runs every cell of the block once; a cell is its index in [`Plan::cells`]. The warm-up comes first.
    pub rounds: Vec<Vec<usize>>,
}

impl Experiment {
    /// The cells that a selection leaves.
    pub fn plan(&self, selection: &Selection) -> Result<Plan, PlanError> {
        let quick = if selection.quick { Some(self.quick.as_ref().ok_or(PlanError::NoQuick)?) } else { None };
        let samples = selection.samples.unwrap_or_else(|| quick.map_or(self.samples, |quick| quick.samples));
        if !(1..=MOST_SAMPLES).contains(&samples) {
            return Err(PlanError::Samples(samples));
        }
        self.known(selection)?;
        let (networks, workloads) = (self.kept_networks(selection, quick), self.kept_workloads(selection, quick));
        let rows = self.kept_rows(selection, quick);
        if let Some((_, why)) = rows.iter().find_map(|row| row.custom.as_ref()?.unset(&row.settings)) {
            return Err(PlanError::Custom(why));
        }
        let first = workloads.first().map(|workload| workload.work.clone());
        let rows: Vec<Row> = rows.into_iter().map(|row| row.in_run(first.as_ref())).collect();
        let mut cells = Vec::new();
        for network in &networks {
            for workload in &workloads {
                let rows = rows.iter().filter(|row| workload.meets(network, row));
                cells.extend(rows.map(|row| Cell {
                    workload: workload.clone(),
                    network: network.clone(),
                    row: row.clone(),
                }));
            }
        }
        let warmup = selection.warmup.unwrap_or(self.warmup);
        if cells.is_empty() { Err(PlanError::Nothing) } else { Ok(Plan { samples, warmup, cells }) }
    }

    fn kept_networks(&self, selection: &Selection, quick: Option<&Quick>) -> Vec<Network> {
        let quick = quick.map(|quick| quick.networks.as_slice());
        let kept = |network: &&Network| kept(&selection.networks, quick, &network.names().collect::<Vec<_>>());
        self.networks.iter().filter(kept).cloned().collect()
    }

    fn kept_workloads(&self, selection: &Selection, quick: Option<&Quick>) -> Vec<Workload> {
        let smaller: &[Workload] = quick.map_or(&[], |quick| &quick.workloads);
        let names: Option<Vec<String>> = quick.map(|_| smaller.iter().map(|small| small.name.clone()).collect());
        let kept = |workload: &&Workload| kept(&selection.workloads, names.as_deref(), &[&workload.name]);
        let size =
            |workload: &Workload| smaller.iter().find(|small| small.name == workload.name).unwrap_or(workload).clone();
        self.workloads.iter().filter(kept).map(size).collect()
    }

    fn kept_rows(&self, selection: &Selection, quick: Option<&Quick>) -> Vec<Row> {
        let quick = quick.map(|quick| quick.contenders.as_slice());
        // Somebody who adds a contender wants to see it.
        let is_added = |row: &Row| self.added.contains(&row.contender) && !self.selects_added(selection);
        let kept = |row: &&Row| is_added(row) || kept(&selection.contenders, quick, &[&row.name(), &row.contender]);
        self.contenders.iter().filter(kept).cloned().collect()
    }

    fn selects_added(&self, selection: &Selection) -> bool {
        let is_added = |name: &str| self.added.iter().any(|added| added == name);
        selection.contenders.iter().any(|name| is_added(name.split(' ').next().unwrap_or_default()))
    }

    /// Fails for the first selected name that the experiment does not have.
    fn known(&self, selection: &Selection) -> Result<(), PlanError> {
        let rows = self.contenders.iter().flat_map(|row| [row.contender.clone(), row.name()]).collect();
        let networks = self.networks.iter().flat_map(Network::names).map(str::to_owned).collect();
        let workloads = self.workloads.iter().map(|workload| workload.name.clone()).collect();
        let kinds: [(_, _, BTreeSet<String>); 3] = [
            ("network", &selection.networks, networks),
            ("workload", &selection.workloads, workloads),
            ("contender", &selection.contenders, rows),
        ];
        for (what, asked, names) in kinds {
            if let Some(name) = asked.iter().find(|asked| !names.contains(*asked)) {
                let advice = advice(name, names.iter().map(String::as_str));
                return Err(PlanError::Unknown { what, name: name.clone(), advice });
            }
        }
        Ok(())
    }
}

impl Plan {
    /// The blocks with their rounds, in an order drawn from `seed`.
    pub fn blocks(&self, seed: u64) -> Vec<Block> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut first = 0;
        let mut block = |cells: &[Cell]| {
            let indices: Vec<usize> = (first..first + cells.len()).collect();
            first += cells.len();
            Block { rounds: rounds(&indices, self.warmup + self.samples, &mut rng) }
        };
        self.rivals().map(&mut block).collect()
    }

    /// The cells of each network and workload: those of rivals, which take turns.
    pub fn rivals(&self) -> impl Iterator<Item = &[Cell]> {
        self.cells.chunk_by(|a, b| a.network.name == b.network.name && a.workload.name == b.workload.name)
    }
}

/// Whether a name runs: the selection decides, else the quick part; else everything runs.
fn kept(asked: &[String], quick: Option<&[String]>, names: &[&str]) -> bool {
    let list = if asked.is_empty() { quick } else { Some(asked) };
    list.is_none_or(|list| list.iter().any(|kept| names.contains(&kept.as_str())))
}

/// One order of the cells per round, with as few repeated neighbours as possible.
fn rounds(cells: &[usize], count: u32, rng: &mut ChaCha8Rng) -> Vec<Vec<usize>> {
    let mut followed = BTreeSet::new();
    let neighbours = |order: &[usize]| order.windows(2).map(|pair| (pair[0], pair[1])).collect::<Vec<_>>();
    (0..count)
        .map(|_| {
            let mut order = cells.to_vec();
            let mut best = (usize::MAX, Vec::new());
            for _ in 0..DRAWS {
                order.shuffle(rng);
                let repeated = neighbours(&order).iter().filter(|pair| followed.contains(*pair)).count();
                if repeated < best.0 {
                    best = (repeated, order.clone());
                }
                if repeated == 0 {
                    break;
                }
            }
            followed.extend(neighbours(&best.1));
            best.1
        })
        .collect()
}
