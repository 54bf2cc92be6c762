use super::*;

type Change = fn(http::request::Builder) -> http::request::Builder;

fn ask(exchanges: &mut Exchanges, number: u64, change: impl Fn(http::request::Builder) -> http::request::Builder) {
    let request = change(Request::get(format!("http://example.org/{number}")));
    exchanges.ask(JobId(number), &request.body(()).unwrap(), None, false);
}

fn feed(exchanges: &mut Exchanges, text: &str) -> Result<Vec<(u64, u16)>, Cause> {
    exchanges.buffer().extend_from_slice(text.as_bytes());
    let mut heads = Vec::new();
    while let Some(event) = exchanges.next()? {
        if let Event::Head { job, response, .. } = event {
            heads.push((job.0, response.status().as_u16()));
        }
    }
    Ok(heads)
}

#[test]
fn response_belongs_to_the_oldest_request() {
    let mut exchanges = Exchanges::default();
    for number in 1..=3 {
        ask(&mut exchanges, number, |request| request);
    }
    let text = "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 204 No Content\r\n\r\n";
    assert_eq!(feed(&mut exchanges, text).unwrap(), [(1, 200), (2, 204)]);
    assert!(!exchanges.is_answering());
    assert_eq!(feed(&mut exchanges, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").unwrap(), [(3, 404)]);
    assert!(
        matches!(feed(&mut exchanges, "HTTP/1.1 200 OK\r\n"), Err(Cause::Protocol(_))),
        "a fourth response has no request"
    );
}

#[test]
fn impossible_responses_are_refused() {
    let range = |request: http::request::Builder| request.header("range", "bytes=5-9");
    let condition = |request: http::request::Builder| request.header("if-none-match", "*");
    let plain = |request: http::request::Builder| request;
    let cases: [(Change, &str, bool); 9] = [
        (plain, "304 Not Modified\r\n", false),
        (condition, "304 Not Modified\r\n", true),
        (plain, "206 Partial Content\r\nContent-Length: 0\r\n", false),
        (range, "206 Partial Content\r\nContent-Range: bytes 5-9/20\r\nContent-Length: 5\r\n", true),
        (range, "206 Partial Content\r\nContent-Range: bytes 6-9/20\r\nContent-Length: 4\r\n", false),
        (plain, "207 Multi-Status\r\nContent-Length: 0\r\n", false),
        (plain, "200 OK\r\nAssoc-Req: GET http://example.org/2\r\nContent-Length: 0\r\n", false),
        (plain, "200 OK\r\nAssoc-Req: GET http://example.org/1\r\nContent-Length: 0\r\n", true),
        (plain, "101 Switching Protocols\r\n", false),
    ];
    for (change, answer, fits) in cases {
        let mut exchanges = Exchanges::default();
        ask(&mut exchanges, 1, change);
        let found = feed(&mut exchanges, &format!("HTTP/1.1 {answer}\r\n"));
        assert_eq!(found.is_ok(), fits, "{answer}: {found:?}");
    }
}

#[test]
fn response_longer_than_its_content_length_is_refused() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
    for (behind, fits) in [("", true), ("\r\n", true), ("defgh", false), ("HTTQ", false)] {
        let mut exchanges = Exchanges::default();
        ask(&mut exchanges, 1, |request| request);
        let found = feed(&mut exchanges, &format!("{head}abc{behind}"));
        let too_long = matches!(&found, Err(Cause::Protocol(why)) if why.contains("longer than its Content-Length"));
        assert_eq!(too_long, !fits, "{behind:?}: {found:?}");
    }
    // An unsolicited second response does not spoil the first.
    let mut exchanges = Exchanges::default();
    ask(&mut exchanges, 1, |request| request);
    exchanges.buffer().extend_from_slice(format!("{head}abcHTTP/1.1 408 Late\r\n\r\n").as_bytes());
    let ends = std::iter::from_fn(|| exchanges.next().ok().flatten());
    assert!(ends.take(3).any(|event| matches!(event, Event::End { .. })));
}

/// Another connection could reach another server only if this one is known to have served something else.
#[test]
fn misdirected_first_request_is_answered_and_a_later_one_is_sent_over_another_connection() {
    let (mut exchanges, misdirected) = (Exchanges::default(), "HTTP/1.1 421 No\r\nContent-Length: 0\r\n\r\n");
    for number in 1..=2 {
        ask(&mut exchanges, number, |request| request);
        exchanges.buffer().extend_from_slice(misdirected.as_bytes());
        let events: Result<Vec<_>, _> = std::iter::from_fn(|| exchanges.next().transpose()).take(2).collect();
        match events {
            Ok(events) => {
                let head = events.iter().find_map(|event| match event {
                    Event::Head { response, .. } => Some(response.status()),
                    _ => None,
                });
                assert_eq!((number, head), (1, Some(StatusCode::MISDIRECTED_REQUEST)));
            }
            Err(cause) => assert!(number == 2 && matches!(cause, Cause::Refused(_)), "{number}: {cause:?}"),
        }
    }
}

#[test]
fn follow_up_response_is_not_taken_for_the_uploads() {
    for (answer, fits) in [("201 Created", true), ("404 Not Found", false), ("207 Multi-Status", false)] {
        let mut exchanges = Exchanges::default();
        let [put, look] =
            ["PUT", "PROPFIND"].map(|method| Request::builder().method(method).uri("http://example.org/"));
        exchanges.ask(JobId(1), &put.body(()).unwrap(), None, false);
        exchanges.ask(JobId(2), &look.body(()).unwrap(), None, true);
        let found = feed(&mut exchanges, &format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\n\r\n"));
        assert_eq!(found.is_ok(), fits, "{answer}: {found:?}");
    }
}

#[test]
fn etag_is_checked_only_on_a_shared_connection() {
    let etag = |request: http::request::Builder| {
        let expected = Expected { etag: Some("\"mine\"".into()), length: Some(3), modified: None };
        request.extension(Options { expected, ..Options::default() })
    };
    let other = "HTTP/1.1 200 OK\r\nETag: W/\"other\"\r\nContent-Length: 3\r\n\r\nabc";
    let mine = "HTTP/1.1 200 OK\r\nETag: W/\"mine\"\r\nContent-Length: 3\r\n\r\nabc";
    let longer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd";
    for (company, answer, fits) in [(1, other, true), (2, other, false), (2, mine, true), (2, longer, false)] {
        let mut exchanges = Exchanges::default();
        for number in 1..=company {
            ask(&mut exchanges, number, etag);
        }
        assert_eq!(feed(&mut exchanges, answer).is_ok(), fits, "{company}: {answer}");
    }
}

#[test]
fn end_of_input_ends_only_a_close_delimited_body() {
    for (head, whole) in [("HTTP/1.1 200 OK\r\n\r\n", true), ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", false)] {
        let mut exchanges = Exchanges::default();
        ask(&mut exchanges, 1, |request| request);
        feed(&mut exchanges, &format!("{head}abc")).unwrap();
        assert_eq!(exchanges.end_of_input().is_ok(), whole);
    }
}
