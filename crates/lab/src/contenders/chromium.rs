//! Chromium loads a recorded page, over each version of HTTP: `chromium-h1`, `chromium-h2`, `chromium-h3`.
//!
//! The load that counts is the second of a browser. The first, outside the clock, has its processes started and its code
//! in memory; of its connections, tickets and cache nothing is left.

use page::browser::{
    self, BrowserError,
    load::{Loader, Version, unable},
};

use super::{Contender, Failure, Prepared, Ready, Registered, Sample, Values};
use crate::{
    process::Program,
    servers::{Http, Server},
    work::{Done, Work},
};

const PROGRAMS: [Program; 1] = [Program { name: "chromium", package: browser::PACKAGE, version: "--version" }];

pub(super) const HTTP1: Registered =
    Registered { name: "chromium-h1", parameters: &[], make: |values| make(values, Version::One) };
pub(super) const HTTP2: Registered =
    Registered { name: "chromium-h2", parameters: &[], make: |values| make(values, Version::Two) };
pub(super) const HTTP3: Registered =
    Registered { name: "chromium-h3", parameters: &[], make: |values| make(values, Version::Three) };

fn make(values: &Values, version: Version) -> Box<dyn Contender> {
    Box::new(Chromium { name: values.name(), version })
}

struct Chromium {
    name: String,
    version: Version,
}

impl Contender for Chromium {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &'static str {
        match self.version {
            Version::One => "Chromium, a recorded page over HTTP/1.1",
            Version::Two => "Chromium, a recorded page over HTTP/2",
            Version::Three => "Chromium, a recorded page over HTTP/3",
        }
    }

    fn needs(&self) -> &'static [Program] {
        &PROGRAMS
    }

    fn http(&self, _tls: bool) -> Http {
        if self.version == Version::One { Http::One } else { Http::Two }
    }

    fn unable(&self, work: &Work, _server: &dyn Server, _tls: bool) -> Option<String> {
        match work {
            Work::Load { page } => unable(&page.0),
            _ => None,
        }
    }

    fn replays(&self) -> bool {
        true
    }

    fn tls(&self, _experiment: bool) -> bool {
        true
    }

    fn prepare<'a>(&self, sample: &'a Sample<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let Work::Load { page } = sample.task.work() else { return Err(Failure::Engine("there is no page".into())) };
        let failed = |error: BrowserError| Failure::Engine(error.to_string());
        let key = sample.certificates.map_or("", |certificates| certificates.server_key_hash.as_str());
        let place = |command: &mut _| sample.client.place(command);
        let folder = sample.scratch.to_owned();
        let mut loader = Loader::start(&page.0, self.version, sample.address, key, folder, place).map_err(failed)?;
        let bounds = sample.bounds.clone();
        loader.load(bounds.left()).map_err(failed)?;
        Ok(Box::new(Ready(move || {
            let loaded = loader.load(bounds.left()).map_err(failed)?;
            if let Some(missing) = loaded.missing.first() {
                tracing::warn!("Chromium asked for what the page does not have, or did not get it: {missing}");
            }
            Ok(Done { took: Some(loaded.took), ..Done::default() })
        })))
    }
}
