//! What a browser requested otherwise than recorded.

use super::Look;
use crate::{
    format::counted,
    results::{CellResult, Status},
};

/// The number of URLs shown for each contender.
const SHOWN: usize = 3;

/// A sentence for each contender that deviated.
pub(super) fn render(cells: &[&CellResult], look: Look) -> String {
    let deviating = cells.iter().filter(|cell| cell.status == Status::Ok && !cell.deviations.is_empty());
    deviating
        .map(|cell| {
            let all = &cell.deviations;
            let taken = cell.samples_s.len();
            let named = all.iter().take(SHOWN).map(|counted| {
                let often = if counted.samples as usize == taken {
                    String::new()
                } else {
                    format!(" in {} of {taken} loads", counted.samples)
                };
                format!("{}{often}", counted.deviation)
            });
            let named = named.collect::<Vec<_>>().join("; ");
            let more = all.len().saturating_sub(SHOWN);
            let more = if more > 0 { format!("; {more} more in run.json") } else { String::new() };
            let differences = counted(all.len() as u64, "difference");
            look.paragraph("  ", 4, &format!("{}: {differences} from the recording: {named}{more}", cell.label()))
        })
        .collect()
}
