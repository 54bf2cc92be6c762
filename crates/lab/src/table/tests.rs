//! An invented race, drawn. Whoever changes the tables reads the snapshots as a stranger would.

use super::{Look, render, render_change};
use crate::{
    assemble::assemble,
    compare::compare,
    example::{DAVFS2, circumstances, outcomes, plan, race, run},
    results::Outcome,
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
fn a_race_that_was_stopped() {
    let (race, plan) = (race(), plan(3));
    let mut outcomes = outcomes(&plan, 1.0, &DAVFS2);
    let unreached = |place| place == 3 || place >= 11;
    for (_, outcome) in outcomes.iter_mut().enumerate().filter(|(place, _)| unreached(*place)) {
        if !matches!(outcome, Outcome::Skipped(_)) {
            *outcome = Outcome::Done(Vec::new());
        }
    }
    insta::assert_snapshot!(render(&assemble(&race, &plan, &outcomes, circumstances()), plain(100)));
}

#[test]
fn two_runs() {
    let change = compare(&run(4, 1.0, &["rclone"]), &run(5, 1.2, &["davfs2"]));
    insta::assert_snapshot!(render_change(&change, plain(100)));
}

#[test]
fn nothing_is_wider_than_the_terminal() {
    for width in [40, 60, 72, 80, 100, 140] {
        for samples in [1, 2, 3, 6] {
            let run = run(samples, 1.0, &["curl"]);
            let text = render(&run, plain(width)) + &render_change(&compare(&run, &run), plain(width));
            for line in text.lines().filter(|line| !line.contains("https://")) {
                assert!(line.chars().count() <= width, "{width} columns: {line}");
            }
        }
    }
}

#[test]
fn colour_adds_nothing_but_colour() {
    let run = run(3, 1.0, &DAVFS2);
    let coloured = render(&run, Look { width: 100, colour: true });
    let mut bare = String::new();
    for (place, part) in coloured.split('\x1b').enumerate() {
        bare += if place == 0 { part } else { part.split_once('m').unwrap().1 };
    }
    let trimmed = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    assert!(coloured.contains("\x1b[31m"));
    assert_eq!(trimmed(&bare), trimmed(&render(&run, plain(100))));
}
