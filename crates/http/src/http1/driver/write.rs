//! Writing requests, one body at a time.
//!
//! However large a chunk of a body is, no more than `WRITE_BUFFER` bytes of it are copied at once.

use std::{
    io,
    task::{Context, Poll, Waker},
};

use bytes::{BufMut, Bytes};
use futures_util::StreamExt;

use super::{Driver, InFlight, WRITE_BUFFER, head};
use crate::{
    Cause, Chunks, Class, Error, Options, RequestLine,
    connection_messages::{ConnectionEvent, Job},
    method::is_safe,
};

/// The body being written, of the youngest job in flight.
pub(super) struct Sending {
    pub(super) chunks: Chunks,
    /// Bytes left; none if the body is chunked.
    left: Option<u64>,
    /// A chunk that is not copied yet.
    pub(super) chunk: Bytes,
}

impl Driver {
    /// Starts as many jobs as the buffer allows.
    pub(super) fn start_waiting(&mut self) -> Result<(), Cause> {
        while self.output.body.is_none()
            && self.output.buffer.len() < WRITE_BUFFER
            && !self.is_draining
            && !self.exchanges.is_closing()
        {
            let Some(job) = self.waiting.pop_front() else { break };
            self.begin(job)?;
        }
        Ok(())
    }

    /// Starts to write a job.
    fn begin(&mut self, mut job: Job) -> Result<(), Cause> {
        if job.reply.is_closed() {
            let _ = self.channels.events.send(ConnectionEvent::Abandoned { connection: self.id, job: job.id });
            return Ok(());
        }
        let start = self.output.written + self.output.buffer.len() as u64;
        let asked = RequestLine::of(&job.request);
        let chunks = match job.request.body_mut().open() {
            Ok(chunks) => chunks,
            Err(error) => {
                let _ = job.reply.send(Err(Error::Sending { asked, source: error.into() }));
                let _ = self.channels.events.send(ConnectionEvent::Abandoned { connection: self.id, job: job.id });
                return Ok(());
            }
        };
        let length = job.request.body().length();
        head::write(&mut self.output.buffer, &job.request, length);
        self.io.repeatable(is_safe(job.request.method()));
        self.exchanges.ask(job.id, &job.request, job.marks, job.is_follow_up);
        let options = job.request.extensions().get::<Options>();
        let timeouts = options.and_then(|options| options.timeouts).unwrap_or(self.timeouts);
        let is_part = options.is_some_and(|options| options.class == Class::Part);
        let end = (length == Some(0)).then(|| self.output.written + self.output.buffer.len() as u64);
        let behind = self.in_flight.len() as u32;
        let (id, is_follow_up) = (job.id, job.is_follow_up);
        let job = Some(job);
        self.in_flight.push_back(InFlight { id, asked, timeouts, job, start, end, behind, is_follow_up, is_part });
        if end.is_none() {
            self.output.body = Some(Sending { chunks, left: length, chunk: Bytes::new() });
            // A body in memory is written together with its header.
            while let Some(sending) = &mut self.output.body
                && sending.chunk.is_empty()
                && self.output.buffer.len() < WRITE_BUFFER
                && let Poll::Ready(chunk) = sending.chunks.poll_next_unpin(&mut Context::from_waker(Waker::noop()))
            {
                self.take_chunk(chunk)?;
            }
        }
        Ok(())
    }

    /// Takes the next chunk of the body.
    pub(super) fn take_chunk(&mut self, chunk: Option<io::Result<Bytes>>) -> Result<(), Cause> {
        let Some(sending) = &mut self.output.body else { return Ok(()) };
        match (chunk, sending.left) {
            (Some(Ok(chunk)), left) if left.is_none_or(|left| chunk.len() as u64 <= left) => {
                sending.chunk = chunk;
                self.copy_body();
            }
            (None, None) => {
                self.output.buffer.put_slice(b"0\r\n\r\n");
                self.body_copied();
            }
            (Some(Ok(_)), _) => return Err(self.body_failed(&io::Error::other("it is longer than announced"))),
            (None, Some(left)) => {
                return Err(self.body_failed(&io::Error::other(format!("it is {left} bytes shorter than announced"))));
            }
            (Some(Err(error)), _) => return Err(self.body_failed(&error)),
        }
        Ok(())
    }

    /// Copies as much of the body as there is room for.
    pub(super) fn copy_body(&mut self) {
        while let Some(sending) = &mut self.output.body
            && !sending.chunk.is_empty()
            && self.output.buffer.len() < WRITE_BUFFER
        {
            let piece = sending.chunk.split_to(sending.chunk.len().min(WRITE_BUFFER));
            if let Some(left) = &mut sending.left {
                *left -= piece.len() as u64;
                self.output.buffer.put_slice(&piece);
                if *left == 0 {
                    self.body_copied();
                }
            } else {
                self.output.buffer.put_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                self.output.buffer.put_slice(&piece);
                self.output.buffer.put_slice(b"\r\n");
            }
        }
    }

    fn body_copied(&mut self) {
        self.output.body = None;
        if let Some(last) = self.in_flight.back_mut() {
            last.end = Some(self.output.written + self.output.buffer.len() as u64);
        }
    }

    /// The body failed: so does its request, and the connection with it.
    fn body_failed(&mut self, error: &io::Error) -> Cause {
        if let Some(last) = self.in_flight.back_mut()
            && let Some(job) = last.job.take()
        {
            let source = io::Error::new(error.kind(), error.to_string()).into();
            let _ = job.reply.send(Err(Error::Sending { asked: last.asked.clone(), source }));
            let _ = self.channels.events.send(ConnectionEvent::Abandoned { connection: self.id, job: last.id });
            self.in_flight.pop_back();
        }
        Cause::Retired("the request body could not be read")
    }
}
