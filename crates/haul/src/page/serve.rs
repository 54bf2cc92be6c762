//! `haul page serve`.

mod here;

use std::{
    error::Error,
    ffi::{OsStr, OsString},
    net::{IpAddr, SocketAddr},
    process::ExitCode,
};

use ::page::Spec;
use lab::site::{self, Site, trust};
use link::{
    sandbox::{self, Sandbox},
    spec::LinkSpec,
    topology::{Network, Topology},
};

use crate::{
    link::{HostOptions, Served, Session, Task, TimedLink, changes, lanes, middlebox_help, session},
    usage,
};

/// Serve a page to any program, at the end of an emulated link
///
/// The command runs on the client host, and the site on the server host: all hosts of the page at the ports of their URLs,
/// over HTTP/1.1, HTTP/2 and HTTP/3. Their names resolve, and most programs trust their certificate. The environment
/// variables `HAUL_PAGE_URL`, `HAUL_PAGE_CA` (the authority's certificate) and `HAUL_PAGE_KEY` (the hash of the server's key,
/// for Chromium's `--ignore-certificate-errors-spki-list`) are for the others. The exit status is that of the command.
///
/// Without a command, the site listens on this machine until Ctrl-C, without a link.
#[derive(clap::Args)]
#[command(
    override_usage = "haul page serve [OPTIONS] <SPEC> -- <CMD>...\n       haul page serve <SPEC> [--listen <ADDRESS>]",
    after_long_help = middlebox_help(),
)]
pub(crate) struct Args {
    /// The page: wikipedia, amazon, or the file of a spec
    #[arg(value_name = "SPEC")]
    spec: String,

    /// Address on this machine, if there is no command; port 0 lets the system choose
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8443", conflicts_with = "command")]
    listen: SocketAddr,

    #[command(flatten)]
    hosts: HostOptions,

    /// The command, after `--`
    #[arg(last = true, value_name = "CMD")]
    command: Vec<OsString>,

    // Last: the options after it get its heading.
    #[command(flatten)]
    link: TimedLink,
}

/// The name of the server's host, which a page's addresses get.
const SERVER: &str = "server";

pub(super) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let page = Spec::find(&args.spec)?;
    if args.command.is_empty() {
        let is_plain = args.link.spec == LinkSpec::default() && args.link.changes.is_empty() && args.hosts.is_default();
        return if is_plain { here::serve(&page, args.listen) } else { Err(usage(NO_COMMAND)) };
    }
    let lanes = lanes(&args.link.spec, ToString::to_string)?;
    let topology = Topology::pair(args.link.spec.clone(), None);
    let timetable = changes::timetable(&topology, &args.link.changes)?;
    let sandbox = sandbox::enter()?;
    let session = Session {
        options: &args.hosts,
        topology,
        lanes: vec![lanes],
        timetable,
        has_cable_names: false,
        task: Task::Command(&args.command),
    };
    session::run(session, &sandbox, |network| start(&page, network, &sandbox, args.hosts.is_quiet()))
}

const NO_COMMAND: &str = "a link needs a command, whose end it is: write it after `--`, such as `-- bash`; without options, the site \
     listens on this machine";

/// Starts the site on the server host.
fn start(page: &Spec, network: &Network, sandbox: &Sandbox, is_quiet: bool) -> Result<Served, Box<dyn Error>> {
    let (page, renamed) = site::renamed(page, SERVER);
    let addresses = network.address(1).ok_or("the server has no address")?;
    let endpoints = site::endpoints(&page, &[IpAddr::V4(addresses.v4), IpAddr::V6(addresses.v6)]);
    let site = Site::start(&page, &network.hosts()[1], endpoints, sandbox.scratch())?;
    let mut environment = vec![("HAUL_PAGE_URL", url(&page).into())];
    if let Some(certificates) = &site.certificates {
        environment.push(("HAUL_PAGE_CA", certificates.ca_file.clone().into()));
        environment.push(("HAUL_PAGE_KEY", certificates.server_key_hash.clone().into()));
        let list = trust::install(sandbox, &certificates.ca_file)
            .map_err(|error| format!("cannot make programs trust the site's certificate: {error}"))?;
        let list: &OsStr = list.as_ref();
        environment.extend(trust::VARIABLES.map(|variable| (variable, list.to_owned())));
    }
    if !is_quiet {
        crate::say(format_args!("{} at {}", describe(&page), url(&page)));
        for host in renamed {
            crate::say(format_args!("{host} cannot lead to another host; its URLs are served as those of `{SERVER}`"));
        }
    }
    let names = site::names(&page).into_iter().map(|name| (name, addresses)).collect();
    Ok(Served { names, environment, running: Some(Box::new(site)) })
}

/// The URL of the page itself.
fn url(page: &Spec) -> String {
    page.requests.first().map_or_else(String::new, |first| {
        format!("http{}://{}{}", if first.secure { "s" } else { "" }, first.host, first.path)
    })
}

fn describe(page: &Spec) -> String {
    let (requests, hosts) = (page.requests.len() as u64, page.hosts().len() as u64);
    let count = units::rounded::count;
    format!("{}: {} of {}", page.title, count(requests, "request"), count(hosts, "host"))
}
