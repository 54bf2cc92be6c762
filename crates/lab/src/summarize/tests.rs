//! A run's results agree with its samples.

use crate::{
    results::{CellResult, Outcome, Status},
    test_data::{DAVFS2, run},
};

#[test]
fn cell_summarizes_its_samples() {
    let run = run(4, 1.0, &[]);
    let cell = run.cell("upload-small", "article", "davfs2").unwrap();
    let median = cell.median_s.unwrap();
    assert_eq!(cell.samples_s.len(), 4);
    assert!(cell.ci95_s.unwrap().contains(median));
    assert!((cell.round_trips.unwrap() - median / 0.018).abs() < 1e-9);
    assert!((cell.times_floor.unwrap() - median / cell.floor_s).abs() < 1e-6);
    assert_eq!((cell.requests, cell.connections, cell.bytes), (Some(64), Some(17), Some(180_000)));
    assert_eq!(cell.methods.as_ref().unwrap().get("LOCK"), Some(&16));
    assert_eq!(cell.protocols.as_ref().unwrap()[0].http, "HTTP/1.1");
}

#[test]
fn each_pair_is_compared_once_faster_first() {
    let run = run(4, 1.0, &DAVFS2);
    // Ten of fifteen ran on the one network, nine on the other, where rclone failed.
    assert_eq!(run.comparisons.len(), 10 * 9 / 2 + 9 * 8 / 2);
    for comparison in &run.comparisons {
        assert!(comparison.ratio >= 1.0 - 1e-9 && comparison.ci95.contains(comparison.ratio), "{comparison:?}");
        assert_eq!(comparison.differs, !comparison.ci95.contains(1.0), "{comparison:?}");
        let place = |path: &str| path.rsplit_once('/').unwrap().0.to_owned();
        assert_eq!(place(&comparison.a), place(&comparison.b));
    }
}

#[test]
fn unreached_cell_is_skipped() {
    let plan = crate::test_data::plan(3);
    let mut outcomes = crate::test_data::outcomes(&plan, 1.0, &[]);
    outcomes.truncate(6);
    outcomes[5] = Outcome::Done(Vec::new());
    let run = super::summarize(&crate::test_data::race(), &plan, &outcomes, crate::test_data::circumstances());
    let unreached = &run.cells[5..];
    assert_eq!(run.cells.len(), plan.cells.len());
    assert!(unreached.iter().all(|cell| cell.status == Status::Skipped && !cell.was_reached()));
    assert!(run.cells[..5].iter().all(CellResult::was_reached));
}

#[test]
fn failed_cell_keeps_samples_and_is_not_compared() {
    let run = run(4, 1.0, &[]);
    let failed = run.cell("upload-small", "lan", "rclone").unwrap();
    assert_eq!((failed.status, failed.samples_s.as_slice()), (Status::Failed, &[0.02][..]));
    assert!(failed.reason.as_deref().unwrap().contains("file 7 of 16"));
    assert_eq!((failed.median_s, failed.ci95_s, failed.bytes, failed.requests), (None, None, None, None));
    assert_eq!((failed.methods.as_ref(), failed.protocols.as_ref(), failed.connections), (None, None, None));
    assert!(!run.comparisons.iter().any(|pair| pair.a == failed.path() || pair.b == failed.path()));
}
