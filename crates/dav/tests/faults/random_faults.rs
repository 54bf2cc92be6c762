//! Random trees, random faults.

use std::{
    cell::Cell,
    collections::BTreeMap,
    time::{Duration, Instant},
};

use dav::{
    LockPolicy,
    transfer::{Options, Verify},
};
use haul_http::Pipelining;
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use servers::{Double, Fault};

use crate::common::{Tree, check, client, down, folder, mirror, noise, read, rest, up, write};

/// The number of trees; `PROPTEST_CASES` overrides it.
const TREES: u32 = 20;
/// Time limit, unless a number is given; remaining cases are skipped.
const ENOUGH: Duration = Duration::from_mins(1);

pub(crate) fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        3 => Just(Fault::Reset),
        3 => Just(Fault::ResetAfterProcessing),
        3 => Just(Fault::TruncateResponse),
        1 => Just(Fault::TruncateWithoutLength),
        2 => Just(Fault::SwapResponses),
        2 => Just(Fault::WrongDigest),
        1 => Just(Fault::EndlessHeader),
        1 => Just(Fault::EndlessBody),
        1 => Just(Fault::OmitResponse),
        2 => Just(Fault::RespondEarly(507)),
        2 => Just(Fault::Respond(503, "retry-after: 0\r\n")),
        2 => Just(Fault::Respond(429, "retry-after: 0\r\n")),
        2 => prop::sample::select(vec![403, 404, 409, 412, 423, 500, 507]).prop_map(|status| Fault::Respond(status, "")),
    ]
}

struct Case {
    tree: Tree,
    /// By request number.
    faults: BTreeMap<u64, Fault>,
    options: Options,
    pipelining: Pipelining,
}

impl std::fmt::Debug for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { tree, faults, options, pipelining } = self;
        let lengths: BTreeMap<_, _> = tree.iter().map(|(name, content)| (name, content.len())).collect();
        write!(f, "{lengths:?} {faults:?} {options:?} {pipelining:?}")
    }
}

fn cases() -> impl Strategy<Value = Case> {
    let name = "[a-c]/[a-z]{1,3}|[a-z]{1,3}x|d/e/[a-f]{1,2}y";
    let size = prop_oneof![4 => 0_usize..3000, 1 => 0_usize..200_000];
    let tree = prop::collection::btree_map(name, size, 1..40).prop_map(|sizes| {
        let files = sizes.into_iter().enumerate();
        files.map(|(number, (name, size))| (name, noise(number + 1, size))).collect()
    });
    let pipelining = prop::sample::select(vec![Pipelining::Off, Pipelining::Safe, Pipelining::Aggressive]);
    let options =
        (any::<bool>(), any::<bool>(), prop::sample::select(vec![LockPolicy::Never, LockPolicy::Always]), 1_usize..6);
    let options = options.prop_map(|(temporary, verified, lock, connections)| Options {
        temporary,
        verify: if verified { Verify::Size } else { Verify::None },
        lock,
        connections,
        ..mirror()
    });
    (tree, prop::collection::btree_map(0_u64..120, fault(), 0..12), options, pipelining).prop_map(
        |(tree, mut faults, options, pipelining)| {
            // Without verification, swapped responses of two files are not detected.
            if options.verify == Verify::None && pipelining != Pipelining::Off {
                faults.retain(|_, fault| !matches!(fault, Fault::SwapResponses | Fault::OmitResponse));
            }
            Case { tree, faults, options, pipelining }
        },
    )
}

/// Prints the server's requests if the test fails.
struct LogOnPanic<'a>(&'a Double);

impl Drop for LogOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.0.log());
        }
    }
}

async fn play(case: &Case, upwards: bool) {
    let (double, (_kept, here), (_also, there)) = (Double::start().await, folder(), folder());
    let dav = |quick: bool| {
        client(double.address, |settings| {
            (settings.pipelining, settings.connections) = (case.pipelining, case.options.connections);
            if quick {
                settings.timeouts.pipelined = Duration::from_millis(600);
                settings.timeouts.first_byte = Duration::from_millis(1200);
            }
        })
    };
    let faults = case.faults.clone();
    let script = move |_: &str, _: &str, number: u64| faults.get(&number).cloned();
    if upwards {
        write(&here, &case.tree);
        double.script(script);
        let first = up(&dav(true), &here, &case.options).await;
        let _told = LogOnPanic(&double);
        check(&case.tree, &Tree::new(), &double.files("/up"), &first);
        double.clear_faults();
        let second = up(&dav(false), &here, &rest(&case.options)).await.unwrap();
        assert!(second.failed.is_empty(), "{:?}", second.failed);
        assert!(double.files("/up") == case.tree);
        assert_eq!(double.locks(), 0);
    } else {
        for (name, content) in &case.tree {
            double.put(&format!("/up/{name}"), content, Duration::from_hours(1));
        }
        double.script(script);
        let first = down(&dav(true), &there, &case.options).await;
        check(&case.tree, &Tree::new(), &read(&there), &first);
        double.clear_faults();
        let second = down(&dav(false), &there, &rest(&case.options)).await.unwrap();
        assert!(second.failed.is_empty(), "{:?}", second.failed);
        assert!(read(&there) == case.tree);
    }
}

fn run(upwards: bool) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let begin = Instant::now();
    let played = Cell::new(0);
    let cases_wanted = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let config = Config {
        cases: cases_wanted.unwrap_or(TREES),
        failure_persistence: None,
        max_shrink_iters: 60,
        ..Config::default()
    };
    let result = TestRunner::new(config).run(&cases(), |case| {
        if cases_wanted.is_some() || begin.elapsed() < ENOUGH {
            played.set(played.get() + 1);
            let done =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(play(&case, upwards))));
            prop_assert!(done.is_ok(), "see the panic above");
        }
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    println!("{} trees were moved", played.get());
    assert!(played.get() > 0);
}

#[test]
fn uploads_survive_random_faults() {
    run(true);
}

#[test]
fn downloads_survive_random_faults() {
    run(false);
}
