//! Tables of invented runs, as snapshots.

use page::browser::deviations::{Deviation, Kind};

use super::{Look, render, render_change};
use crate::{
    claims::Verdict,
    compare::compare,
    deviations::CountedDeviation,
    results::{Outcome, RunResult, TimeAttribution},
    stats::median,
    summarize::{comparisons, summarize},
    test_data::{DAVFS2, circumstances, disturbed_run, outcomes, plan, race, run},
};

fn plain(width: usize) -> Look {
    Look { width, colour: false }
}

#[test]
fn a_whole_race() {
    insta::assert_snapshot!(render(&run(4, 1.0, &[]), plain(100)));
}

#[test]
fn a_race_without_davfs2_on_a_narrow_terminal() {
    insta::assert_snapshot!(render(&run(3, 1.0, &DAVFS2), plain(60)));
}

#[test]
fn reasons_follow_their_block() {
    let mut run = run(1, 1.0, &[]);
    run.cells.retain(|cell| ["rclone", "redirector-h1"].contains(&cell.contender.as_str()));
    for cell in run.cells.iter_mut().filter(|cell| cell.network == "article") {
        let answer = "73 % round trips (16 LOCK, 16 PUT, 16 UNLOCK, one at a time), 12 % TLS handshakes".to_owned();
        cell.why = Some(TimeAttribution { round: 0, seconds: [].into(), answer });
    }
    let below = |width| {
        let text = render(&run, plain(width));
        assert_eq!(text.matches("Where").count(), 1, "a block without reasons says nothing of them");
        let lines = text.lines().skip_while(|line| !line.contains("Where")).take_while(|line| !line.is_empty());
        lines.map(|line| line.to_owned() + "\n").collect::<String>()
    };
    assert_eq!(
        below(80),
        "  Where the time went, from the capture of each contender's typical sample:\n    \
         rclone                 73 % round trips (16 LOCK, 16 PUT, 16 UNLOCK, one at\n                           \
         a time), 12 % TLS handshakes\n    \
         redirector-h1 (model)  73 % round trips (16 LOCK, 16 PUT, 16 UNLOCK, one at\n                           \
         a time), 12 % TLS handshakes\n"
    );
    assert!(
        below(40).contains("\n    rclone: 73 % round trips (16 LOCK,\n      16 PUT, 16 UNLOCK, one at a time),\n"),
        "{}",
        below(40)
    );
}

#[test]
fn deviations_are_named_below_the_table() {
    let mut run = run(4, 1.0, &[]);
    run.cells.retain(|cell| cell.network == "article" && cell.contender == "rclone");
    let deviation = |kind, path: &str, detail: &str| Deviation {
        kind,
        url: format!("https://a.example/{path}"),
        detail: detail.to_owned(),
    };
    let counted = |deviation, samples| CountedDeviation { deviation, samples };
    run.cells[0].deviations = vec![
        counted(deviation(Kind::Nearest, "px?t=2", "https://a.example/px?t=1"), 4),
        counted(deviation(Kind::NotRecorded, "new", ""), 2),
        counted(deviation(Kind::NotSent, "a", ""), 1),
        counted(deviation(Kind::NotSent, "b", ""), 1),
    ];
    let text = render(&run, plain(400));
    let line = text.lines().find(|line| line.contains("from the recording")).unwrap();
    assert_eq!(
        line,
        "  rclone: 4 differences from the recording: https://a.example/px?t=2 was answered by https://a.example/px?t=1; \
         https://a.example/new is not recorded (404) in 2 of 4 loads; https://a.example/a was not requested in 1 of 4 loads; \
         1 more in run.json"
    );
}

/// The ranks of the first block's table, and the sentences below it.
fn below(samples: &[(&str, [f64; 4])]) -> String {
    let mut run = run(4, 1.0, &[]);
    run.cells.retain(|cell| cell.network == "article" && samples.iter().any(|(name, _)| *name == cell.contender));
    for cell in &mut run.cells {
        let (_, times) = samples.iter().find(|(name, _)| *name == cell.contender).unwrap();
        (cell.samples_s, cell.median_s) = (times.to_vec(), median(times));
    }
    run.comparisons = comparisons(&run.cells);
    run.claims.clear();
    let text = render(&run, plain(100));
    let rows = text.lines().skip_while(|line| !line.contains("contender")).skip(1);
    let words = |line: &str| match line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>() {
        row if row.len() > 2 => row[..2].join(" "),
        sentence => sentence.concat(),
    };
    rows.map(words).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

#[test]
fn ranks_are_as_wide_as_samples_allow() {
    let (a, b, c) = ([1.0, 1.1, 1.2, 1.3], [1.25, 1.35, 1.4, 1.5], [1.45, 1.6, 1.7, 1.8]);
    let slow = [3.0, 3.1, 3.2, 3.3];
    let like = |by: f64| a.map(|time| time * by);
    let close = [("curl", a), ("rclone", like(1.01)), ("davfs2", like(1.02)), ("webdrive", like(1.03))];
    let cases = [
        // Neighbours do not differ, but the first differs from the last, so no grouping is right.
        below(&[("curl", a), ("rclone", b), ("davfs2", c)]),
        // One stalled sample makes the order unknown.
        below(&[("curl", [1.0, 1.0, 1.1, 9.0]), ("rclone", b), ("davfs2", c)]),
        below(&[&close[..], &[("redirector-h1", slow)]].concat()),
        below(&[("curl", a), ("davfs2", slow), ("rclone", c)]),
    ];
    insta::assert_snapshot!(cases.join("\n\n"), @r"
    curl 1–2
    rclone 1–3
    davfs2 2–3
    No detectable difference between curl and rclone.
    curl is 1.43× (1.12–1.80) as fast as davfs2, the slowest.
    Contenders
    curl (curl 1.2): a file after the other
    rclone (rclone 1.2): a file after the other
    davfs2 (davfs2 1.2): a file after the other

    curl 1–3
    rclone 1–3
    davfs2 1–3
    No detectable difference between curl and any other contender, down to davfs2.
    Contenders
    curl (curl 1.2): a file after the other
    rclone (rclone 1.2): a file after the other
    davfs2 (davfs2 1.2): a file after the other

    curl 1–4
    rclone 1–4
    davfs2 1–4
    webdrive (model) 1–4
    redirector-h1 (model) 5
    No detectable difference between curl and the next 3, down to webdrive (model).
    curl is 2.74× (2.31–3.30) as fast as redirector-h1 (model), the slowest.
    Contenders
    curl (curl 1.2): a file after the other
    rclone (rclone 1.2): a file after the other
    davfs2 (davfs2 1.2): a file after the other
    redirector-h1 (redirector-h1 1.2): a file after the other
    webdrive (webdrive 1.2): a file after the other

    curl 1
    rclone 2
    davfs2 3
    curl is 1.43× (1.12–1.80) as fast as rclone, the next, and 2.74× (2.31–3.30) as fast as davfs2,
    the slowest.
    Contenders
    curl (curl 1.2): a file after the other
    rclone (rclone 1.2): a file after the other
    davfs2 (davfs2 1.2): a file after the other
    ");
}

#[test]
fn disturbed_cells_are_marked_and_nothing_rests_on_them() {
    let run = disturbed_run(1.0, &["haul", "redirector-h1"], 0.48);
    let text = render(&run, plain(100));
    let block: Vec<&str> =
        text.lines().skip_while(|line| !line.contains("contender")).take_while(|line| !line.contains("lan:")).collect();
    insta::assert_snapshot!(block.join("\n"));
    assert!(
        text.contains(
            "Disturbed\n  4 of 29 cells could not be measured: the machine kept programs or packets waiting."
        ),
        "{text}"
    );
    assert!(run.comparisons.iter().all(|pair| !pair.a.ends_with("/haul") && !pair.b.ends_with("/haul")));
    // Whatever is claimed of the slowest contender.
    let claims = run.claims.iter().filter(|claim| claim.measured.contains("redirector-h1 (model) was disturbed"));
    let claims: Vec<_> = claims.collect();
    assert!(!claims.is_empty() && claims.iter().all(|claim| claim.verdict == Verdict::NotJudged), "{claims:?}");
    let quiet = disturbed_run(1.0, &["haul", "redirector-h1"], 0.05);
    assert!(
        quiet.disturbance().is_none()
            && render(&quiet, plain(100)) == render(&crate::test_data::run(4, 1.0, &[]), plain(100))
    );
}

#[test]
fn few_samples_have_a_range_and_more_an_interval() {
    let heading = |samples| render(&run(samples, 1.0, &[]), plain(100));
    assert!(heading(5).contains(" range ") && !heading(5).contains("interval"));
    assert!(heading(6).contains(" interval ") && !heading(6).contains(" range "));
    assert!(!heading(2).contains("rank"));
}

#[test]
fn commands_of_the_user_are_shown_and_claims_of_others_are_not() {
    let mut run = run(4, 1.0, &[]);
    run.commands = [("mine".to_owned(), "./mine put {dir} {url}".to_owned())].into();
    for claim in &mut run.claims {
        claim.in_run = false;
    }
    let text = render(&run, plain(100));
    assert!(text.contains("\nCommands\n  mine: ./mine put {dir} {url}\n"), "{text}");
    let last = text.split("\n\n").last().unwrap_or_default().replace('\n', " ");
    let why = "17 claims of the source are not judged, because this run did not measure what they compare.";
    let how = format!("To judge them, run the whole experiment to its end: `haul lab run {}`. ", run.experiment);
    assert_eq!(last, format!("{why} {how}"), "{text}");
}

#[test]
fn a_race_that_was_stopped() {
    let (race, plan) = (race(), plan(3));
    let mut outcomes = outcomes(&plan, 1.0, &DAVFS2);
    let unreached = |index| index == 3 || index >= 12;
    for (_, outcome) in outcomes.iter_mut().enumerate().filter(|(index, _)| unreached(*index)) {
        if !matches!(outcome, Outcome::Skipped(_)) {
            *outcome = Outcome::Done(Vec::new());
        }
    }
    insta::assert_snapshot!(render(&summarize(&race, &plan, &outcomes, circumstances()), plain(100)));
}

#[test]
fn two_runs() {
    let (then, now) = (run(4, 1.0, &["rclone"]), run(5, 1.2, &["davfs2"]));
    insta::assert_snapshot!(render_change(&compare(&[("before", &then), ("after", &now)]), plain(100)));
}

/// Five runs, one of them on another kernel, one without rclone, one of two samples.
fn five() -> [RunResult; 5] {
    let mut runs = [run(4, 1.0, &[]), run(5, 1.2, &["rclone"]), run(4, 1.0, &[]), run(2, 0.8, &[]), run(5, 0.5, &[])];
    runs[2].host.kernel = "7.0".into();
    runs
}

fn named(runs: &[RunResult]) -> Vec<(&str, &RunResult)> {
    ["monday", "tuesday", "wednesday", "thursday", "friday"].into_iter().zip(runs).collect()
}

#[test]
fn five_runs() {
    let runs = five();
    insta::assert_snapshot!(render_change(&compare(&named(&runs)), plain(80)));
}

#[test]
fn columns_without_room_continue_below() {
    let runs = five();
    let text = render_change(&compare(&named(&runs)), plain(60));
    let heads: Vec<String> = text
        .lines()
        .filter(|line| line.contains("contender"))
        .map(|line| line.split("  ").map(str::trim).filter(|head| !head.is_empty()).collect::<Vec<_>>().join(", "))
        .collect();
    assert_eq!(heads[..2], ["contender, run 1, run 2, run 3", "contender, run 1, run 4, run 5"]);
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let five = five();
    let many = compare(&named(&five));
    for samples in [1, 2, 3, 6] {
        let run = run(samples, 1.0, &["curl"]);
        let two = compare(&[("a", &run), ("b", &run)]);
        for width in [40, 60, 72, 80, 100, 140] {
            let look = plain(width);
            let text = render(&run, look) + &render_change(&two, look) + &render_change(&many, look);
            for line in text.lines().filter(|line| !line.contains("https://")) {
                assert!(line.chars().count() <= width, "{width} columns: {line}");
            }
        }
    }
}

#[test]
fn colour_does_not_change_the_text() {
    let run = run(3, 1.0, &DAVFS2);
    let coloured = render(&run, Look { width: 100, colour: true });
    let mut bare = String::new();
    for (index, part) in coloured.split('\x1b').enumerate() {
        bare += if index == 0 { part } else { part.split_once('m').unwrap().1 };
    }
    let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert!(coloured.contains("\x1b[31m"));
    assert_eq!(trimmed(&bare), trimmed(&render(&run, plain(100))));
}
