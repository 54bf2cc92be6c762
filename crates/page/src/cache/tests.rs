use std::path::Path;

use super::*;

const DATE: &str = "date: Wed, 25 Nov 2026 12:00:00 GMT";
const ETAG: &str = "etag: \"1\"";

fn with(headers: &[&str]) -> Request {
    let headers: Vec<String> = headers.iter().map(|line| format!("{line:?}")).collect();
    let text = format!(
        "schema = \"longhaul.page/1\"\n[[request]]\nid = \"a\"\nhost = \"a\"\npath = \"/\"\nresponse = {{ body = 9000, headers = [{}] }}",
        headers.join(", ")
    );
    Spec::parse(&text, Path::new("a.toml")).unwrap().requests.remove(0)
}

#[test]
fn header_fields_decide_on_reuse() {
    use Reuse::{Fresh, No, Validate};
    for (headers, expected) in [
        (&[][..], No),
        (&[ETAG], Validate),
        (&["cache-control: max-age=60"], Fresh),
        (&["cache-control: private, max-age=\"60\""], Fresh),
        (&["cache-control: max-age=60", "age: 55"], No),
        (&["cache-control: max-age=5", ETAG], Validate),
        (&["cache-control: max-age=60, no-cache", ETAG], Validate),
        (&["cache-control: no-cache"], No),
        (&["cache-control: no-store, max-age=60", ETAG], No),
        (&["cache-control: max-age=60", "vary: *"], No),
        (&["cache-control: max-age=60", "vary: accept"], Fresh),
        (&["cache-control: s-maxage=60"], No),
        (&["cache-control: max-age=soon", ETAG], Validate),
        (&["expires: Wed, 25 Nov 2026 13:00:00 GMT", DATE], Fresh),
        (&["expires: Wed, 25 Nov 2026 13:00:00 GMT"], No),
        (&["expires: 0", DATE, "last-modified: Wed, 25 Nov 2020 12:00:00 GMT"], Validate),
        (&["cache-control: max-age=0", "expires: Wed, 25 Nov 2026 13:00:00 GMT", DATE], No),
        (&["last-modified: Tue, 24 Nov 2026 12:00:00 GMT", DATE], Fresh),
        (&["last-modified: Wed, 25 Nov 2026 11:59:30 GMT", DATE], Validate),
        (&["last-modified: Tue, 24 Nov 2026 12:00:00 GMT", DATE, "pragma: no-cache"], Validate),
    ] {
        assert_eq!(reuse(&with(headers)), expected, "{headers:?}");
    }
    let posted = Request { method: Method::POST, ..with(&["cache-control: max-age=60"]) };
    assert_eq!(reuse(&posted), No);
    let mut moved = with(&["last-modified: Tue, 24 Nov 2026 12:00:00 GMT", DATE]);
    for (status, expected) in [(301, Fresh), (302, No), (404, Fresh), (500, No)] {
        moved.response.status = StatusCode::from_u16(status).unwrap();
        assert_eq!(reuse(&moved), expected, "{status}");
    }
}

const PAGE: &str = r#"
schema = "longhaul.page/1"
[[request]]
id = "page"
host = "a"
path = "/"
response = { type = "text/html", head = 400, body = 20000, headers = ["etag: \"p\"", "cache-control: no-cache"] }
[[request]]
id = "script"
host = "a"
path = "/s"
connection = 0
after = [{ head = "page", bytes = 9000 }]
compute = "10ms"
response = { head = 300, body = 5000, headers = ["cache-control: max-age=600"] }
[[request]]
id = "data"
host = "a"
path = "/d"
connection = 0
after = [{ end = "script" }, { head = "page", bytes = 300 }]
compute = "30ms"
response = { head = 200, body = 500, think = "40ms" }
"#;

#[test]
fn repeat_view_sends_what_the_cache_does_not_have() {
    let page = Spec::parse(PAGE, Path::new("page.toml")).unwrap();
    let RepeatView { spec, origins } = page.repeat_view().unwrap();
    assert_eq!(origins, [0, 2]);
    let [html, data] = &spec.requests[..] else { panic!("{:?}", spec.requests) };
    assert_eq!((html.response.status.as_u16(), html.response.body.len()), (304, 0));
    assert_eq!(html.headers[header::IF_NONE_MATCH], "\"p\"");
    assert!(html.response.head < 150 && html.head > page.requests[0].head, "{} {}", html.response.head, html.head);
    // It waits for what the script waited for, which is now the whole of a short response, and for the script's work.
    assert_eq!(data.after, [After { request: 0, until: Until::End }]);
    assert_eq!((data.compute, data.response.think), (Duration::from_millis(40), Duration::from_millis(40)));
    assert_eq!((spec.depth(), page.depth()), (2, 3));
    let rtt = Duration::from_millis(100);
    assert_eq!((spec.floor(rtt, None), page.floor(rtt, None)), (2 * rtt, 3 * rtt));
}

#[test]
fn page_that_is_fresh_as_a_whole_has_no_repeat_view() {
    let text = PAGE
        .replace("no-cache", "max-age=600")
        .replace("head = 200, body", "headers = [\"cache-control: max-age=60\"], body");
    assert_eq!(Spec::parse(&text, Path::new("page.toml")).unwrap().repeat_view(), None);
}

#[test]
fn page_without_cacheable_responses_is_loaded_again() {
    let page = Spec::shipped("wikipedia").unwrap();
    let again = page.repeat_view().unwrap();
    assert_eq!(again.spec.requests, page.requests);
    assert_eq!(again.origins, (0..page.requests.len()).collect::<Vec<_>>());
}
