//! `haul page replay`: builds an experiment from its arguments, and runs it.

use std::{error::Error, path::PathBuf, process::ExitCode};

use ::page::replay::Protocol;
use lab::{
    contenders::Parameters,
    experiment::{Experiment, LinkSpec, Network, Row, Selection, Source, Stack, Workload},
    servers,
    work::{Page, Work},
};
use link::spec::{LossSpec, QueueSpec, RateSpec};
use units::Span;

use crate::{
    lab::{ExecuteOptions, execute},
    usage,
};

/// Compare the load times of a page over several protocols and RTTs
///
/// Each load runs in a testbed of its own, and is measured from the first request to the last byte. An unmeasured load
/// over the same protocol precedes it, to get the TCP Fast Open cookie and the TLS tickets. Every protocol runs once
/// before any runs twice.
#[derive(clap::Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Args {
    /// The page: wikipedia, amazon, or the file of a spec
    spec: String,

    /// Protocols, see the list below
    #[arg(long, value_name = "PROTOCOL,…", value_delimiter = ',', default_value = "h1,h1+tfo")]
    over: Vec<Protocol>,

    /// Also load the page in Chromium, over HTTP/1.1, HTTP/2 and HTTP/3
    #[arg(long)]
    browser: bool,

    /// Server of the page; with both, Chromium loads it from each, and the protocols of --over use Longhaul's own
    #[arg(long, value_name = "SERVER,…", value_delimiter = ',', default_value = "pages")]
    server: Vec<PageServer>,

    /// Round-trip times
    #[arg(long, value_name = "DURATION,…", value_delimiter = ',', default_value = "21ms,85ms,172ms")]
    rtt: Vec<Span>,

    /// Number of loads per protocol and RTT
    #[arg(long, value_name = "N", default_value_t = 20)]
    runs: u32,

    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "runs")]
    folder: PathBuf,

    /// Rate of the bottleneck in both directions, or up/down: 100mbit, 20mbit/100mbit [default: unlimited]
    #[arg(long, value_name = "RATE")]
    rate: Option<RateSpec>,

    /// Queue of the bottleneck: bdp (bandwidth-delay product, at least 100 packets), 100p (packets), 64KiB, codel,
    /// infinite [default: bdp]
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueSpec>,

    /// Loss in both directions, or up/down: 0.1%, 1%/0%; in bursts (Gilbert–Elliott): ge:p=1%,r=20%
    #[arg(long, value_name = "LOSS")]
    loss: Option<LossSpec>,

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

/// The sysctl without whose second bit no server takes data in a SYN.
const FAST_OPEN: &str = "net.ipv4.tcp_fastopen";

/// Chromium's contenders; with `-nginx` behind, they have the page from nginx in any case.
const BROWSERS: [&str; 3] = ["chromium-h1", "chromium-h2", "chromium-h3"];

const HELP: &str = "\
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
    let network = |rtt: &Span| Network {
        name: rtt.to_string(),
        link: LinkSpec {
            rtt: (*rtt).into(),
            rate: args.rate,
            queue: args.queue,
            loss: args.loss,
            ..LinkSpec::default()
        },
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
    let mut networks: Vec<Network> = args.rtt.iter().map(network).collect();
    networks.dedup_by(|one, other| one.name == other.name);
    let mut contenders: Vec<Row> = Vec::new();
    for row in args.over.iter().map(Protocol::to_string).chain(browsers).map(row) {
        if !contenders.contains(&row) {
            contenders.push(row);
        }
    }
    let workload = Workload {
        name: page.0.name.clone(),
        work: Work::Load { page: page.clone() },
        networks: vec![],
        contenders: vec![],
    };
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
        workloads: vec![workload],
        contenders,
        servers: vec![server.name().to_owned()],
        custom_servers: Vec::new(),
        tls: false,
        samples: args.runs,
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
    execute(&experiment, &plan, server.as_ref(), false, &args.folder, &args.execute)
}
