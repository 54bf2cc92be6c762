//! `curl --parallel`: one process transfers all files, fifty at a time, over fifty HTTP/1.1 connections or one HTTP/2
//! connection. No WebDAV client needs fewer round trips, since a transfer is one request and waits for no other. But
//! curl creates no folders, takes no locks, and does not look at what exists.
//!
//! Before an upload over HTTP/1.1, curl 7.88 asks with `Expect: 100-continue` whether it may send, and waits for the answer.
//! `curl-tuned` omits this header, as curl's manual suggests, and so sends each file at once, over 25 connections: the fastest of 10
//! to 200 over 18 ms, where more of them begin with more packets than the bottleneck's queue holds.

use std::{fmt::Write, fs};

use super::{Contender, Failure, Prepared, Ready, Registered, SampleSetup, Values, curl::CURL, io_failure};
use crate::{
    process::{Program, run},
    servers::{Http, Server},
    work::{Done, RemoteFile, Work},
};

const PARAMETERS: &[(&str, u32)] = &[("parallel", 50)];

pub(super) const HTTP1: Registered = Registered {
    name: "curl-parallel-h1",
    parameters: PARAMETERS,
    make: |values| {
        let about = "one curl for all files, 50 connections of HTTP/1.1 at a time; each upload waits for 100 Continue";
        Box::new(CurlParallel::new(values, Http::One, about, false))
    },
};
pub(super) const HTTP2: Registered = Registered {
    name: "curl-parallel-h2",
    parameters: PARAMETERS,
    make: |values| {
        let about =
            "one curl for all files, 50 streams of one HTTP/2 connection at a time, which begins with a small window";
        Box::new(CurlParallel::new(values, Http::Two, about, false))
    },
};
pub(super) const TUNED: Registered = Registered {
    name: "curl-tuned",
    parameters: &[("parallel", 25)],
    make: |values| {
        let about = "one curl for all files, 25 connections of HTTP/1.1 at a time, without waiting for 100 Continue: the fewest \
             round trips, and an initial window for every connection";
        Box::new(CurlParallel::new(values, Http::One, about, true))
    },
};

struct CurlParallel {
    name: String,
    about: &'static str,
    http: Http,
    parallel: u32,
    /// Whether it sends no `Expect: 100-continue`.
    is_tuned: bool,
}

impl CurlParallel {
    fn new(values: &Values, http: Http, about: &'static str, is_tuned: bool) -> Self {
        Self { name: values.name(), about, http, parallel: values.get("parallel"), is_tuned }
    }

    /// curl's option for the version of HTTP.
    fn version(&self) -> &'static str {
        match self.http {
            Http::One => "--http1.1",
            Http::Two => "--http2",
        }
    }
}

impl Contender for CurlParallel {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &str {
        self.about
    }

    fn needs(&self) -> &[Program] {
        &[CURL]
    }

    fn http(&self, _tls: bool) -> Http {
        self.http
    }

    fn unable(&self, work: &Work, _server: &dyn Server, tls: bool) -> Option<String> {
        match work {
            // Seen with curl 7.88 and prior knowledge: only the first transfer succeeds.
            _ if self.http == Http::Two && !tls => {
                Some("curl's parallel transfers fail over HTTP/2 without TLS".to_owned())
            }
            Work::Upload { .. } | Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => None,
            Work::Tree { .. } => {
                Some("curl's parallel transfers are unordered, and a folder must exist before its files".to_owned())
            }
            Work::List { .. } | Work::LookUp { .. } | Work::Chore(_) => {
                Some("a listing is one request, with nothing to do in parallel".to_owned())
            }
            Work::Edit { .. } => Some("saves of one file cannot be made in parallel".to_owned()),
        }
    }

    fn settings(&self) -> Vec<(String, String)> {
        let expect = if self.is_tuned { " --header Expect:" } else { "" };
        let options = format!("--parallel --parallel-max {} {}{expect}", self.parallel, self.version());
        vec![("options".to_owned(), options)]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        // A file, because a command line has a maximum length.
        let list = sample.scratch.join("curl.conf");
        fs::write(&list, transfers(sample)).map_err(io_failure("write", &list))?;
        let version = self.version();
        let (parallel, is_tuned) = (self.parallel.to_string(), self.is_tuned);
        Ok(Box::new(Ready(move || {
            let mut command = CURL.command(sample.scratch)?;
            command.args(["--silent", "--show-error", "--no-progress-meter", "--fail", version]);
            command.args(["--parallel", "--parallel-max", &parallel, "--config"]).arg(&list);
            if is_tuned {
                command.args(["--header", "Expect:"]);
            }
            if let Some(certificates) = sample.certificates {
                command.arg("--cacert").arg(&certificates.ca_file);
            }
            run(sample.client, &mut command, &sample.deadline)?;
            Ok(Done::default())
        })))
    }
}

fn transfers(sample: &SampleSetup) -> String {
    let mut list = String::new();
    for (file, _, name) in sample.task.writes() {
        let _ = writeln!(list, "upload-file = \"{}\"\nurl = \"{}{name}\"", file.display(), sample.url);
    }
    for RemoteFile { name, .. } in sample.task.reads() {
        let file = sample.task.target.join(&name);
        let _ = writeln!(list, "output = \"{}\"\nurl = \"{}{name}\"", file.display(), sample.url);
    }
    list
}
