//! Moves the bytes of one HTTP/1.1 connection, both ways at once.
//!
//! Answers must be read while requests are written: a server that cannot get rid of its answers stops reading, and
//! both ends wait for each other. Hence one task and one place, `step`, where it waits for whatever comes first.
//! The reader of an answer sets its pace: while it lags, nothing is read from the network, and TCP's window tells
//! the server.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use http::Response;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    sync::mpsc,
    time::{Instant, Sleep, timeout},
};
use tokio_util::{io::poll_read_buf, sync::PollSender};

use super::{
    exchange::{Event, Exchanges, LAST_WORD},
    head,
};
use crate::{
    Asked, Cause, Chunks, Error, Incoming, Journey, Step as Wait, Timeouts,
    body::Piece,
    connect::Io,
    method::is_safe,
    pool::Window,
    wire::{ConnectionId, Job, JobId, MOVEMENT, Report, Sent, Told},
};

/// How far the writing of bodies may run ahead of the network, beside the kernel's own buffer.
const AHEAD: usize = 128 * 1024;
/// How much is read from the network at once.
const READ: usize = 64 * 1024;
/// How many pieces a reader may lag behind.
const LAG: usize = 4;
/// An unwanted body up to this length is read to its end, to keep the connection.
const SMALL_WASTE: u64 = 64 * 1024;

/// Serves `jobs` on a connection until it ends, and says how it ended.
pub(crate) async fn run(
    io: Box<dyn Io>,
    id: ConnectionId,
    timeouts: Timeouts,
    jobs: mpsc::UnboundedReceiver<Job>,
    reports: mpsc::UnboundedSender<Report>,
) {
    let now = Instant::now();
    let mut driver = Driver {
        io,
        id,
        timeouts,
        jobs: Some(jobs),
        reports,
        exchanges: Exchanges::default(),
        waiting: VecDeque::new(),
        under_way: VecDeque::new(),
        sending: None,
        out: BytesMut::new(),
        written: 0,
        unflushed: false,
        acknowledged: 0,
        reader: Reader::None,
        moved: now,
        crumbs: MOVEMENT,
        alarm: Box::pin(tokio::time::sleep_until(now)),
    };
    let cause = driver.serve().await;
    driver.end(cause).await;
}

struct Driver {
    io: Box<dyn Io>,
    id: ConnectionId,
    timeouts: Timeouts,
    /// None once no more will come.
    jobs: Option<mpsc::UnboundedReceiver<Job>>,
    reports: mpsc::UnboundedSender<Report>,
    exchanges: Exchanges,
    /// Jobs that are not begun.
    waiting: VecDeque<Job>,
    /// Those that are, the oldest first; the same as in `exchanges`.
    under_way: VecDeque<UnderWay>,
    sending: Option<Sending>,
    out: BytesMut,
    /// Bytes that the network has taken since the connection began.
    written: u64,
    unflushed: bool,
    /// Bytes that the server's kernel had when that was last asked.
    acknowledged: u64,
    reader: Reader,
    /// When a byte last moved, or a wait began.
    moved: Instant,
    /// Bytes of an answer that came since they last counted; an answer's first one counts.
    crumbs: usize,
    alarm: Pin<Box<Sleep>>,
}

/// A job that has begun.
struct UnderWay {
    id: JobId,
    asked: Asked,
    timeouts: Timeouts,
    /// None once its answer has begun.
    job: Option<Job>,
    /// Where its first byte stands among all that are written.
    start: u64,
    /// Where its last byte ends, once that is known.
    end: Option<u64>,
    behind: u32,
}

/// The body being written: that of the youngest job under way.
struct Sending {
    chunks: Chunks,
    /// Bytes to come, or none if the length is told by chunks.
    left: Option<u64>,
}

/// Where the current answer's body goes.
enum Reader {
    None,
    /// To somebody, who has no room yet for the piece.
    Somebody(PollSender<Piece>, Option<Piece>),
    /// Nowhere: nobody waits for it any more.
    Nobody,
}

/// What came first.
enum Step {
    Wrote(usize),
    Read(usize),
    Room,
    Chunk(Option<io::Result<Bytes>>),
    Job(Option<Box<Job>>),
    Unwanted,
    Late,
}

impl Driver {
    /// Works until the connection can do no more, and says why.
    async fn serve(&mut self) -> Cause {
        loop {
            if let Err(cause) = self.hand_on() {
                return cause;
            }
            if self.sending.is_none() && self.out.len() < AHEAD && !self.exchanges.is_closing() {
                while self.sending.is_none() && self.out.len() < AHEAD {
                    let Some(job) = self.waiting.pop_front() else { break };
                    if let Err(cause) = self.begin(job) {
                        return cause;
                    }
                }
            }
            if self.under_way.is_empty() && self.exchanges.is_closing() {
                return Cause::Retired(LAST_WORD);
            }
            let done = self.under_way.is_empty() && self.waiting.is_empty();
            if done && self.jobs.is_none() {
                let _ = timeout(self.timeouts.stall, self.io.shutdown()).await;
                return Cause::Retired("it is no longer needed");
            }
            if let Some((at, _)) = self.deadline() {
                self.alarm.as_mut().reset(at);
            }
            let step = match poll_fn(|context| self.step(context)).await {
                Ok(step) => step,
                Err(error) => return self.last_words().err().unwrap_or_else(|| error.into()),
            };
            if let Err(cause) = self.take(step) {
                return cause;
            }
        }
    }

    /// Acts on what came.
    fn take(&mut self, step: Step) -> Result<(), Cause> {
        match step {
            Step::Wrote(bytes) => {
                self.out.advance(bytes);
                self.written += bytes as u64;
                self.moved = Instant::now();
            }
            Step::Read(0) => {
                let event = self.exchanges.end_of_input()?;
                self.take_event(event)?;
                return Err(Cause::Retired("the server closed it"));
            }
            Step::Read(bytes) => {
                self.crumbs += bytes;
                if self.crumbs >= MOVEMENT {
                    (self.moved, self.crumbs) = (Instant::now(), 0);
                }
            }
            // The wait for the reader was not the server's.
            Step::Room => self.moved = Instant::now(),
            Step::Chunk(chunk) => self.put(chunk)?,
            Step::Job(None) => self.jobs = None,
            Step::Job(Some(job)) => {
                if self.under_way.is_empty() {
                    self.moved = Instant::now();
                }
                self.waiting.push_back(*job);
            }
            Step::Unwanted => return Err(Cause::Retired("nobody waits for its answer any more")),
            Step::Late => {
                if let Some((at, cause)) = self.deadline()
                    && at <= Instant::now()
                {
                    // What the kernel took long ago may still be on its way, on a slow link.
                    let acknowledged = self.io.tcp_info().and_then(|tcp| tcp.bytes_acked).unwrap_or(0);
                    if acknowledged <= self.acknowledged {
                        return Err(cause);
                    }
                    (self.acknowledged, self.moved) = (acknowledged, Instant::now());
                }
            }
        }
        Ok(())
    }

    /// Hands on what came before the connection failed. A server that refuses a body before it has come whole
    /// answers and hangs up: then writing fails while the answer that says why waits to be read.
    fn last_words(&mut self) -> Result<(), Cause> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        while !matches!(self.reader, Reader::Somebody(_, Some(_)))
            && let Poll::Ready(Ok(1..)) = self.poll_read(&mut context)
        {
            self.hand_on()?;
        }
        Ok(())
    }

    /// Hands on what came in, as far as readers have room.
    fn hand_on(&mut self) -> Result<(), Cause> {
        while !matches!(self.reader, Reader::Somebody(_, Some(_))) {
            let Some(event) = self.exchanges.next()? else { break };
            self.take_event(event)?;
        }
        Ok(())
    }

    fn take_event(&mut self, event: Event) -> Result<(), Cause> {
        match event {
            Event::Head { job, response, length } => self.answer(job, response, length)?,
            // A small piece must not keep the whole of the buffer it came in alive.
            Event::Data(bytes) if bytes.len() < READ / 4 => {
                self.read_piece(Piece::Data(Bytes::copy_from_slice(&bytes)))?;
            }
            Event::Data(bytes) => self.read_piece(Piece::Data(bytes))?,
            Event::Trailers(trailers) => self.read_piece(Piece::Trailers(trailers))?,
            Event::End { job, received } => {
                self.read_piece(Piece::End)?;
                self.done(job, received)?;
            }
        }
        Ok(())
    }

    /// Gives the oldest job its answer's head.
    fn answer(&mut self, id: JobId, mut response: Response<()>, length: Option<u64>) -> Result<(), Cause> {
        let (written, last) = (self.written, self.exchanges.is_closing());
        let Some(first) = self.under_way.front_mut() else { return Ok(()) };
        // A refusal may come early. A success cannot: it is another request's.
        let whole = first.end.is_some_and(|end| end <= written);
        if first.start >= written || (response.status().is_success() && !whole) {
            return Err(Cause::Protocol("an answer came before its request was sent".into()));
        }
        let Some(job) = first.job.take() else { return Ok(()) };
        let version = response.version();
        let told = Told { version, length, keep: head::keep(response.headers()), last };
        let sendings = job.sendings + 1;
        let journey = Journey { connection: self.id.0, version, sendings, behind: first.behind };
        response.extensions_mut().insert(journey);
        let (sender, body) = Incoming::channel(length, LAG);
        self.reader = match job.reply.send(Ok(response.map(|()| body))) {
            Ok(()) => Reader::Somebody(PollSender::new(sender), None),
            Err(_) => Reader::Nobody,
        };
        self.check_waste()?;
        let _ = self.reports.send(Report::Head { connection: self.id, job: id, told });
        Ok(())
    }

    /// An answer that nobody reads is read to its end only if that is near.
    fn check_waste(&self) -> Result<(), Cause> {
        let far = self.exchanges.left().is_none_or(|left| left > SMALL_WASTE);
        if matches!(self.reader, Reader::Nobody) && far {
            return Err(Cause::Retired("nobody reads its answer any more"));
        }
        Ok(())
    }

    /// Gives a piece to the reader, or keeps it until there is room.
    fn read_piece(&mut self, piece: Piece) -> Result<(), Cause> {
        if let Reader::Somebody(sender, waiting) = &mut self.reader {
            *waiting = Some(piece);
            // Without a task to wake: whether there is room is asked again where the driver waits.
            let waker = std::task::Waker::noop();
            if let Poll::Ready(found) = give(sender, waiting, &mut Context::from_waker(waker)) {
                self.reader_has(found)?;
            }
        }
        Ok(())
    }

    fn reader_has(&mut self, room: bool) -> Result<(), Cause> {
        if !room {
            self.reader = Reader::Nobody;
            self.check_waste()?;
        }
        Ok(())
    }

    /// An exchange has ended.
    fn done(&mut self, job: JobId, received: u64) -> Result<(), Cause> {
        let Some(first) = self.under_way.pop_front() else { return Ok(()) };
        let Some(end) = first.end else {
            // Answered before it was sent whole: an error, as a rule, and the rest not worth its time.
            return Err(Cause::Retired("the server answered before the request was sent whole"));
        };
        (self.moved, self.crumbs) = (Instant::now(), MOVEMENT);
        let (connection, sent) = (self.id, end - first.start);
        let window = Window::of(&*self.io);
        let _ = self.reports.send(Report::Done { connection, job, sent, received, window });
        Ok(())
    }

    /// Begins to write a job.
    fn begin(&mut self, mut job: Job) -> Result<(), Cause> {
        if job.reply.is_closed() {
            let _ = self.reports.send(Report::Abandoned { connection: self.id, job: job.id });
            return Ok(());
        }
        let start = self.written + self.out.len() as u64;
        let asked = Asked::of(&job.request);
        let chunks = match job.request.body_mut().open() {
            Ok(chunks) => chunks,
            Err(error) => {
                let _ = job.reply.send(Err(Error::Sending { asked, source: error.into() }));
                let _ = self.reports.send(Report::Abandoned { connection: self.id, job: job.id });
                return Ok(());
            }
        };
        let length = job.request.body().length();
        head::write(&mut self.out, &job.request, length);
        self.exchanges.ask(job.id, &job.request);
        let timeouts = job.request.extensions().get::<crate::Options>().and_then(|options| options.timeouts);
        let timeouts = timeouts.unwrap_or(self.timeouts);
        let end = (length == Some(0)).then(|| self.written + self.out.len() as u64);
        let behind = self.under_way.len() as u32;
        self.under_way.push_back(UnderWay { id: job.id, asked, timeouts, job: Some(job), start, end, behind });
        if end.is_none() {
            self.sending = Some(Sending { chunks, left: length });
            // What is in memory is sent in the same breath as its head.
            while let Some(sending) = &mut self.sending
                && self.out.len() < AHEAD
                && let Poll::Ready(chunk) =
                    sending.chunks.poll_next_unpin(&mut Context::from_waker(std::task::Waker::noop()))
            {
                self.put(chunk)?;
            }
        }
        Ok(())
    }

    /// Puts the next piece of a body behind what is to be written.
    fn put(&mut self, chunk: Option<io::Result<Bytes>>) -> Result<(), Cause> {
        let Some(sending) = &mut self.sending else { return Ok(()) };
        match (chunk, sending.left) {
            (Some(Ok(chunk)), None) if chunk.is_empty() => {}
            (Some(Ok(chunk)), None) => {
                self.out.put_slice(format!("{:x}\r\n", chunk.len()).as_bytes());
                self.out.put_slice(&chunk);
                self.out.put_slice(b"\r\n");
            }
            (Some(Ok(chunk)), Some(left)) if chunk.len() as u64 <= left => {
                self.out.put_slice(&chunk);
                sending.left = Some(left - chunk.len() as u64);
                if sending.left == Some(0) {
                    self.sent();
                }
            }
            (None, None) => {
                self.out.put_slice(b"0\r\n\r\n");
                self.sent();
            }
            (Some(Ok(_)), Some(_)) => return Err(self.spoilt(&io::Error::other("it is longer than it said"))),
            (None, Some(left)) => {
                return Err(self.spoilt(&io::Error::other(format!("it is {left} bytes shorter than it said"))));
            }
            (Some(Err(error)), _) => return Err(self.spoilt(&error)),
        }
        Ok(())
    }

    fn sent(&mut self) {
        self.sending = None;
        if let Some(last) = self.under_way.back_mut() {
            last.end = Some(self.written + self.out.len() as u64);
        }
    }

    /// A body went wrong amid its request: that request has failed, and the connection with it.
    fn spoilt(&mut self, error: &io::Error) -> Cause {
        if let Some(last) = self.under_way.back_mut()
            && let Some(job) = last.job.take()
        {
            let source = io::Error::new(error.kind(), error.to_string()).into();
            let _ = job.reply.send(Err(Error::Sending { asked: last.asked.clone(), source }));
            let _ = self.reports.send(Report::Abandoned { connection: self.id, job: last.id });
            self.under_way.pop_back();
        }
        Cause::Retired("what was to be sent could not be read")
    }

    /// When to give up, and as what.
    fn deadline(&self) -> Option<(Instant, Cause)> {
        let timed_out = |wait, after| Some((self.moved + after, Cause::TimedOut(wait, after)));
        let first = self.under_way.front()?;
        let (first, in_company) = (&first.timeouts, self.under_way.len() > 1 || first.behind > 0);
        let unwritten = !self.out.is_empty() || self.unflushed;
        if matches!(self.reader, Reader::Somebody(_, Some(_))) {
            // The reader takes its time; only what is written can be late.
            return if unwritten { timed_out(Wait::Send, first.stall) } else { None };
        }
        if self.exchanges.is_answering() {
            timed_out(Wait::Receive, first.stall)
        } else if unwritten || self.sending.is_some() {
            timed_out(Wait::Send, first.stall)
        } else if in_company {
            timed_out(Wait::FirstByte, first.pipelined.min(first.first_byte))
        } else {
            timed_out(Wait::FirstByte, first.first_byte)
        }
    }

    /// Waits for what comes first.
    fn step(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Step>> {
        if !self.out.is_empty() {
            if let Poll::Ready(wrote) = Pin::new(&mut self.io).poll_write(context, &self.out) {
                self.unflushed = true;
                return Poll::Ready(match wrote? {
                    0 => Err(io::ErrorKind::WriteZero.into()),
                    bytes => Ok(Step::Wrote(bytes)),
                });
            }
        } else if self.unflushed
            && let Poll::Ready(flushed) = Pin::new(&mut self.io).poll_flush(context)
        {
            flushed?;
            self.unflushed = false;
        }
        let mut may_read = true;
        if let Reader::Somebody(sender, waiting @ Some(_)) = &mut self.reader {
            may_read = false;
            if let Poll::Ready(room) = give(sender, waiting, context) {
                return Poll::Ready(match self.reader_has(room) {
                    Ok(()) => Ok(Step::Room),
                    Err(_) => Ok(Step::Unwanted),
                });
            }
        }
        if may_read && let Poll::Ready(read) = self.poll_read(context) {
            return Poll::Ready(Ok(Step::Read(read?)));
        }
        if self.out.len() < AHEAD
            && let Some(sending) = &mut self.sending
            && let Poll::Ready(chunk) = sending.chunks.poll_next_unpin(context)
        {
            return Poll::Ready(Ok(Step::Chunk(chunk)));
        }
        if let Some(jobs) = &mut self.jobs
            && let Poll::Ready(job) = jobs.poll_recv(context)
        {
            return Poll::Ready(Ok(Step::Job(job.map(Box::new))));
        }
        // What changes something and has left whole is done there in any case: then its end is waited for, so that
        // whoever undoes it knows when.
        let written = self.written;
        if let [UnderWay { job: Some(job), asked, end, .. }] = self.under_way.make_contiguous()
            && (is_safe(asked.method()) || end.is_none_or(|end| end > written))
            && job.reply.poll_closed(context).is_ready()
        {
            return Poll::Ready(Ok(Step::Unwanted));
        }
        if self.deadline().is_some() {
            ready!(self.alarm.as_mut().poll(context));
            return Poll::Ready(Ok(Step::Late));
        }
        Poll::Pending
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let buffer = self.exchanges.buffer();
        buffer.reserve(READ);
        poll_read_buf(Pin::new(&mut self.io), context, buffer)
    }

    /// Gives every job back that got no answer, and tells the reader of an answer that it is cut.
    async fn end(mut self, cause: Cause) {
        let mut unanswered = Vec::new();
        let mut cut = None;
        for under_way in self.under_way.drain(..) {
            match under_way.job {
                Some(mut job) => {
                    let sent = if under_way.start < self.written { Sent::Something } else { Sent::Nothing };
                    job.sendings += u32::from(sent == Sent::Something);
                    unanswered.push((job, sent));
                }
                None => cut = Some(under_way.asked),
            }
        }
        let mut never = Vec::from(std::mem::take(&mut self.waiting));
        if let Some(mut jobs) = self.jobs.take() {
            jobs.close();
            while let Ok(job) = jobs.try_recv() {
                never.push(job);
            }
        }
        unanswered.extend(never.into_iter().map(|job| (job, Sent::Nothing)));
        let _ = self.reports.send(Report::Closed { connection: self.id, cause: cause.clone(), unanswered });
        if let Reader::Somebody(sender, waiting) = self.reader
            && let Some(sender) = sender.get_ref()
        {
            let failed = cut.map(|asked| Piece::Failed(Error::Exchange { asked, cause }));
            for piece in waiting.into_iter().chain(failed) {
                let _ = timeout(self.timeouts.stall, sender.send(piece)).await;
            }
        }
    }
}

/// Gives the waiting piece to the reader: whether there is still one, once it has room.
fn give(sender: &mut PollSender<Piece>, waiting: &mut Option<Piece>, context: &mut Context<'_>) -> Poll<bool> {
    let reserved = ready!(sender.poll_reserve(context));
    let piece = waiting.take();
    Poll::Ready(match (reserved, piece) {
        (Ok(()), Some(piece)) => sender.send_item(piece).is_ok(),
        (Ok(()), None) => true,
        (Err(_), _) => false,
    })
}
