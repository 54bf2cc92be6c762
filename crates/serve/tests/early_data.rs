//! HTTP/3 and early data with other programs: ngtcp2's client and server, and nginx.
//!
//! Debian has no other server with HTTP/3 that serves as little as these tests need: curl 7.88 and nginx 1.22 have
//! none. ngtcp2's come with the packages `ngtcp2-client` and `ngtcp2-server`.

mod common;

use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use haul_http::{Body, Origin, Settings, SingleConnection};
use http::Request;
use http_body_util::BodyExt;
use serve::Tls;
use tempfile::TempDir;
use tokio::time::timeout;
use transport::{ConnectSettings, Connector, EarlyData, Offer, TlsSettings};

use common::{LIMIT, start, until};

/// The program, if it is installed; otherwise prints that the test is skipped.
fn program(name: &str, package: &str) -> Option<PathBuf> {
    let found = ["/usr/bin", "/usr/sbin"].map(|folder| Path::new(folder).join(name)).into_iter().find(|at| at.exists());
    if found.is_none() {
        eprintln!("skipped: {name} is not installed; `apt install {package}` brings it");
    }
    found
}

/// A program that ends with the test.
struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A folder with a certificate for loopback, its key, and a file to serve.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    std::fs::write(folder.path().join("c.pem"), made.cert.pem()).unwrap();
    std::fs::write(folder.path().join("k.pem"), made.signing_key.serialize_pem()).unwrap();
    std::fs::create_dir(folder.path().join("www")).unwrap();
    std::fs::write(folder.path().join("www/file"), vec![7; 200_000]).unwrap();
    folder
}

fn connector(folder: &Path) -> Connector {
    let tls = TlsSettings { authorities: vec![folder.join("c.pem")], ..TlsSettings::default() };
    Connector::new(ConnectSettings { tls, ..ConnectSettings::default() }).unwrap()
}

fn origin(port: u16) -> Origin {
    Origin::of(&format!("https://127.0.0.1:{port}/").parse().unwrap()).unwrap()
}

/// Downloads the file over a new connection; returns the fate of its early data, and the header `x-early`.
async fn get(connector: &Connector, port: u16, offer: Offer, early: bool) -> (EarlyData, Option<String>) {
    let lone = SingleConnection::open(connector, &origin(port), offer, early, &Settings::default()).await.unwrap();
    let request = Request::get(format!("https://127.0.0.1:{port}/file")).body(Body::empty()).unwrap();
    let answer = timeout(LIMIT, lone.send(request)).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    let told = answer.headers().get("x-early").map(|told| told.to_str().unwrap().to_owned());
    assert_eq!(timeout(LIMIT, answer.into_body().collect()).await.unwrap().unwrap().to_bytes(), vec![7; 200_000]);
    assert!(timeout(LIMIT, lone.confirmed()).await.unwrap());
    // Tickets may arrive after the response.
    tokio::time::sleep(Duration::from_millis(200)).await;
    (lone.facts().tls.unwrap().early, told)
}

#[tokio::test]
async fn ngtcp2_client_gets_early_data_answered_and_unsafe_requests_refused() {
    let Some(client) = program("gtlsclient", "ngtcp2-client") else { return };
    let server = start(|config| config.tls = Some(Tls::SelfSigned));
    server.write("file", vec![7; 200_000]);
    let files = tempfile::tempdir().unwrap();
    let ask = async |method: &str| {
        let mut command = Command::new(&client);
        command.args([
            "--exit-on-all-streams-close",
            "--timeout=10s",
            "--no-quic-dump",
            "--no-http-dump",
            "-m",
            method,
        ]);
        for (option, name) in [("--session-file", "session"), ("--tp-file", "parameters"), ("--download", "")] {
            command.arg(format!("{option}={}", files.path().join(name).display()));
        }
        command.arg("127.0.0.1").arg(server.address.port().to_string());
        command.arg(format!("https://{}/file", server.address));
        let run = tokio::task::spawn_blocking(move || command.output().unwrap());
        let output = timeout(LIMIT, run).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let status = said.split("[:status: ").nth(1).and_then(|rest| rest.split(']').next()).map(str::to_owned);
        (status.unwrap_or_else(|| panic!("no answer: {said}")), said.contains("type=0RTT"))
    };
    assert_eq!(ask("GET").await, ("200".to_owned(), false));
    assert_eq!(std::fs::read(files.path().join("file")).unwrap(), vec![7; 200_000]);
    assert_eq!(ask("GET").await, ("200".to_owned(), true));
    // If the handshake completes before the request is read, it is not early data.
    let mut refused = false;
    for _ in 0..5 {
        refused = ask("DELETE").await == ("425".to_owned(), true);
        if refused {
            break;
        }
        server.write("file", vec![7; 200_000]);
        ask("GET").await;
    }
    assert!(refused && server.read("file").is_some());
}

#[tokio::test]
async fn ngtcp2_server_gets_early_data() {
    let Some(server) = program("gtlsserver", "ngtcp2-server") else { return };
    let folder = folder();
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let at = |name: &str| folder.path().join(name);
    let mut command = Command::new(server);
    command.arg("-q").arg("-d").arg(at("www")).arg("127.0.0.1").arg(port.to_string()).arg(at("k.pem")).arg(at("c.pem"));
    let running = Running::start(&mut command);
    let listens = || until(|| UdpSocket::bind(("127.0.0.1", port)).err());
    listens().await;
    let connector = connector(folder.path());
    assert_eq!(get(&connector, port, Offer::Http3, true).await.0, EarlyData::None);
    // It rejects tickets as replayed if they arrive later than their age says, as on a busy machine.
    let mut early = EarlyData::None;
    for _ in 0..20 {
        early = get(&connector, port, Offer::Http3, true).await.0;
        if early == EarlyData::Accepted {
            break;
        }
    }
    assert_eq!(early, EarlyData::Accepted);
    // After a restart it knows no ticket. Its own streams arrive with its first packets, before the client knows that
    // early data was rejected.
    drop(running);
    let _running = Running::start(&mut command);
    listens().await;
    assert_eq!(get(&connector, port, Offer::Http3, true).await.0, EarlyData::Rejected);
}

#[tokio::test]
async fn nginx_gets_early_data_over_tcp() {
    let Some(nginx) = program("nginx", "nginx") else { return };
    for (offer, option) in [(Offer::Http1, ""), (Offer::Http2, " http2")] {
        let folder = folder();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (certificate, key, www, pid, log) = (at("c.pem"), at("k.pem"), at("www"), at("pid"), at("log"));
        let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
            .map(|kind| format!("{kind}_temp_path {};\n", at(kind)))
            .concat();
        let config = format!(
            "daemon off; master_process off; pid {pid}; error_log {log};\nevents {{}}\nhttp {{\naccess_log off;\n{temporary}\
             server {{ listen 127.0.0.1:{port} ssl{option}; ssl_certificate {certificate}; ssl_certificate_key {key};\n\
             ssl_protocols TLSv1.3; ssl_early_data on; ssl_session_cache shared:x:1m;\n\
             add_header X-Early $ssl_early_data; root {www}; }} }}\n"
        );
        std::fs::write(at("conf"), config).unwrap();
        let _running = Running::start(Command::new(&nginx).args(["-p", &at(""), "-e", &log, "-c", &at("conf")]));
        until(|| std::net::TcpStream::connect(("127.0.0.1", port)).ok()).await;
        let connector = connector(folder.path());
        assert_eq!(get(&connector, port, offer, true).await.0, EarlyData::None);
        // nginx counts a request as early only during the handshake, which is short on loopback.
        let mut told = None;
        for _ in 0..50 {
            let (early, says) = get(&connector, port, offer, true).await;
            assert_eq!(early, EarlyData::Accepted, "{offer:?}");
            told = says;
            if told.is_some() {
                break;
            }
        }
        assert_eq!(told.as_deref(), Some("1"), "{offer:?}");
    }
}
