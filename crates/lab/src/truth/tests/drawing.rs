//! Cases are drawn from their seed alone, and differ in the knob alone.

use std::collections::BTreeSet;

use super::everything;
use crate::truth::{
    case::{Case, MeasuredCase, knobs},
    facts::Facts,
    knobs::KNOBS,
    programs::Installed,
};

fn draw(seed: u64, index: u32) -> Case {
    let knobs = knobs(&[]).expect("all");
    Case::draw(seed, index, &knobs, &everything()).expect("all programs are there")
}

#[test]
fn same_seed_draws_the_same_cases() {
    for index in 0..60 {
        assert_eq!(draw(7, index), draw(7, index));
        assert_ne!(draw(7, index), draw(8, index));
        assert_ne!(draw(7, index).turned, draw(7, index + 1).turned);
    }
}

#[test]
fn every_knob_comes_once_before_any_comes_again() {
    let count = KNOBS.len() as u32;
    for block in 0..4 {
        let names: BTreeSet<String> = (block * count..(block + 1) * count).map(|index| draw(3, index).knob).collect();
        assert_eq!(names.len(), KNOBS.len());
    }
    let order = |seed| (0..count).map(|index| draw(seed, index).knob).collect::<Vec<_>>();
    assert_ne!(order(3), order(4));
}

#[test]
fn each_knob_has_a_label_and_changes_its_scenario() {
    for index in 0..200 {
        let case = draw(5, index);
        let knob = case.kind().expect("it is known");
        assert!(!knob.expected.is_empty() && knob.name == case.knob);
        assert_ne!(case.turned, case.back, "{}", case.knob);
        // What is transferred is the same.
        assert_eq!((case.turned.file, case.turned.count), (case.back.file, case.back.count), "{}", case.knob);
        for scenario in [&case.turned, &case.back] {
            for link in &scenario.links {
                link.lanes().expect("the link makes sense");
            }
        }
    }
}

#[test]
fn stored_case_is_recognised() {
    let folder = tempfile::tempdir().expect("a folder");
    for index in 0..200 {
        let case = draw(6, index);
        let facts = Facts { duration_s: 0.1 + f64::from(index) / 3.0, ..Facts::default() };
        let stored = MeasuredCase { case: case.clone(), turned: facts, back: facts };
        stored.write(folder.path()).expect("it is stored");
        assert_eq!(MeasuredCase::read(folder.path(), &case), Some(stored), "{case:?}");
        assert_eq!(MeasuredCase::read(folder.path(), &draw(8, index)), None);
    }
}

#[test]
fn missing_programs_skip_the_case_with_a_reason() {
    let knobs = knobs(&["nagle".to_owned()]).expect("it is known");
    let why = Case::draw(1, 0, &knobs, &Installed::default()).expect_err("nothing is installed");
    assert_eq!(why, "nagle: the programs for it are not installed");
    assert_eq!(super::super::case::knobs(&["nagel".to_owned()]).err(), Some("nagel".to_owned()));
}
