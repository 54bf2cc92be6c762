//! litmus, the conformance suite of WebDAV servers, against the real `haul serve`.
//!
//! litmus accepts any certificate; the server's certificate is tested elsewhere.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use libtest_mimic::{Arguments, Failed, Trial};

const SUITES: [&str; 5] = ["basic", "copymove", "props", "locks", "http"];

fn main() {
    let installed = Command::new("litmus").arg("--help").output().is_ok();
    if !installed {
        eprintln!("SKIPPED: litmus is not installed; apt-get install litmus");
    }
    let trial = |name: &str, tls: bool| Trial::test(name, move || run(tls)).with_ignored_flag(!installed);
    let trials = vec![trial("litmus_in_the_clear", false), trial("litmus_over_tls", true)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A process that does not outlive its test.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(tls: bool) -> Result<(), Failed> {
    let (root, work) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    command.arg("serve").arg(root.path()).args(["--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
    if tls {
        command.args(["--tls", "self-signed"]);
    }
    let mut server = Stopped(command.spawn()?);
    let mut said = BufReader::new(server.0.stderr.take().ok_or("no stderr")?);
    let mut line = String::new();
    said.read_line(&mut line)?;
    let url = line.split_whitespace().find(|word| word.starts_with("http")).ok_or(line.as_str())?;

    // It takes seconds; the limit is two minutes.
    let output = Command::new("timeout")
        .args(["120", "litmus", "--keep-going", url])
        .env("TESTS", SUITES.join(" "))
        .current_dir(work.path())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    for suite in SUITES {
        let summary = text.lines().find(|line| line.starts_with(&format!("<- summary for `{suite}':")));
        if !summary.is_some_and(|summary| summary.contains(" 0 failed. 100.0%")) {
            return Err(format!("the suite {suite} did not pass:\n{text}").into());
        }
    }
    if !output.status.success() {
        return Err(format!("litmus ended with {}:\n{text}", output.status).into());
    }
    Ok(())
}
