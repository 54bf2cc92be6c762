//! curl as in a shell loop: one process per file, one after another, so that each file costs a TCP and a TLS handshake.
//! Before an upload over HTTP/1.1, curl 7.88 waits for the response to `Expect: 100-continue`, which costs another
//! round trip even for a small file.

use std::path::Path;

use super::{Contender, Failure, Prepared, Ready, Registered, SampleSetup};
use crate::{
    http_client::multistatus::names,
    process::{Output, Program, run},
    servers::{Http, Server},
    work::{Done, Work},
};

pub(super) const CURL: Program = Program { name: "curl", package: "curl", version: "--version" };
const PROPFIND: &str = r#"<?xml version="1.0"?><propfind xmlns="DAV:"><prop><resourcetype/><getcontentlength/><getlastmodified/></prop></propfind>"#;

pub(super) const REGISTERED: Registered = Registered { name: "curl", parameters: &[], make: |_| Box::new(Curl) };

struct Curl;

impl Contender for Curl {
    fn name(&self) -> String {
        "curl".to_owned()
    }

    fn describe(&self) -> &'static str {
        "one curl after another, one per file, as in a shell loop: TCP and TLS handshakes for each file, and each upload waits for 100 \
         Continue"
    }

    fn needs(&self) -> &[Program] {
        &[CURL]
    }

    fn http(&self, _tls: bool) -> Http {
        Http::One
    }

    fn unable(&self, _work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        None
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("options".to_owned(), "--http1.1 --fail --upload-file | --output".to_owned())]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        Ok(Box::new(Ready(|| work(sample))))
    }
}

fn work(sample: &SampleSetup) -> Result<Done, Failure> {
    let mut done = Done::default();
    let url = |name: &str| format!("{}{name}", sample.url);
    match sample.task.work() {
        Work::Upload { .. } | Work::Tree { .. } | Work::Edit { .. } => {
            for folder in sample.task.folders() {
                curl(sample, &["--request", "MKCOL", &url(&format!("{folder}/"))].map(Path::new))?;
            }
            for (file, _, name) in sample.task.writes() {
                curl(sample, &[Path::new("--upload-file"), &file, Path::new(&url(&name))])?;
            }
        }
        Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
            for name in sample.task.names() {
                let file = sample.task.target.join(&name);
                curl(sample, &[Path::new("--output"), &file, Path::new(&url(&name))])?;
            }
        }
        Work::List { .. } | Work::LookUp { .. } | Work::Chore(_) => {
            let args = ["--request", "PROPFIND", "--header", "Depth: 1", "--data", PROPFIND, &sample.url];
            let answer = curl(sample, &args.map(Path::new))?.stdout;
            done.listing = names(&answer, &format!("/{}", sample.task.folder));
        }
    }
    Ok(done)
}

fn curl(sample: &SampleSetup, args: &[&Path]) -> Result<Output, Failure> {
    let mut command = CURL.command(sample.scratch)?;
    command.args(["--silent", "--show-error", "--fail", "--http1.1"]);
    if let Some(certificates) = sample.certificates {
        command.arg("--cacert").arg(&certificates.ca_file);
    }
    Ok(run(sample.client, command.args(args), &sample.deadline)?)
}
