//! The judge, with invented explanations.

use super::measured;
use crate::truth::{
    account::Account,
    judge::{Captured, Judgement, blames, dominant, is_judged, judge},
    knobs::{KNOBS, Party, party},
    results::{CaseResult, bars},
};

fn account(seconds: &[(&str, f64)], headline: Option<(&str, f64)>) -> Account {
    Account {
        seconds: seconds.iter().map(|(cause, seconds)| ((*cause).to_owned(), *seconds)).collect(),
        headline: headline.map(|(cause, share)| (cause.to_owned(), share)),
        bytes: 1000,
        is_conserved: true,
        vantage: Some("client"),
        ..Account::default()
    }
}

fn captured(duration_s: f64) -> Captured {
    Captured { vantage: "client", variant: "full", path: "a.pcapng".to_owned(), duration_s }
}

fn verdict(knob: &str, account: &Account) -> Judgement {
    judge(&measured(knob), account, captured(2.0))
}

#[test]
fn dominant_cause_is_what_took_most_beside_round_trips() {
    let said = |seconds: &[(&str, f64)]| dominant(&account(seconds, None));
    assert_eq!(said(&[("propagation", 1.0), ("server_think", 0.6), ("nagle", 0.4)]), ("server_think".to_owned(), 0.3));
    // Nothing is worth mentioning.
    assert_eq!(said(&[("propagation", 0.95), ("slow_start", 0.05)]).0, "propagation");
    assert_eq!(said(&[]), ("nothing".to_owned(), 0.0));
}

#[test]
fn right_is_the_knobs_cause_and_no_other() {
    let one = verdict("server-think", &account(&[("server_think", 1.4), ("propagation", 0.6)], None));
    assert!(one.is_right && !one.blames_wrong_party && (one.cost_s - 1.4).abs() < 1e-9, "{one:?}");
    let other = verdict("server-think", &account(&[("client_think", 1.4), ("propagation", 0.6)], None));
    assert!(!other.is_right && other.cost_s.abs() < 1e-9, "{other:?}");
    // Either cause of a small body behind Nagle's algorithm.
    for cause in ["nagle", "delayed_ack"] {
        assert!(verdict("nagle", &account(&[(cause, 1.0)], None)).is_right);
    }
}

#[test]
fn event_may_be_named_by_any_finding() {
    let mut account = account(&[("path_rate", 1.0)], Some(("slow_start", 0.2)));
    assert!(!verdict("reset", &account).is_right);
    account.findings.insert("reset".to_owned());
    assert!(verdict("reset", &account).is_right);
    // A cause that takes time must take most of it.
    account.findings.insert("server_think".to_owned());
    assert!(!verdict("server-think", &account).is_right);
}

#[test]
fn wrong_party_is_blamed_only_by_a_confident_first_line() {
    let blames =
        |cause, share| verdict("server-think", &account(&[(cause, 1.0)], Some((cause, share)))).blames_wrong_party;
    assert!(blames("client_think", 0.8) && blames("path_rate", 0.5));
    assert!(!blames("client_think", 0.2), "it is not sure");
    assert!(!blames("slow_start", 0.8), "that is nobody's fault");
    assert!(!blames("sender_idle", 0.8), "the server is the sender");
}

#[test]
fn knob_that_is_not_turned_is_blamed_only_by_a_confident_first_line() {
    let still = |headline| blames(&account(&[], headline), &["nagle", "delayed_ack"]);
    assert!(still(Some(("delayed_ack", 0.5))));
    assert!(!still(Some(("delayed_ack", 0.1))) && !still(Some(("slow_start", 0.5))) && !still(None));
}

#[test]
fn party_depends_on_the_direction() {
    assert_eq!([party("receive_window", false), party("receive_window", true)], [Party::Client, Party::Server]);
    assert_eq!([party("send_buffer", false), party("send_buffer", true)], [Party::Server, Party::Client]);
    assert!(KNOBS.iter().all(|knob| knob.party(false) != Party::Nobody));
}

#[test]
fn case_in_which_the_knob_cost_little_is_not_judged() {
    let mut case = measured("loss");
    assert!(is_judged(&case));
    case.back.duration_s = 1.5; // of 2 s
    assert!(!is_judged(&case), "a quarter of the time");
    case.back.duration_s = 0.5;
    let judged = |duration_s| judge(&case, &account(&[], None), captured(duration_s)).is_judged;
    assert!(judged(1.5) && !judged(0.5), "most of the transfer is not in the capture");
    let mut reset = measured("reset");
    reset.turned.duration_s = 0.1;
    assert!(is_judged(&reset), "a transfer that is cut short takes less time");
    reset.turned.emulator_drops = 50;
    assert!(!is_judged(&reset), "the emulator was too slow");
}

#[test]
fn bars_count_and_take_medians() {
    let result = |seconds: &[(&str, f64)], predicted_s: Option<f64>, bytes: u64| {
        let account = Account { predicted_s, bytes, ..account(seconds, None) };
        CaseResult::new(measured("server-think"), vec![verdict("server-think", &account)], false)
    };
    let cases = [
        result(&[("server_think", 1.5), ("propagation", 0.5)], Some(0.5), 1000),
        result(&[("server_think", 1.2), ("propagation", 0.8)], Some(0.75), 999),
        result(&[("client_think", 1.5), ("propagation", 0.5)], None, 1000),
    ];
    let [bars] = bars(&cases).try_into().expect("one kind of capture");
    assert_eq!((bars.judged, bars.right, bars.place_right, bars.wrong_party), (3, 2, 3, 0));
    assert_eq!((bars.explained, bars.conserved, bars.countable, bars.byte_exact), (3, 3, 3, 2));
    // 0, 0.2 and 1 of the true cost of 1.5 s.
    assert!((bars.cost_error.expect("three") - 0.2).abs() < 1e-9);
    // 0 and 0.5 of the half second without the knob.
    assert_eq!((bars.predicted, bars.prediction_error), (2, Some(0.25)));
}
