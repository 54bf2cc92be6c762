//! HTTP/3 over emulated links: with loss, and with UDP blocked.

use std::fs;

use crate::{
    common::{HAUL, Room, printed, text},
    fixture::{tree, write},
};

/// Copies forty files over HTTP/3, twice, across a link; returns the server's log of the uploads and the cached server
/// facts. Nothing if links are unavailable.
fn copy(link: &[&str]) -> Option<(Vec<String>, serde_json::Value)> {
    let room = Room::new();
    let probe = room.link(&["--", "true"]);
    if !probe.status.success() {
        eprintln!("SKIPPED: HTTP/3 over a link: {}", text(&probe.stderr));
        return None;
    }
    let (source, shared, home) = (room.path("source"), room.path("shared"), room.path("home"));
    let names: Vec<String> = (0..40).map(|number| format!("{number:02}")).collect();
    let content = "0123456789abcdef".repeat(600);
    write(&source, &names.iter().map(|name| (name.as_str(), content.as_str())).collect::<Vec<_>>());
    fs::create_dir(&shared).unwrap();
    fs::create_dir(&home).unwrap();
    let (log, certificate) = (room.path("log"), room.path("cert.pem"));
    let server = format!(
        "exec {HAUL} serve {} --listen $HAUL_SERVER_IP:8443 --tls self-signed --cert-out {} --log {}",
        shared.display(),
        certificate.display(),
        log.display()
    );
    let client = format!(
        "export HOME={home} XDG_CACHE_HOME={home}; until [ -s {ca} ]; do sleep 0.05; done
         for copy in one two; do
           {HAUL} cp -r --http 3 --ca {ca} {source} https://$HAUL_SERVER_IP:8443/$copy || exit 1
         done",
        home = home.display(),
        ca = certificate.display(),
        source = source.display(),
    );
    printed(&room.link(&[link, &["--server", &server, "--", "sh", "-c", &client]].concat()));
    for copy in ["one", "two"] {
        assert!(tree(&source) == tree(&shared.join(copy)), "{copy}");
    }
    let log = fs::read_to_string(log).unwrap();
    let puts = log.lines().filter(|line| line.contains("\"PUT ")).map(str::to_owned).collect();
    // After a success nothing is cached.
    let known = fs::read(home.join("longhaul/servers.json")).unwrap_or_else(|_| b"null".to_vec());
    let known: serde_json::Value = serde_json::from_slice(&known).unwrap();
    let entry = known["servers"].as_object().and_then(|servers| servers.values().next());
    Some((puts, entry.map_or(serde_json::Value::Null, |entry| entry["http3"].clone())))
}

#[test]
fn all_files_go_over_http3() {
    // On a busy machine TCP may connect first.
    let all = |_| copy(&["--rtt", "20ms"]).is_none_or(|(puts, _)| puts.iter().all(|put| put.contains("HTTP/3.0")));
    assert!((0..3).any(all));
}

#[test]
fn lossy_http3_link_loses_no_file() {
    let Some((puts, known)) = copy(&["--rtt", "20ms", "--loss", "2%"]) else { return };
    assert_eq!(puts.len(), 80);
    // If the first packet is lost, TCP may connect first.
    let http3 = puts.iter().filter(|put| put.contains("HTTP/3.0")).count();
    assert!(http3 == 80 || known["failures"] == 1, "{http3}, {known}");
}

#[test]
fn blocked_udp_falls_back_to_tcp_and_is_cached() {
    let Some((puts, known)) = copy(&["--rtt", "20ms", "--middlebox", "drop-udp"]) else { return };
    assert_eq!(puts.len(), 80);
    assert!(puts.iter().all(|put| put.contains("HTTP/2.0")), "{puts:?}");
    // The second run did not try again.
    assert_eq!(known["failures"], 1);
    assert!(known["avoided_until"].as_f64().unwrap() > 0.0);
}
