//! The pages of a run's captures, for its report to link to: what each cell's typical sample waited for, packet by
//! packet.
//!
//! They are made last, when everything else is kept, and nothing hangs on them: what cannot be read or takes too long
//! has no page, and its capture is there for `haul explain --html` all the same.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use explain::{
    KeepPackets, PacketStore,
    render::{self, PredictionRequest},
};
use lab::{report_data, results::RunResult};

/// How long all of them together may take.
const PATIENCE: Duration = Duration::from_mins(1);

/// The largest capture that is read, in bytes.
const MOST: u64 = 64 << 20;

/// Makes those that `folder` lacks, until `stop` says so.
pub(super) fn write(folder: &Path, run: &RunResult, stop: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    for cell in &run.cells {
        let (capture, page) = report_data::files(cell);
        let (file, html) = (folder.join(&capture), folder.join(page));
        let is_small = fs::metadata(&file).is_ok_and(|file| file.len() <= MOST);
        if !is_small || html.exists() {
            continue;
        }
        if stop() || Instant::now() > deadline {
            break;
        }
        let Ok(mut source) = capture::open(&file, None) else { continue };
        let keeper = PacketStore::default();
        let (explanation, _) =
            explain::explain_keeping(&mut *source, KeepPackets { for_page: Some(&keeper), ..KeepPackets::default() });
        let packets = explanation.packets;
        let connections = explain::pair_captures(vec![explanation]);
        let names = [capture.display().to_string()];
        let document = render::page::document(&names, &connections, packets, &PredictionRequest::default());
        // A full disk is told of by the report, which is written next.
        let _ = report::save(&html, &document);
    }
}
