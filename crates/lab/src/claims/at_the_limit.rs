//! The highest rate of a server: which of two ways to ask it makes it do more work, if it does nothing but work.
//!
//! A rate is the server's highest only while the server is what limits it. Otherwise it is that of the clients, of the
//! cable or of the machine, and says nothing about the server. So less than nine tenths of the processors that the
//! server can use decide nothing.

use super::{
    Measure,
    bound::Bound,
    evidence::{Evidence, Finding, Gap},
    judge::ratio,
};
use crate::results::CellResult;

/// The share of the server's processors that must be in use.
const BUSY: f64 = 0.9;

pub(super) fn at_the_limit(
    evidence: &Evidence<'_>,
    what: &str,
    than: &str,
    cores: u32,
    by: f64,
) -> Result<Finding, Gap> {
    for cell in [evidence.cell(than)?, evidence.cell(what)?] {
        let unknown = || Gap::Unusable(format!("the processor time of the server of {} is unknown", cell.label()));
        let share = share(cell).ok_or_else(unknown)? / f64::from(cores);
        if share < BUSY {
            let whose = if cores == 1 { "its processor".to_owned() } else { format!("its {cores} processors") };
            return Err(Gap::Unusable(format!(
                "the server of {} was at work for {:.0} % of the time of {whose}, so that something else limited the rate",
                cell.label(),
                100.0 * share
            )));
        }
    }
    ratio(evidence, Measure::Time, than, what, Bound::least(by))
}

/// The server's processor time as a share of the sample's time.
fn share(cell: &CellResult) -> Option<f64> {
    Some(cell.server_cpu_s? / cell.median_s?)
}
