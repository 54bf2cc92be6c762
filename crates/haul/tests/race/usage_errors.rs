//! Usage errors. An unknown name on the command line has status 2, an invalid file status 1.

use std::{
    fs,
    io::{Read, Write},
};

use nix::pty::openpty;

use crate::{
    Trials,
    common::{HAUL, one_sentence, output, text},
    harness::{lab_run, room},
};

pub(crate) const TRIALS: Trials = &[
    ("unknown_name_is_a_usage_error", unknown_name_is_a_usage_error),
    ("invalid_file_is_reported_with_its_line", invalid_file_is_reported_with_its_line),
    ("run_with_unwritable_results_does_not_start", run_with_unwritable_results_does_not_start),
    ("long_run_asks_first_on_a_terminal", long_run_asks_first_on_a_terminal),
];

fn unknown_name_is_a_usage_error() {
    let room = room();
    for (arguments, said) in [
        (&["race", "--contender", "rclon"][..], "unknown contender `rclon` in this experiment; did you mean `rclone`?"),
        (&["race", "--network", "lna"], "unknown network `lna` in this experiment; did you mean `lan`?"),
        (&["race", "--workload", "lsit"], "unknown workload `lsit` in this experiment; did you mean `list`?"),
        (&["race", "--server", "apach"], "unknown server `apach`; did you mean `apache`?"),
        (&["race", "--timeout", "0s"], "--timeout <DURATION>"),
        (&["race", "--patience", "0s"], "--timeout <DURATION>"),
        (&["race", "--samples", "0"], "1 to 100 samples, not 0"),
        (&["race", "--samples", "4000000000"], "1 to 100 samples, not 4000000000"),
        (&["race", "--runs", "0"], "1 to 100 samples, not 0"),
        (&["race", "--runs", "there"], "--results sets the folder of the results"),
        (&["race", "--results", "3"], "--samples 3 sets the number of samples, ./3 is a folder"),
        (&["lab", "run", "small.toml", "--results", "3"], "--samples 3 sets the number of samples"),
        (&["page", "replay", "wikipedia", "--results", "3"], "--samples 3 sets the number of samples"),
        (&["race", "--sweep", "rclone.transfer=1,4"], "no parameter `transfer`"),
        (
            &["race", "--sweep", "rclon.transfers=1,4"],
            "unknown contender `rclon` in this experiment; did you mean `rclone`?",
        ),
        (&["race", "--sweep", "rclone.transfers=4,4"], "each value must occur once"),
        (&["lab", "run", "webdav-rase"], "unknown experiment `webdav-rase`; did you mean `webdav-race`?"),
        (&["lab", "run", "nothing-like-it"], "`haul lab list` lists them"),
        (&["lab", "run", "small.toml", "--quick"], "no `quick` part"),
        (&["lab", "show", "20260101-000000-race"], "unknown run `20260101-000000-race`"),
        (&["lab", "compare", "a", "b"], "unknown run `a`"),
        (&["lab", "compare", "a"], "2 values required"),
        (&["lab", "compare", "a", "b", "--json", "-", "--html", "-"], "cannot both write to standard output"),
        (&["lab", "watch"], "no run in progress in runs; `haul lab run` starts one"),
        (&["lab", "watch", "a"], "no run `a` in progress in runs"),
        (&["report", "a"], "unknown run `a`"),
    ] {
        let mut command = room.command(HAUL);
        command.args(arguments).current_dir(room.path("."));
        let output = output(command);
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {printed}");
        assert!(printed.starts_with("error: ") && printed.contains(said), "{arguments:?}: {printed}");
    }
    room.assert_clear();
    assert!(!room.path("runs").exists());
}

fn invalid_file_is_reported_with_its_line() {
    let room = room();
    let file = room.path("small.toml");
    let right = fs::read_to_string(&file).unwrap();
    for (from, to, said) in [
        ("\"rclone\"", "\"rclon\"", "small.toml:7:5: unknown contender `rclon`; did you mean `rclone`?"),
        ("5ms", "5 parsecs", "small.toml:23:7: `5 parsecs` is not a time"),
        ("entries = 10", "entires = 10", "`entires`"),
    ] {
        fs::write(&file, right.replace(from, to)).unwrap();
        let printed = one_sentence(&output(lab_run(&room, &[])), 1);
        assert!(printed.contains(said), "{printed}");
    }
    fs::remove_file(&file).unwrap();
    let printed = one_sentence(&output(lab_run(&room, &[])), 1);
    assert!(printed.contains("small.toml: No such file"), "{printed}");
    room.assert_clear();
}

/// It is checked first, not after hours of measuring.
fn run_with_unwritable_results_does_not_start() {
    let room = room();
    fs::write(room.path("file"), "").unwrap();
    for (arguments, said) in [
        (["--json", "nowhere/run.json"], "nowhere/run.json: No such file"),
        (["--results", "file"], "cannot write the results to file: "),
        (["--results", "/run/longhaul-test"], "cannot write the results to /run/longhaul-test"),
    ] {
        let printed = one_sentence(&output(lab_run(&room, &arguments)), 1);
        assert!(printed.contains(said), "{printed}");
    }
    room.assert_clear();
    assert!(!room.path("runs").exists() && !std::path::Path::new("/run/longhaul-test").exists());
}

fn long_run_asks_first_on_a_terminal() {
    let room = room();
    let terminal = openpty(None, None).unwrap();
    let mut command = room.command(HAUL);
    command.args(["race", "--server", "embedded"]).current_dir(room.path("."));
    command.stdin(terminal.slave.try_clone().unwrap()).stderr(terminal.slave);
    let mut race = command.spawn().unwrap();
    drop(command);
    let mut screen = fs::File::from(terminal.master);
    let mut seen = String::new();
    while !seen.contains("Start? [y/N]") {
        let mut bytes = [0; 1024];
        let length = screen.read(&mut bytes).unwrap_or_default();
        seen += &String::from_utf8_lossy(&bytes[..length]);
        assert!(length > 0 && !seen.contains("calibrating"), "it did not ask: {seen}");
    }
    assert!(seen.contains(" samples: about ") && seen.contains(" hours; "), "{seen}");
    screen.write_all(b"n\n").unwrap();
    assert_eq!(race.wait().unwrap().code(), Some(1));
    // The terminal ends with an error when nobody has it open.
    let mut rest = Vec::new();
    let _ = screen.read_to_end(&mut rest);
    let rest = String::from_utf8_lossy(&rest);
    assert!(rest.contains("not started; --yes starts it without a question"), "{rest}");
    room.assert_clear();
    assert!(!room.path("runs").exists());
}
