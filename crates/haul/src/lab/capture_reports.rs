//! The reports of a run's captures, to which its own report links: one for the typical sample of each cell.
//!
//! They are written last, after the results. A capture that cannot be read, or for which no time is left, has no
//! report; `haul explain --html` writes it on request.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use explain::{
    KeepPackets, PacketStore,
    render::{self, PredictionRequest},
};
use lab::{known_link::known_link_of, report_data, results::RunResult};

/// Time limit of all of them together.
const TIME_LIMIT: Duration = Duration::from_mins(1);

/// The largest capture that is read, in bytes.
const MAX_SIZE: u64 = 64 << 20;

/// Writes the reports that `folder` lacks, until `stop` returns true.
pub(super) fn write(folder: &Path, run: &RunResult, stop: impl Fn() -> bool) {
    let deadline = Instant::now() + TIME_LIMIT;
    for ((capture, report), cell) in report_data::files(run).into_iter().zip(&run.cells) {
        let (file, html) = (folder.join(&capture), folder.join(report));
        let is_small = fs::metadata(&file).is_ok_and(|file| file.len() <= MAX_SIZE);
        if !is_small || html.exists() {
            continue;
        }
        if stop() || Instant::now() > deadline {
            break;
        }
        let Ok(mut source) = capture::open(&file, None) else { continue };
        let keeper = PacketStore::default();
        let keep = KeepPackets { for_page: Some(&keeper), ..KeepPackets::default() };
        let (explanation, _) = explain::explain_on(known_link_of(run, &cell.network), &mut *source, keep);
        let packets = explanation.packets;
        let connections = explain::pair_captures(vec![explanation]);
        let names = [capture.display().to_string()];
        let document = render::page::document(&names, &connections, packets, &PredictionRequest::default());
        // If the disk is full, writing the run's report fails next and says so.
        let _ = ::report::save(&html, &document);
    }
}
