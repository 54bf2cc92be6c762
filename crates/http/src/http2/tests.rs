//! The HTTP/2 connection against the servers of `h2` and `hyper`, and against single frames.

mod bodies;
mod model;
mod shutdown_and_reset;

mod timeouts;

use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream::FuturesUnordered;
use h2::{RecvStream, server::SendResponse};
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use tokio::{
    io::DuplexStream,
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::*;
use crate::{
    Body, Incoming, ResponseInfo,
    connection_messages::{JobId, Sent},
};

type Reply = oneshot::Receiver<Result<Response<Incoming>, Error>>;

/// The driver's side of a connection.
struct Client {
    jobs: Option<mpsc::UnboundedSender<Job>>,
    events: mpsc::UnboundedReceiver<ConnectionEvent>,
    task: JoinHandle<()>,
    next: u64,
}

impl Client {
    fn new(io: impl Io + 'static, settings: Http2Settings) -> Self {
        let (jobs, taken) = mpsc::unbounded_channel();
        let (reporter, events) = mpsc::unbounded_channel();
        let task = tokio::spawn(run(io, ConnectionId(7), settings, Timeouts::default(), taken, reporter));
        Self { jobs: Some(jobs), events, task, next: 0 }
    }

    /// A connection to a server that handles each request with this function.
    fn to<F: Future<Output = ()> + Send + 'static>(
        server: &h2::server::Builder,
        handler: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Clone + Send + 'static,
    ) -> Self {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(far, server.clone(), handler));
        Self::new(near, Http2Settings::default())
    }

    fn ask(&mut self, request: Request<Body>) -> Reply {
        let (reply, answer) = oneshot::channel();
        self.next += 1;
        let job = Job { id: JobId(self.next), request, reply, sendings: 0, is_follow_up: false, marks: None };
        self.jobs.as_ref().unwrap().send(job).unwrap();
        answer
    }

    /// Sends no more requests, and returns all events until the end.
    async fn finish(mut self) -> Vec<ConnectionEvent> {
        self.jobs = None;
        let mut events = Vec::new();
        while let Some(report) = self.events.recv().await {
            events.push(report);
        }
        self.task.await.unwrap();
        events
    }

    /// The next event for which this returns something.
    async fn report<T>(&mut self, see: impl Fn(ConnectionEvent) -> Option<T>) -> T {
        loop {
            if let Some(seen) = see(self.events.recv().await.expect("the connection ended before it")) {
                return seen;
            }
        }
    }
}

async fn serve<F: Future<Output = ()> + Send + 'static>(
    io: DuplexStream,
    server: h2::server::Builder,
    handler: impl Fn(Request<RecvStream>, SendResponse<Bytes>) -> F + Clone + Send + 'static,
) {
    let mut connection = server.handshake::<_, Bytes>(io).await.unwrap();
    let mut handlers = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => handlers.push(handler(request, respond)),
                _ => return,
            },
            Some(()) = handlers.next() => {}
        }
    }
}

fn get(path: &str) -> Request<Body> {
    Request::get(format!("http://files.example{path}")).body(Body::empty()).unwrap()
}

fn put(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::put(format!("http://files.example{path}")).body(body.into()).unwrap()
}

async fn text(answer: Result<Response<Incoming>, Error>) -> Bytes {
    answer.unwrap().into_body().collect().await.unwrap().to_bytes()
}

/// Fails a test that hangs: the clock is paused, so a day passes at once.
async fn bounded(test: impl Future<Output = ()>) {
    tokio::time::pause();
    timeout(Duration::from_hours(24), test).await.expect("this waits for ever");
}

/// The received request body, and how it ended.
async fn all(mut body: RecvStream) -> (Vec<u8>, Result<(), h2::Error>) {
    let mut all = Vec::new();
    while let Some(data) = body.data().await {
        let data = match data {
            Ok(data) => data,
            Err(error) => return (all, Err(error)),
        };
        all.extend_from_slice(&data);
        let _ = body.flow_control().release_capacity(data.len());
    }
    (all, Ok(()))
}

/// Sends a response header and, as the window allows, the body.
async fn answer(mut respond: SendResponse<Bytes>, status: u16, body: impl Into<Bytes>) {
    let body = body.into();
    let head = Response::builder().status(status).body(()).unwrap();
    if let Ok(mut stream) = respond.send_response(head, body.is_empty()) {
        pour(&mut stream, body, true).await;
    }
}

/// Sends as the window allows. Returns the number of bytes sent before the stream was reset.
async fn pour(stream: &mut h2::SendStream<Bytes>, mut body: Bytes, last: bool) -> usize {
    let whole = body.len();
    while !body.is_empty() {
        stream.reserve_capacity(body.len());
        let open = poll_fn(|context| match stream.capacity() {
            0 => stream.poll_capacity(context).map(|open| open.and_then(Result::ok)),
            open => Poll::Ready(Some(open)),
        });
        let Some(open) = open.await else { break };
        let piece = body.split_to(open.min(body.len()));
        if stream.send_data(piece, last && body.is_empty()).is_err() {
            break;
        }
    }
    whole - body.len()
}

#[tokio::test]
async fn requests_above_the_stream_limit_are_queued() {
    bounded(async {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let counts = (now.clone(), most.clone());
        let mut client = Client::to(h2::server::Builder::new().max_concurrent_streams(3), move |request, respond| {
            let (now, most) = counts.clone();
            async move {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::task::yield_now().await;
                now.fetch_sub(1, Ordering::SeqCst);
                answer(respond, 200, request.uri().path().to_owned()).await;
            }
        });
        text(client.ask(get("/first")).await.unwrap()).await;
        assert_eq!(
            client
                .report(|report| match report {
                    ConnectionEvent::Streams { limit, .. } => Some(limit),
                    _ => None,
                })
                .await,
            3
        );
        let replies: Vec<_> = (0..50).map(|number| client.ask(get(&format!("/{number}")))).collect();
        for (number, reply) in replies.into_iter().enumerate() {
            assert_eq!(text(reply.await.unwrap()).await, format!("/{number}"));
        }
        assert_eq!(most.load(Ordering::SeqCst), 3);
        let done = client.finish().await.iter().filter(|report| matches!(report, ConnectionEvent::Done { .. })).count();
        assert_eq!(done, 51);
    })
    .await;
}

#[tokio::test]
async fn response_info_is_set_and_early_hints_are_skipped() {
    bounded(async {
        let mut client = Client::to(&h2::server::Builder::new(), |_, mut respond| async move {
            for status in [100, 103] {
                respond.send_informational(Response::builder().status(status).body(()).unwrap()).unwrap();
            }
            answer(respond, 421, "elsewhere").await;
        });
        let head = client.ask(get("/")).await.unwrap().unwrap();
        assert_eq!((head.status(), head.version()), (StatusCode::MISDIRECTED_REQUEST, Version::HTTP_2));
        let info = ResponseInfo { connection: 7, version: Version::HTTP_2, sendings: 1, behind: 0 };
        assert_eq!(head.extensions().get(), Some(&info));
    })
    .await;
}

#[tokio::test]
async fn exchange_works_with_a_hyper_server() {
    bounded(async {
        let (near, far) = tokio::io::duplex(1 << 16);
        let echo = hyper::service::service_fn(|request: Request<hyper::body::Incoming>| async move {
            let told = request.headers().get("content-length").cloned();
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let mut response = Response::new(Full::new(body));
            response.headers_mut().extend(told.map(|told| (http::HeaderName::from_static("x-told"), told)));
            Ok::<_, Infallible>(response)
        });
        let server = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
            .serve_connection(hyper_util::rt::TokioIo::new(far), echo);
        let server = tokio::spawn(server);
        let mut client = Client::new(near, Http2Settings::default());
        let bodies: Vec<Bytes> = (0..20u8).map(|number| vec![number; usize::from(number) * 50_000].into()).collect();
        let replies: Vec<_> = bodies.iter().map(|body| client.ask(put("/", body.clone()))).collect();
        for (body, reply) in bodies.into_iter().zip(replies) {
            let head = reply.await.unwrap().unwrap();
            assert_eq!(head.headers()["x-told"].to_str().unwrap(), body.len().to_string());
            assert!(text(Ok(head)).await == body);
        }
        let events = client.finish().await;
        let moved = |report: &ConnectionEvent| match report {
            ConnectionEvent::Done { sent, received, .. } => Some((*sent, *received)),
            _ => None,
        };
        let mut moved: Vec<_> = events.iter().filter_map(moved).collect();
        moved.sort_unstable();
        assert_eq!(moved, (0..20).map(|number| (number * 50_000, number * 50_000)).collect::<Vec<_>>());
        assert!(matches!(events.last(), Some(ConnectionEvent::Closed { unanswered, .. }) if unanswered.is_empty()));
        server.await.unwrap().unwrap();
    })
    .await;
}
