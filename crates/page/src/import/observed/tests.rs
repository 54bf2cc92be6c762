use super::*;
use crate::{Hold, Until};

pub(super) fn seen(path: &str, times: [u64; 3], headers: &[(&str, &str)]) -> Observed {
    let [started, first, end] = times.map(Duration::from_millis);
    let fields = |fields: &[(&str, &str)]| -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    Observed {
        url: Url::parse(&format!("http://a.example{path}")).unwrap(),
        method: "GET".to_owned(),
        started,
        first,
        end,
        wait: None,
        handshake: None,
        connection: None,
        initiators: Vec::new(),
        fetched: false,
        priority: None,
        sent: None,
        delays_load: true,
        headers: fields(headers),
        head: Some(400),
        body: Content::default(),
        status: 200,
        response_headers: fields(&[("Content-Type", "text/html")]),
        response_head: Some(200),
        response_body: Content { size: Some(10_000), ..Content::default() },
    }
}

fn waits(all: Vec<Observed>) -> Vec<(Vec<(usize, Until)>, u64)> {
    let imported = spec(all, "t".into(), "s".into(), Path::new("x.toml")).unwrap();
    assert_eq!(imported.notes, [""; 0]);
    let waits = |request: &Request| request.after.iter().map(|after| (after.request, after.until)).collect();
    let requests = imported.spec.requests.iter();
    requests.map(|request| (waits(request), request.compute.as_millis() as u64)).collect()
}

#[test]
fn request_waits_for_part_of_html_but_all_of_a_script() {
    let by = |mut seen: Observed, url: &str| {
        seen.initiators = vec![Initiator { url: format!("http://a.example{url}"), position: None }];
        seen
    };
    let mut script = seen("/s.js", [150, 250, 260], &[("Referer", "http://a.example/")]);
    script.response_headers[0].1 = "text/javascript".to_owned();
    let data = Observed { fetched: true, ..by(seen("/data", [270, 370, 380], &[]), "/s.js") };
    let shown = seen("/shown", [390, 490, 500], &[]);
    let next = by(seen("/next", [600, 700, 710], &[]), "/s.js");
    let late = seen("/late", [600, 700, 710], &[]);
    let all = waits(vec![seen("/", [0, 100, 200], &[]), script, data, shown, next, late]);
    let end = |request| (request, Until::End);
    assert_eq!(all[0], (vec![], 0));
    assert_eq!(all[1], (vec![(0, Until::Head(5200))], 0), "half of the page had come");
    assert_eq!(all[2], (vec![end(1)], 10));
    assert_eq!(all[3], (vec![end(0), end(2)], 10), "without an initiator, but right after the data");
    assert_eq!(all[4], (vec![end(1), end(2)], 220), "by the script that got the data");
    assert_eq!(all[5], (vec![end(0)], 400), "nothing is known");
}

#[test]
fn redirect_is_awaited_and_busy_connection_is_no_computation() {
    let mut away = seen("/", [0, 50, 50], &[]);
    (away.status, away.response_body.size) = (301, Some(0));
    away.response_headers = vec![("Location".into(), "/home#top".into()), ("Set-Cookie".into(), "a=1".into())];
    let on = |mut seen: Observed| {
        seen.connection = Some("7".to_owned());
        seen
    };
    let all = vec![
        away,
        seen("/home", [51, 100, 200], &[]),
        on(seen("/a", [210, 300, 400], &[("referer", "http://a.example/home")])),
        on(seen("/b", [401, 500, 600], &[("referer", "http://a.example/home"), ("cookie", "a=1")])),
    ];
    let all = waits(all);
    assert_eq!(all[1], (vec![(0, Until::End)], 0));
    assert_eq!(all[2], (vec![(1, Until::End)], 10));
    assert_eq!(all[3], (vec![(1, Until::End)], 0), "it waited for /a");
}

#[test]
fn request_waits_for_its_preflight_once() {
    let mut preflight = seen("/api", [10, 50, 60], &[("Access-Control-Request-Method", "PUT")]);
    preflight.method = "OPTIONS".to_owned();
    let all = vec![
        seen("/", [0, 1, 5], &[]),
        preflight,
        seen("/api", [60, 100, 110], &[]),
        seen("/api", [500, 600, 610], &[]),
    ];
    let all = waits(all);
    assert_eq!(all[2], (vec![(1, Until::End)], 0));
    assert_eq!(all[3], (vec![(0, Until::End)], 495), "the browser has cached the preflight");
}

#[test]
fn unreplayable_requests_are_named_and_cookies_dropped() {
    let mut unknown = seen("/unknown", [1, 2, 3], &[]);
    unknown.response_body = Content::default();
    let mut none = seen("/none", [1, 2, 3], &[]);
    none.status = 0;
    let huge = Observed {
        response_body: Content { size: Some(u64::MAX), ..Content::default() },
        ..seen("/huge", [1, 2, 3], &[])
    };
    let secret = [("Cookie", "secret"), ("Authorization", "Basic secret"), ("X-Kept", "yes")];
    let all = vec![seen("/", [0, 1, 2], &secret), unknown, none, huge];
    let imported = spec(all, "t".into(), "s".into(), Path::new("x.toml")).unwrap();
    let text = imported.spec.to_toml();
    assert!(!text.contains("secret") && text.contains("x-kept: yes"));
    assert_eq!(imported.spec.requests[0].head, 400, "their place is filled");
    assert_eq!(
        imported.notes,
        [
            "http://a.example/unknown: omitted, since the size of its response's body is not known",
            "http://a.example/none: omitted, since it has no response",
            "http://a.example/huge: omitted, since its response's body has 18446744073709551615 bytes, and 1099511627776 is the most",
        ]
    );
    let error = spec(Vec::new(), "t".into(), "s".into(), Path::new("x.toml")).unwrap_err();
    assert_eq!(error.to_string(), "x.toml: there is no request in it that could be replayed");
}

#[test]
fn hold_ends_when_more_is_under_way_than_it_allows() {
    // Sent at and ended at, after a script that ends at 1000 ms.
    let lifted = |pictures: &[[u64; 2]]| {
        let mut recording = held(1000, pictures[0][0]);
        let picture = recording.pop().unwrap();
        for (number, [sent, end]) in pictures.iter().enumerate() {
            let mut one = seen(&format!("/{number}.png"), [30, sent + 1, *end], &[]);
            (one.initiators, one.priority) = (picture.initiators.clone(), picture.priority);
            one.sent = Some(Duration::from_millis(*sent));
            recording.push(one);
        }
        let found = spec(recording, "t".into(), "s".into(), Path::new("x.toml")).unwrap().spec;
        found.requests[3].hold.as_ref().unwrap().compute.as_millis()
    };
    assert_eq!(lifted(&[[500, 1002], [1002, 1200], [1080, 1200], [1080, 1200]]), 80, "the first takes another's place");
    assert_eq!(lifted(&[[1040, 1100], [1100, 1200]]), 40);
    assert_eq!(lifted(&[[500, 600], [600, 700]]), 0);
}

/// A page with a blocking script in its `<head>`, 1000 ms long, and a picture that the script held back.
pub(super) fn held(script_end: u64, picture_sent: u64) -> Vec<Observed> {
    let html = "<script src=s.js></script>\n<link rel=stylesheet href=c.css>\n<body><img src=p.png>";
    let by = |mut one: Observed, tag: &str| {
        let before = &html[..html.find(tag).unwrap() + tag.len()];
        let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1);
        let position = Some((before.matches('\n').count() as u64, column as u64));
        one.initiators = vec![Initiator { url: "http://a.example/".to_owned(), position }];
        one
    };
    let mut page = seen("/", [0, 10, 20], &[]);
    page.response_body = Content { size: None, bytes: Some(html.into()), coded: false };
    let script = by(seen("/s.js", [30, 40, script_end], &[]), "s.js>");
    let style = by(seen("/c.css", [30, 40, 50], &[]), "c.css>");
    let mut picture = by(seen("/p.png", [30, picture_sent + 10, picture_sent + 20], &[]), "p.png>");
    (picture.priority, picture.sent) = (Some(Priority::Low), Some(Duration::from_millis(picture_sent)));
    vec![page, script, style, picture]
}

#[test]
fn script_of_the_head_holds_back_pictures() {
    let hold = |picture_sent| {
        let found = spec(held(1000, picture_sent), "t".into(), "s".into(), Path::new("x.toml")).unwrap().spec;
        assert!(found.requests[..3].iter().all(|request| request.hold.is_none()), "these are important");
        found.requests[3].hold.clone().unwrap()
    };
    let ms = Duration::from_millis;
    let low = |compute| Hold { priority: Priority::Low, behind: vec![1], compute };
    assert_eq!(hold(1070), low(ms(70)), "the style sheet is behind the script, which does not wait for it");
    assert_eq!(hold(500), low(ms(0)), "it was let go before");
}
