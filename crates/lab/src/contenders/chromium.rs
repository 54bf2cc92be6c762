//! Chromium loads a recorded page over HTTP/1.1, HTTP/2 or HTTP/3 (`chromium-h1`, …), and the same page from nginx
//! (`chromium-h1-nginx`, …). The difference between the two is what the replay server adds to a load.
//!
//! The second load of a browser counts. The first one, before the clock starts, gets Chromium's processes started and
//! its code into memory. The two share no connection, TLS ticket or cache.

use page::browser::{
    self, BrowserError,
    load::{Loader, Version, unable},
};

use super::{Contender, Failure, Prepared, Ready, Registered, SampleSetup, Values, without_http3};
use crate::{
    process::Program,
    servers::{self, Http, Server},
    work::{Done, Work},
};

const PROGRAMS: [Program; 1] = [Program { name: "chromium", package: browser::PACKAGE, version: "--version" }];

/// All of them.
pub(super) const REGISTERED: [Registered; 6] = [
    Registered { name: "chromium-h1", parameters: &[], make: |values| make(values, Version::One, None) },
    Registered { name: "chromium-h2", parameters: &[], make: |values| make(values, Version::Two, None) },
    Registered { name: "chromium-h3", parameters: &[], make: |values| make(values, Version::Three, None) },
    Registered { name: "chromium-h1-nginx", parameters: &[], make: |values| make(values, Version::One, NGINX) },
    Registered { name: "chromium-h2-nginx", parameters: &[], make: |values| make(values, Version::Two, NGINX) },
    Registered { name: "chromium-h3-nginx", parameters: &[], make: |values| make(values, Version::Three, NGINX) },
];

const NGINX: Option<&str> = Some("nginx-pages");

fn make(values: &Values, version: Version, server: Option<&'static str>) -> Box<dyn Contender> {
    Box::new(Chromium { name: values.name(), version, server })
}

struct Chromium {
    name: String,
    version: Version,
    server: Option<&'static str>,
}

impl Contender for Chromium {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &'static str {
        match (self.version, self.server) {
            (Version::One, None) => "Chromium, a recorded page over HTTP/1.1",
            (Version::Two, None) => "Chromium, a recorded page over HTTP/2",
            (Version::Three, None) => "Chromium, a recorded page over HTTP/3",
            (Version::One, Some(_)) => "Chromium, a recorded page over HTTP/1.1, from nginx",
            (Version::Two, Some(_)) => "Chromium, a recorded page over HTTP/2, from nginx",
            (Version::Three, Some(_)) => "Chromium, a recorded page over HTTP/3, from nginx",
        }
    }

    fn needs(&self) -> &'static [Program] {
        &PROGRAMS
    }

    fn http(&self, _tls: bool) -> Http {
        if self.version == Version::One { Http::One } else { Http::Two }
    }

    fn server(&self) -> Option<&'static str> {
        self.server
    }

    fn settings(&self) -> Vec<(String, String)> {
        let server = self.server.and_then(servers::named).filter(|server| server.missing().is_none());
        server.map_or_else(Vec::new, |server| server.settings())
    }

    fn unable(&self, work: &Work, server: &dyn Server, _tls: bool) -> Option<String> {
        let Work::Load { page } = work else { return None };
        let without = self.version == Version::Three && !server.http3();
        without.then(|| without_http3(server)).or_else(|| unable(&page.0))
    }

    fn replays(&self) -> bool {
        true
    }

    fn tls(&self, _experiment: bool) -> bool {
        true
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let Work::Load { page } = sample.task.work() else { return Err(Failure::Engine("there is no page".into())) };
        let failed = |error: BrowserError| Failure::Engine(error.to_string());
        let key = sample.certificates.map_or("", |certificates| certificates.server_key_hash.as_str());
        let prepare = |command: &mut _| sample.client.prepare(command);
        let folder = sample.scratch.to_owned();
        let mut loader = Loader::start(&page.0, self.version, sample.address, key, folder, prepare).map_err(failed)?;
        let deadline = sample.deadline.clone();
        loader.load(deadline.left()).map_err(failed)?;
        Ok(Box::new(Ready(move || {
            let done = loader.load(deadline.left()).map_err(failed)?;
            Ok(Done { took: Some(done.took), deviations: Some(done.deviations), ..Done::default() })
        })))
    }
}
