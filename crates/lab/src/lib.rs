//! Experiments: any client against any server over any link, measured, compared and judged.
//!
//! An **experiment** ([`experiment`]) is a TOML file: workloads × networks × contenders, and claims. A **plan** is the
//! part of it to run now: its cells. [`execution`] runs a plan: for each sample, [`run`] creates a **testbed**
//! ([`testbed`]: hosts, a cable, a tap), starts one of the [`servers`] and one of the [`contenders`] on it, checks the
//! [`work`], and counts. [`summarize`] turns the samples into [`results`]: medians and intervals ([`stats`]), multiples of
//! the [`floor`], comparisons, verdicts on [`claims`]. [`table`] and [`report_data`] show them; [`compare`] compares runs.
//!
//! ```text
//! experiments/*.toml → experiment → plan ─┐
//!     servers, contenders, models → run ──┴→ outcomes → summarize → runs/<id>/run.json → table
//! ```
//!
//! [`truth`] does not race: it makes captures with a known cause, and judges what `explain` says of them.
//!
//! This is the only crate that starts other people's programs. The modules that decide (plan, statistics, claims, table)
//! do no I/O.
//!
//! ```
//! use lab::experiment::{Experiment, Known, Selection};
//!
//! let text = r#"
//!     title = "Locks on a slow line"
//!     question = "What do locks cost an upload?"
//!     contenders = ["curl", "redirector-h1"]
//!     servers = ["embedded"]
//!     samples = 3
//!     source.title = "A sentence somebody said"
//!     network.slow = { rtt = "20ms", rate = "10mbit" }
//!     workload.few = { kind = "upload", files = 4, size = "1KiB" }
//! "#;
//! let contenders = lab::contenders::known();
//! let known = Known { contenders: &contenders, servers: &["embedded"] };
//! let experiment = Experiment::parse(text, "locks.toml".as_ref(), known)?;
//! let plan = experiment.plan(&Selection::default())?;
//! assert_eq!(plan.cells.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attribution;
mod capture_names;
pub mod certs;
pub mod claims;
pub mod claims_table;
pub mod command_times;
pub mod compare;
mod conditions;
pub mod contenders;
pub mod custom;
pub mod deadline;
pub mod deviations;
pub mod disturbance;
pub mod estimate;
pub mod execution;
pub mod experiment;
pub mod export;
pub mod floor;
mod format;
mod host_programs;
pub mod host_task;
pub mod http_client;
pub mod known_link;
mod link_round_trips;
pub mod live;
pub mod machine;
pub mod merge;
pub mod process;
mod ranking;
pub mod report_data;
pub mod results;
pub mod run;
pub mod servers;
pub mod site;
pub mod spawn;
pub mod stats;
pub mod summarize;
pub mod table;
#[cfg(test)]
mod test_data;
pub mod testbed;
pub mod truth;
pub mod work;
