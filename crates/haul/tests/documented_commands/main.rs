//! README and the book's tasks, followed by a new user: every block of commands runs as it stands.
//!
//! Each page has a home, a working directory that looks like the repository, and namespaces of its own, in which the
//! servers of the examples exist: `cloud.example.org` and its like lead to one `haul serve`, whose certificate the system
//! trusts. A command fails the test by its exit status, and a race by a contender that failed.

#[path = "../common/mod.rs"]
mod common;
mod page;

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use common::{HAUL, Room, text};
use libtest_mimic::{Arguments, Failed, Trial};
use page::Step;
use serde_json::Value;

/// Longer than any page needs on a busy machine; a race takes minutes on an idle one.
const PATIENCE: Duration = Duration::from_mins(12);

/// The hosts of the examples.
const HOSTS: &[&str] = &["cloud.example.org", "dav.example.org", "old.example.org", "new.example.org", "dav.test"];

/// The user of the examples, and the password that they type.
const USER: &str = "ann";
const PASSWORD: &str = "correct horse";

fn main() {
    let arguments = Arguments::from_args();
    let missing = unavailable();
    if let Some(missing) = &missing {
        eprintln!("SKIPPED: the commands of README and the tasks: {missing}");
    }
    let mut trials = vec![Trial::test("finds_files_and_commands", || {
        page::finds_files_and_commands();
        Ok(())
    })];
    for path in pages() {
        let name = path.strip_prefix(root()).expect("a page of ours").display().to_string();
        let trial = Trial::test(name.clone(), move || follow(&name));
        trials.push(trial.with_ignored_flag(missing.is_some()));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn pages() -> Vec<PathBuf> {
    let tasks = fs::read_dir(root().join("docs/src/tasks")).expect("the tasks");
    let mut pages: Vec<PathBuf> = tasks.map(|task| task.expect("a task").path()).collect();
    pages.push(root().join("README.md"));
    pages.sort();
    pages
}

/// What this machine lacks, if anything.
fn unavailable() -> Option<String> {
    let links = Room::new().link(&["--", "true"]);
    if !links.status.success() {
        return Some(text(&links.stderr).trim().to_owned());
    }
    for program in ["curl", "rclone"] {
        if Command::new(program).arg("--version").output().is_err() {
            return Some(format!("{program} is not installed (sudo apt-get install {program})"));
        }
    }
    let namespaces = namespaces().arg("true").output();
    match namespaces {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(text(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("unshare(1): {error}")),
    }
}

/// A command in namespaces of its own; every process in them ends with it.
fn namespaces() -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    if !nix::unistd::geteuid().is_root() {
        command.args(["--user", "--map-current-user", "--keep-caps"]);
    }
    command
}

/// Does what a page says, from its first step to its last.
fn follow(name: &str) -> Result<(), Failed> {
    let room = Room::new();
    let steps = page::steps(&fs::read_to_string(root().join(name))?);
    furnish(&room)?;
    fs::write(room.path("reader.sh"), reader(name, &room, &steps)?)?;

    let said = fs::File::create(room.path("said"))?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &PATIENCE.as_secs().to_string()]);
    command.arg(namespaces().get_program()).args(namespaces().get_args());
    command.args(["bash", "--noprofile", "--norc"]).arg(room.path("reader.sh")).current_dir(room.path("work"));
    command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said);
    // The environment of somebody who has just logged in.
    command.env_clear().env("HOME", room.path("home")).env("TMPDIR", room.path("tmp")).env("LANG", "C.UTF-8");
    let folder = Path::new(HAUL).parent().expect("a folder");
    command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/games", folder.display()));
    let status = command.status()?;

    let said = fs::read(room.path("said"))?;
    let said = text(&said);
    println!("{said}");
    if !status.success() {
        let block = said.lines().rev().find_map(|line| line.strip_prefix("=== ")).unwrap_or(name);
        return Err(format!("{block}: {status}; its output is above").into());
    }
    let failed = failed_cells(&room.path("work/runs"))?;
    if !failed.is_empty() {
        return Err(format!("{name}: in a race of this page, these failed:\n{failed}").into());
    }
    room.assert_clear();
    Ok(())
}

/// What the reader has: a home, and a working directory with the repository's files and some of their own.
fn furnish(room: &Room) -> Result<(), Failed> {
    for folder in ["home", "work", "work/photos/2025", "served/remote.php/dav/files/ann", "served/dav", "served/files"]
    {
        fs::create_dir_all(room.path(folder))?;
    }
    for name in ["docs", "experiments", "scripts"] {
        symlink(root().join(name), room.path("work").join(name))?;
    }
    for number in 0..20 {
        fs::write(room.path(&format!("work/photos/2025/img{number}.jpg")), vec![number; 50_000])?;
    }
    let names: Vec<String> = HOSTS.iter().map(|&host| host.to_owned()).collect();
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(names)?;
    fs::write(room.path("cert.pem"), cert.pem())?;
    fs::write(room.path("key.pem"), signing_key.serialize_pem())?;
    fs::write(room.path("users"), format!("{USER}:{}\n", bcrypt::hash(PASSWORD, 4)?))?;
    let own = fs::read_to_string("/etc/hosts").unwrap_or_default();
    fs::write(room.path("hosts"), format!("{own}\n127.0.0.1 localhost {}\n", HOSTS.join(" ")))?;
    // The users of test programs may have no name, without which fusermount3 mounts nothing.
    let mut users = fs::read_to_string("/etc/passwd")?;
    let (uid, gid) = (nix::unistd::getuid(), nix::unistd::getgid());
    if nix::unistd::User::from_uid(uid)?.is_none() {
        writeln!(users, "reader:x:{uid}:{gid}::{}:/bin/bash", room.path("home").display())?;
    }
    fs::write(room.path("passwd"), users)?;
    Ok(())
}

/// A script of everything the page says, in its namespaces. What is typed at a prompt comes from standard input.
fn reader(name: &str, room: &Room, steps: &[Step]) -> Result<String, Failed> {
    let at = |name: &str| room.path(name).display().to_string();
    let mut script = format!(
        "set -euo pipefail
        mount --bind '{hosts}' /etc/hosts
        mount --bind '{passwd}' /etc/passwd
        mount --bind '{cert}' /etc/ssl/certs/ca-certificates.crt
        PATH=$PATH:/usr/sbin:/sbin ip link set lo up
        haul serve '{served}' --listen 127.0.0.1:443 --tls '{cert},{key}' --auth '{users}' 2>'{log}' &
        server=$!
        until grep -q https:// '{log}'; do kill -0 $server; sleep 0.05; done
        # A capture, where a page explains one.
        haul link --quiet --rtt 20ms --capture '{captured}' --server 'haul serve . --listen 0.0.0.0:8080 --host server 2>/dev/null' \\
            -- haul cp -q -r photos http://server:8080/
        cp '{captured}'/client.pcapng slow.pcap\n",
        hosts = at("hosts"),
        passwd = at("passwd"),
        cert = at("cert.pem"),
        key = at("key.pem"),
        served = at("served"),
        users = at("users"),
        log = at("server.log"),
        captured = at("captured"),
    );
    for (number, step) in steps.iter().enumerate() {
        match step {
            Step::File { name, content } => {
                let path = match name.strip_prefix("~/") {
                    Some(name) => room.path("home").join(name),
                    None => room.path("work").join(name),
                };
                fs::create_dir_all(path.parent().expect("a folder"))?;
                fs::write(path, content)?;
            }
            Step::Commands { line, script: commands } => {
                let block = room.path(&format!("block{number}.sh"));
                fs::write(&block, format!("set -eo pipefail\n{commands}"))?;
                let block = block.display();
                writeln!(script, "echo '=== {name}:{line}'; bash '{block}' <<<'{PASSWORD}'")?;
            }
            Step::Omitted { line, reason } => {
                writeln!(script, "echo 'skipped: the commands at {name}:{line}: {reason}'")?;
            }
        }
    }
    let finally = "\
        haul password remove https://ann@cloud.example.org/ 2>/dev/null || true
        kill $server; wait $server || true
        echo '=== the end'
        if grep ' fuse' /proc/mounts; then echo 'left mounted (above)'; exit 1; fi\n";
    script.push_str(finally);
    Ok(script)
}

/// The cells of all runs in a folder that failed, a line each.
fn failed_cells(runs: &Path) -> Result<String, Failed> {
    let mut failed = String::new();
    for run in fs::read_dir(runs).into_iter().flatten() {
        let run: Value = serde_json::from_str(&fs::read_to_string(run?.path().join("run.json"))?)?;
        for cell in run["cells"].as_array().into_iter().flatten().filter(|cell| cell["status"] == "failed") {
            writeln!(failed, "{} of {}: {}", cell["contender"], cell["workload"], cell["reason"])?;
        }
    }
    Ok(failed)
}
