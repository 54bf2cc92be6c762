//! An invented race, for tests of everything that is computed from runs.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use crate::{
    disturbance::{MAX_ADDED, Machine},
    experiment::{Cell, Experiment, Known, KnownContender, Plan, Selection},
    results::{Calibration, ContenderRecord, Host, Outcome, RunResult, Sample},
    servers::Protocol,
    summarize::{Circumstances, summarize},
};

const RACE: &str = include_str!("../../../experiments/webdav-race.toml");

/// Round trips for each file, connections, requests for each file.
const CLIENTS: [(&str, f64, u64, &str); 20] = [
    ("curl", 2.3, 16, "PUT"),
    ("curl-parallel-h1", 0.12, 16, "PUT"),
    ("curl-parallel-h2", 0.12, 1, "PUT"),
    ("curl-tuned", 0.08, 16, "PUT"),
    ("rclone", 1.8, 4, "PUT HEAD"),
    ("rclone-new", 1.7, 4, "PUT HEAD"),
    ("rclone-tuned", 0.3, 1, "PUT HEAD"),
    ("davfs2", 5.5, 17, "LOCK PUT HEAD UNLOCK"),
    ("davfs2-nolocks", 2.3, 1, "PUT HEAD"),
    ("davfs2-tuned", 2.3, 1, "PUT HEAD"),
    ("samba-davfs2", 6.5, 17, "LOCK PUT HEAD UNLOCK"),
    ("samba-davfs2-nolocks", 3.3, 1, "PUT HEAD"),
    ("redirector-h1", 8.0, 1, "PROPFIND PUT LOCK PROPPATCH HEAD PUT PROPPATCH UNLOCK"),
    ("redirector-h2", 8.0, 1, "PROPFIND PUT LOCK PROPPATCH HEAD PUT PROPPATCH UNLOCK"),
    ("webdrive", 2.0, 4, "PROPFIND PUT PROPFIND"),
    ("haul", 0.1, 2, "PUT"),
    ("haul-no-pipelining", 0.4, 6, "PUT"),
    ("haul-http2", 0.11, 1, "PUT"),
    ("haul-http3", 0.10, 0, "PUT"),
    ("haul-locks", 0.5, 2, "LOCK PUT UNLOCK"),
];

pub(crate) fn race() -> Experiment {
    let contenders = CLIENTS.map(|(name, ..)| KnownContender {
        name,
        model: name.starts_with("redirector") || name == "webdrive",
        requests_of: None,
        settings: Vec::new(),
    });
    let known = Known { contenders: &contenders, servers: &["apache", "nginx", "embedded"] };
    Experiment::parse(RACE, "webdav-race.toml".as_ref(), known).unwrap()
}

/// The contenders that need davfs2.
pub(crate) const DAVFS2: [&str; 5] =
    ["davfs2", "davfs2-nolocks", "davfs2-tuned", "samba-davfs2", "samba-davfs2-nolocks"];

/// An invented quick race, with all times multiplied by `factor`.
pub(crate) fn run(samples: u32, factor: f64, missing: &[&str]) -> RunResult {
    let (race, plan) = (race(), plan(samples));
    summarize(&race, &plan, &outcomes(&plan, factor, missing), circumstances())
}

/// Disturbs the samples of these contenders: the machine may have added this share of their time.
pub(crate) fn disturb(plan: &Plan, outcomes: &mut [Outcome], contenders: &[&str], share: f64) {
    let of_plan = plan.cells.iter().zip(outcomes);
    for (_, outcome) in of_plan.filter(|(cell, _)| contenders.contains(&cell.row.contender.as_str())) {
        let Outcome::Done(samples) = outcome else { continue };
        for sample in samples {
            let added_s = share * sample.seconds;
            let machine = Machine { added_s, disturbed: share > MAX_ADDED, ..Machine::default() };
            sample.machine = Some(machine);
        }
    }
}

/// An invented quick race, in which the machine disturbed these contenders.
pub(crate) fn disturbed_run(factor: f64, contenders: &[&str], share: f64) -> RunResult {
    let (race, plan) = (race(), plan(4));
    let mut outcomes = outcomes(&plan, factor, &[]);
    disturb(&plan, &mut outcomes, contenders, share);
    summarize(&race, &plan, &outcomes, circumstances())
}

/// The cells of the quick race.
pub(crate) fn plan(samples: u32) -> Plan {
    race().plan(&Selection { quick: true, samples: Some(samples), ..Selection::default() }).unwrap()
}

/// The outcome of each cell.
pub(crate) fn outcomes(plan: &Plan, factor: f64, missing: &[&str]) -> Vec<Outcome> {
    plan.cells.iter().map(|cell| outcome(cell, plan.samples, factor, missing)).collect()
}

fn outcome(cell: &Cell, samples: u32, factor: f64, missing: &[&str]) -> Outcome {
    let (name, trips, connections, requests) =
        CLIENTS.into_iter().find(|(name, ..)| *name == cell.row.contender).unwrap();
    if missing.contains(&name) {
        return Outcome::Skipped("mount.davfs is not installed; install it with `apt-get install davfs2`".into());
    }
    if name == "rclone" && cell.network.name == "lan" {
        let taken = vec![Sample { seconds: 0.02, ..Sample::default() }];
        return Outcome::Failed { why: "file 7 of 16 is not on the server after sample 2".into(), samples: taken };
    }
    let trip = cell.network.rtt().as_secs_f64() + 0.0004;
    let sample = |round: u32| Sample {
        round,
        start_s: f64::from(round),
        began: None,
        // A little reproducible noise.
        seconds: factor * ((3.0 + trips * 16.0) * trip + 0.0007 * f64::from((round * 7 + 3) % 5)),
        bytes: Some(180_000),
        methods: Some(methods(requests)),
        protocols: Some([Protocol { http: "HTTP/1.1".into(), tls: Some("TLSv1.3".into()), cipher: None }].into()),
        connections: Some(connections),
        link_round_trips: Some(3 + (16.0 * trips) as u64),
        syns: None,
        server_cpu_s: None,
        machine: None,
        page_view: None,
        deviations: Vec::new(),
        repeated: 0,
    };
    Outcome::Done((0..samples).map(sample).collect())
}

/// Each request sixteen times.
fn methods(requests: &str) -> BTreeMap<String, u64> {
    requests.split(' ').fold(BTreeMap::new(), |mut methods, method| {
        *methods.entry(method.to_owned()).or_default() += 16;
        methods
    })
}

pub(crate) fn circumstances() -> Circumstances {
    Circumstances {
        started: SystemTime::UNIX_EPOCH + Duration::from_mins(29_921_498),
        host: Host { kernel: "6.12".into(), ..Host::default() },
        contenders: CLIENTS
            .map(|(name, ..)| ContenderRecord {
                name: name.to_owned(),
                version: format!("{name} 1.2"),
                about: "a file after the other".to_owned(),
            })
            .into(),
        calibration: Some(Calibration {
            delay_error_p50_us: 21.0,
            delay_error_p99_us: 90.0,
            packets_per_s: 7e5,
            rate_error: 0.0,
            real_time: Some(true),
            delay_errors: vec![],
        }),
        command: "haul race --quick".into(),
        settings: [("server", "apache"), ("tls", "true"), ("quick", "true")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        tls: true,
        seed: 1,
    }
}
