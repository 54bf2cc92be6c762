use super::{
    super::{
        Content, Initiator, spec,
        tests::{held, seen},
    },
    *,
};
use crate::Spec;

/// A recording of a page whose truth is known: its script, which computes for 20 ms, requests data, for which the server
/// thinks for 30 ms; its picture waits for the first half of the page. The network takes 10 ms. `late` is noise: how late
/// the machine was with the script, the data and the picture; `slow` that of the server with the data.
fn recording(late: [u64; 3], slow: u64) -> Vec<Observed> {
    let by = |mut one: Observed, url: &str, position: Option<(u64, u64)>| {
        one.initiators = vec![Initiator { url: format!("http://a.example{url}"), position }];
        one
    };
    let answered = |path: &str, started: u64, thought: u64| {
        let first = started + 10 + thought;
        let mut one = seen(path, [started, first, first + 10], &[]);
        one.wait = Some(Duration::from_millis(10 + thought));
        one
    };
    let mut page = answered("/", 0, 0);
    page.handshake = Some(Duration::from_millis(10));
    page.response_body.bytes = Some(vec![b'x'; 10_000].into());
    let mut script = by(answered("/script.js", 15 + late[0], 0), "/", Some((0, 5000)));
    script.response_headers[0].1 = "text/javascript".to_owned();
    let begun = script.end.as_millis() as u64 + 20 + late[1];
    let data = by(Observed { fetched: true, ..answered("/data", begun, 30 + slow) }, "/script.js", None);
    // Nobody told who requested it.
    let picture = answered("/picture.png", 50 + late[2], 0);
    vec![page, script, data, picture]
}

fn of(runs: Vec<Vec<Observed>>) -> Imported {
    stable(runs, "t".into(), "s".into(), Path::new("x.toml")).unwrap()
}

fn waits(spec: &Spec, path: &str) -> Vec<(String, Until)> {
    let request = spec.requests.iter().find(|request| request.path == path).unwrap();
    request.after.iter().map(|after| (spec.requests[after.request].path.clone(), after.until)).collect()
}

fn times(spec: &Spec, path: &str) -> [u128; 2] {
    let request = spec.requests.iter().find(|request| request.path == path).unwrap();
    [request.compute, request.response.think].map(|time| time.as_millis())
}

#[test]
fn noise_of_single_recordings_is_gone() {
    let calm = recording([0, 0, 0], 0);
    // Here the picture is requested right after the data.
    let picture_late = recording([0, 0, 60], 5);
    let all_late = recording([70, 300, 55], 400);
    let alone = spec(picture_late.clone(), "t".into(), "s".into(), Path::new("x.toml")).unwrap().spec;
    assert_eq!(waits(&alone, "/picture.png").last(), Some(&("/data".to_owned(), Until::End)), "a wrong guess");

    let Imported { spec: found, notes } = of(vec![all_late.clone(), picture_late.clone(), calm.clone()]);
    assert_eq!(waits(&found, "/script.js"), [("/".to_owned(), Until::Head(5200))]);
    assert_eq!(waits(&found, "/data"), [("/script.js".to_owned(), Until::End)]);
    assert_eq!(waits(&found, "/picture.png"), [("/".to_owned(), Until::End)]);
    assert_eq!((times(&found, "/data"), times(&found, "/script.js")), ([20, 30], [0, 0]));
    assert!(notes[0].starts_with("3 recordings, of 875ms, 130ms and 105ms; "), "{notes:?}");

    let rtt = Duration::from_millis(10);
    for run in [calm, picture_late, all_late] {
        let alone = spec(run, "t".into(), "s".into(), Path::new("x.toml")).unwrap().spec;
        assert!(found.floor(rtt, None) <= alone.floor(rtt, None));
    }
    assert_eq!(found.floor(rtt, None), 3 * rtt);
}

#[test]
fn round_trip_is_the_quickest_handshake_or_response_of_all_recordings() {
    let alone = |run: &[Observed]| {
        let found = spec(run.to_vec(), "t".into(), "s".into(), Path::new("x.toml")).unwrap().spec;
        times(&found, "/data")[1]
    };
    // The script's response took 10 ms.
    let mut late = recording([0, 0, 0], 0);
    late[0].handshake = Some(Duration::from_millis(35));
    assert_eq!(alone(&late), 30);
    // Only the data's is known.
    for one in &mut late {
        one.wait = one.wait.filter(|wait| wait.as_millis() == 40);
    }
    assert_eq!(alone(&late), 5);
    late[0].handshake = None;
    assert_eq!(alone(&late), 0);
    let calm = recording([0, 0, 0], 2);
    assert_eq!(alone(&calm), 32);
    assert_eq!(times(&of(vec![calm, late]).spec, "/data"), [20, 30]);
}

#[test]
fn wait_that_goes_through_different_requests_is_kept() {
    let through = |middle: &str| {
        let by = |mut one: Observed, url: &str| {
            one.initiators = vec![Initiator { url: format!("http://a.example{url}"), position: None }];
            one.response_headers[0].1 = "text/javascript".to_owned();
            one
        };
        vec![
            seen("/", [0, 10, 20], &[]),
            by(seen("/a.js", [30, 40, 50], &[]), "/"),
            by(seen("/b.js", [30, 40, 50], &[]), "/"),
            by(seen("/end.js", [60, 70, 80], &[]), middle),
        ]
    };
    let found = of(vec![through("/a.js"), through("/b.js")]);
    assert_eq!(waits(&found.spec, "/end.js"), [("/".to_owned(), Until::End)]);
    assert!(found.notes.iter().any(|note| note.starts_with("a dependency did not hold")), "{:?}", found.notes);
    assert_eq!(waits(&of(vec![through("/b.js"); 2]).spec, "/end.js"), [("/b.js".to_owned(), Until::End)]);
}

#[test]
fn random_query_is_the_same_request_and_a_rare_request_is_omitted() {
    let run = |number: usize, has_ad: bool| {
        let mut all = vec![seen("/", [0, 10, 20], &[]), seen(&format!("/count?r=0.{number}"), [30, 40, 50], &[])];
        all.push(seen("/count?r=0", [31, 40, 50], &[]));
        if has_ad {
            all.push(seen("/ad", [35, 45, 55], &[]));
        }
        all
    };
    let found = of(vec![run(1, true), run(2, false), run(3, false)]);
    let paths: Vec<&str> = found.spec.requests.iter().map(|request| request.path.as_str()).collect();
    assert_eq!((paths.len(), paths[0], paths[2]), (3, "/", "/count?r=0"), "{paths:?}");
    let note = "omitted, since at most half of the recordings have them: http://a.example/ad";
    assert!(found.notes.iter().any(|said| said == note), "{:?}", found.notes);
    assert_eq!(of(vec![run(1, true), run(2, true), run(3, false)]).spec.requests.len(), 4);
}

#[test]
fn single_recording_and_none_are_taken_as_they_are() {
    let run = recording([3, 40, 0], 7);
    let alone = spec(run.clone(), "t".into(), "s".into(), Path::new("x.toml")).unwrap();
    assert_eq!(of(vec![run]), alone);
    for none in [vec![], vec![vec![], vec![]]] {
        let error = stable(none, "t".into(), "s".into(), Path::new("x.toml")).unwrap_err();
        assert!(error.to_string().contains("no request in it that could be replayed"), "{error}");
    }
}

#[test]
fn what_follows_the_head_takes_its_least_time() {
    let found = of(vec![held(900, 990), held(1000, 1070), held(1000, 1200)]).spec;
    assert_eq!(found.requests[3].hold.as_ref().map(|hold| hold.compute), Some(Duration::from_millis(70)));
    assert_eq!(found.requests[3].compute, Duration::from_millis(10), "until it could be held back");
}

#[test]
fn references_keep_their_order() {
    let compute = |micros: [u64; 4], are_held: [bool; 4], is_before: bool| {
        let mut requests = of(vec![held(1000, 1070)]).spec.requests;
        let hold = requests[3].hold.clone();
        for ((request, time), is_held) in requests.iter_mut().zip(micros).zip(are_held) {
            request.compute = Duration::from_micros(time);
            request.hold = hold.clone().filter(|_| is_held);
            request.after.iter_mut().for_each(|after| after.until = Until::Head(1));
        }
        keep_order(&mut requests, |_, _| is_before);
        let computes: Vec<u128> = requests.iter().map(|request| request.compute.as_micros()).collect();
        computes
    };
    let [none, one, two] = [[false; 4], [false, false, true, false], [false, true, true, true]];
    assert_eq!(compute([0, 10_600, 10_400, 10_500], none, true), [0, 10_400, 10_400, 10_500]);
    assert_eq!(compute([0, 15_000, 12_400, 10_500], two, true), [0, 10_500, 10_500, 10_500]);
    assert_eq!(compute([0, 15_000, 12_400, 10_500], two, false), [0, 15_000, 12_400, 10_500], "not in all recordings");
    assert_eq!(compute([0, 10_600, 5000, 10_500], one, true), [0, 10_500, 5000, 10_500], "another clock");
}

#[test]
fn layout_may_wait_for_a_script_if_it_did_so_in_all_recordings() {
    let html = "<link rel=stylesheet href=c.css><body>\n<script src=s.js></script>";
    let recording = |script_end: u64, picture: u64| {
        let by = |mut one: Observed, url: &str, position| {
            one.initiators = vec![Initiator { url: format!("http://a.example{url}"), position }];
            one
        };
        let mut page = seen("/", [0, 10, 20], &[]);
        page.response_body = Content { size: None, bytes: Some(html.into()), coded: false };
        let mut style = by(seen("/c.css", [20, 30, 40], &[]), "/", Some((0, 32)));
        style.response_headers[0].1 = "text/css".to_owned();
        let script = by(seen("/s.js", [20, 30, script_end], &[]), "/", Some((1, 17)));
        let shown = by(seen("/p.png", [picture, picture + 10, picture + 20], &[]), "/c.css", Some((0, 0)));
        vec![page, style, script, shown]
    };
    let waits = |runs: Vec<Vec<Observed>>| waits(&of(runs).spec, "/p.png");
    let end = |path: &str| (path.to_owned(), Until::End);
    let (before, after) = (recording(50, 60), recording(90, 60));
    assert_eq!(waits(vec![before.clone(), recording(190, 200)]), [end("/c.css"), end("/s.js")]);
    assert_eq!(waits(vec![before.clone(), after]), [end("/c.css")], "one of them did not wait");
    assert_eq!(waits(vec![before]), [end("/c.css")], "a single recording proves nothing");
}

#[test]
fn library_of_two_frames_is_matched_by_its_frame() {
    let recording = |first: &str, second: &str| {
        let frame = |path: &str| seen(path, [30, 40, 50], &[("Referer", "http://a.example/")]);
        let library = |page: &str, started: u64| {
            let referer = format!("http://a.example{page}");
            seen("/lib.js", [started, started + 10, started + 20], &[("Referer", &referer)])
        };
        vec![seen("/", [0, 10, 20], &[]), frame("/one"), frame("/two"), library(first, 60), library(second, 61)]
    };
    let found = of(vec![recording("/one", "/two"), recording("/two", "/one"), recording("/one", "/two")]).spec;
    let causes = found.requests.iter().filter(|request| request.path == "/lib.js").map(|request| {
        let causes: Vec<&str> = request.after.iter().map(|after| &*found.requests[after.request].path).collect();
        causes
    });
    assert_eq!(causes.collect::<Vec<_>>(), [["/one"], ["/two"]]);
}
