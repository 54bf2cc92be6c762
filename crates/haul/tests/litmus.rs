//! litmus, the conformance suite of WebDAV servers, against the real `haul serve`, straight and through `haul gateway`.
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
    let trial = |name: &str, front: Front| Trial::test(name, move || run(front)).with_ignored_flag(!installed);
    let trials = vec![
        trial("litmus_in_the_clear", Front::Clear),
        trial("litmus_over_tls", Front::Tls),
        trial("litmus_through_the_gateway", Front::Gateway),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// What litmus speaks with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Front {
    Clear,
    Tls,
    Gateway,
}

/// A process that does not outlive its test.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts `haul` with these arguments, and returns the URL that it announces last of its greeting's first line.
fn start(arguments: &[&str]) -> Result<(Stopped, String), Failed> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haul"));
    command.args(arguments).args(["--listen", "127.0.0.1:0"]).stderr(Stdio::piped());
    let mut server = Stopped(command.spawn()?);
    let mut said = BufReader::new(server.0.stderr.take().ok_or("no stderr")?);
    let mut line = String::new();
    said.read_line(&mut line)?;
    // The rest of the greeting must find a reader.
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
    let url = line.split_whitespace().rfind(|word| word.starts_with("http")).ok_or(line.as_str())?.to_owned();
    Ok((server, url))
}

fn run(front: Front) -> Result<(), Failed> {
    let (root, work) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let mut arguments = vec!["serve", root.path().to_str().ok_or("no UTF-8")?];
    if front == Front::Tls {
        arguments.extend(["--tls", "self-signed"]);
    }
    let (_server, mut url) = start(&arguments)?;
    let _gateway = if front == Front::Gateway {
        let (gateway, at) = start(&["gateway", "--upstream", &url])?;
        url = at;
        Some(gateway)
    } else {
        None
    };
    let url = &*url;

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
