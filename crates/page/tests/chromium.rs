//! Chromium records a small site with its dependencies, and then loads the spec from the replay server over each version
//! of HTTP.

mod replay_server;

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use page::{
    Body, Spec, Until,
    browser::{
        self,
        load::{Loader, Profile, Version},
    },
    record::record,
    speed_index::speed_index,
};

/// Not an image, in spite of its type.
const BROKEN: &str = "this is no picture";

/// The think times of the data and of the frame's style sheet.
const THINK: Duration = Duration::from_millis(80);
const STYLE_THINK: Duration = Duration::from_millis(150);

/// Path, type, body. The picture's reference is at least 3000 bytes after the style sheet's; the script fetches data
/// and then what they name; the style sheets have backgrounds. The frame's style sheet is slow.
const SITE: [(&str, &str, &str); 11] = [
    (
        "/frame",
        "text/html",
        "<!doctype html><link rel=stylesheet href=/frame.css><p>Frame<script src=/a:b(1)+c*.js?v=1></script>",
    ),
    ("/frame.css", "text/css", "body { background: url(/frame.svg) }"),
    ("/a:b(1)+c*.js?v=1", "text/javascript", "document.title = 'Frame'"),
    ("/frame.svg", "image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' width='4' height='4'/>"),
    ("/style.css", "text/css", "body { background: url(/back.svg) }"),
    ("/head.js", "text/javascript", "document.documentElement.id = 'ready'"),
    ("/script.js", "text/javascript", "fetch('/data.json').then(r => r.json()).then(d => fetch(d.show))"),
    ("/data.json", "application/json", "{\"show\": \"/shown.svg\"}"),
    ("/back.svg", "image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' width='1' height='1'/>"),
    ("/picture.svg", "image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' width='2' height='2'/>"),
    ("/shown.svg", "image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg' width='3' height='3'/>"),
];

fn page() -> String {
    let filling = "<p>filling, a line of it\n".repeat(200);
    format!(
        "<!doctype html><title>Small</title>\n<link rel=stylesheet href=/style.css>\n<script src=/head.js></script>\n\
         <iframe src=/frame></iframe>{filling}\
         <img src=/picture.svg>\n{filling}<img src=/broken.png><script src=/script.js></script>\n"
    )
}

fn answer(stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut to = stream;
    loop {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            lines.push(line);
        }
        let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or("/");
        let page = page();
        let found = SITE.iter().find(|(known, ..)| *known == path).map(|(_, kind, body)| (200, *kind, *body));
        let (status, kind, body, more) = match (path, found) {
            ("/", _) => (302, "text/plain", "", "Location: /page\r\nSet-Cookie: secret=1\r\n"),
            ("/page", _) => (200, "text/html", page.as_str(), ""),
            ("/broken.png", _) => (200, "image/png", BROKEN, ""),
            ("/style.css", Some((status, kind, body))) => (status, kind, body, "Cache-Control: max-age=600\r\n"),
            ("/frame.css", Some((status, kind, body))) => {
                thread::sleep(STYLE_THINK);
                (status, kind, body, "")
            }
            ("/data.json", Some((status, kind, body))) => {
                thread::sleep(THINK);
                (status, kind, body, "")
            }
            (_, Some((status, kind, body))) => (status, kind, body, ""),
            _ => (404, "text/plain", "nothing", ""),
        };
        write!(
            to,
            "HTTP/1.1 {status} Told\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{more}\r\n{body}",
            body.len()
        )?;
    }
}

// One recording for all checks, since Chromium takes seconds to start.
#[test]
fn site_is_recorded_and_loaded_again() {
    if browser::find().is_err() {
        println!("skipped: Chromium is not installed (sudo apt-get install {})", browser::PACKAGE);
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || answer(stream));
        }
    });
    let url = format!("http://{address}/").parse().unwrap();
    let options = browser::Options { without_sandbox: true, ..Default::default() };
    let recorded =
        record(&url, Path::new("small.toml"), 2, Duration::from_mins(1), &options, &AtomicBool::new(false)).unwrap();
    let spec = &recorded.spec;
    println!("{}\n{:?}", spec.to_toml(), recorded.notes);
    assert_eq!(spec.title, "Small");

    let at = |path: &str| spec.requests.iter().position(|request| request.path == path).unwrap();
    let waits = |path: &str| {
        let Some(after) = spec.requests[at(path)].after.first() else { panic!("{path} waits for nothing") };
        (spec.requests[after.request].path.as_str(), after.until)
    };
    assert!(spec.requests[at("/")].after.is_empty());
    assert_eq!(waits("/page"), ("/", Until::End));
    for (path, cause) in [
        ("/back.svg", "/style.css"),
        ("/data.json", "/script.js"),
        ("/shown.svg", "/script.js"),
        ("/script.js", "/page"),
    ] {
        assert_eq!(waits(path).0, cause, "{path}");
    }
    // The handshake on a busy machine may have taken a part of it.
    assert!(
        spec.requests[at("/data.json")].response.think > THINK / 2,
        "{:?}",
        spec.requests[at("/data.json")].response
    );
    let data = spec.requests[at("/shown.svg")].after.last().map(|after| after.request);
    assert_eq!(data, Some(at("/data.json")), "the script shows what the data named");
    assert!(spec.requests.iter().all(|request| request.path != "/favicon.ico"), "the tab's icon is not the page's");
    // Each waits for the page up to its reference.
    let (("/page", Until::Head(style)), ("/page", Until::Head(picture))) = (waits("/style.css"), waits("/picture.svg"))
    else {
        panic!("both wait for the head of the page: {:?}, {:?}", waits("/style.css"), waits("/picture.svg"));
    };
    let head = u64::from(spec.requests[at("/page")].response.head);
    let place = |text: &str| head + page().find(text).unwrap() as u64;
    assert!((place("<link")..=place("<p>")).contains(&style), "{style}");
    assert!((place("<img")..place("<script src=/script")).contains(&picture), "{picture}");

    // In the first recording, the frame's script arrives before its style sheet, in the second later.
    let back = &spec.requests[at("/frame.svg")];
    assert!(
        back.after.iter().all(|after| after.request != at("/a:b(1)+c*.js?v=1")),
        "no script asks for the layout: {back:?}"
    );

    // The script of the head, and the style sheet that it waits for, hold back the picture.
    let hold = spec.requests[at("/picture.svg")].hold.as_ref().map(|hold| hold.behind.clone());
    assert_eq!(hold, Some(vec![at("/style.css"), at("/head.js")]));
    assert!(spec.requests[at("/head.js")].hold.is_none() && spec.requests[at("/data.json")].hold.is_none());
    // Of the recordings, the second one has a latency, which is no time for which the server thinks.
    assert!(spec.requests[at("/picture.svg")].response.think < THINK, "{:?}", spec.requests[at("/picture.svg")]);

    for (path, kind, body) in SITE {
        let response = &spec.requests[at(path)].response;
        assert_eq!(response.body, Body::Kept(body.into()), "{path}");
        assert_eq!(response.content_type.as_deref(), Some(kind));
    }
    // Chromium does not return a body that it cannot decode; the spec has a synthetic one of the same size.
    let broken = &spec.requests[at("/broken.png")].response.body;
    assert!(matches!(broken, Body::Synthetic { len, .. } if *len == BROKEN.len() as u64), "{broken:?}");
    let note = recorded.notes.last().unwrap();
    assert!(recorded.notes[0].starts_with("2 recordings, of "), "{:?}", recorded.notes);
    assert!(note.starts_with(&format!("http://{address}/broken.png: synthesised body, since ")), "{note}");
    assert!(!spec.to_toml().contains("secret"), "no cookies");
    assert!(spec.connections() >= 1 && spec.depth() >= 4);

    load_again(spec);
}

/// Writes a spec, and loads it in Chromium from the replay server over each version of HTTP.
fn load_again(spec: &Spec) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("small.toml");
    spec.write(&path).unwrap();
    let read = Arc::new(Spec::read(&path).unwrap());
    assert_eq!(&*read, spec);
    for version in Version::ALL {
        let (address, key) = replay_server::start(&read, folder.path());
        let mut loader = Loader::start(&read, version, address, &key, folder.path().to_owned(), |_| {}).unwrap();
        let visit = loader.load(Profile::New, Duration::from_mins(1)).unwrap();
        assert_eq!(visit.deviations, [], "{version:?}");
        // Includes the requests that the script sends after the `load` event.
        assert!(visit.requests >= read.requests.len() && !visit.took.is_zero(), "{version:?}: {visit:?}");
        assert!(visit.fetches.len() >= read.requests.len() && visit.fetches.iter().all(|fetch| fetch.end.is_some()));
        let (first, largest) = (visit.first_contentful_paint.unwrap(), visit.largest_contentful_paint.unwrap());
        assert!(!first.is_zero() && first <= largest, "{first:?} {largest:?}");
        if version == Version::Two {
            repeat_view(&mut loader);
        }
    }
}

/// Of a page that was loaded before the browser was closed, the cached part is not loaded again; it is in a new profile.
fn repeat_view(loader: &mut Loader) {
    let film = loader.load_filmed(Profile::Kept, Duration::from_mins(1)).unwrap().film;
    assert!(!film.is_empty() && film.iter().all(|frame| frame.jpeg.starts_with(&[0xff, 0xd8])), "JPEGs");
    // No earlier than the first picture, which shows nothing before, and no later than the last one.
    let index = speed_index(&film).expect("the page is not white");
    assert!(film[0].at <= index && index <= film[film.len() - 1].at, "{index:?}");
    loader.restart(|_| {}).unwrap();
    for (profile, expected) in [(Profile::New, &[][..]), (Profile::Kept, &["/style.css"])] {
        let visit = loader.load(profile, Duration::from_mins(1)).unwrap();
        assert_eq!(visit.deviations, [], "{profile:?}");
        let cached = visit.fetches.iter().filter(|fetch| fetch.is_cached);
        let cached: Vec<&str> = cached.map(|fetch| &fetch.url[fetch.url.rfind('/').unwrap()..]).collect();
        assert_eq!(cached, expected, "{profile:?}");
    }
}
