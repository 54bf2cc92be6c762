//! A page with everything, loaded over each protocol; the server must receive all requests each time.

use std::{collections::BTreeSet, sync::Arc};

use lab::{
    certs::Certificates,
    contenders::{self, Contender, Parameters},
    servers::Server,
    work::{Page, Visit, Work},
};
use libtest_mimic::Failed;

use crate::{Tests, sample, scratch, server, start};

/// Protocols to load a page over: each version of HTTP, and each extension.
const PROTOCOLS: [&str; 12] = [
    "h1",
    "h1+tfo",
    "h1+serial",
    "h1+serial+tfo",
    "h1x6+pipelining",
    "h1+resumed",
    "h1+early+tfo",
    "h2",
    "h2+tls+tfo",
    "h2+early",
    "h3",
    "h3+early",
];

/// The protocols that nginx serves as well.
const NGINX: [&str; 5] = ["h1", "h1+resumed", "h2", "h2+tls+tfo", "h3"];

/// Dependencies on heads and ends, computation, two responses to equal requests, a request body, and responses without a
/// body; over two hosts.
const PAGE: &str = r#"
schema = "longhaul.page/1"
title = "a page with everything"
[[request]]
id = "page"
host = "www.example.org"
path = "/?a=b|c"
connection = 0
head = 400
response = { type = "text/html", head = 300, body = 60000 }
[[request]]
id = "style"
host = "static.example.org"
path = "/style.css"
connection = 1
after = [{ head = "page", bytes = 4000 }]
response = { head = 300, body = 20000 }
[[request]]
id = "picture"
host = "static.example.org"
path = "/picture"
connection = 1
after = [{ head = "page", bytes = 4000 }]
response = { head = 300, body = 1000 }
[[request]]
id = "beacon"
method = "POST"
host = "www.example.org"
path = "/beacon"
connection = 0
after = [{ end = "style" }]
compute = "5ms"
body = 700
response = { status = 204, body = 0 }
[[request]]
id = "picture-again"
host = "static.example.org"
path = "/picture"
connection = 1
after = [{ end = "style" }]
response = { status = 304, body = 0 }
"#;

/// Adds the tests: each protocol, from each server that has it.
pub(crate) fn add(tests: &mut Tests) {
    for registered in contenders::all().iter().filter(|one| PROTOCOLS.contains(&one.name)) {
        for page_server in
            ["pages", "nginx-pages"].into_iter().filter(|one| *one == "pages" || NGINX.contains(&registered.name))
        {
            let missing = match server(page_server) {
                one if one.missing().is_some() => one.missing().map(|missing| missing.to_string()),
                one => registered.with(&Parameters::new()).unwrap().unable(
                    &Work::Load { page: page() },
                    one.as_ref(),
                    false,
                ),
            };
            let run = move || load(registered.with(&Parameters::new())?.as_ref(), server(page_server).as_ref());
            tests.add(format!("{page_server} {}", registered.name), missing.as_deref(), false, run);
        }
    }
}

fn page() -> Page {
    Page(Arc::new(page::Spec::parse(PAGE, "page.toml".as_ref()).unwrap()), Visit::First)
}

/// Loads a page twice; the server must receive all requests each time.
fn load(contender: &dyn Contender, server: &dyn Server) -> Result<(), Failed> {
    let page = page();
    let folder = scratch();
    let certificates = Certificates::make(folder.path(), &["127.0.0.1".parse()?], &page.0.hosts())?;
    let certificates = contender.tls(false).then_some(&certificates);
    let work = Work::Load { page };
    let mut running =
        start(server, folder.path(), (contender.http(false), contender.signs_in()), certificates, Some(&work))?;
    let requests = sample(&mut running, contender, work, folder.path(), certificates, 0)?;
    // Rejected early data is sent again.
    if requests.of("GET") != 4 || !(1..=2).contains(&requests.of("POST")) {
        return Err(format!("{requests} instead of GET 4, POST 1").into());
    }
    let seen: BTreeSet<&str> = requests.protocols.iter().map(|protocol| protocol.http.as_str()).collect();
    let expected = match &contender.name()[..2] {
        "h1" => "HTTP/1.1",
        "h2" => "HTTP/2.0",
        _ => "HTTP/3.0",
    };
    // TCP may win against QUIC on a machine too busy for a handshake within QUIC's head start.
    let is_raced = expected == "HTTP/3.0";
    if !seen.contains(expected) || !is_raced && seen.len() > 1 {
        return Err(format!("{seen:?} instead of {expected}").into());
    }
    running.check()?;
    running.stop();
    Ok(())
}
