use super::*;
use crate::{Body, Until};
use proptest::prelude::*;

fn har(entries: &[serde_json::Value]) -> Result<Imported, String> {
    let text = serde_json::json!({ "log": { "pages": [{ "title": "A page" }], "entries": entries } }).to_string();
    har::parse(&text, Path::new("a.har")).map_err(|error| error.to_string())
}

fn entry(url: &str, at: &str, more: &serde_json::Value) -> serde_json::Value {
    let mut entry = serde_json::json!({
        "startedDateTime": format!("2026-03-01T10:00:{at}Z"), "time": 100, "connection": "12",
        "request": { "method": "GET", "url": url, "httpVersion": "HTTP/1.1", "headers": [], "headersSize": 300, "bodySize": 0 },
        "response": { "status": 200, "httpVersion": "HTTP/1.1", "headers": [], "headersSize": 200, "bodySize": 900,
            "content": { "size": 900, "mimeType": "text/html" } },
        "timings": { "blocked": -1, "dns": 10, "connect": 10, "send": 0, "wait": 30, "receive": 50 },
    });
    merge(&mut entry, more);
    entry
}

fn merge(into: &mut serde_json::Value, from: &serde_json::Value) {
    match (into, from) {
        (serde_json::Value::Object(into), serde_json::Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key.clone()).or_insert(serde_json::Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[test]
fn har_is_imported() {
    let plain = serde_json::json!({});
    let by = |initiator: serde_json::Value| serde_json::json!({ "_initiator": initiator });
    let stack = serde_json::json!({ "type": "script", "stack": { "callFrames": [], "parent": {
        "callFrames": [{ "url": "https://b.example/s.js" }] } } });
    let h2 = serde_json::json!({ "response": { "httpVersion": "h2", "bodySize": -1, "_transferSize": 700,
        "content": { "mimeType": "text/javascript", "text": "bGV0IGE=", "encoding": "base64" } } });
    let imported = har(&[
        entry("https://a.example/?q=1#top", "00.000", &plain),
        entry("https://b.example/s.js", "00.080", &{
            let mut more = by(serde_json::json!({"type": "parser", "url": "https://a.example/?q=1"}));
            merge(&mut more, &h2);
            more
        }),
        entry("https://b.example/x", "00.200", &by(stack)),
        entry("data:image/png;base64,AAAA", "00.200", &plain),
        entry(
            "https://a.example/gone",
            "00.200",
            &serde_json::json!({ "response": { "status": 0, "_error": "net::ERR_ABORTED" } }),
        ),
    ])
    .unwrap();
    assert_eq!(imported.notes, ["https://a.example/gone: omitted, since it has no response (net::ERR_ABORTED)"]);
    let spec = &imported.spec;
    let [page, script, x] = spec.requests.as_slice() else { panic!("three requests") };
    assert_eq!((spec.title.as_str(), page.path.as_str(), page.head, page.response.head), ("A page", "/?q=1", 300, 200));
    assert_eq!((page.connection, script.connection, page.response.body.len()), (Some(0), None, 900));
    // The page arrived from 50 ms to 100 ms; at 80 ms three fifths of its body had arrived.
    assert_eq!(script.after[0].until, Until::Head(200 + 540));
    assert_eq!(script.response.body, Body::Kept("let a".into()));
    assert_eq!((x.after[0].request, x.after[0].until, x.compute.as_millis()), (1, Until::End, 20));
}

#[test]
fn incomplete_har_entries_are_named() {
    let plain = serde_json::json!({});
    let broken = |more: serde_json::Value| har(&[entry("https://a.example/x", "00.000", &more)]).unwrap_err();
    let nothing = "a.har: there is no request in it that could be replayed; ";
    assert_eq!(
        broken(serde_json::json!({ "startedDateTime": null })),
        format!("{nothing}https://a.example/x: omitted, since its `startedDateTime` is missing or invalid")
    );
    assert_eq!(
        broken(serde_json::json!({ "request": { "url": null } })),
        format!("{nothing}entry 1: omitted, since it has no URL")
    );
    // One bad entry does not spoil the others.
    for (more, name, said) in [
        (
            serde_json::json!({ "startedDateTime": "today" }),
            "https://a.example/x",
            "`startedDateTime` is missing or invalid",
        ),
        (serde_json::json!({ "request": { "url": null } }), "entry 2", "it has no URL"),
        (serde_json::json!({ "request": { "url": "a b" } }), "a b", "its URL is invalid: "),
        (serde_json::json!({ "request": 7 }), "entry 2", "it is invalid: "),
        (serde_json::json!({ "request": { "url": "wss://a.example/s" } }), "wss://a.example/s", "replayed, not wss"),
    ] {
        let all = [("/", &plain), ("/x", &more), ("/y", &plain)];
        let all = all.map(|(path, more)| entry(&format!("https://a.example{path}"), "00.000", more));
        let imported = har(&all).unwrap();
        let [note] = imported.notes.as_slice() else { panic!("one note: {:?}", imported.notes) };
        assert!(note.starts_with(&format!("{name}: omitted, since ")) && note.contains(said), "{note}");
        assert_eq!(imported.spec.requests.len(), 2);
    }
    for (more, said) in [
        (serde_json::json!({ "response": null }), "it has no response"),
        (
            serde_json::json!({ "response": { "bodySize": -1, "content": { "size": -1 } } }),
            "the size of its response's body is not known",
        ),
        (
            serde_json::json!({ "response": { "content": { "text": "=!", "encoding": "base64" } } }),
            "its content is no base64",
        ),
        (serde_json::json!({ "response": { "bodySize": 1e17 } }), "100000000000000000 bytes"),
        (serde_json::json!({ "request": { "method": "A B" } }), "`A B` is no method"),
        (serde_json::json!({ "request": { "url": "https://a..b/" } }), "`a..b` is not a host"),
    ] {
        let imported =
            har(&[entry("https://a.example/", "00.000", &plain), entry("https://a.example/x", "00.000", &more)])
                .unwrap();
        let [note] = imported.notes.as_slice() else { panic!("one note: {:?}", imported.notes) };
        assert!(note.contains(said) && note.starts_with("https://a."), "{note}");
    }
    let whole =
        serde_json::json!({ "log": { "entries": [entry("https://a.example/", "00.000", &plain)] } }).to_string();
    let cut = har::parse(&whole[..whole.len() - 20], Path::new("a.har")).unwrap_err().to_string();
    assert!(cut.starts_with("a.har: breaks off: ") && !cut.contains('\n'), "{cut}");
}

#[test]
fn bodies_of_playwright_are_read_from_files_beside_the_har() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site/load.har");
    std::fs::create_dir(folder.path().join("site")).unwrap();
    std::fs::write(folder.path().join("site/1a2b.html"), "<p>kept").unwrap();
    std::fs::write(folder.path().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", folder.path().join("site/link.bin")).unwrap();
    let file = |name: &str| serde_json::json!({ "response": { "content": { "_file": name } } });
    let sent = serde_json::json!({ "request": { "postData": { "_file": "1a2b.html" } } });
    let entries: Vec<_> =
        [("/", file("1a2b.html")), ("/up", file("../secret")), ("/link", file("link.bin")), ("/sent", sent)]
            .into_iter()
            .map(|(path, more)| entry(&format!("https://a.example{path}"), "00.000", &more))
            .collect();
    let text = serde_json::json!({ "log": { "entries": entries } }).to_string();
    let imported = har::parse(&text, &path).unwrap();
    let [page, up, link, sent] = imported.spec.requests.as_slice() else { panic!("four requests") };
    assert_eq!(page.response.body, Body::Kept("<p>kept".into()));
    assert_eq!(sent.body, Body::Kept("<p>kept".into()));
    for other in [up, link] {
        assert!(matches!(other.response.body, Body::Synthetic { len: 900, .. }), "{:?}", other.response.body);
    }
    let [up, link] = imported.notes.as_slice() else { panic!("two notes: {:?}", imported.notes) };
    assert!(up.contains("/up: synthesised body, since the body file `../secret` is not below "), "{up}");
    assert!(link.contains("/link: synthesised body") && link.contains("symbolic link"), "{link}");
}

#[test]
fn load_event_of_a_har_tells_what_it_waited_for() {
    let kind = |kind: &str| serde_json::json!({ "_resourceType": kind });
    let entries = [
        entry("https://a.example/", "00.000", &kind("document")),
        entry("https://a.example/data", "00.100", &kind("xhr")),
        entry("https://a.example/image", "00.300", &kind("image")),
        entry("https://a.example/late", "00.950", &kind("image")),
    ];
    let page =
        serde_json::json!({ "startedDateTime": "2026-03-01T10:00:00.000Z", "pageTimings": { "onLoad": 1000.0 } });
    let text = serde_json::json!({ "log": { "pages": [page], "entries": entries } }).to_string();
    let spec = har::parse(&text, Path::new("a.har")).unwrap().spec;
    let delays: Vec<bool> = spec.requests.iter().map(|request| request.delays_load).collect();
    assert_eq!(delays, [true, false, true, false]);
    assert_eq!(spec.recorded_at.unwrap().to_rfc3339(), "2026-03-01T10:00:00+00:00");
}

const REQS: &str = "3\npage.0 0 0 -1 -1 5000\na.0 1 1 0 -1 100\npage.2 2 0 -1 1 700\n";
const RESP: &str = "3\r\npage.1 400 GET / HTTP/1.1\r\na.1 500 GET /a.css?session=1 HTTP/1.1\r\npage.3 600 POST /b;x";

#[test]
fn manifests_are_imported() {
    let parse = |reqs: &str, resp: &str, hosts| {
        cs244_manifests::parse(reqs, resp, hosts, Path::new("x.reqs")).map_err(|error| error.to_string())
    };
    let imported = parse(REQS, RESP, Some("0 a.example\n1 b.example\n")).unwrap();
    let [page, a, b] = imported.spec.requests.as_slice() else { panic!("three requests") };
    assert_eq!((page.host.as_str(), a.host.as_str(), a.path.as_str()), ("a.example", "b.example", "/a.css?a.0"));
    assert_eq!(
        (page.response.head, page.response.body.len(), a.response.size(), b.method.as_str()),
        (300, 4700, 100, "POST")
    );
    assert_eq!((a.after[0].until, b.after[0].request, b.after[0].until), (Until::Head(4000), 1, Until::End));
    assert!(parse(REQS, RESP, None).unwrap().notes[0].contains("name no hosts"));
    for (from, to, said) in [
        ("3\n", "4\n", "line 1: 4 requests are announced, and only 3 are there"),
        ("3\n", "2\n", "line 1: 2 requests are announced, and there are more"),
        ("3\n", "1000000000\n", "line 1: a manifest begins with its number of requests"),
        ("5000", "many", "line 2: `page.0 0 0 -1 -1 many` is not a request's file"),
        ("a.0 1 1 0", "a.0 1 1 9", "`a.0` waits for group 9, and nothing is in it"),
        ("a.0 1 1 0", "a.0 1 1 1", "request `a.0` waits for itself; remove the dependency"),
        ("a.0 1", "c.0 1", "`c.0` has no response: `c.1` is not in .resp"),
        ("a.0 1", "a 1", "`a` is no name with a number"),
        ("page.2 2 0 -1 1", "page.0 2 0 -1 1", "duplicate id `page.0`"),
        ("page.0 0 0 -1 -1", "page.0 0 0 2 -1", "request `page.0` waits for itself, through `page.2`"),
    ] {
        let error = parse(&REQS.replacen(from, to, 1), RESP, None).unwrap_err();
        assert!(error.starts_with("x.reqs: ") && error.contains(said), "{error}");
    }
    let error = parse(REQS, &RESP.replace("400", "999999999"), None).unwrap_err();
    assert!(error.ends_with("`page.0` has a request of 999999999 bytes, and 262144 is the most"), "{error}");
    let error = parse(REQS, RESP, Some("0 a..b")).unwrap_err();
    assert_eq!(error, "x.hosts: line 1: `0 a..b` is not a connection and its host");
}

proptest! {
    #[test]
    fn imports_never_panic(text in ".{0,400}", cut in 0usize..2000, number in any::<f64>()) {
        let _ = har::parse(&text, Path::new("x.har"));
        let _ = cs244_manifests::parse(&text, &text, Some(&text), Path::new("x.reqs"));
        let mut numbers = serde_json::json!({ "time": number, "response": { "status": number, "bodySize": number } });
        merge(&mut numbers, &serde_json::json!({ "timings": { "wait": number, "receive": -number } }));
        let whole = serde_json::json!({ "log": { "entries": [entry("http://a/", "00.000", &numbers)] } }).to_string();
        let _ = har::parse(&whole, Path::new("x.har"));
        let _ = har::parse(&whole[..cut.min(whole.len())], Path::new("x.har"));
    }
}
