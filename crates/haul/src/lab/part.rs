//! Which part of an experiment to run: the options that select it, and `haul lab plan`, which shows it.

use std::{collections::BTreeSet, error::Error, fmt::Write as _, path::PathBuf, process::ExitCode, str::FromStr};

use lab::{
    contenders, custom,
    experiment::{Cell, Experiment, Plan, PlanError, Row, Selection},
    machine, results,
};
use serde::Serialize;

use super::{look, read};
use crate::usage;

/// The options that select a part of an experiment.
#[derive(clap::Args)]
pub(crate) struct PartOptions {
    /// Run only the part that the experiment marks as quick
    #[arg(long)]
    pub(super) quick: bool,

    /// Run only this network of the experiment, or 3g, 4g, dsl, satellite, transatlantic; repeatable
    #[arg(long, value_name = "NAME")]
    network: Vec<String>,

    /// Run only this workload; repeatable
    #[arg(long, value_name = "NAME")]
    workload: Vec<String>,

    /// Run only this contender; repeatable
    #[arg(long, value_name = "NAME")]
    contender: Vec<String>,

    /// Samples per cell, 1 to 100 [default: the experiment's]
    #[arg(long, visible_alias = "runs", value_name = "N", value_parser = super::samples)]
    samples: Option<u32>,

    /// Runs of each cell before its first sample, which do not count, 0 to 100 [default: the experiment's, else 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(..=100))]
    warmup: Option<u32>,

    #[command(flatten)]
    variants: Variants,
}

impl PartOptions {
    /// Whether any option but `--quick` is given.
    pub(super) fn is_selective(&self) -> bool {
        let Self { quick: _, network, workload, contender, samples, warmup, variants } = self;
        let given = [network, workload, contender, &variants.with].iter().any(|names| !names.is_empty());
        given || samples.is_some() || warmup.is_some() || !variants.sweep.is_empty()
    }

    /// The experiment, and the part of it to run.
    pub(super) fn plan(&self, name: &str) -> Result<(Experiment, Plan), Box<dyn Error>> {
        let mut experiment = self.variants.read(name)?;
        experiment.add_named_networks(&self.network);
        let plan = experiment.plan(&Selection {
            quick: self.quick,
            networks: self.network.clone(),
            workloads: self.workload.clone(),
            contenders: self.contender.clone(),
            samples: self.samples,
            warmup: self.warmup,
        });
        Ok((experiment, plan.map_err(usage)?))
    }
}

/// The options that add contenders, and make variants of contenders and networks.
#[derive(clap::Args)]
pub(crate) struct Variants {
    /// Add a contender of your own by its command, as in './mine put {dir} {url}'; {dir} has the files to upload, or gets
    /// those to download. NAME names it, NAME.KEY=COMMAND gives it a command for one purpose (upload, download, list, edit,
    /// mount, unmount, setup, teardown, verify); repeatable
    #[arg(long, value_name = "[NAME=]COMMAND")]
    with: Vec<String>,

    /// Run a contender once per value of a setting, as in rclone.transfers=1,4,16, or everything over each network once
    /// per value, as in network.rtt=10ms,80ms; repeatable
    #[arg(long, value_name = "CONTENDER.SETTING=N,…")]
    sweep: Vec<Sweep>,
}

impl Variants {
    /// Reads an experiment, adds contenders, and makes the variants.
    pub(super) fn read(&self, name: &str) -> Result<Experiment, Box<dyn Error>> {
        let mut experiment = read(name)?;
        let is_taken = |name: &str| {
            contenders::all().iter().any(|one| one.name == name)
                || experiment.contenders.iter().any(|row| row.contender == name)
        };
        let added = custom::with(&self.with, is_taken).map_err(|error| usage(format_args!("--with: {error}")))?;
        experiment.add(added);
        for sweep in &self.sweep {
            sweep.apply(&mut experiment).map_err(usage)?;
        }
        Ok(experiment)
    }
}

/// A setting, and the values to run with.
#[derive(Debug, Clone)]
enum Sweep {
    Contender { name: String, setting: String, values: Vec<u32> },
    Networks { setting: String, values: Vec<String> },
}

impl Sweep {
    fn apply(&self, experiment: &mut Experiment) -> Result<(), PlanError> {
        match self {
            Self::Contender { name, setting, values } => experiment.sweep(name, setting, values),
            Self::Networks { setting, values } => experiment.sweep_networks(setting, values),
        }
    }
}

impl FromStr for Sweep {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "expected CONTENDER.SETTING=N,… as in rclone.transfers=1,4,16, or network.SETTING=VALUE,… as in \
             network.rtt=10ms,80ms";
        let parts = text.split_once('=').and_then(|(key, values)| {
            let (name, setting) = key.split_once('.')?;
            Some((name.to_owned(), setting.to_owned(), values.split(',').map(str::trim).collect::<Vec<_>>()))
        });
        let (name, setting, values) = parts.ok_or(FORM)?;
        if values.iter().collect::<BTreeSet<_>>().len() < values.len() {
            return Err("each value must occur once".to_owned());
        }
        if name == "network" {
            return Ok(Self::Networks { setting, values: values.into_iter().map(str::to_owned).collect() });
        }
        let values = values.iter().map(|value| value.parse().ok()).collect::<Option<Vec<u32>>>().ok_or(FORM)?;
        if values.contains(&0) {
            return Err("each value must be at least 1".to_owned());
        }
        if let Some(one) = contenders::all().iter().find(|one| one.name == name) {
            one.with(&[(setting.clone(), 1)].into()).map_err(|error| error.to_string())?;
        }
        Ok(Self::Contender { name, setting, values })
    }
}

/// What `haul lab plan` shows of which experiment.
#[derive(clap::Args)]
pub(crate) struct PlanArgs {
    /// Name of a built-in experiment (see `haul lab list`), or a TOML file
    experiment: String,
    #[command(flatten)]
    part: PartOptions,
    /// Also write the plan as JSON (schema longhaul.plan/1); `-` writes it to standard output instead
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// The schema `longhaul.plan/1`.
#[derive(Serialize)]
struct PlanDocument<'a> {
    schema: &'static str,
    experiment: &'a str,
    samples: u32,
    blocks: Vec<BlockDocument<'a>>,
}

/// The contenders that take turns on one network and workload.
#[derive(Serialize)]
struct BlockDocument<'a> {
    network: &'a str,
    workload: &'a str,
    contenders: Vec<String>,
}

impl<'a> BlockDocument<'a> {
    fn new(cells: &'a [Cell]) -> Option<Self> {
        let Cell { network, workload, .. } = cells.first()?;
        let contenders = cells.iter().map(|cell| cell.row.name()).collect();
        Some(Self { network: &network.name, workload: &workload.name, contenders })
    }
}

/// `haul lab plan`: shows what a run would measure.
pub(super) fn show(args: &PlanArgs) -> Result<ExitCode, Box<dyn Error>> {
    let (experiment, plan) = args.part.plan(&args.experiment)?;
    let blocks: Vec<&[Cell]> = plan.rivals().collect();
    if let Some(json) = &args.json {
        let document = PlanDocument {
            schema: "longhaul.plan/1",
            experiment: &experiment.name,
            samples: plan.samples,
            blocks: blocks.iter().filter_map(|cells| BlockDocument::new(cells)).collect(),
        };
        results::write(json, &document)?;
    }
    if args.json.as_ref().is_none_or(|json| json.as_os_str() != "-") {
        crate::print(table(&plan, &blocks).as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(plan: &Plan, blocks: &[&[Cell]]) -> String {
    let mut text = String::new();
    for cells in blocks {
        let Some(Cell { network, workload, .. }) = cells.first() else { continue };
        let names: Vec<String> = cells.iter().map(|cell| Row::name(&cell.row)).collect();
        let _ = writeln!(text, "{} over {} ({})", workload.name, network.name, network.describe());
        text += &look().paragraph("  ", 2, &names.join(", "));
    }
    text += "Contenders\n";
    for record in machine::contenders(plan) {
        text += &look().paragraph("  ", 4, &record.to_string());
    }
    let (cells, samples) = (plan.cells.len(), plan.samples);
    let _ = writeln!(text, "Cells: {cells}, samples of each: {samples}, samples in all: {}", cells * samples as usize);
    text
}
