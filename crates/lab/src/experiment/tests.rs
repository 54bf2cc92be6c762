//! The race's own file, and all mistakes that a file can contain.

use std::{collections::BTreeMap, path::Path, time::Duration};

use super::*;
use crate::{claims::Check, work::WorkKind};

const RACE: &str = include_str!("../../../../experiments/webdav-race.toml");

/// The number of rows that the quick race leaves out.
const TRICKS: usize = 5;

const NAMES: [&str; 20] = [
    "curl",
    "curl-parallel-h1",
    "curl-parallel-h2",
    "curl-tuned",
    "rclone",
    "rclone-new",
    "rclone-tuned",
    "davfs2",
    "davfs2-nolocks",
    "davfs2-tuned",
    "samba-davfs2",
    "samba-davfs2-nolocks",
    "redirector-h1",
    "redirector-h2",
    "webdrive",
    "haul",
    "haul-no-pipelining",
    "haul-http2",
    "haul-http3",
    "haul-locks",
];

fn parse(text: &str) -> Result<Experiment, Mistake> {
    let contenders = NAMES.map(|name| KnownContender {
        name,
        model: name.starts_with("redirector") || name == "webdrive",
        requests_of: None,
        settings: if name == "rclone" { vec!["transfers", "connections"] } else { Vec::new() },
    });
    let known = Known { contenders: &contenders, servers: &["apache", "nginx", "embedded"] };
    Experiment::parse(text, Path::new("experiments/webdav-race.toml"), known)
}

fn race() -> Experiment {
    parse(RACE).unwrap()
}

/// The race with `old` replaced by `new`.
fn changed(old: &str, new: &str) -> Result<Experiment, Mistake> {
    assert!(RACE.contains(old), "the race has no {old}");
    parse(&RACE.replacen(old, new, 1))
}

#[test]
fn race_has_expected_cells() {
    let race = race();
    assert_eq!(race.name, "webdav-race");
    assert_eq!(race.contenders.iter().map(Row::name).collect::<Vec<_>>(), NAMES);
    let networks: Vec<_> = race.networks.iter().map(|n| (n.name.as_str(), n.describe())).collect();
    let described = [
        ("article", "18ms RTT, 100mbit, queue 150p"),
        ("lan", "500us RTT, 1gbit, queue 100p"),
        ("long", "140ms RTT, 20mbit, queue 234p"),
    ];
    assert_eq!(networks, described.map(|(name, what)| (name, what.to_owned())));
    assert!(race.networks.iter().all(|network| network.note.is_some()));
    let tasks: Vec<_> = race.workloads.iter().map(|workload| workload.work.to_string()).collect();
    assert_eq!(
        tasks,
        [
            "upload 200 files of 10KiB",
            "upload 10000 files of 1KiB in 100 folders",
            "download 200 files of 10KiB",
            "upload 1 file of 20MiB",
            "download 1 file of 20MiB",
            "list a folder of 1000 entries",
            "save a file of 10KiB in place 20 times",
        ]
    );
    assert_eq!(race.plan(&Selection::default()).unwrap().cells.len(), 3 * 6 * 20 + 2 * 8);
}

#[test]
fn quick_race_is_short_and_judges_five_claims() {
    let race = race();
    let plan = race.plan(&Selection { quick: true, ..Selection::default() }).unwrap();
    let waits = |network: &Network, files: u32| {
        // The round trips for each file and the set-up of each sample that the file's comment counts.
        network.rtt().max(Duration::from_micros(1500)).mul_f64(43.0 * f64::from(files)) + Duration::from_millis(10_500)
    };
    let rounds: Duration = plan
        .cells
        .chunks(NAMES.len() - TRICKS)
        .map(|rivals| waits(&rivals[0].network, rivals[0].workload.work.steps()))
        .sum();
    assert!(rounds * plan.samples < Duration::from_secs(150), "{:?}", rounds * plan.samples);
    let runs = |network: &str| plan.cells.iter().any(|cell| cell.network.name == network);
    assert!(race.claims.iter().filter(|claim| runs(&claim.network)).count() >= 5);
}

#[test]
fn equal_words_have_equal_factors() {
    for claim in race().claims {
        let factor = match &claim.check {
            Check::Slower { by, .. } | Check::Fastest { by, .. } => Some(*by),
            Check::Ratio { at_least, .. } => *at_least,
            _ => None,
        };
        for (word, meant) in [("by far", 1.5), ("greatly", 1.2)] {
            assert!(!claim.said.contains(word) || factor == Some(meant), "{}: {factor:?}", claim.id);
        }
    }
}

// One line for each mistake.
#[test]
fn mistakes_have_line_and_column() {
    let message = |old: &str, new: &str| changed(old, new).unwrap_err().to_string();
    let cases = BTreeMap::from([
        ("unknown key", message("question =", "qestion =")),
        ("unknown key in a network", message("rtt = \"18ms\"", "rrt = \"18ms\"")),
        ("unknown key in a workload", message("entries = 1000", "entires = 1000")),
        ("unknown kind", message("kind = \"upload\"", "kind = \"uplaod\"")),
        ("unknown check", message("check.fastest", "check.fasest")),
        ("unknown key in a check", message("at_least = 1.2", "atleast = 1.2")),
        ("unknown contender", message("\"rclone\",", "\"rclon\",")),
        ("unlike any contender", message("\"rclone\",", "\"cyberduck\",")),
        ("unknown contender in a claim", message("to = \"davfs2-nolocks\"", "to = \"davfs-nolocks\"")),
        ("unknown network in a claim", message("on = \"lan\"", "on = \"len\"")),
        ("unknown workload in quick", message("workloads = [\"upload-small\"]", "workloads = [\"uploads-small\"]")),
        (
            "unknown workload to make smaller",
            message("workload.upload-small.files = 16", "workload.upload-smal.files = 16"),
        ),
        ("unknown server", message("\"apache\",", "\"apache2\",")),
        ("bad unit", message("\"100mbit\"", "\"100mbps\"")),
        ("no unit", message("rtt = \"18ms\"", "rtt = 18")),
        (
            "note without quotes",
            message("note = \"the article's: a home in the same region as the server\"", "note = 7"),
        ),
        ("listed twice", message("\"curl\",", "\"curl\", \"curl\",")),
        ("key twice", message("entries = 1000", "entries = 1000\nentries = 2")),
        ("claim twice", message("id = \"redirector-slowest-by-far\"", "id = \"redirector-slowest\"")),
        ("missing key", message("entries = 1000", "")),
        ("another kind's key", message("entries = 1000", "entries = 1000\nfiles = 3")),
        (
            "folders without a file",
            message("kind = \"list\"\nentries = 1000", "kind = \"tree\"\nfolders = 4\nfiles = 3\nsize = \"1KiB\""),
        ),
        ("name over two lines", message("what = \"samba-davfs2-nolocks\"", "what = \"samba\\nnolocks\"")),
        ("nothing to do", message("entries = 1000", "entries = 0")),
        ("too many samples", message("samples = 5", "samples = 500")),
        ("bound missing", message(", at_least = 1.2", "")),
        ("bound missing for requests", message(", at_most = 0", "")),
        ("requests below none", message("at_most = 0", "at_most = -1")),
        ("no method", message("methods = [\"LOCK\"]", "methods = []")),
        ("factor out of range", message("by = 1.5", "by = -1.5")),
        ("nobody to compare", message("among = [\"redirector-h1\", \"redirector-h2\", \"webdrive\"]", "among = []")),
        ("setting unknown", message("[quick]", "[contender.rclone]\ntranfers = 4\n[quick]")),
        ("setting of an absent contender", message("[quick]", "[contender.rclon]\ntransfers = 4\n[quick]")),
        ("setting of a wrong kind", message("[quick]", "[contender.rclone]\ntransfers = { a = 1 }\n[quick]")),
        ("setting twice the same", message("[quick]", "[contender.rclone]\ntransfers = [4, 4]\n[quick]")),
        ("setting not a word", message("[quick]", "[contender.rclone]\ntransfers = \"a b\"\n[quick]")),
        (
            "a list of sizes for an upload",
            message("files = 200\nsize = \"10KiB\"", "files = 200\nsize = [\"10KiB\", \"1MiB\"]"),
        ),
        (
            "no size",
            message("kind = \"download\"\nfiles = 200\nsize = \"10KiB\"", "kind = \"download\"\nfiles = 2\nsize = []"),
        ),
        (
            "a page without rest",
            message("kind = \"list\"\nentries = 1000", "kind = \"page\"\nobjects = \"1KiB\"\nsize = \"1KiB\""),
        ),
        ("objects that are no page's", message("entries = 1000", "entries = 1000\nobjects = [\"1KiB\"]")),
        ("a workload over no network", message("entries = 1000", "entries = 1000\nnetworks = [\"artcle\"]")),
        ("a workload by nobody", message("entries = 1000", "entries = 1000\ncontenders = [\"rclon\"]")),
        ("a server's unknown key", message("rtt = \"18ms\"", "rtt = \"18ms\"\nserver.initial_windw = 3")),
        ("a server without a window", message("rtt = \"18ms\"", "rtt = \"18ms\"\nserver.initial_window = 0")),
        (
            "a setting of no host",
            message("rtt = \"18ms\"", "rtt = \"18ms\"\nserver.sysctls.\"kernel.hostname\" = \"x\""),
        ),
        (
            "an unknown unit",
            message(
                "check.per-step = { what = \"davfs2\", methods = [\"LOCK\"], at_most = 0 }",
                "check.takes = { what = \"davfs2\", unit = \"trips\", at_most = 1 }",
            ),
        ),
        ("a server that thinks too long", message("rtt = \"18ms\"", "rtt = \"18ms\"\nserver.think_time = \"11s\"")),
        ("a condition of nothing", message("webdrive = \"WebDrive", "webdriv = \"WebDrive")),
        ("not TOML", message("[quick]", "[quick")),
    ]);
    let lines: Vec<String> = cases.iter().map(|(what, message)| format!("{what}\n    {message}")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn sweep_makes_one_row_per_value() {
    let sweep = "[contender.rclone]\ntransfers = [1, 16]\nconnections = 4\n[quick]";
    let race = changed("[quick]", sweep).unwrap();
    let rows: Vec<String> = race.contenders.iter().map(Row::name).filter(|name| name.starts_with("rclone ")).collect();
    assert_eq!(rows, ["rclone connections=4 transfers=1", "rclone connections=4 transfers=16"]);
    let cells = |contender: &str| {
        let contenders = vec![contender.to_owned()];
        race.plan(&Selection { contenders, ..Selection::default() }).unwrap().cells.len()
    };
    assert_eq!((cells("rclone"), cells("rclone connections=4 transfers=1")), (40, 20));
}

#[test]
fn workload_selects_networks_and_contenders() {
    let only = "entries = 1000\nnetworks = [\"lan\"]\ncontenders = [\"curl\", \"rclone\"]";
    let race = changed("entries = 1000", only).unwrap();
    let plan = race.plan(&Selection { workloads: vec!["list".into()], ..Selection::default() }).unwrap();
    let cells: Vec<_> = plan.cells.iter().map(|cell| (cell.network.name.as_str(), cell.row.name())).collect();
    assert_eq!(cells, [("lan", "curl".to_owned()), ("lan", "rclone".to_owned())]);
    let nobody =
        Selection { workloads: vec!["list".into()], contenders: vec!["webdrive".into()], ..Selection::default() };
    assert_eq!(race.plan(&nobody), Err(PlanError::Nothing));
}

#[test]
fn network_describes_server_tcp() {
    let set =
        "rtt = \"18ms\"\nserver.initial_window = 3\nserver.sysctls.\"net.ipv4.tcp_slow_start_after_idle\" = \"0\"";
    let race = changed("rtt = \"18ms\"", set).unwrap();
    let said = "18ms RTT, 100mbit, queue 150p; server: initial window 3, tcp_slow_start_after_idle 0";
    assert_eq!(race.networks[0].describe(), said);
    assert_eq!(race.networks[0].record()["server"]["initial_window"], 3);
    assert!(race.networks[1].record().get("server").is_none());
    assert!(race.tls && !changed("samples = 5", "samples = 5\ntls = false").unwrap().tls);
}

#[test]
fn network_names_the_habits_of_its_server() {
    let set = "rtt = \"18ms\"\nserver.think_time = \"86ms\"\nserver.keep_alive = false\nserver.like_apache = true";
    let race = changed("rtt = \"18ms\"", set).unwrap();
    let said = "18ms RTT, 100mbit, queue 150p; server: embedded, like Apache, think time 86ms, no keep-alive";
    assert_eq!(race.networks[0].describe(), said);
    let quirks = race.networks[0].server.quirks().unwrap();
    assert_eq!((quirks.think_time, quirks.closes_connections), (Duration::from_millis(86), true));
    assert_eq!(race.networks[1].server.quirks(), None);
    let record = race.networks[0].record();
    assert_eq!(
        (record["server"]["think_time"].as_str(), record["server"]["keep_alive"].as_bool()),
        (Some("86ms"), Some(false))
    );
}

#[test]
fn selection_of_unknown_name_is_rejected() {
    let wrong = Selection { networks: vec!["artcle".into()], ..Selection::default() };
    assert_eq!(
        race().plan(&wrong).unwrap_err().to_string(),
        "unknown network `artcle` in this experiment; did you mean `article`?"
    );
}

#[test]
fn selection_overrides_quick() {
    let asked = Selection { quick: true, networks: vec!["long".into()], ..Selection::default() };
    let plan = race().plan(&asked).unwrap();
    assert!(plan.cells.iter().all(|cell| cell.network.name == "long" && cell.workload.work.steps() == 16));
    assert_eq!(plan.cells.len(), NAMES.len() - TRICKS);
}

#[test]
fn contenders_take_turns_with_few_repeated_neighbours() {
    let plan = race().plan(&Selection::default()).unwrap();
    let blocks = plan.blocks(7);
    assert_eq!(blocks.len(), 3 * 6 + 2);
    assert_eq!(blocks, plan.blocks(7));
    assert_ne!(blocks, plan.blocks(8));
    let mut seen = vec![0; plan.cells.len()];
    for block in &blocks {
        let mut pairs: Vec<&[usize]> = block.rounds.iter().flat_map(|round| round.windows(2)).collect();
        let all = pairs.len();
        pairs.sort_unstable();
        pairs.dedup();
        // Five contenders have only as many pairs as five rounds need.
        let most = if block.rounds[0].len() == NAMES.len() { 2 } else { 6 };
        assert!(all - pairs.len() <= most, "{} of {all} neighbours come again", all - pairs.len());
        for round in &block.rounds {
            for cell in round {
                seen[*cell] += 1;
            }
        }
    }
    assert!(seen.iter().all(|times| *times == plan.samples));
}

proptest::proptest! {
    #[test]
    fn parser_never_panics(at in 0..RACE.len(), junk in "[ -~\n\"é]{0,6}", cut in 0..20usize) {
        let start = RACE.floor_char_boundary(at);
        let end = RACE.floor_char_boundary((at + cut).min(RACE.len())).max(start);
        let text = format!("{}{junk}{}", &RACE[..start], &RACE[end..]);
        if let Err(mistake) = parse(&text) {
            let lines = text.lines().count() + 1;
            proptest::prop_assert!(mistake.line >= 1 && mistake.line <= lines && !mistake.message.contains('\n'));
        }
    }
}

#[test]
fn network_may_differ_by_direction() {
    let mut race = race();
    race.sweep_networks("rtt", &["30ms/50ms".to_owned()]).unwrap();
    race.sweep_networks("loss", &["1%/0%".to_owned()]).unwrap();
    race.sweep_networks("jitter", &["1ms/5ms".to_owned()]).unwrap();
    assert_eq!(race.networks[0].rtt(), Duration::from_millis(80));
    let told = race.networks[0].describe();
    assert!(told.starts_with("30ms/50ms RTT, jitter 1ms/5ms, ") && told.contains("loss 1%/0%"), "{told}");
}

#[test]
fn every_network_has_a_variant_per_value() {
    let mut race = race();
    race.sweep_networks("rtt", &["5ms".to_owned(), "80ms".to_owned()]).unwrap();
    race.sweep_networks("loss", &["1%".to_owned()]).unwrap();
    let names: Vec<&str> = race.networks.iter().map(|network| network.name.as_str()).collect();
    assert_eq!(names.len() % 2, 0);
    assert!(names[0].ends_with(" rtt=5ms loss=1%") && names[1].ends_with(" rtt=80ms loss=1%"), "{names:?}");
    assert_eq!(race.networks[1].rtt(), Duration::from_millis(80));
    let base = race.networks[0].variant_of.clone().unwrap();
    let selected = |name: &str| {
        let plan = race.plan(&Selection { networks: vec![name.to_owned()], ..Selection::default() }).unwrap();
        plan.rivals().map(|cells| cells[0].network.name.clone()).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(selected(names[1]).len(), 1, "one variant");
    assert_eq!(selected(&base).len(), 2, "all variants");

    let wrong =
        |setting: &str, value: &str| race.clone().sweep_networks(setting, &[value.to_owned()]).unwrap_err().to_string();
    assert!(wrong("rtt", "soon").starts_with("network.rtt=soon: "), "{}", wrong("rtt", "soon"));
    assert!(wrong("delay", "5ms").contains("unknown field `delay`"), "{}", wrong("delay", "5ms"));
}

#[test]
fn added_contenders_run_in_every_part_for_the_first_kind_of_work() {
    let mut race = race();
    let with = |text: &str| crate::custom::with(&[text.to_owned()], |_| false).unwrap();
    race.add(with("mine=sh {dir} {jobs}"));
    let names = |selection: &Selection, race: &Experiment| {
        let cells = race.plan(selection).map_err(|error| error.to_string())?.cells;
        Ok::<_, String>(cells.iter().map(|cell| cell.row.name()).collect::<std::collections::BTreeSet<_>>())
    };
    let quick = Selection { quick: true, contenders: vec!["curl".to_owned()], ..Selection::default() };
    assert!(names(&quick, &race).unwrap_err().starts_with("placeholder {jobs} of `mine` has no value"));
    assert!(race.sweep("mine", "job", &[1]).unwrap_err().to_string().contains("did you mean `jobs`?"));
    race.sweep("mine", "jobs", &[1, 4]).unwrap();
    race.add(with("yours=sh {work} {dir}"));
    let all = ["curl", "mine jobs=1", "mine jobs=4", "yours"].map(str::to_owned);
    assert_eq!(names(&quick, &race).unwrap().into_iter().collect::<Vec<_>>(), all);
    let one = Selection { contenders: vec!["mine jobs=4".to_owned()], ..quick.clone() };
    assert_eq!(names(&one, &race).unwrap().into_iter().collect::<Vec<_>>(), ["mine jobs=4"]);

    // Only the command that says for itself what it is for does more than the first workload's kind of work.
    let plan = race.plan(&Selection { workloads: vec!["download-small".to_owned()], ..quick }).unwrap();
    let of =
        |name: &str| plan.cells.iter().find(|cell| cell.row.contender == name).unwrap().row.custom.clone().unwrap();
    let commands = |name: &str| [WorkKind::Upload, WorkKind::Download].map(|kind| of(name).command(kind).is_some());
    assert_eq!((commands("mine"), commands("yours")), ([false, true], [true, true]));
}

#[test]
fn warm_up_runs_come_first() {
    let plan =
        race().plan(&Selection { quick: true, warmup: Some(2), samples: Some(3), ..Selection::default() }).unwrap();
    assert!(plan.blocks(1).iter().all(|block| block.rounds.len() == 5));
    assert_eq!(
        changed("samples = 5", "samples = 5\nwarmup = 1").unwrap().plan(&Selection::default()).unwrap().warmup,
        1
    );
}
