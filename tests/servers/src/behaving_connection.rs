//! A connection of a server with behaviours: it processes requests one by one or concurrently, and answers them in the
//! order that the behaviours demand.
//!
//! A server that response_missing a response that it will never send closes the connection when it is idle: otherwise
//! the client would wait for its timeout, which tests nothing more.

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use bytes::BytesMut;
use futures_util::{
    StreamExt,
    stream::{FuturesOrdered, FuturesUnordered},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

use crate::{
    behaviour::{Action, IncomingRequest, Order},
    double::State,
    message::{Request, Response, parse},
    scripted_connection::close,
    verbs::date,
};

/// The idle time after which a connection with an unsent response is closed.
const IDLE_TIMEOUT: Duration = Duration::from_millis(120);

/// What happens on the connection once a request is processed.
enum Outcome {
    Write(Vec<u8>),
    /// Sent after the next response.
    Delay(Vec<u8>),
    NoResponse,
    Reset,
}

type Work = Pin<Box<dyn Future<Output = (u64, Outcome)> + Send>>;

/// Requests being processed.
enum InProgress {
    Ordered(FuturesOrdered<Work>),
    Unordered(FuturesUnordered<Work>),
}

impl InProgress {
    fn push(&mut self, work: Work) {
        match self {
            Self::Ordered(in_progress) => in_progress.push_back(work),
            Self::Unordered(in_progress) => in_progress.push(work),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Ordered(in_progress) => in_progress.len(),
            Self::Unordered(in_progress) => in_progress.len(),
        }
    }

    async fn next(&mut self) -> Option<(u64, Outcome)> {
        match self {
            Self::Ordered(in_progress) => in_progress.next().await,
            Self::Unordered(in_progress) => in_progress.next().await,
        }
    }
}

pub(crate) async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let _ = stream.set_zero_linger();
    let _ = stream.set_nodelay(true);
    let _ = serve_requests(&mut stream, &state).await;
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

async fn serve_requests(stream: &mut TcpStream, state: &Arc<Mutex<State>>) -> io::Result<()> {
    let order = locked(state).order();
    let mut in_progress = match order {
        Order::AsCompleted => InProgress::Unordered(FuturesUnordered::new()),
        Order::Sequential | Order::ConcurrentInOrder => InProgress::Ordered(FuturesOrdered::new()),
    };
    let (mut buffer, mut delayed, mut response_missing) = (BytesMut::new(), Vec::new(), false);
    let (mut number, mut answered, mut open) = (0, 0, true);
    loop {
        while let Some((request, body)) = parse(&mut buffer) {
            let pipelined = in_progress.len() > 0 || !buffer.is_empty();
            if order == Order::ConcurrentInOrder && in_progress.len() > 0 {
                locked(state).effect_count += 1;
            }
            let work = begin(state, order, number, request, body.to_vec(), pipelined);
            in_progress.push(work);
            number += 1;
        }
        let busy = in_progress.len() > 0;
        if !open && !busy {
            return close(stream).await;
        }
        tokio::select! {
            read = stream.read_buf(&mut buffer), if open => open = read? > 0,
            Some((of, next)) = in_progress.next(), if busy => {
                if of != answered {
                    locked(state).effect_count += 1;
                }
                answered += 1;
                match next {
                    Outcome::Write(bytes) => {
                        stream.write_all(&bytes).await?;
                        stream.write_all(&std::mem::take(&mut delayed)).await?;
                    }
                    Outcome::Delay(bytes) => delayed.extend(bytes),
                    Outcome::NoResponse => response_missing = true,
                    Outcome::Reset => return Ok(()),
                }
            }
            () = sleep(IDLE_TIMEOUT), if !busy && (response_missing || !delayed.is_empty()) => {
                stream.write_all(&delayed).await?;
                return close(stream).await;
            }
        }
    }
}

/// Starts to process a request.
fn begin(
    state: &Arc<Mutex<State>>,
    order: Order,
    number: u64,
    request: Request,
    body: Vec<u8>,
    pipelined: bool,
) -> Work {
    let (action, time) = locked(state).action(&IncomingRequest { request: &request, pipelined });
    if order == Order::Sequential {
        let next = finish(state, &request, &body, action, pipelined);
        return Box::pin(async move { (number, next) });
    }
    let state = state.clone();
    Box::pin(async move {
        sleep(time).await;
        (number, finish(&state, &request, &body, action, pipelined))
    })
}

fn finish(state: &Mutex<State>, request: &Request, body: &[u8], action: Option<Action>, pipelined: bool) -> Outcome {
    let mut state = locked(state);
    let asked = IncomingRequest { request, pipelined };
    match action {
        Some(Action::DropRequest) => return Outcome::NoResponse,
        Some(Action::Respond(status, headers)) => {
            let mut answer = Response::new(status).with("date", &date(state.now()));
            answer.add(&headers);
            return Outcome::Write(state.serialize(&asked, answer));
        }
        _ => {}
    }
    let answer = state.answer(request, body);
    let bytes = state.serialize(&asked, answer);
    match action {
        Some(Action::OmitResponse) => Outcome::NoResponse,
        Some(Action::SwapResponses) => Outcome::Delay(bytes),
        Some(Action::RepeatResponse) => Outcome::Write([&bytes[..], &bytes].concat()),
        Some(Action::ResetAfterProcessing) => Outcome::Reset,
        _ => Outcome::Write(bytes),
    }
}

impl State {
    fn order(&self) -> Order {
        let orders = self.behaviours.iter().map(|behaviour| behaviour.order());
        orders.max().unwrap_or(Order::Sequential)
    }

    /// What happens to a request, and how long it takes.
    fn action(&mut self, asked: &IncomingRequest<'_>) -> (Option<Action>, Duration) {
        let (mut action, mut time) = (None, Duration::ZERO);
        if self.armed {
            self.methods.insert(asked.method().to_owned());
            for behaviour in &mut self.behaviours {
                time += behaviour.processing_time();
                action = action.or_else(|| behaviour.action(asked));
            }
        }
        self.effect_count += u64::from(action.is_some());
        let line = format!(
            "{:?} {}{} {} {action:?}",
            self.begin.elapsed(),
            if asked.pipelined { "pipelined " } else { "" },
            asked.method(),
            asked.request.path
        );
        self.log.push(line);
        (action, time)
    }

    /// Serializes a response, altered by the behaviours.
    fn serialize(&mut self, asked: &IncomingRequest<'_>, mut answer: Response) -> Vec<u8> {
        if answer.status == 207
            && self.armed
            && let Ok(whole) = str::from_utf8(&answer.body)
        {
            let changed = self.behaviours.iter_mut().find_map(|behaviour| behaviour.alter_listing(whole));
            if let Some(changed) = changed {
                self.effect_count += 1;
                answer.body = changed.into();
            }
        }
        let length = answer.body.len();
        let mut named = None;
        if self.armed && answer.status == 200 {
            named = self.behaviours.iter().find_map(|behaviour| behaviour.content_length(asked, length));
        }
        self.effect_count += u64::from(named.is_some());
        let mut bytes = answer.head(named.unwrap_or(length));
        if asked.method() != "HEAD" {
            bytes.extend(answer.body);
        }
        bytes
    }
}
