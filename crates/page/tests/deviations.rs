//! Chromium requests something else than was recorded: the nearest request answers, each difference is listed, and a load
//! that lacks too much fails.

mod replay_server;

use std::{path::Path, sync::Arc, time::Duration};

use page::{
    Spec,
    browser::{
        self, Options, Trust,
        deviations::{Deviation, Kind},
        load::{Loader, Profile, Version},
    },
    record::{RecordError, record},
};

/// A request of the spec for a path below https://www.example.org, unless `more` says otherwise.
fn request(path: &str, kind: &str, body: &str, more: &str) -> String {
    let origin = if more.contains("host") { "" } else { "host = \"www.example.org\"\n" };
    format!(
        "[[request]]\nid = '{path}'\n{origin}path = '{path}'\n{more}\n\
         response = {{ type = \"{kind}\", text = '''{body}''' }}\n"
    )
}

fn spec(requests: &[String]) -> Arc<Spec> {
    let text = format!("schema = \"longhaul.page/1\"\n{}", requests.concat());
    Arc::new(Spec::parse(&text, Path::new("page.toml")).unwrap())
}

const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>";

/// A page whose script requests, besides what is recorded, a number that nobody can know, something new, and something
/// twice. An absolute URL has the scheme `http`.
fn page() -> Vec<String> {
    let html = "<!doctype html><script src=\"/script.js\"></script><img src=\"http://static.example.org/a.svg\">\
                <iframe src=\"http://static.example.org/frame\"></iframe>";
    let script = "const key = crypto.randomUUID(); fetch(`/beacon?page=1&key=${key}`); fetch('/new?x=1');\
                  fetch('/twice', { cache: 'no-store' }).then(() => fetch('/twice', { cache: 'no-store' }));";
    let http = "scheme = \"http\"\nhost = \"static.example.org\"";
    let late = "delays_load = false";
    let mut all = vec![
        request("/", "text/html", html, ""),
        request("/script.js", "text/javascript", script, ""),
        request("/a.svg", "image/svg+xml", SVG, http),
        request("/frame", "text/html", "<img src=\"http://static.example.org/b.svg\">", http),
        request("/b.svg", "image/svg+xml", SVG, http),
        request("/beacon?page=2&key=7", "text/plain", "other", late),
        request("/beacon?page=1&key=7", "text/plain", "nearest", late),
        request("/twice", "text/plain", "", late),
        request("/never", "text/plain", "", late),
    ];
    // Enough that a missing one is below the limit.
    for number in 0..20 {
        let path = format!("/image{number}.svg");
        all[0] = all[0].replacen("<iframe", &format!("<img src=\"{path}\"><iframe"), 1);
        all.push(request(&path, "image/svg+xml", SVG, ""));
    }
    all
}

fn load(spec: &Arc<Spec>, folder: &Path, version: Version) -> Result<Vec<Deviation>, String> {
    let (address, key) = replay_server::start(spec, folder);
    let mut loader = Loader::start(spec, version, address, &key, folder.to_owned(), |_| {}).unwrap();
    let done = loader.load(Profile::New, Duration::from_mins(5)).map_err(|error| error.to_string())?;
    Ok(done.deviations)
}

fn is_without_chromium() -> bool {
    let missing = browser::find().is_err();
    if missing {
        println!("skipped: Chromium is not installed (sudo apt-get install {})", browser::PACKAGE);
    }
    missing
}

#[test]
fn deviations_are_listed_with_their_urls() {
    if is_without_chromium() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for version in [Version::One, Version::Two] {
        let mut deviations = load(&spec(&page()), folder.path(), version).unwrap();
        deviations.sort_by_key(|deviation| deviation.kind);
        let [new, nearest, twice, other, never] = &deviations[..] else { panic!("{version:?}: {deviations:#?}") };
        let url = |path: &str| format!("https://www.example.org{path}");
        assert_eq!((new.kind, &new.url), (Kind::NotRecorded, &url("/new?x=1")));
        assert_eq!((nearest.kind, &nearest.detail), (Kind::Nearest, &url("/beacon?page=1&key=7")));
        assert!(nearest.url.starts_with(&url("/beacon?page=1&key=")) && nearest.url.len() > 60, "{nearest}");
        assert_eq!((twice.kind, &twice.url), (Kind::Repeated, &url("/twice")));
        assert_eq!((other.kind, &other.url), (Kind::NotSent, &url("/beacon?page=2&key=7")));
        assert_eq!((never.kind, &never.url), (Kind::NotSent, &url("/never")));
    }
}

#[test]
fn load_without_much_of_the_page_fails() {
    if is_without_chromium() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut requests = page();
    for number in 0..4 {
        requests.push(request(&format!("/gone{number}.svg"), "image/svg+xml", SVG, ""));
    }
    let error = load(&spec(&requests), folder.path(), Version::Two).unwrap_err();
    assert!(error.contains("4 of the 29 requests that delay its load event"), "{error}");
    assert!(error.contains("https://www.example.org/gone0.svg") && error.contains("and 1 more"), "{error}");
}

#[test]
fn redirect_from_http_to_https_and_several_responses_are_replayed_in_order_again_and_again() {
    if is_without_chromium() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "const ask = () => fetch('/poll', { cache: 'no-store' }).then(r => r.text());\
                  ask().then(ask).then(last => fetch('/' + last))";
    let text = format!(
        "schema = \"longhaul.page/1\"\n[[request]]\nid = \"moved\"\nscheme = \"http\"\nhost = \"a.example\"\npath = \"/\"\n\
         response = {{ status = 301, headers = [\"location: https://a.example/\"] }}\n\
         [[request]]\nid = \"page\"\nhost = \"a.example\"\npath = \"/\"\n\
         response = {{ type = \"text/html\", text = \"<script>{script}</script>\" }}\n\
         [[request]]\nid = \"poll1\"\nhost = \"a.example\"\npath = \"/poll\"\nresponse = {{ text = \"first\" }}\n\
         [[request]]\nid = \"poll2\"\nhost = \"a.example\"\npath = \"/poll\"\nresponse = {{ text = \"second\" }}\n\
         [[request]]\nid = \"second\"\nhost = \"a.example\"\npath = \"/second\"\nresponse = {{ text = \"end\" }}\n"
    );
    let spec = Arc::new(Spec::parse(&text, Path::new("page.toml")).unwrap());
    let (address, key) = replay_server::start(&spec, folder.path());
    let mut loader = Loader::start(&spec, Version::Two, address, &key, folder.path().to_owned(), |_| {}).unwrap();
    for _ in 0..3 {
        assert_eq!(loader.load(Profile::New, Duration::from_mins(5)).unwrap().deviations, []);
    }
}

#[test]
fn private_https_is_recorded_with_its_authority_or_without_verification() {
    if is_without_chromium() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let page = request("/", "text/html", "<title>Private</title>", "host = \"127.0.0.1\"");
    let (address, _) = replay_server::start(&spec(&[page]), folder.path());
    let url = format!("https://{address}/").parse().unwrap();
    let recorded = |trust| {
        let options = Options { without_sandbox: true, trust, ..Options::default() };
        record(&url, Path::new("private.toml"), 1, Duration::from_mins(5), &options, &false.into())
    };
    let error = recorded(Trust::System).unwrap_err().to_string();
    assert!(error.contains("ERR_CERT_AUTHORITY_INVALID") && error.contains("--ca"), "{error}");
    assert_eq!(recorded(Trust::Anyone).unwrap().spec.title, "Private");
    match recorded(Trust::Authorities(folder.path().join("ca.pem"))) {
        Ok(recorded) => assert_eq!(recorded.spec.title, "Private"),
        Err(RecordError::Browser(error)) if error.to_string().contains("install the package") => {
            println!("skipped: {error}");
        }
        Err(error) => panic!("{error}"),
    }
}
