//! A connection to a server that behaves in some way: requests are read as they come, done in turn or side by side,
//! and answered in one order or another.
//!
//! A server that owes an answer it will not give closes the connection once nothing else happens on it: a client
//! would wait for its own patience to end, which says nothing and takes long.

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
    behaviour::{Asked, Order, Treatment},
    double::State,
    verbs::date,
    wire::{Answer, Request, close, parse},
};

/// After this time without anything a server closes that owes an answer.
const QUIET: Duration = Duration::from_millis(120);

/// What is done with a connection once a request is done.
enum Next {
    Write(Vec<u8>),
    /// Behind the next one.
    Hold(Vec<u8>),
    Owe,
    Reset,
}

type Work = Pin<Box<dyn Future<Output = (u64, Next)> + Send>>;

/// Requests in hand.
enum Hands {
    Ordered(FuturesOrdered<Work>),
    Free(FuturesUnordered<Work>),
}

impl Hands {
    fn push(&mut self, work: Work) {
        match self {
            Self::Ordered(hands) => hands.push_back(work),
            Self::Free(hands) => hands.push(work),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Ordered(hands) => hands.len(),
            Self::Free(hands) => hands.len(),
        }
    }

    async fn next(&mut self) -> Option<(u64, Next)> {
        match self {
            Self::Ordered(hands) => hands.next().await,
            Self::Free(hands) => hands.next().await,
        }
    }
}

pub(crate) async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let _ = stream.set_zero_linger();
    let _ = stream.set_nodelay(true);
    let _ = converse(&mut stream, &state).await;
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap()
}

async fn converse(stream: &mut TcpStream, state: &Arc<Mutex<State>>) -> io::Result<()> {
    let order = locked(state).order();
    let mut hands = match order {
        Order::AsDone => Hands::Free(FuturesUnordered::new()),
        Order::InTurn | Order::SideBySide => Hands::Ordered(FuturesOrdered::new()),
    };
    let (mut buffer, mut held, mut owes) = (BytesMut::new(), Vec::new(), false);
    let (mut number, mut answered, mut open) = (0, 0, true);
    loop {
        while let Some((request, body)) = parse(&mut buffer) {
            let pipelined = hands.len() > 0 || !buffer.is_empty();
            if order == Order::SideBySide && hands.len() > 0 {
                locked(state).struck += 1;
            }
            let work = begin(state, order, number, request, body.to_vec(), pipelined);
            hands.push(work);
            number += 1;
        }
        let busy = hands.len() > 0;
        if !open && !busy {
            return close(stream).await;
        }
        tokio::select! {
            read = stream.read_buf(&mut buffer), if open => open = read? > 0,
            Some((of, next)) = hands.next(), if busy => {
                if of != answered {
                    locked(state).struck += 1;
                }
                answered += 1;
                match next {
                    Next::Write(bytes) => {
                        stream.write_all(&bytes).await?;
                        stream.write_all(&std::mem::take(&mut held)).await?;
                    }
                    Next::Hold(bytes) => held.extend(bytes),
                    Next::Owe => owes = true,
                    Next::Reset => return Ok(()),
                }
            }
            () = sleep(QUIET), if !busy && (owes || !held.is_empty()) => {
                stream.write_all(&held).await?;
                return close(stream).await;
            }
        }
    }
}

/// Takes a request in hand.
fn begin(
    state: &Arc<Mutex<State>>,
    order: Order,
    number: u64,
    request: Request,
    body: Vec<u8>,
    pipelined: bool,
) -> Work {
    let (treatment, time) = locked(state).treat(&Asked { request: &request, pipelined });
    if order == Order::InTurn {
        let next = finish(state, &request, &body, treatment, pipelined);
        return Box::pin(async move { (number, next) });
    }
    let state = state.clone();
    Box::pin(async move {
        sleep(time).await;
        (number, finish(&state, &request, &body, treatment, pipelined))
    })
}

fn finish(state: &Mutex<State>, request: &Request, body: &[u8], treatment: Option<Treatment>, pipelined: bool) -> Next {
    let mut state = locked(state);
    let asked = Asked { request, pipelined };
    match treatment {
        Some(Treatment::Drop) => return Next::Owe,
        Some(Treatment::Answer(status, headers)) => {
            let mut answer = Answer::new(status).with("date", &date(state.now()));
            answer.add(&headers);
            return Next::Write(state.dress(&asked, answer));
        }
        _ => {}
    }
    let answer = state.answer(request, body);
    let bytes = state.dress(&asked, answer);
    match treatment {
        Some(Treatment::Forget) => Next::Owe,
        Some(Treatment::Swap) => Next::Hold(bytes),
        Some(Treatment::Repeat) => Next::Write([&bytes[..], &bytes].concat()),
        Some(Treatment::DoneAndReset) => Next::Reset,
        _ => Next::Write(bytes),
    }
}

impl State {
    fn order(&self) -> Order {
        let orders = self.behaviours.iter().map(|behaviour| behaviour.order());
        orders.max().unwrap_or(Order::InTurn)
    }

    /// What becomes of a request, and how long it takes.
    fn treat(&mut self, asked: &Asked<'_>) -> (Option<Treatment>, Duration) {
        let (mut treatment, mut time) = (None, Duration::ZERO);
        if self.armed {
            self.methods.insert(asked.method().to_owned());
            for behaviour in &mut self.behaviours {
                time += behaviour.work();
                treatment = treatment.or_else(|| behaviour.treat(asked));
            }
        }
        self.struck += u64::from(treatment.is_some());
        let line = format!(
            "{:?} {}{} {} {treatment:?}",
            self.begin.elapsed(),
            if asked.pipelined { "pipelined " } else { "" },
            asked.method(),
            asked.request.path
        );
        self.log.push(line);
        (treatment, time)
    }

    /// An answer as it is sent.
    fn dress(&mut self, asked: &Asked<'_>, mut answer: Answer) -> Vec<u8> {
        if answer.status == 207
            && self.armed
            && let Ok(whole) = str::from_utf8(&answer.body)
        {
            let changed = self.behaviours.iter_mut().find_map(|behaviour| behaviour.listing(whole));
            if let Some(changed) = changed {
                self.struck += 1;
                answer.body = changed.into();
            }
        }
        let length = answer.body.len();
        let mut named = None;
        if self.armed && answer.status == 200 {
            named = self.behaviours.iter().find_map(|behaviour| behaviour.length(asked, length));
        }
        self.struck += u64::from(named.is_some());
        let mut bytes = answer.head(named.unwrap_or(length));
        if asked.method() != "HEAD" {
            bytes.extend(answer.body);
        }
        bytes
    }
}
