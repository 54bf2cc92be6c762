//! The client against a model server with random faults: no request is lost, mixed up with another or done twice, and
//! every wait ends.
//!
//! The whole client runs, over pipes in memory and with a paused clock. Faults come from a seed. What the server did is
//! compared with what the client reported.

mod adversarial_http2;
mod adversarial_servers;
mod http2;
mod server;

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Method, Request, StatusCode, Version};
use http_body_util::BodyExt;
use proptest::prelude::*;

use self::server::{Model, Server, Validators};
use haul_http::{
    Body, Class, Client, Error, Expected, FollowUp, FollowUpResponse, Options, Pipelining, ResponseInfo, Settings,
    Versions, auth::Authenticator,
};

/// The content of a file, different for each path.
fn content(path: &str, length: usize) -> Vec<u8> {
    let mut bytes = path.as_bytes().repeat(length.div_ceil(path.len()));
    bytes.truncate(length);
    bytes
}

/// A request of the test.
#[derive(Debug, Clone)]
struct Ask {
    method: Method,
    length: usize,
    large: bool,
    /// Whether an upload has a follow-up.
    has_follow_up: bool,
    /// When it is sent, in ms.
    at: u64,
    /// When it is cancelled, in ms after that.
    cancel: Option<u64>,
    /// The caller's pause between header and body, in ms.
    read_delay: u64,
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let method = prop_oneof![6 => Just(Method::PUT), 6 => Just(Method::GET), 1 => Just(Method::POST)];
    let cancel = prop_oneof![9 => Just(None), 1 => (0u64..400).prop_map(Some)];
    // Some are large, whatever their class says.
    let length = prop_oneof![40 => 0usize..6000, 1 => 300_000usize..400_000];
    let read_delay = prop_oneof![9 => Just(0), 1 => 0u64..4000];
    let ask = (method, length, prop::bool::weighted(0.1), any::<bool>(), 0u64..600, cancel, read_delay);
    let ask = ask.prop_map(|(method, length, large, has_follow_up, at, cancel, read_delay)| {
        let has_follow_up = has_follow_up && method == Method::PUT;
        Ask { method, length, large, has_follow_up, at, cancel, read_delay }
    });
    prop::collection::vec(ask, 1..60)
}

/// The settings of the client and the server.
#[derive(Debug, Clone)]
struct Setting {
    pipelining: Pipelining,
    connections: usize,
    seed: u64,
    /// One request in so many has a fault.
    one_in: u32,
    /// The number of requests over HTTP/2 before the server requires HTTP/1.1; `None` for HTTP/1.1 from the start.
    http2: Option<u64>,
    validators: Validators,
    /// Whether the caller expects validators that the server does not send.
    hidden: bool,
    shuffles: bool,
    /// Lengths of files are multiples of this.
    step: usize,
}

fn settings() -> impl Strategy<Value = Setting> {
    let pipelining = prop_oneof![Just(Pipelining::Off), Just(Pipelining::Safe), Just(Pipelining::Aggressive)];
    let one_in = prop_oneof![Just(0u32), Just(40), Just(8), Just(3)];
    let http2 = prop_oneof![4 => Just(None), 1 => (0u64..80).prop_map(Some)];
    let validators = prop_oneof![Just(Validators::ETags), Just(Validators::Times), Just(Validators::None)];
    let alike = (validators, prop::bool::weighted(0.2), any::<bool>(), prop_oneof![Just(1usize), Just(3000)]);
    let setting = (pipelining, 1usize..7, any::<u64>(), one_in, http2, alike);
    setting.prop_map(|(pipelining, connections, seed, one_in, http2, (validators, hidden, shuffles, step))| Setting {
        pipelining,
        connections,
        seed,
        one_in,
        http2,
        validators,
        hidden,
        shuffles,
        step,
    })
}

/// Sends all requests, and compares what was reported with what was done.
async fn run_case(mut asks: Vec<Ask>, setting: Setting) {
    let Setting { pipelining, connections, seed, one_in, http2, validators, hidden, shuffles, step } = setting;
    for ask in &mut asks {
        ask.length -= ask.length % step;
    }
    let known = if hidden { Validators::ETags } else { validators };
    let path = |number: usize| format!("/{number}");
    let gets = asks.iter().enumerate().filter(|(_, ask)| ask.method == Method::GET);
    let model = Arc::new(Mutex::new(Model {
        files: gets.map(|(number, ask)| (path(number), content(&path(number), ask.length))).collect(),
        one_in,
        refusals: (seed % 3) as u32,
        http2_until: http2.unwrap_or(u64::MAX),
        validators,
        shuffles,
        ..Model::new(seed)
    }));
    let versions = if http2.is_some() { Versions::Http2 } else { Versions::Http1 };
    let settings = Settings { versions, pipelining, connections, ..Settings::default() };
    let client = Client::with_dialer(settings, Authenticator::default(), Arc::new(Server(model.clone())));
    let told = join_all(asks.iter().enumerate().map(|(number, ask)| {
        let (client, ask, path) = (client.clone(), ask.clone(), path(number));
        async move {
            tokio::time::sleep(Duration::from_millis(ask.at)).await;
            let exchange = exchange(&client, &ask, &path, known);
            match ask.cancel {
                Some(after) => tokio::time::timeout(Duration::from_millis(after), exchange).await.ok(),
                None => Some(exchange.await),
            }
        }
    }));
    // An hour of the paused clock: every wait has a timeout.
    let told = tokio::time::timeout(Duration::from_hours(1), told).await.expect("a request waits forever");
    let model = model.lock().unwrap();
    assert!(!model.http2_offered_again, "HTTP/2 is not offered again after HTTP_1_1_REQUIRED");
    for (number, (ask, told)) in asks.iter().zip(&told).enumerate() {
        check_outcome(&path(number), ask, told.as_ref(), &model);
        if one_in == 0 && !shuffles && ask.cancel.is_none() && seed % 3 < 2 {
            assert!(matches!(told, Some(Ok(_))), "a request failed without a fault: {told:?}");
        }
    }
}

/// Compares the reported outcome of a request (`None`: cancelled) with what the server did.
fn check_outcome(path: &str, ask: &Ask, told: Option<&Result<StatusCode, Error>>, model: &Model) {
    assert!(!matches!(told, Some(Err(Error::Shutdown))), "every request gets an outcome");
    let file = model.files.get(path);
    match (ask.method.as_str(), told) {
        ("PUT", Some(Ok(status))) => {
            assert!(status.is_success());
            assert!(file == Some(&content(path, ask.length)), "{path}: an acknowledged upload is missing");
        }
        ("PUT", _) => assert!(file.is_none_or(|file| *file == content(path, ask.length)), "whole or not at all"),
        ("POST", told) => {
            let times = model.posts.get(path).copied().unwrap_or_default();
            match told {
                Some(Ok(_)) => assert_eq!(times, 1, "a POST is done once"),
                // `Exchange`: the response was truncated.
                Some(Err(Error::OutcomeUnknown { .. } | Error::Exchange { .. })) | None => assert!(times <= 1),
                Some(Err(_)) => assert_eq!(times, 0, "a request with a definite failure had no effect"),
            }
        }
        // GET: `exchange` has compared the content.
        _ => {}
    }
}

#[tokio::test(start_paused = true)]
async fn pipelines_deepen_only_as_the_setting_allows() {
    for (pipelining, deepest) in
        [(Pipelining::Off, 0..=0), (Pipelining::Safe, 8..=199), (Pipelining::Aggressive, 199..=199)]
    {
        let mut model = Model::new(1);
        model.files = (0..200).map(|number| (format!("/{number}"), Vec::new())).collect();
        let settings = Settings { pipelining, connections: 1, ..Settings::default() };
        let client =
            Client::with_dialer(settings, Authenticator::default(), Arc::new(Server(Arc::new(Mutex::new(model)))));
        let answers = join_all((0..200).map(|number| {
            let path = format!("/{number}");
            let request = Request::get(format!("http://model{path}")).extension(with_etag(&path));
            client.send(request.body(Body::empty()).unwrap())
        }));
        let behind =
            answers.await.into_iter().map(|answer| answer.unwrap().extensions().get::<ResponseInfo>().unwrap().behind);
        let behind: Vec<u32> = behind.collect();
        assert!(deepest.contains(behind.iter().max().unwrap()), "{pipelining:?}: {behind:?}");
    }
}

/// The options of a caller who knows a file's entity tag.
fn with_etag(path: &str) -> Options {
    let (etag, _) = Validators::ETags.of(path);
    Options { expected: Expected { etag, ..Expected::default() }, ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn indistinguishable_files_are_not_pipelined() {
    for pipelining in [Pipelining::Safe, Pipelining::Aggressive] {
        for (known, sent) in [(Validators::None, Validators::None), (Validators::ETags, Validators::None)] {
            let mut model = Model { validators: sent, shuffles: true, ..Model::new(1) };
            model.files =
                (0..100).map(|number| (format!("/{number:03}"), content(&format!("/{number:03}"), 9))).collect();
            let server = Arc::new(Server(Arc::new(Mutex::new(model))));
            let settings = Settings { pipelining, ..Settings::default() };
            let client = Client::with_dialer(settings, Authenticator::default(), server);
            let fetched = (0..100).map(|number| {
                let (client, path) = (client.clone(), format!("/{number:03}"));
                async move {
                    let (etag, modified) = known.of(&path);
                    let expected = Expected { etag, modified, length: Some(9) };
                    let options = Options { expected, ..Options::default() };
                    let request = Request::get(format!("http://model{path}")).extension(options);
                    let answer = client.send(request.body(Body::empty()).unwrap()).await.unwrap();
                    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), content(&path, 9));
                }
            });
            join_all(fetched).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn error_status_on_a_pipeline_is_confirmed_alone() {
    let mut model = Model { shuffles: true, ..Model::new(1) };
    model.files = (0..20).map(|number| (format!("/{number}"), Vec::new())).collect();
    model.files.remove("/7");
    let settings = Settings { pipelining: Pipelining::Aggressive, connections: 1, ..Settings::default() };
    let server = Arc::new(Server(Arc::new(Mutex::new(model))));
    let client = Client::with_dialer(settings, Authenticator::default(), server);
    let statuses = join_all((0..20).map(|number| {
        let (client, path) = (client.clone(), format!("/{number}"));
        let request = Request::get(format!("http://model{path}")).extension(with_etag(&path));
        async move { client.send(request.body(Body::empty()).unwrap()).await.unwrap().status().as_u16() }
    }));
    for (number, status) in statuses.await.into_iter().enumerate() {
        assert_eq!(status, if number == 7 { 404 } else { 200 }, "{number}");
    }
}

async fn exchange(client: &Client, ask: &Ask, path: &str, known: Validators) -> Result<StatusCode, Error> {
    let body = if ask.method == Method::GET { Body::empty() } else { content(path, ask.length).into() };
    let length = (ask.length < 6000).then_some(ask.length as u64);
    let (etag, modified) = known.of(path);
    let expected = Expected { etag, length, modified };
    let expected = if ask.method == Method::GET { expected } else { Expected::default() };
    let class = match (ask.large, &ask.method) {
        (true, &Method::GET) if ask.length.is_multiple_of(2) => Class::Part,
        (true, _) => Class::Large,
        (false, _) => Class::Small,
    };
    let request = Request::builder().method(&ask.method).uri(format!("http://model{path}"));
    let request = request.extension(Options { class, pipeline: true, expected, ..Options::default() });
    let mut request = request.body(body).unwrap();
    if ask.has_follow_up {
        let look = Request::builder().method("PROPFIND").uri(request.uri().clone()).body(Bytes::new()).unwrap();
        request.extensions_mut().insert(FollowUp::new(look).unwrap());
    }
    let answer = client.send(request).await?;
    let (status, look) = (answer.status(), answer.extensions().get::<FollowUpResponse>().cloned());
    assert_eq!(look.is_some(), ask.has_follow_up);
    tokio::time::sleep(Duration::from_millis(ask.read_delay)).await;
    let body = answer.into_body().collect().await?.to_bytes();
    if let Some(look) = look
        && let Some(seen) = look.answer().await
    {
        assert!(
            !status.is_success() || seen.status() != StatusCode::NOT_FOUND,
            "{path}: the follow-up was processed before the upload"
        );
        let whole = seen.status() == StatusCode::MULTI_STATUS;
        if let (true, Ok(seen)) = (whole, seen.into_body().collect().await) {
            assert!(seen.to_bytes() == content(path, ask.length), "{path}: the follow-up's response is another file's");
        }
    }
    if ask.method == Method::GET && status == StatusCode::OK {
        assert!(body == content(path, ask.length), "{path} has wrong content");
    }
    Ok(status)
}

/// The number of cases; `PROPTEST_CASES` overrides it.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(100)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn no_request_is_lost_mixed_up_or_done_twice(asks in asks(), setting in settings()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(run_case(asks, setting));
    }
}

/// Sends a request, reads the response, and returns its info.
async fn told(
    client: &Client,
    method: Method,
    path: &str,
    body: Body,
    options: Options,
) -> Result<ResponseInfo, Error> {
    let request = Request::builder().method(method).uri(format!("http://model{path}")).extension(options);
    let answer = client.send(request.body(body).unwrap()).await?;
    let info = *answer.extensions().get::<ResponseInfo>().unwrap();
    answer.into_body().collect().await?;
    Ok(info)
}

#[tokio::test(start_paused = true)]
async fn http_1_1_required_applies_to_every_method() {
    let model = Arc::new(Mutex::new(Model { http2_until: 1, ..Model::new(1) }));
    let settings = Settings { versions: Versions::Http2, ..Settings::default() };
    let client = Client::with_dialer(settings, Authenticator::default(), Arc::new(Server(model.clone())));
    let ask = |method| told(&client, method, "/a", "x".into(), Options::default());
    assert_eq!(ask(Method::PUT).await.unwrap().version, Version::HTTP_2);
    let answers = [ask(Method::GET), ask(Method::PUT), ask(Method::POST), ask(Method::POST)];
    for info in join_all(answers).await {
        assert_eq!(info.unwrap().version, Version::HTTP_11);
    }
    let model = model.lock().unwrap();
    assert_eq!((model.posts["/a"], model.http2_offered_again), (2, false));
}

#[tokio::test(start_paused = true)]
async fn large_upload_with_a_late_response_is_sent_once() {
    let model = Arc::new(Mutex::new(Model { one_in: 1, ..Model::new(1) }));
    for (class, length, sent) in [(Class::Large, 10, 1), (Class::Small, 5 << 20, 1), (Class::Small, 10, 4)] {
        let mut silent = Model::new(1);
        silent.is_silent = true;
        *model.lock().unwrap() = silent;
        let client =
            Client::with_dialer(Settings::default(), Authenticator::default(), Arc::new(Server(model.clone())));
        let options = Options { class, ..Options::default() };
        let error = told(&client, Method::PUT, "/a", vec![0; length].into(), options).await.unwrap_err();
        assert_eq!((model.lock().unwrap().requests, matches!(error, Error::OutcomeUnknown { .. })), (sent, sent == 1));
        assert!(sent > 1 || error.to_string().contains("no response within 60 s; outcome unknown"), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn reconnecting_is_retried_only_if_the_server_was_reachable_before() {
    for (was_there, refusals, dials) in [(false, 2, 1), (true, 4, 4), (true, 100, 6)] {
        let model = Arc::new(Mutex::new(Model { closes_each: true, ..Model::new(1) }));
        let settings = Settings { connections: 1, ..Settings::default() };
        let client = Client::with_dialer(settings, Authenticator::default(), Arc::new(Server(model.clone())));
        let ask = || told(&client, Method::PUT, "/a", "x".into(), Options::default());
        if was_there {
            ask().await.unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        {
            let mut model = model.lock().unwrap();
            (model.refusals, model.dials) = (refusals, 0);
        }
        let begun = tokio::time::Instant::now();
        let answer = ask().await;
        assert_eq!(model.lock().unwrap().dials, dials);
        if refusals == 4 {
            answer.unwrap();
        } else {
            let error = answer.unwrap_err().to_string();
            assert_eq!(error, "cannot connect to http://model: connection refused");
            assert_eq!(begun.elapsed() < Duration::from_secs(1), !was_there);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_behind_a_slow_response_move_to_another_connection() {
    let model = Arc::new(Mutex::new(Model::new(1)));
    model.lock().unwrap().slow = Some("/slow".into());
    let paths = ["/slow", "/a", "/b", "/c"];
    model.lock().unwrap().files = paths.map(|path| (path.to_owned(), Vec::new())).into();
    let settings = Settings { connections: 2, pipelining: Pipelining::Aggressive, ..Settings::default() };
    let client = Client::with_dialer(settings, Authenticator::default(), Arc::new(Server(model.clone())));
    let ask = |path| told(&client, Method::GET, path, Body::empty(), with_etag(path));
    ask("/first").await.unwrap();
    let begun = tokio::time::Instant::now();
    let timed = |path| async move { (ask(path).await.unwrap(), begun.elapsed()) };
    let answers = join_all(paths.map(timed)).await;
    assert_eq!((answers[0].0.connection, answers[0].1.as_secs()), (1, 8));
    for (info, took) in &answers[1..] {
        assert_eq!((info.connection, info.sendings), (2, 2));
        assert!(took.as_millis() < 2000, "{took:?}");
    }
}
