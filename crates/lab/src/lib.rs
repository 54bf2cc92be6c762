//! Experiments: any client against any server over any link, measured, compared, judged.
//!
//! An **experiment** ([`experiment`]) is a TOML file: workloads × networks × contenders, and claims. A
//! **plan** is what of it is to be run now, its cells. The **runner** ([`run`]) makes a **testbed**
//! ([`testbed`]) for each sample (hosts, a cable, a tap), starts one of the [`servers`] and one of the
//! [`contenders`] in it, checks the work ([`work`]), and counts. [`summarize`] makes of that what is
//! kept ([`results`]): medians and intervals ([`stats`]), multiples of the [`floor`], comparisons of
//! rivals, verdicts on [`claims`]. [`table`] and [`report_data`] show it, [`compare`] holds two runs against each other.
//!
//! ```text
//! experiments/*.toml → experiment → plan ─┐
//!     servers, contenders, models → run ──┴→ outcomes → summarize → runs/<id>/run.json → table
//! ```
//!
//! This is the only room that starts other people's programs. What decides (plan, statistics, claims,
//! the table) does no I/O.

mod attribution;
pub mod certs;
pub mod claims;
pub mod compare;
pub mod contenders;
pub mod deadline;
pub mod execution;
pub mod experiment;
pub mod floor;
mod format;
pub mod live;
pub mod machine;
pub mod models;
pub mod process;
mod ranking;
pub mod report_data;
pub mod results;
pub mod run;
pub mod servers;
pub mod spawn;
pub mod stats;
pub mod summarize;
pub mod table;
#[cfg(test)]
mod test_data;
pub mod testbed;
pub mod work;
