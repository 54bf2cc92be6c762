//! Random requests, readers and faults. Each job must have exactly one outcome, which agrees with what its reader and
//! the server received, and bodies must not be mixed up.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use futures_util::stream;
use http_body_util::BodyExt;
use proptest::prelude::*;
use tokio::time::sleep;

use super::*;

/// How the server responds to a request.
#[derive(Debug, Clone, Copy)]
enum Plan {
    /// Reads the request, then sends so many bytes.
    Answer(usize),
    /// Sends a status and so many bytes before it reads the request body.
    Early(u16, usize),
    Refuse,
    /// Resets the stream at once.
    Reset,
    /// Resets the stream in the middle of the response body.
    Cut(usize),
    /// Sends a wrong `Content-Length`.
    WrongLength(usize),
    Silence,
}

/// How the client reads the response.
#[derive(Debug, Clone, Copy)]
enum Reading {
    All,
    /// Waits so many milliseconds after each piece.
    Slowly(u64),
    /// Drops the response after so many milliseconds.
    DropAfter(u64),
    /// Drops the response after so many bytes.
    DropAt(usize),
}

#[derive(Debug, Clone)]
enum Step {
    Ask { upload: usize, told: bool, wrong: isize, plan: Plan, reading: Reading },
    Pass(u64),
    Shutdown,
    Cut,
}

#[derive(Debug, Clone)]
struct Setting {
    window: u32,
    server_window: u32,
    streams: u32,
    pipe: usize,
    /// The server makes no errors, so every correct request must succeed.
    is_faultless: bool,
}

/// What the server received of each request: its body, and whether it ended properly.
type Book = Arc<Mutex<HashMap<u64, (Vec<u8>, bool)>>>;

/// What a reader received.
#[derive(Debug)]
enum Got {
    Whole(Vec<u8>),
    Broken(Vec<u8>),
    Error,
    Nothing,
    Left,
}

/// The body of a request or its response, different for each id.
fn content(id: u64, length: usize) -> Vec<u8> {
    // The formula has a period of 2048 bytes.
    let period: Vec<u8> = (0..2048).map(|at: u64| (at.wrapping_mul(id * 2 + 1) >> 3) as u8 ^ id as u8).collect();
    let mut bytes = period.repeat(length.div_ceil(period.len()));
    bytes.truncate(length);
    bytes
}

fn plans() -> impl Strategy<Value = Plan> {
    let length = 0usize..150_000;
    prop_oneof![
        6 => length.clone().prop_map(Plan::Answer),
        1 => (prop_oneof![Just(200), Just(507)], length.clone()).prop_map(|(status, length)| Plan::Early(status, length)),
        1 => Just(Plan::Refuse),
        1 => Just(Plan::Reset),
        1 => length.clone().prop_map(Plan::Cut),
        1 => length.prop_map(Plan::WrongLength),
        1 => Just(Plan::Silence),
    ]
}

fn readings() -> impl Strategy<Value = Reading> {
    prop_oneof![
        5 => Just(Reading::All),
        1 => (0u64..5000).prop_map(Reading::Slowly),
        1 => (0u64..3).prop_map(Reading::DropAfter),
        1 => (0usize..100_000).prop_map(Reading::DropAt),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let upload = prop_oneof![Just(0usize), 0usize..150_000];
    let wrong = prop_oneof![8 => Just(0isize), 1 => 1isize..100, 1 => -100isize..0];
    let ask = (upload, any::<bool>(), wrong, plans(), readings())
        .prop_map(|(upload, told, wrong, plan, reading)| Step::Ask { upload, told, wrong, plan, reading });
    prop_oneof![
        20 => ask,
        4 => (0u64..20_000).prop_map(Step::Pass),
        1 => Just(Step::Shutdown),
        1 => Just(Step::Cut),
    ]
}

fn settings() -> impl Strategy<Value = Setting> {
    let pipe = prop_oneof![100usize..1000, 1000usize..100_000];
    (1_000u32..200_000, 100u32..200_000, 1u32..20, pipe, any::<bool>()).prop_map(
        |(window, server_window, streams, pipe, is_faultless)| Setting {
            window,
            server_window,
            streams,
            pipe,
            is_faultless,
        },
    )
}

impl Step {
    fn without_faults(self) -> Option<Self> {
        match self {
            Self::Ask { upload, told, wrong, reading, .. } => {
                Some(Self::Ask { upload, told, wrong, plan: Plan::Answer(upload / 3 * 2), reading })
            }
            Self::Pass(time) => Some(Self::Pass(time)),
            Self::Shutdown | Self::Cut => None,
        }
    }
}

async fn handle(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, book: Book, plans: Plans) {
    let id = request.uri().path()[1..].parse().unwrap();
    let plan = plans.with(|plans| plans[&id]);
    let read = async |body: RecvStream| {
        book.with(|book| assert!(book.insert(id, (Vec::new(), false)).is_none(), "{id} came twice"));
        let mut body = body;
        while let Some(Ok(data)) = body.data().await {
            let _ = body.flow_control().release_capacity(data.len());
            book.with(|book| book.get_mut(&id).unwrap().0.extend_from_slice(&data));
        }
        if body.trailers().await.is_ok() {
            book.with(|book| book.get_mut(&id).unwrap().1 = true);
        }
    };
    match plan {
        Plan::Answer(length) => {
            read(request.into_body()).await;
            answer(respond, 200, content(id, length)).await;
        }
        Plan::Early(status, length) => {
            answer(respond, status, content(id, length)).await;
            read(request.into_body()).await;
        }
        Plan::Refuse => respond.send_reset(h2::Reason::REFUSED_STREAM),
        Plan::Reset => respond.send_reset(h2::Reason::INTERNAL_ERROR),
        Plan::Cut(length) => {
            if let Ok(mut stream) = respond.send_response(Response::new(()), false) {
                pour(&mut stream, content(id, length).into(), false).await;
                stream.send_reset(h2::Reason::CANCEL);
            }
        }
        Plan::WrongLength(length) => {
            let head = Response::builder().header("content-length", length + 1).body(()).unwrap();
            if let Ok(mut stream) = respond.send_response(head, false) {
                pour(&mut stream, content(id, length).into(), true).await;
            }
        }
        Plan::Silence => std::future::pending().await,
    }
}

type Plans = Arc<Mutex<HashMap<u64, Plan>>>;

trait With<T> {
    fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R;
}

impl<T> With<T> for Arc<Mutex<T>> {
    fn with<R>(&self, look: impl FnOnce(&mut T) -> R) -> R {
        look(&mut self.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Serves until the test ends the connection.
async fn server(io: DuplexStream, setting: Setting, book: Book, plans: Plans, mut told: mpsc::UnboundedReceiver<Step>) {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(setting.server_window).max_concurrent_streams(setting.streams);
    let Ok(mut connection) = builder.handshake::<_, Bytes>(io).await else { return };
    let mut handlers = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => handlers.push(handle(request, respond, book.clone(), plans.clone())),
                _ => return,
            },
            Some(()) = handlers.next() => {}
            Some(step) = told.recv() => match step {
                Step::Shutdown => connection.graceful_shutdown(),
                _ => return,
            }
        }
    }
}

async fn read(reply: Reply, reading: Reading) -> Got {
    let reply = match reading {
        Reading::DropAfter(after) => match timeout(Duration::from_millis(after), reply).await {
            Ok(reply) => reply,
            Err(_) => return Got::Left,
        },
        _ => reply.await,
    };
    let mut body = match reply {
        Ok(Ok(head)) => head.into_body(),
        Ok(Err(_)) => return Got::Error,
        Err(_) => return Got::Nothing,
    };
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => all.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(_) => return Got::Broken(all),
        }
        match reading {
            Reading::Slowly(pause) => sleep(Duration::from_millis(pause)).await,
            Reading::DropAt(length) if all.len() > length => return Got::Left,
            _ => {}
        }
    }
    Got::Whole(all)
}

fn body(id: u64, upload: usize, told: bool, wrong: isize) -> Body {
    let length = told.then(|| upload.saturating_add_signed(wrong) as u64);
    Body::repeatable(length, move || {
        let pieces: Vec<_> =
            content(id, upload).chunks(10_000).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        Box::pin(stream::iter(pieces))
    })
}

/// A request of the test.
struct Asked {
    plan: Plan,
    upload: usize,
    /// Whether the body has its announced length.
    has_correct_length: bool,
    /// Whether the reader reads to the end.
    reads_all: bool,
    reader: tokio::task::JoinHandle<Got>,
}

async fn run_case(setting: Setting, steps: Vec<Step>) {
    let (near, far) = tokio::io::duplex(setting.pipe);
    let (book, plans) = (Book::default(), Plans::default());
    let (tell, told) = mpsc::unbounded_channel();
    let server = tokio::spawn(server(far, setting.clone(), book.clone(), plans.clone(), told));
    let windows = Http2Settings { stream_window: setting.window, connection_window: setting.window.max(65_535) };
    let mut client = Client::new(near, windows);
    let mut requests = HashMap::new();
    let steps =
        steps.into_iter().filter_map(|step| if setting.is_faultless { step.without_faults() } else { Some(step) });
    for step in steps {
        match step {
            Step::Ask { upload, told, wrong, plan, reading } => {
                let id = client.next + 1;
                if client.jobs.as_ref().unwrap().is_closed() {
                    break;
                }
                plans.with(|plans| plans.insert(id, plan));
                let reply = client.ask(put(&format!("/{id}"), body(id, upload, told, wrong)));
                let has_correct_length = !told || upload.saturating_add_signed(wrong) == upload;
                let reads_all = matches!(reading, Reading::All | Reading::Slowly(_));
                let reader = tokio::spawn(read(reply, reading));
                requests.insert(id, Asked { plan, upload, has_correct_length, reads_all, reader });
            }
            Step::Pass(time) => sleep(Duration::from_millis(time)).await,
            told => drop(tell.send(told)),
        }
    }
    let events = timeout(Duration::from_hours(1000), client.finish()).await.expect("the connection ends");
    let (mut fates, nothing_sent) = fates_of(events);
    // The book is complete once the server has ended.
    drop(tell);
    let _ = server.await;
    for (id, asked) in requests {
        let fate = fates.remove(&id).unwrap_or_default();
        let received = book.with(|book| book.remove(&id));
        assert!(!nothing_sent.contains(&id) || received.is_none(), "{id} was sent, but returned as not sent");
        check_outcome(id, asked, &fate, received, setting.is_faultless).await;
    }
    assert!(fates.is_empty(), "events for unknown jobs: {fates:?}");
}

/// The events of each job, and the jobs that were returned as not sent.
fn fates_of(events: Vec<ConnectionEvent>) -> (HashMap<u64, Vec<&'static str>>, Vec<u64>) {
    let mut fates = HashMap::<u64, Vec<&str>>::new();
    let mut nothing_sent = Vec::new();
    let mut returned = |job: Job, sent: Sent| {
        assert_eq!(job.sendings, u32::from(sent == Sent::Something));
        nothing_sent.extend((sent == Sent::Nothing).then_some(job.id.0));
        job.id.0
    };
    assert!(matches!(events.last(), Some(ConnectionEvent::Closed { .. })), "`Closed` is the last event");
    for report in events {
        let (job, fate) = match report {
            ConnectionEvent::Head { job, .. } => (job.0, "head"),
            ConnectionEvent::Done { job, .. } => (job.0, "done"),
            ConnectionEvent::Abandoned { job, .. } => (job.0, "abandoned"),
            ConnectionEvent::Returned { job, sent, .. } => (returned(*job, sent), "returned"),
            ConnectionEvent::Closed { unanswered, .. } => {
                for (job, sent) in unanswered {
                    fates.entry(returned(job, sent)).or_default().push("returned");
                }
                continue;
            }
            ConnectionEvent::Streams { .. }
            | ConnectionEvent::Draining { .. }
            | ConnectionEvent::Stalled { .. }
            | ConnectionEvent::ReaderLags { .. }
            | ConnectionEvent::Unmarked(_)
            | ConnectionEvent::Confirmed { .. } => continue,
        };
        fates.entry(job).or_default().push(fate);
    }
    (fates, nothing_sent)
}

/// Compares a job's events with what its reader got and what the server received.
async fn check_outcome(id: u64, asked: Asked, fate: &[&str], received: Option<(Vec<u8>, bool)>, is_faultless: bool) {
    let Asked { plan, upload, has_correct_length, reads_all, reader } = asked;
    let got = reader.await.unwrap();
    let case =
        format!("{id}, {plan:?}, upload {upload}, correct length {has_correct_length}: {fate:?}, got {got:.20?}");
    match (fate, &got) {
        (["returned"], Got::Nothing | Got::Left)
        | (["abandoned"], Got::Error | Got::Left)
        | (["head", "abandoned"] | ["head"], Got::Broken(_) | Got::Left)
        // A slow reader may leave, or reach the end, after the exchange is complete.
        | (["head", "done"], Got::Whole(_) | Got::Left)
        | (["head"], Got::Whole(_)) => {}
        _ => panic!("{case}"),
    }
    if is_faultless && reads_all {
        assert!(matches!(got, Got::Whole(_)) == has_correct_length, "{case}");
    }
    match (&got, plan) {
        (Got::Whole(whole), Plan::Answer(length) | Plan::Early(_, length)) => {
            assert!(*whole == content(id, length), "{case}");
        }
        (Got::Whole(_), _) => panic!("{case}"),
        (Got::Broken(begun), _) => assert!(content(id, 150_000).starts_with(begun), "{case}"),
        _ => {}
    }
    if let Some((body, whole)) = &received {
        assert!(content(id, upload).starts_with(body), "{case}");
        assert!(!whole || has_correct_length && body.len() == upload, "{case}");
    }
    if matches!((&got, plan), (Got::Whole(_), Plan::Answer(_))) {
        assert!(received.is_some_and(|(_, whole)| whole), "{case}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn every_job_has_one_outcome_and_bodies_are_not_mixed(
        setting in settings(),
        steps in prop::collection::vec(steps(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(run_case(setting, steps));
    }
}
