//! kdig, the DNS client of Knot DNS: one query after another, over UDP, over a new TCP connection each, or the latter
//! with TCP Fast Open. One process sends all queries, so that its start counts once. The kernel keeps the Fast Open
//! cookie between connections.

use super::{Contender, Failure, Prepared, Ready, Registered, SampleSetup};
use crate::{
    process::{Program, run},
    servers::{Http, Server, ZONE},
    work::{Done, Work},
};

const KDIG: Program = Program { name: "kdig", package: "knot-dnsutils", version: "--version" };

macro_rules! registered {
    ($name:literal, $what:literal, $options:expr) => {
        Registered {
            name: $name,
            parameters: &[],
            make: |_| Box::new(Kdig { name: $name, what: $what, options: $options }),
        }
    };
}

pub(super) const UDP: Registered = registered!("kdig-udp", "kdig, each query a datagram", &["+notcp"]);
pub(super) const TCP: Registered = registered!("kdig-tcp", "kdig, each query over a TCP connection", &["+tcp"]);
pub(super) const TFO: Registered =
    registered!("kdig-tfo", "kdig, each query over a TCP connection with TCP Fast Open", &["+tcp", "+fastopen"]);

struct Kdig {
    name: &'static str,
    what: &'static str,
    options: &'static [&'static str],
}

impl Contender for Kdig {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn describe(&self) -> &'static str {
        self.what
    }

    fn needs(&self) -> &'static [Program] {
        &[KDIG]
    }

    fn http(&self, _tls: bool) -> Http {
        Http::One
    }

    fn unable(&self, _work: &Work, _server: &dyn Server, tls: bool) -> Option<String> {
        tls.then(|| "it only queries in plain text; run with --plain".to_owned())
    }

    fn resolves(&self) -> bool {
        true
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("options".to_owned(), self.options.join(" "))]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let options = self.options;
        Ok(Box::new(Ready(move || ask(sample, options))))
    }
}

fn ask(sample: &SampleSetup, options: &[&str]) -> Result<Done, Failure> {
    let server = sample.url.split('/').nth(2).and_then(|at| at.rsplit_once(':'));
    let (ip, port) = server.ok_or_else(|| Failure::Url(sample.url.clone()))?;
    let mut command = KDIG.command(sample.scratch)?;
    command.args(["-4", &format!("@{ip}"), "-p", port, "+noall", "+answer", "+retry=0", "+time=20"]).args(options);
    command.args(sample.task.names().iter().map(|name| format!("{name}.{ZONE}.")));
    let printed = run(sample.client, &mut command, &sample.deadline)?.stdout;
    // Each answer: name, TTL, class, type, address.
    let end = format!(".{ZONE}.");
    let name = |line: &str| Some(line.split_whitespace().next()?.strip_suffix(&end)?.to_owned());
    let answers = printed.lines().filter(|line| !line.starts_with(';'));
    Ok(Done { listing: Some(answers.filter_map(name).collect()), ..Done::default() })
}
