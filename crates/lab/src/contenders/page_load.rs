//! Loading a recorded page over each protocol. Each protocol is a contender: `h1`, `h1+tfo`, `h3+early`.
//!
//! The second load in a testbed counts. The first one, before the clock starts, gets what an earlier visit leaves: a
//! TCP Fast Open cookie, TLS tickets. Protocols that use neither have the first load as well, so that only the protocol
//! differs.

use std::sync::Arc;

use page::replay::{Http as PageHttp, Protocol, Replay, ReplayError};

use super::{Contender, Failure, Prepared, Registered, SampleSetup, Values, without_http3};
use crate::{
    host_task::start,
    results::PageView,
    servers::{Http, Server},
    work::{Done, Visit, Work},
};

/// All protocols.
pub(super) fn registered() -> impl Iterator<Item = Registered> {
    let make = |values: &Values| -> Box<dyn Contender> {
        let over = values.registered.name.parse().unwrap_or(Protocol::PLAIN);
        Box::new(Page { over })
    };
    Protocol::all().into_iter().map(move |over| Registered { name: over.to_string().leak(), parameters: &[], make })
}

struct Page {
    over: Protocol,
}

impl Contender for Page {
    fn name(&self) -> String {
        self.over.to_string()
    }

    fn describe(&self) -> &'static str {
        match self.over.http {
            PageHttp::Recorded if self.over.serial => {
                "a recorded page over HTTP/1.1, its connections opened one after another, as with blocking sockets"
            }
            PageHttp::Recorded => "a recorded page over HTTP/1.1, on the connections it was recorded on",
            PageHttp::Six => "a recorded page over HTTP/1.1, on up to six connections to a host",
            PageHttp::Two => "a recorded page over HTTP/2",
            PageHttp::Three => "a recorded page over HTTP/3",
        }
    }

    fn http(&self, _tls: bool) -> Http {
        match self.over.http {
            PageHttp::Recorded | PageHttp::Six => Http::One,
            PageHttp::Two | PageHttp::Three => Http::Two,
        }
    }

    fn unable(&self, _work: &Work, server: &dyn Server, _tls: bool) -> Option<String> {
        (self.over.http == PageHttp::Three && !server.http3()).then(|| without_http3(server))
    }

    fn replays(&self) -> bool {
        true
    }

    fn tls(&self, _experiment: bool) -> bool {
        self.over.is_tls()
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let Work::Load { page } = sample.task.work() else { return Err(Failure::Engine("there is no page".into())) };
        let failed = |error: ReplayError| Failure::Engine(error.to_string());
        let authorities = sample.certificates.map(|certificates| certificates.ca_file.clone()).into_iter().collect();
        let replay = Replay::new(page.0.clone(), self.over, sample.address, authorities).map_err(failed)?;
        let replay = Arc::new(replay);
        let page = page.clone();
        let first = move || async move { replay.load().await.map(|_| replay).map_err(failed) };
        let second = move |replay: Arc<Replay>| async move {
            let load = match &page.1 {
                Visit::First => replay.load().await,
                Visit::Repeat(view) => replay.with_warm_cache((**view).clone()).load().await,
            };
            let load = load.map_err(failed)?;
            let view = PageView::of_client(page.sent(), &load);
            Ok(Done { took: Some(load.took), page_view: Some(view), ..Done::default() })
        };
        Ok(Box::new(start(sample.client, &sample.deadline, first, second)?))
    }
}
