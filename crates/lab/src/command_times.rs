//! Commands compared on one link: the times of their runs, the statistics, and the files that programs read.
//!
//! The statistics are those of a race ([`crate::stats`]): a median with its interval for each command, and the ratio to the
//! quickest one with the interval of the Mann–Whitney test. A run that ended with another exit status than 0 did not do the
//! work, so its time counts nowhere: otherwise a client that cannot connect would win.

use std::io;

use serde::Serialize;

use crate::stats::{Interval, bootstrap, median, shift::Shift};

/// One run of a command.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommandRun {
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Its exit status, as in a shell.
    pub exit_status: i32,
}

/// A command and its runs, without those to warm up.
#[derive(Debug, Clone, Default)]
pub struct CommandTimes {
    /// The command, as it was given.
    pub command: String,
    /// Its runs, in order.
    pub runs: Vec<CommandRun>,
}

impl CommandTimes {
    /// The times of the runs with exit status 0, in seconds.
    pub fn samples(&self) -> Vec<f64> {
        self.runs.iter().filter(|run| run.exit_status == 0).map(|run| run.seconds).collect()
    }

    /// The number of runs that failed.
    pub fn failures(&self) -> usize {
        self.runs.iter().filter(|run| run.exit_status != 0).count()
    }

    /// The statistics; none if every run failed.
    pub fn summary(&self) -> Option<Summary> {
        let samples = self.samples();
        let (least, most) = samples
            .iter()
            .fold((f64::INFINITY, 0.0), |(least, most): (f64, f64), sample| (least.min(*sample), most.max(*sample)));
        let interval = bootstrap::of_median(&samples, 1).map(|estimate| estimate.interval);
        Some(Summary { median: median(&samples)?, interval, range: Interval { lo: least, hi: most } })
    }
}

/// The statistics of a command, in seconds.
#[derive(Debug, Clone, Copy)]
pub struct Summary {
    /// The median.
    pub median: f64,
    /// Its 95 % interval; none for a single run.
    pub interval: Option<Interval>,
    /// The quickest and the slowest run.
    pub range: Interval,
}

/// The commands, and how they were run.
#[derive(Debug, Clone)]
pub struct CommandComparison {
    /// The link, as `haul link` prints it.
    pub link: String,
    /// The number of runs of each command to warm up.
    pub warmup: u32,
    /// The commands, in the order in which they were given.
    pub commands: Vec<CommandTimes>,
}

impl CommandComparison {
    /// The indices of the commands with a median, the quickest first.
    pub fn ranked(&self) -> Vec<usize> {
        let medians = self.commands.iter().map(|command| command.summary().map(|summary| summary.median));
        let mut ranked: Vec<(f64, usize)> =
            medians.enumerate().filter_map(|(index, median)| Some((median?, index))).collect();
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0));
        ranked.into_iter().map(|(_, index)| index).collect()
    }

    /// Each other command with the quickest one: its index, and how many times as long it takes.
    pub fn ratios(&self) -> Vec<(usize, Shift)> {
        let ranked = self.ranked();
        let Some((quickest, others)) = ranked.split_first() else { return Vec::new() };
        let quickest = self.commands[*quickest].samples();
        let ratio = |index: &usize| {
            crate::stats::shift::ratio(&quickest, &self.commands[*index].samples()).map(|ratio| (*index, ratio))
        };
        others.iter().filter_map(ratio).collect()
    }

    /// The schema `longhaul.link-compare/1`.
    pub fn json(&self) -> serde_json::Value {
        let commands: Vec<CommandRecord<'_>> = self.commands.iter().map(CommandRecord::of).collect();
        let quickest = self.ranked().first().map(|index| self.commands[*index].command.as_str());
        let comparisons: Vec<RatioRecord<'_>> = self
            .ratios()
            .into_iter()
            .map(|(index, ratio)| RatioRecord {
                a: quickest.unwrap_or_default(),
                b: &self.commands[index].command,
                ratio: ratio.value,
                ci95: ratio.interval,
                confidence: ratio.confidence,
                differs: ratio.differs(),
            })
            .collect();
        serde_json::json!({
            "schema": "longhaul.link-compare/1",
            "link": self.link,
            "warmup": self.warmup,
            "commands": commands,
            "comparisons": comparisons,
        })
    }

    /// One line for each run: `command,run,seconds,exit_status`.
    pub fn csv(&self) -> io::Result<Vec<u8>> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(["command", "run", "seconds", "exit_status"])?;
        for command in &self.commands {
            for (number, run) in (1..).zip(&command.runs) {
                let (number, seconds): (u32, f64) = (number, run.seconds);
                let (seconds, status) = (format!("{seconds:.6}"), run.exit_status.to_string());
                csv.write_record([&command.command, &number.to_string(), &seconds, &status])?;
            }
        }
        csv.into_inner().map_err(|error| io::Error::other(error.to_string()))
    }
}

#[derive(Serialize)]
struct CommandRecord<'a> {
    command: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    median_s: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ci95_s: Option<Interval>,
    samples_s: Vec<f64>,
    exit_statuses: Vec<i32>,
    failures: usize,
}

impl<'a> CommandRecord<'a> {
    fn of(times: &'a CommandTimes) -> Self {
        let summary = times.summary();
        Self {
            command: &times.command,
            median_s: summary.map(|summary| summary.median),
            ci95_s: summary.and_then(|summary| summary.interval),
            samples_s: times.runs.iter().map(|run| run.seconds).collect(),
            exit_statuses: times.runs.iter().map(|run| run.exit_status).collect(),
            failures: times.failures(),
        }
    }
}

#[derive(Serialize)]
struct RatioRecord<'a> {
    a: &'a str,
    b: &'a str,
    ratio: f64,
    ci95: Interval,
    confidence: f64,
    differs: bool,
}
