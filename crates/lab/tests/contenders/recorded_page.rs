//! nginx with a recorded page: redirects, validators, equal requests and requests that were not recorded.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use lab::{
    servers::Http,
    work::{Page, Work},
};
use libtest_mimic::Failed;

use crate::{scratch, server, start};

/// The first request was redirected to the same URL by https.
const PAGE: &str = r#"
schema = "longhaul.page/1"
[[request]]
id = "moved"
scheme = "http"
host = "a.example"
path = "/"
response = { status = 301, headers = ["location: https://a.example/"] }
[[request]]
id = "page"
host = "a.example"
path = "/"
response = { type = "text/html", text = "the page" }
[[request]]
id = "away"
host = "a.example"
path = "/away?x=1"
response = { status = 302, headers = ["location: /to?$1"], type = "text/plain", text = "gone" }
[[request]]
id = "old"
host = "a.example"
path = "/old"
response = { headers = ["last-modified: Tue, 01 Jan 2019 00:00:00 GMT", "etag: \"abc\""], text = "old" }
"#;

pub(crate) fn nginx() -> Result<(), Failed> {
    let page = Page(Arc::new(page::Spec::parse(PAGE, "page.toml".as_ref())?));
    let folder = scratch();
    let nginx = server("nginx-pages");
    let mut running = start(nginx.as_ref(), folder.path(), (Http::One, false), None, Some(&Work::Load { page }))?;
    let address = running.url().trim_start_matches("http://").trim_end_matches('/').to_owned();
    let get = |target: &str| -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&address)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        write!(stream, "GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let expect = |target: &str, parts: &[&str]| -> Result<(), Failed> {
        let answer = get(target)?;
        let locations = answer.to_ascii_lowercase().matches("\r\nlocation:").count();
        let expected = usize::from(answer.starts_with("HTTP/1.1 30"));
        if locations == expected && parts.iter().all(|part| answer.contains(part)) {
            return Ok(());
        }
        Err(format!("{target}: {parts:?} and {expected} locations expected, not\n{answer}").into())
    };
    expect("/", &["HTTP/1.1 200", "\r\n\r\nthe page"])?;
    expect("/away?x=1", &["HTTP/1.1 302", "Location: /to?$1\r\n", "\r\n\r\ngone"])?;
    expect("/away?x=2", &["HTTP/1.1 302", "Location: /to?$1\r\n"])?;
    expect(
        "/old?new",
        &["200", "ast-modified: Tue, 01 Jan 2019 00:00:00 GMT\r\n", "etag: \"abc\"\r\n", "\r\n\r\nold"],
    )?;
    expect("/none", &["HTTP/1.1 404"])?;
    running.check()?;
    running.stop();
    Ok(())
}
