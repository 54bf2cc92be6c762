use std::collections::BTreeMap;

use explain::Cause;
use proptest::prelude::*;

use super::{Account, IDLE, MACHINE, Transfer, account, sentence};
use crate::disturbance::Delays;

fn transfer(from: f64, to: f64, times: &[(Cause, u64)]) -> Transfer {
    Transfer { from, to, times: times.to_vec() }
}

fn spent(account: &Account, name: &str) -> f64 {
    account.seconds.get(name).copied().unwrap_or_default()
}

#[track_caller]
fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9, "{a} and {b}");
}

#[test]
fn time_without_transfers_is_idle() {
    let nothing = account(&[], 2.0);
    assert_eq!((spent(&nothing, IDLE), nothing.transfers), (2.0, 0));
    assert_eq!(sentence(&nothing, None), "100 % link idle");
}

#[test]
fn parallel_transfers_share_the_time() {
    let all = account(
        &[
            transfer(0.0, 2.0, &[(Cause::Propagation, 1)]),
            transfer(1.0, 3.0, &[(Cause::ServerThink, 3), (Cause::Connect, 1)]),
        ],
        4.0,
    );
    near(spent(&all, "propagation"), 1.5);
    near(spent(&all, "server_think"), 1.125);
    near(spent(&all, "connect"), 0.375);
    near(spent(&all, IDLE), 1.0);
    near(all.at_once, 4.0 / 3.0);
}

#[test]
fn waits_for_a_processor_are_the_machines() {
    let times = [(Cause::Propagation, 30), (Cause::ServerThink, 60)];
    let of = |server, client, emulator| {
        let mut all = account(&[transfer(0.0, 0.9, &times)], 1.0);
        all.charge_machine(Delays { client, server, emulator });
        near(all.seconds.values().sum::<f64>(), 1.0);
        all
    };
    // The server worked for 0.09 s, and waited for a processor for the rest.
    let busy = of(0.51, 0.0, 0.0);
    near(spent(&busy, "server_think"), 0.09);
    near(spent(&busy, MACHINE), 0.51);
    assert_eq!(sentence(&busy, None), "51 % machine busy, 30 % round trips, 10 % link idle");
    let late = of(0.0, 0.05, 0.7);
    near(spent(&late, IDLE), 0.05);
    near(spent(&late, "server_think"), 0.0);
    near(spent(&late, "propagation"), 0.2);
    near(spent(&late, MACHINE), 0.75);
    near(spent(&of(9.0, 9.0, 9.0), MACHINE), 1.0);
    assert_eq!(of(0.0, 0.0, 0.0), account(&[transfer(0.0, 0.9, &times)], 1.0));
}

#[test]
fn time_outside_the_sample_does_not_count() {
    let times = [(Cause::Propagation, 4), (Cause::ClientThink, 1)];
    let all = account(&[transfer(-9.0, -1.0, &times), transfer(-1.0, 1.0, &times), transfer(4.0, 6.0, &times)], 5.0);
    near(spent(&all, "propagation"), 1.6);
    near(spent(&all, IDLE), 3.4);
    assert_eq!((all.transfers, all.seconds.len()), (2, 2), "{all:?}");
}

#[test]
fn sentence_names_requests_of_round_trips() {
    let methods = |counts: &[(&str, u64)]| -> BTreeMap<String, u64> {
        counts.iter().map(|(method, count)| ((*method).to_owned(), *count)).collect()
    };
    let times = [(Cause::Propagation, 80), (Cause::ServerThink, 17), (Cause::Tls, 3)];
    let in_turn: Vec<_> = (0_u32..6).map(|n| transfer(f64::from(n), f64::from(n + 1), &times)).collect();
    let at_once: Vec<_> = (0..6).map(|_| transfer(0.0, 6.0, &times)).collect();
    let locks = methods(&[("PUT", 2), ("LOCK", 2), ("UNLOCK", 2)]);
    assert_eq!(
        sentence(&account(&in_turn, 6.0), Some(&locks)),
        "80 % round trips (2 LOCK, 2 PUT, 2 UNLOCK, one at a time), 17 % server at work"
    );
    assert_eq!(
        sentence(&account(&at_once, 6.0), Some(&methods(&[("PUT", 6)]))),
        "80 % round trips (6 PUT, about 6 at a time), 17 % server at work"
    );
    let many = methods(&[("GET", 30), ("HEAD", 20), ("LOCK", 9), ("PUT", 8), ("MOVE", 1)]);
    let pipelined = sentence(&account(&in_turn, 6.0), Some(&many));
    assert_eq!(pipelined, "80 % round trips (30 GET, 20 HEAD, 9 LOCK, 9 more), 17 % server at work");
    assert_eq!(sentence(&account(&in_turn, 6.0), None), "80 % round trips, 17 % server at work");
}

proptest! {
    #[test]
    fn parts_add_up_to_the_sample(spans in prop::collection::vec((-3.0..12.0, -1.0..6.0, prop::collection::vec(0_u64..9, 18)), 0..30)) {
        let transfers: Vec<Transfer> = spans
            .iter()
            .map(|(from, length, times)| {
                let causes = Cause::all().filter(|cause| *cause != Cause::ClientThink);
                let times = causes.zip(times.iter().copied()).filter(|(_, time)| *time > 0).collect();
                Transfer { from: *from, to: from + length, times }
            })
            .collect();
        let all = account(&transfers, 8.0);
        prop_assert!((all.seconds.values().sum::<f64>() - 8.0).abs() < 1e-6, "{all:?}");
        prop_assert!(all.seconds.values().all(|seconds| *seconds >= -1e-9), "{all:?}");
        let counted = transfers.iter().filter(|one| !one.times.is_empty());
        let covered = |at: f64| counted.clone().any(|one| one.from <= at && at < one.to);
        let idle = (0..8000).filter(|at| !covered(f64::from(*at) / 1e3 + 5e-4)).count() as f64 / 1e3;
        prop_assert!((spent(&all, IDLE) - idle).abs() <= 0.002 * (transfers.len() + 1) as f64, "{idle} {all:?}");
    }
}
