//! `haul probe` over emulated links: TCP Fast Open through boxes that strip an option, and HTTP/3.

use std::fs;

use crate::common::{HAUL, Room, printed, text};

/// The JSON of two probes, one after the other; none if links are unavailable.
fn probe_twice(middlebox: &str) -> Option<[serde_json::Value; 2]> {
    let room = Room::new();
    let probe = room.link(&["--", "true"]);
    if !probe.status.success() {
        eprintln!("SKIPPED: probes over a link: {}", text(&probe.stderr));
        return None;
    }
    let (shared, home, certificate) = (room.path("shared"), room.path("home"), room.path("cert.pem"));
    fs::create_dir(&shared).unwrap();
    fs::create_dir(&home).unwrap();
    let server = format!(
        "exec {HAUL} serve {} --listen $HAUL_SERVER_IP:8443 --tls self-signed --cert-out {}",
        shared.display(),
        certificate.display()
    );
    let client = format!(
        "export HOME={home} XDG_CACHE_HOME={home}; until [ -s {ca} ]; do sleep 0.05; done
         for number in 0 1; do
           {HAUL} probe --ca {ca} https://$HAUL_SERVER_IP:8443/ --json {home}/$number.json >{home}/text || exit 1
         done",
        home = home.display(),
        ca = certificate.display(),
    );
    let link = ["--rtt", "20ms", "--sysctl", "net.ipv4.tcp_fastopen=3", "--middlebox", middlebox];
    printed(&room.link(&[&link[..], &["--server", &server, "--", "sh", "-c", &client]].concat()));
    Some([0, 1].map(|number| {
        let json = fs::read(home.join(format!("{number}.json"))).unwrap();
        serde_json::from_slice(&json).unwrap()
    }))
}

#[test]
fn cookie_is_attributed_to_the_option_that_brought_it() {
    for (middlebox, first) in [("strip-option:kind=34", "254"), ("strip-option:kind=254", "34")] {
        let Some(found) = probe_twice(middlebox) else { return };
        let cookies = found.map(|found| found["connection"]["fast_open"]["cookie"].clone());
        // On a busy machine the cookie request may have been overtaken by a plain connection.
        assert!(cookies[0] == first || cookies[0].is_null(), "{middlebox}: {cookies:?}");
        assert!(cookies[1] == "held" || !cookies[0].is_string(), "{middlebox}: {cookies:?}");
    }
}

#[test]
fn http3_is_listed_where_it_answers() {
    let Some([found, _]) = probe_twice("drop-udp") else { return };
    assert_eq!(found["http"]["versions"], serde_json::json!(["1.1", "2"]));
    assert_eq!(found["http"]["http3"], "announced");
}
