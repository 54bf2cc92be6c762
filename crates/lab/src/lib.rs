//! Experiments: any client against any server over any link, measured, compared, judged.
//!
//! An **experiment** ([`experiment`]) is a TOML file: workloads × networks × contenders, and claims. A
//! **plan** is what of it is to be run now, its cells. The **runner** ([`run`]) makes a **world**
//! ([`world`]) for each sample (hosts, a cable, a tap), starts one of the [`servers`] and one of the
//! [`contenders`] in it, checks the work ([`work`]), and counts. [`assemble`] makes of that what is
//! kept ([`results`]): medians and intervals ([`stats`]), multiples of the [`floor`], comparisons of
//! rivals, verdicts on [`claims`]. [`table`] and [`page`] show it, [`compare`] holds two runs against each other.
//!
//! ```text
//! experiments/*.toml → experiment → plan ─┐
//!     servers, contenders, models → run ──┴→ outcomes → assemble → runs/<id>/run.json → table
//! ```
//!
//! This is the only room that starts other people's programs. What decides (plan, statistics, claims,
//! the table) does no I/O.

pub mod assemble;
pub mod bounds;
pub mod certs;
pub mod claims;
pub mod compare;
pub mod contenders;
#[cfg(test)]
mod example;
pub mod experiment;
pub mod floor;
pub mod live;
pub mod machine;
pub mod models;
pub mod page;
pub mod place;
pub mod process;
pub mod results;
mod rivals;
pub mod run;
pub mod servers;
pub mod stats;
pub mod table;
mod why;
mod words;
pub mod work;
pub mod world;
