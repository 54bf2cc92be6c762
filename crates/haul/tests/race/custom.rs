//! Programs of the user's own as contenders.

use std::{fs, path::Path};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::{
    Trials,
    common::{HAUL, Room, one_sentence, output},
    harness::{Ended, Race, cells, lab_run, program, results, room, run},
};

pub(crate) const TRIALS: Trials = &[
    ("custom_programs_race_beside_ours", custom_programs_race_beside_ours),
    ("custom_commands_do_every_kind_of_work", custom_commands_do_every_kind_of_work),
    ("failing_commands_fail_with_their_reason", failing_commands_fail_with_their_reason),
    ("missing_needs_skip_a_contender", missing_needs_skip_a_contender),
    ("password_is_in_netrc_and_in_no_command_line", password_is_in_netrc_and_in_no_command_line),
    ("warm_up_runs_do_not_count", warm_up_runs_do_not_count),
    ("custom_mounts_work_and_are_unmounted", custom_mounts_work_and_are_unmounted),
    ("custom_chores_run_in_a_mount", custom_chores_run_in_a_mount),
    ("interrupted_command_leaves_nothing", interrupted_command_leaves_nothing),
    ("example_of_the_book_runs", example_of_the_book_runs),
];

/// Tests that need no link.
pub(crate) const USAGE: Trials = &[("mistakes_in_commands_are_named", mistakes_in_commands_are_named)];

/// Uploads with Python's standard library: what a stranger's program looks like.
const CLIENT: &str = r#"
import http.client, os, ssl, sys, urllib.parse
work, folder, url = sys.argv[1:]
url = urllib.parse.urlsplit(url)
kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
connection = kind(url.netloc)
for name in sorted(os.listdir(folder)) if work == "upload" else open(os.environ["HAUL_URLS"]):
    path = url.path + name if work == "upload" else urllib.parse.urlsplit(name.strip()).path
    body = open(os.path.join(folder, name), "rb").read() if work == "upload" else None
    connection.request("PUT" if body is not None else "GET", path, body)
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status < 300, answer.status
    if body is None:
        open(os.path.join(folder, os.path.basename(path)), "wb").write(content)
"#;

pub(crate) fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !there {
        eprintln!("SKIPPED: {program} is not installed");
    }
    there
}

/// `haul lab run small.toml` on the embedded server with these contenders of the user's own.
fn race(room: &Room, arguments: &[&str], with: &[&str]) -> Ended {
    let mut command = lab_run(room, arguments);
    command.args(with.iter().flat_map(|text| ["--with", text]));
    run(room, command)
}

/// The cell of a contender.
pub(crate) fn cell<'a>(kept: &'a Value, contender: &str, workload: &str) -> &'a Value {
    let is = |cell: &&Value| cell["contender"] == contender && cell["workload"] == workload;
    cells(kept).iter().find(is).unwrap_or_else(|| panic!("no cell of {contender}: {kept:#}"))
}

pub(crate) fn reason(cell: &Value) -> &str {
    cell["reason"].as_str().unwrap_or_default()
}

fn custom_programs_race_beside_ours() {
    let room = room();
    fs::write(room.path("mine.py"), CLIENT).unwrap();
    let script = "for file in \"$HAUL_DIR\"/*; do curl -sSf -T \"$file\" \"$HAUL_URL\" || exit; done";
    let path = program(&room, "mine", script);
    let mut command = lab_run(&room, &["--workload", "upload", "--contender", "curl", "--samples", "2"]);
    command.env("PATH", path);
    let mut expected = vec!["curl", "mine", "loop"];
    command.args(["--with", "./bin/mine", "--with", "loop=curl -sSf --cacert {ca} -T {file} {url}"]);
    for (name, needs, text) in [
        ("python3", "python3", "python3 ./mine.py {work} {dir} {url}"),
        (
            "wget",
            "wget",
            "for file in {dir}/*; do wget -q -O /dev/null --method=PUT --body-file=\"$file\" --ca-certificate={ca} \
             \"{url}${file##*/}\" || exit; done",
        ),
        ("rclone-2", "rclone", "rclone copy {dir} :webdav: --webdav-url {url} --webdav-vendor other"),
    ] {
        if has(needs) {
            let text = if name == "wget" { format!("wget={text}") } else { text.to_owned() };
            command.args(["--with", &text]);
            expected.push(name);
        }
    }
    let ended = run(&room, command);
    ended.success();
    let kept = results(&room);
    for contender in &expected {
        let cell = cell(&kept, contender, "upload");
        assert_eq!((cell["status"].as_str(), reason(cell)), (Some("ok"), ""), "{cell:#}");
        assert!(cell["requests"].as_u64().is_some_and(|count| count >= 3), "{cell:#}");
    }
    assert_eq!(cells(&kept).len(), expected.len());
    assert_eq!(kept["commands"]["mine"], "./bin/mine");
    assert!(
        ended.printed.contains("Commands\n") && ended.printed.contains("  mine: ./bin/mine\n"),
        "{}",
        ended.printed
    );
    let loop_of_ours = cell(&kept, "loop", "upload");
    assert_eq!(loop_of_ours["methods"]["PUT"], 3, "{loop_of_ours:#}");
}

fn custom_commands_do_every_kind_of_work() {
    let room = room();
    let with = [
        "all.upload=curl -sSf -T {file} {url}{name}",
        "all.download=curl -sSf -o {file} {url}{name}",
        "all.list=curl -sSf -X PROPFIND -H 'Depth: 1' {url}",
        "all.edit=curl -sSf -T {file} {url}{name}",
        "puts=curl -sSf -T {dir}/file0000.bin {url}",
    ];
    // A program that copies the folder itself, with a setting.
    let nested = "nested=curl -sSf -X MKCOL {url}source/ && for file in {dir}/*; do curl -sSf --max-time {seconds} -T \"$file\" \
                  {url}source/ || exit; done";
    let arguments = [
        "--workload",
        "upload",
        "--workload",
        "download",
        "--workload",
        "list",
        "--workload",
        "edit",
        "--contender",
        "curl",
        "--sweep",
        "nested.seconds=170",
    ];
    race(&room, &arguments, &[&with[..], &[nested][..]].concat()).success();
    let kept = results(&room);
    for workload in ["upload", "download", "list", "edit"] {
        let cell = cell(&kept, "all", workload);
        assert_eq!((cell["status"].as_str(), reason(cell)), (Some("ok"), ""), "{cell:#}");
    }
    assert_eq!(cell(&kept, "nested seconds=170", "upload")["status"], "ok", "{kept:#}");
    // A command without a kind is for that of the first workload; it does not do all of that.
    assert_eq!(cell(&kept, "puts", "upload")["status"], "failed", "{kept:#}");
    assert!(reason(cell(&kept, "puts", "upload")).contains("has 1 of 3 names"), "{kept:#}");
    let skipped = cell(&kept, "puts", "download");
    assert_eq!(skipped["status"], "skipped", "{skipped:#}");
    assert!(reason(skipped).contains("NAME.download="), "{skipped:#}");
}

fn failing_commands_fail_with_their_reason() {
    let room = room();
    let torn_down = room.path("torn-down");
    let with = [
        "exits=echo first >&2; echo 'no such luck' >&2; exit 3".to_owned(),
        format!("hangs=echo stuck >&2; setsid sleep {} & wait", room.marker()),
        "nothing=true {dir}".to_owned(),
        "wrong=for file in {dir}/*; do head -c 2048 /dev/zero | curl -sSf -T - {url}${file##*/} || exit; done"
            .to_owned(),
        "unverified=for file in {dir}/*; do curl -sSf -T $file {url} || exit; done".to_owned(),
        "unverified.verify=cmp {served}/file0000.bin {dir}/file0000.bin && echo not good enough >&2 && false"
            .to_owned(),
        "unprepared=true".to_owned(),
        "unprepared.setup=echo not today; exit 1".to_owned(),
        format!("unprepared.teardown=touch '{}'", torn_down.display()),
        // It leaves a program that keeps its output open and ends by nothing but a kill, before the next sample.
        format!(
            "leaves=if kill -0 $(cat '{left}' 2>/dev/null) 2>/dev/null; then echo still there >&2; exit 1; fi; \
             for file in {{dir}}/*; do curl -sSf -T $file {{url}} || exit; done; \
             setsid sh -c \"trap '' TERM; sleep {marker}; sleep 1\" & echo $! > '{left}'",
            left = room.path("left").display(),
            marker = room.marker()
        ),
        "distrusts=env -u SSL_CERT_FILE -u CURL_CA_BUNDLE curl -sSf -T {file} {url}".to_owned(),
    ];
    let with: Vec<&str> = with.iter().map(String::as_str).collect();
    let arguments = ["--workload", "upload", "--contender", "curl", "--samples", "2", "--timeout", "20s"];
    race(&room, &arguments, &with).success();
    let kept = results(&room);
    for (contender, said) in [
        ("exits", "its command failed (exit status: 3): first | no such luck"),
        ("hangs", "its command did not finish within 20s and was killed: stuck"),
        ("nothing", "work has 0 of 3 names, file0000.bin is missing"),
        ("wrong", "file0000.bin differs from byte 0 on"),
        ("unverified", "its verify failed (exit status: 1): not good enough"),
        ("unprepared", "its setup failed (exit status: 1): not today"),
        ("distrusts", "{ca}"),
    ] {
        let cell = cell(&kept, contender, "upload");
        assert_eq!((cell["status"].as_str(), &cell["median_s"]), (Some("failed"), &Value::Null), "{cell:#}");
        assert!(reason(cell).contains(said), "{contender}: {}", reason(cell));
    }
    for contender in ["curl", "leaves"] {
        let cell = cell(&kept, contender, "upload");
        assert_eq!((cell["status"].as_str(), reason(cell)), (Some("ok"), ""), "{cell:#}");
    }
    assert!(torn_down.exists() && room.path("left").exists());
}

/// The small experiment with these lines, which replace its contenders.
pub(crate) fn with_toml(room: &Room, contenders: &str, more: &str) {
    let small = fs::read_to_string(room.path("small.toml")).unwrap();
    let (head, rest) = small.split_once("contenders = [").unwrap();
    let (_, rest) = rest.split_once(']').unwrap();
    let (rest, _) = rest.split_once("[[claim]]").unwrap();
    fs::write(room.path("small.toml"), format!("{head}contenders = {contenders}{rest}\n{more}")).unwrap();
}

fn missing_needs_skip_a_contender() {
    let room = room();
    with_toml(
        &room,
        r#"["curl", "mine", "absent"]"#,
        r#"
[contender.mine]
command = "no-such-program-either {dir} | cat"
needs = { no-such-program = "no-such-package" }
[contender.absent]
upload = "./no-such-program {dir}"
"#,
    );
    let ended = run(&room, lab_run(&room, &["--workload", "upload"]));
    ended.success();
    let kept = results(&room);
    for (contender, said) in [
        ("mine", "no-such-program is not installed; install it with `apt-get install no-such-package`"),
        ("absent", "there is no program `./no-such-program`"),
    ] {
        let cell = cell(&kept, contender, "upload");
        assert_eq!((cell["status"].as_str(), reason(cell)), (Some("skipped"), said), "{cell:#}");
        assert!(ended.printed.contains(contender), "{}", ended.printed);
    }
}

fn password_is_in_netrc_and_in_no_command_line() {
    let room = room();
    // The loop sees every command line while curl runs.
    let seen = room.path("seen");
    let put = "curl -sSf --netrc-file {netrc} -T {file} {url}{name}";
    let with = [
        format!("signed=cat /proc/[0-9]*/cmdline >> '{}'; {put}", seen.display()),
        format!("wrong=sed -i 's/password.*/password nobody/' {{netrc}}; {put}"),
    ];
    let with: Vec<&str> = with.iter().map(String::as_str).collect();
    race(&room, &["--workload", "upload", "--contender", "curl"], &with).success();
    let kept = results(&room);
    assert_eq!(cell(&kept, "signed", "upload")["status"], "ok", "{kept:#}");
    assert!(reason(cell(&kept, "wrong", "upload")).contains("401"), "{kept:#}");
    let lines = String::from_utf8_lossy(&fs::read(seen).unwrap()).into_owned();
    assert!(lines.contains("netrc") && !lines.contains("password lab"), "{lines}");
}

fn warm_up_runs_do_not_count() {
    let room = room();
    let count = room.path("count");
    let with = format!("counted=echo >> '{}'; curl -sSf -T {{file}} {{url}}", count.display());
    let fails = format!("fails=if [ -e '{0}' ]; then exit 4; fi; touch '{0}'", room.path("once").display());
    let arguments = ["--workload", "upload", "--contender", "curl", "--warmup", "2", "--samples", "1"];
    let ended = race(&room, &arguments, &[&with, &fails]);
    ended.success();
    let kept = results(&room);
    let counted = cell(&kept, "counted", "upload");
    assert_eq!((counted["status"].as_str(), counted["samples_s"].as_array().unwrap().len()), (Some("ok"), 1));
    // Three files each. A sample on a busy machine is repeated.
    let runs = 3 * (3 + counted["repeated"].as_u64().unwrap() as usize);
    assert_eq!(fs::read_to_string(count).unwrap().lines().count(), runs);
    assert_eq!(kept["settings"]["warmup"], "2");
    assert_eq!(crate::harness::samples(&room), 2);
    let failed = cell(&kept, "fails", "upload");
    assert_eq!(failed["status"], "failed", "{failed:#}");
    assert!(ended.said.iter().any(|line| line.ends_with("to warm up")), "{:?}", ended.said);
}

fn custom_mounts_work_and_are_unmounted() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("SKIPPED: custom mounts: there is no /dev/fuse");
        return;
    }
    let room = room();
    let with = [
        format!("front.mount='{HAUL}' mount --foreground --ca {{ca}} {{url}} {{dir}}"),
        // In the background, in a session of its own, and unmounted by a command.
        format!("back.mount=setsid '{HAUL}' mount --foreground --ca {{ca}} {{url}} {{dir}} > {{tmp}}/log 2>&1 &"),
        "back.unmount=umount {dir}".to_owned(),
        "never.mount=echo not today".to_owned(),
        "fails.mount=echo no such luck >&2; exit 5".to_owned(),
    ];
    let with: Vec<&str> = with.iter().map(String::as_str).collect();
    let arguments = ["--workload", "upload", "--workload", "list", "--contender", "curl"];
    race(&room, &arguments, &with).success();
    let kept = results(&room);
    for (contender, workload) in [("front", "upload"), ("front", "list"), ("back", "upload"), ("back", "list")] {
        let cell = cell(&kept, contender, workload);
        assert_eq!((cell["status"].as_str(), reason(cell)), (Some("ok"), ""), "{cell:#}");
    }
    for (contender, said) in [
        ("never", "its mount command ended, and nothing is mounted on {dir}: not today"),
        ("fails", "its mount failed (exit status: 5): no such luck"),
    ] {
        assert_eq!(reason(cell(&kept, contender, "upload")), said);
    }
}

fn custom_chores_run_in_a_mount() {
    if !Path::new("/dev/fuse").exists() {
        eprintln!("SKIPPED: custom chores: there is no /dev/fuse");
        return;
    }
    let room = room();
    let more = r#"
[workload.sums]
kind = "chore"
job = "command"
folders = 1
files = 3
size = "2KiB"
command.setup = "echo before > {served}/note.txt"
command.run = "cd {dir} && cat note.txt folder000/* > {local}/all && cksum {local}/all > sum.txt"
command.verify = "cd {served} && cat note.txt folder000/* | cksum | cut -d ' ' -f 1,2 > {tmp}/sum && grep -q -f {tmp}/sum sum.txt"
[workload.wrong]
kind = "chore"
job = "command"
folders = 1
files = 1
size = "2KiB"
command = "echo no such luck; exit 3"
"#;
    with_toml(&room, r#"["haul-mount", "curl"]"#, more);
    let arguments = ["--workload", "sums", "--workload", "wrong", "--timeout", "60s"];
    run(&room, lab_run(&room, &arguments)).success();
    let kept = results(&room);
    let sums = cell(&kept, "haul-mount", "sums");
    assert_eq!((sums["status"].as_str(), reason(sums)), (Some("ok"), ""), "{sums:#}");
    assert!(sums["methods"]["PUT"].as_u64().is_some_and(|puts| puts >= 1), "{sums:#}");
    let wrong = cell(&kept, "haul-mount", "wrong");
    assert_eq!(reason(wrong), "the command failed (exit status: 3): no such luck");
    assert!(reason(cell(&kept, "curl", "sums")).contains("mounted folder"), "{kept:#}");
}

fn interrupted_command_leaves_nothing() {
    let room = room();
    let started = room.path("started");
    let text = format!("slow=setsid sleep {0} & touch '{1}'; sleep {0}; wait", room.marker(), started.display());
    let mut command = lab_run(&room, &["--workload", "upload", "--contender", "curl", "--samples", "9"]);
    command.args(["--with", &text]);
    let mut race = Race::start(command);
    assert!(crate::common::eventually(|| started.exists()), "it does not start");
    race.watch(std::time::Duration::from_millis(100));
    race.send(Signal::SIGINT, true);
    let ended = race.end();
    assert!(ended.failure().starts_with("haul: interrupted"), "{:?}", ended.said);
    race.assert_clear(&room);
}

/// The example of the book, as a reader would run it.
fn example_of_the_book_runs() {
    let page = include_str!("../../../../docs/src/tasks/own-program.md");
    let room = room();
    let block = |start: &str| {
        let (_, rest) = page.split_once(start).unwrap_or_else(|| panic!("the page has no {start}"));
        rest.split_once("\n```").expect("its end").0.to_owned()
    };
    fs::write(room.path("own.toml"), block("```toml\n")).unwrap();
    let mut command = room.command(HAUL);
    command.args(["lab", "run", "own.toml", "--samples", "1"]).current_dir(room.path("."));
    run(&room, command).success();
    let kept = results(&room);
    assert!(cells(&kept).len() > 4);
    for cell in cells(&kept) {
        let is_excused = cell["status"] == "skipped" && reason(cell).contains("not installed");
        assert!(cell["status"] == "ok" || is_excused || cannot_mount(cell), "{cell:#}");
    }
}

/// Whether it is a mount, and this machine has no FUSE, or fusermount does not know the user's name.
fn cannot_mount(cell: &Value) -> bool {
    let is_nameless = cell["status"] == "failed" && reason(cell).contains("could not determine username");
    cell["contender"] == "my-mount" && (is_nameless || !Path::new("/dev/fuse").exists())
}

fn mistakes_in_commands_are_named() {
    let room = room();
    for (arguments, said) in [
        (
            &["--with", "./no-such-program {dir}"][..],
            "--with: `./no-such-program {dir}`: there is no program `./no-such-program`",
        ),
        (&["--with", "curl=true"], "--with: there is a contender `curl` already"),
        (&["--with", "mine.uplod=true"], "--with: unknown key `uplod` of `mine`; did you mean `upload`?"),
        (&["--with", "true {ulr}"], "unknown placeholder {ulr} of `true`; did you mean {url}?"),
        (&["--with", "true {jobs}"], "placeholder {jobs} of `true` has no value; give it a number"),
        (&["--with", "true", "--sweep", "true.jobs=4"], "unknown placeholder `jobs`"),
        (&["--with-server", "true {prt}"], "--with-server: a server has no placeholder {prt}; did you mean `port`?"),
        (&["--with-server", "true"], "--with-server: the command of the server `true` needs {port}"),
        (&["--with-server", "./no-such {port}"], "--with-server: there is no program `./no-such`"),
    ] {
        let mut command = room.command(HAUL);
        command.args(["lab", "run", "small.toml"]).args(arguments).current_dir(room.path("."));
        let printed = output(command);
        let text = String::from_utf8_lossy(&printed.stderr);
        assert_eq!(printed.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(said), "{arguments:?}: {text}");
    }
    for (more, said) in [
        ("[contender.mine]\nuplod = \"true\"", "unknown key `uplod`; did you mean `upload`?"),
        ("[contender.mine]\nupload = \"true {ulr}\"", "did you mean {url}?"),
        ("[contender.mine]\nupload = \"true\"\njobs = 4", "unknown setting `jobs` of mine"),
        ("[contender.mine]\nsetup = \"true\"", "needs a command that does the work"),
        (
            "[contender.mine]\nupload = \"true\"\nneeds = [\"x\"]",
            "`needs` must be a table of programs with their packages",
        ),
        ("[contender.mine]\nupload = \"true\"\n[server]\nx = 3", "expected `[server.NAME]`"),
        ("[contender.mine]\nupload = 5\nsetup = \"true\"", "`upload` must be a string in quotes"),
        (
            "[contender.yours]\nupload = \"true\"\n[contender.mine]\nupload = \"true\"",
            "contender `yours` takes no part",
        ),
        (
            "[contender.mine]\nupload = \"true\"\n[contender.curl]\nupload = \"true\"",
            "there is a contender `curl` already",
        ),
        ("[contender.mine]\nupload = \"true\"\n[server.x]\nsetup = \"true\"", "the server `x` needs a `command`"),
        (
            "[contender.mine]\nupload = \"true\"\n[workload.x]\nkind = \"chore\"\njob = \"command\"\nfolders = 1\nfiles = 1\n\
             size = \"1KiB\"\ncommand = \"cat {drr}\"",
            "has no placeholder {drr}; did you mean `dir`?",
        ),
    ] {
        with_toml_again(&room, more);
        let printed = one_sentence(&output(lab_run(&room, &[])), 1);
        assert!(printed.contains("small.toml:") && printed.contains(said), "{more}: {printed}");
    }
}

fn with_toml_again(room: &Room, more: &str) {
    fs::write(room.path("small.toml"), crate::harness::SMALL).unwrap();
    with_toml(room, r#"["curl", "mine"]"#, more);
}
