//! `haul page replay`: builds an experiment from its arguments, and runs it.

use std::{error::Error, process::ExitCode};

use ::page::replay::Protocol;
use lab::{
    contenders::Parameters,
    experiment::{Experiment, LinkSpec, Network, Row, Selection, Source, Stack, Workload},
    servers,
    work::{Page, Work},
};

use super::link_options::LinkOptions;
use crate::{
    lab::{ExecuteOptions, ResultsFolder, execute, samples},
    link::{lanes, middlebox_help},
    usage,
};

/// Compare the load times of a page over several protocols and RTTs
///
/// Each load runs in a testbed of its own, and is measured from the first request to the last byte. An unmeasured load
/// over the same protocol precedes it, to get the TCP Fast Open cookie and the TLS tickets. Every protocol runs once
/// before any runs twice.
#[derive(clap::Args)]
#[command(after_long_help = format!("{PROTOCOLS}\n\n{}", middlebox_help()))]
pub(crate) struct Args {
    /// The page: wikipedia, amazon, or the file of a spec
    spec: String,

    /// Protocols, see the list below
    #[arg(long, value_name = "PROTOCOL,…", value_delimiter = ',', default_value = "h1,h1+tfo")]
    over: Vec<Protocol>,

    /// Also load the page in Chromium, over HTTP/1.1, HTTP/2 and HTTP/3
    #[arg(long)]
    browser: bool,

    /// Also load the page a second time with a warm cache: only what the header fields require is requested again
    #[arg(long)]
    repeat_view: bool,

    /// Slow Chromium's processor down by this factor, as DevTools do; several: once with each [default: 1]
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "browser", value_parser = slowdown())]
    cpu_slowdown: Vec<u32>,

    /// Server of the page; with both, Chromium loads it from each, and the protocols of --over use Longhaul's own
    #[arg(long, value_name = "SERVER,…", value_delimiter = ',', default_value = "pages")]
    server: Vec<PageServer>,

    /// Number of loads per protocol and RTT, 1 to 100
    #[arg(long, visible_alias = "runs", value_name = "N", default_value = "20", value_parser = samples)]
    samples: u32,

    #[command(flatten)]
    folder: ResultsFolder,

    // Before the other options with a seed, which take it away.
    #[command(flatten)]
    links: LinkOptions,

    #[command(flatten)]
    execute: ExecuteOptions,
}

/// A server that answers for all hosts of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum PageServer {
    /// Longhaul's own
    Pages,
    /// nginx, from files
    Nginx,
}

impl PageServer {
    /// The lab's name of it.
    fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Nginx => "nginx-pages",
        }
    }
}

/// The setting of Chromium's contenders.
const CPU_SLOWDOWN: &str = "cpu-slowdown";

/// The factors that Chromium accepts.
fn slowdown() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=100)
}

/// The sysctl without whose second bit no server takes data in a SYN.
const FAST_OPEN: &str = "net.ipv4.tcp_fastopen";

/// Chromium's contenders; with `-nginx` behind, they have the page from nginx in any case.
const BROWSERS: [&str; 3] = ["chromium-h1", "chromium-h2", "chromium-h3"];

const PROTOCOLS: &str = "\
A protocol is an HTTP version, with options after a +:
  h1              HTTP/1.1, on the recorded connections
  h1x6            HTTP/1.1, on up to six connections per host
  h2              HTTP/2, one connection per host; without TLS by prior knowledge
  h3              HTTP/3, one connection per host
  +pipelining     requests are pipelined (only h1 and h1x6)
  +tls            TLS 1.3 with a full handshake; the default of h3
  +resumed        TLS 1.3 with session resumption
  +early          the same, with idempotent requests as early data (0-RTT)
  +tfo            TCP Fast Open: the first bytes are in the SYN
  +serial         connections are opened one after another, as with blocking sockets (only h1)
Example: --over h1,h1+tfo,h1x6+pipelining,h2+early,h3";

pub(super) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let page = Page::find(&args.spec)?;
    let name = format!("page-{}", page.0.name);
    let network = |link: &LinkSpec| Network {
        // Results name a cell by workload/network/contender.
        name: link.rtt.to_string().replace('/', "+"),
        link: link.clone(),
        note: None,
        server: Stack { sysctls: [(FAST_OPEN.to_owned(), "3".to_owned())].into(), ..Stack::default() },
        variant_of: None,
    };
    let row = |contender: String| Row {
        contender,
        settings: Parameters::new(),
        model: false,
        requests_of: None,
        custom: None,
    };
    let nginx = args.server.contains(&PageServer::Nginx);
    let both = nginx && args.server.contains(&PageServer::Pages);
    let from_nginx = BROWSERS.into_iter().filter(|_| both).map(|browser| format!("{browser}-nginx"));
    let browsers = BROWSERS.into_iter().map(str::to_owned).chain(from_nginx).filter(|_| args.browser);
    let server = if nginx && !both { PageServer::Nginx } else { PageServer::Pages };
    if both && !args.browser {
        return Err(usage("two servers need --browser; without it, name one"));
    }
    for link in args.links.links() {
        lanes(link, ToString::to_string)?;
    }
    let networks: Vec<Network> = args.links.links().iter().map(network).collect();
    let mut contenders: Vec<Row> = Vec::new();
    let slowdowns = if args.cpu_slowdown.is_empty() { &[1][..] } else { &args.cpu_slowdown };
    let slowed = |browser: String| {
        slowdowns.iter().map(move |factor| {
            let settings = (*factor > 1).then(|| (CPU_SLOWDOWN.to_owned(), *factor)).into_iter().collect();
            Row { settings, ..row(browser.clone()) }
        })
    };
    for row in args.over.iter().map(Protocol::to_string).map(row).chain(browsers.flat_map(slowed)) {
        if !contenders.contains(&row) {
            contenders.push(row);
        }
    }
    let workload =
        |name: String, page: Page| Workload { name, work: Work::Load { page }, networks: vec![], contenders: vec![] };
    let mut workloads = vec![workload(page.0.name.clone(), page.clone())];
    if args.repeat_view {
        let again = page.again();
        let again = again.ok_or_else(|| {
            format!("{}: a warm cache has the whole page, so a repeat view requests nothing", args.spec)
        })?;
        workloads.push(workload(format!("{}, repeat view", page.0.name), again));
    }
    let experiment = Experiment {
        name,
        title: page.0.title.clone(),
        question: "Which protocol loads the page fastest?".to_owned(),
        source: Source {
            title: page.0.source.clone().unwrap_or_else(|| args.spec.clone()),
            author: None,
            at: None,
            conditions: Vec::new(),
        },
        networks,
        workloads,
        contenders,
        servers: vec![server.name().to_owned()],
        custom_servers: Vec::new(),
        tls: false,
        samples: args.samples,
        warmup: 0,
        quick: None,
        claims: Vec::new(),
        added: Vec::new(),
    };
    let plan = experiment.plan(&Selection::default()).map_err(usage)?;
    let server = servers::named(server.name()).ok_or("there is no server of pages")?;
    if let Some(missing) = server.missing() {
        return Err(missing.to_string().into());
    }
    execute(&experiment, &plan, server.as_ref(), false, &args.folder.results, &args.execute)
}
