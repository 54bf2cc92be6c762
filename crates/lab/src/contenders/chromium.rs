//! Chromium loads a recorded page over HTTP/1.1, HTTP/2 or HTTP/3 (`chromium-h1`, …), and the same page from nginx
//! (`chromium-h1-nginx`, …). The difference between the two is what the replay server adds to a load.
//!
//! Of a repeat view, the browser is started again between the first view, which fills the cache, and the second one.
//!
//! The second load of a browser counts. The first one, before the clock starts, gets Chromium's processes started and
//! its code into memory; it is also the one of which pictures are taken, since that costs time. The two share no
//! connection, TLS ticket or cache.

use page::browser::{
    self, BrowserError,
    load::{Loader, Profile, Version, unable},
};

use super::{Contender, Failure, Prepared, Ready, Registered, SampleSetup, Values, without_http3};
use crate::{
    process::Program,
    results::PageView,
    servers::{self, Http, Server},
    work::{Done, Visit, Work},
};

const PROGRAMS: [Program; 1] = [Program { name: "chromium", package: browser::PACKAGE, version: "--version" }];

/// All of them.
pub(super) const REGISTERED: [Registered; 6] = [
    Registered { name: "chromium-h1", parameters: SLOWDOWN, make: |values| make(values, Version::One, None) },
    Registered { name: "chromium-h2", parameters: SLOWDOWN, make: |values| make(values, Version::Two, None) },
    Registered { name: "chromium-h3", parameters: SLOWDOWN, make: |values| make(values, Version::Three, None) },
    Registered { name: "chromium-h1-nginx", parameters: SLOWDOWN, make: |values| make(values, Version::One, NGINX) },
    Registered { name: "chromium-h2-nginx", parameters: SLOWDOWN, make: |values| make(values, Version::Two, NGINX) },
    Registered { name: "chromium-h3-nginx", parameters: SLOWDOWN, make: |values| make(values, Version::Three, NGINX) },
];

/// By how many times the processor is slowed down for the page.
const CPU_SLOWDOWN: &str = "cpu-slowdown";
const SLOWDOWN: &[(&str, u32)] = &[(CPU_SLOWDOWN, 1)];

const NGINX: Option<&str> = Some("nginx-pages");

fn make(values: &Values, version: Version, server: Option<&'static str>) -> Box<dyn Contender> {
    Box::new(Chromium { name: values.name(), version, server, cpu_slowdown: values.get(CPU_SLOWDOWN) })
}

struct Chromium {
    name: String,
    version: Version,
    server: Option<&'static str>,
    cpu_slowdown: u32,
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
        loader.slow_down(self.cpu_slowdown);
        let (profile, film) = match page.1 {
            Visit::First => (Profile::New, loader.load_filmed(Profile::New, deadline.left()).map_err(failed)?.film),
            Visit::Repeat(_) => {
                loader.load(Profile::Kept, deadline.left()).map_err(failed)?;
                loader.restart(|command| sample.client.prepare(command)).map_err(failed)?;
                // Gets the code of the new processes into memory, as the first load of the others does.
                loader.load(Profile::New, deadline.left()).map_err(failed)?;
                (Profile::Kept, Vec::new())
            }
        };
        Ok(Box::new(Ready(move || {
            let done = loader.load(profile, deadline.left()).map_err(failed)?;
            let page_view = Some(PageView::of_browser(&done, &film));
            Ok(Done { took: Some(done.took), deviations: Some(done.deviations), page_view, ..Done::default() })
        })))
    }
}
