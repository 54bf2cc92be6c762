//! A server that fails for a while, or for good.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::{
    common::{one_sentence, printed, text},
    fixture::{Fixture, answering},
};

const LISTING: &str = "<multistatus xmlns='DAV:'><response><href>/</href><propstat><prop><resourcetype><collection/>\
    </resourcetype></prop></propstat></response></multistatus>";

/// A server whose first answers are this one, and its URL. Counts the requests.
fn failing(times: usize, answer: &'static str) -> (String, Arc<AtomicUsize>) {
    let requests = Arc::new(AtomicUsize::new(0));
    let count = requests.clone();
    let address = answering(move |_, to| {
        if count.fetch_add(1, Ordering::Relaxed) < times {
            return write!(to, "HTTP/1.1 {answer}");
        }
        write!(to, "HTTP/1.1 207 Listed\r\nContent-Length: {}\r\n\r\n{LISTING}", LISTING.len())
    });
    (format!("http://{address}/"), requests)
}

#[test]
fn short_outage_is_waited_for_and_told_with_v() {
    let fixture = Fixture::new();
    for (options, told) in [(&["-v"][..], 2), (&[], 0)] {
        let (url, _) = failing(2, "502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
        let ended = fixture.haul(&[&["ls"], options, &[&url]].concat());
        printed(&ended);
        let said = text(&ended.stderr);
        let lines = said.lines().filter(|line| line.starts_with("haul: the server failed (502); trying again in "));
        assert_eq!((lines.count(), said.lines().count()), (told, told), "{said}");
    }
}

#[test]
fn long_outage_ends_a_command_of_several_requests_after_one_limit() {
    let fixture = Fixture::new();
    for command in ["ls", "tree", "stat"] {
        let (url, requests) = failing(usize::MAX, "502 Bad Gateway\r\nContent-Length: 0\r\n\r\n");
        let said = one_sentence(&fixture.haul(&[command, &url]), 1);
        assert!(said.contains("the server failed (502)"), "{said}");
        // `tree` has two in flight. Each has at most four attempts before the limit.
        let requests = requests.load(Ordering::Relaxed);
        assert!(requests <= 8, "{command}: {requests} requests");
    }
}

#[test]
fn reason_of_the_server_is_in_the_sentence() {
    let fixture = Fixture::new();
    let why = "421: not my name;\nuse \x1b[1mserver\r\n\r\nMore about it.\n";
    let address = answering(move |_, to| {
        write!(to, "HTTP/1.1 421 No\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{why}", why.len())
    });
    let said = one_sentence(&fixture.haul(&["ls", &format!("http://{address}/")]), 1);
    let expected = "does not accept this host name (421, server message \"not my name; use [1mserver\")";
    assert!(said.contains(expected), "{said}");
}
