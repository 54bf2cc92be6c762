//! The receiving half of an exchange: the response is delivered as fast as its reader takes it.
//!
//! The window is extended for bytes that the reader has taken, not for bytes received, so a stream never holds more
//! than its window in memory. The pieces left in the reader's channel show how far the reader is.

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::Pin,
    task::Poll,
};

use bytes::Bytes;
use h2::{FlowControl, RecvStream, client::ResponseFuture};
use http::{Response, header};
use tokio::sync::mpsc;

use crate::{
    Incoming,
    body::Piece,
    connection_messages::MAX_INTERIM,
    streams::{
        self,
        stall_timer::{Receiving, StallTimer},
    },
};

/// Why a response is incomplete.
pub(super) type Unreceived = streams::Unreceived<h2::Error>;

/// Waits for the final response header. Interim responses (RFC 9110 §15.2) count as progress.
pub(super) async fn head(
    response: &mut ResponseFuture,
    timer: &StallTimer,
) -> Result<Response<RecvStream>, Unreceived> {
    timer.receiving(Receiving::Head);
    let mut interim = 0;
    let head = poll_fn(|context| {
        while let Poll::Ready(Some(Ok(_))) = response.poll_informational(context) {
            timer.record_progress();
            interim += 1;
            if interim > MAX_INTERIM {
                return Poll::Ready(Err(Unreceived::Noise));
            }
        }
        Pin::new(&mut *response).poll(context).map_err(Unreceived::Failed)
    });
    let head = head.await?;
    timer.record_progress();
    Ok(head)
}

/// A body for the reader, and the sender of its pieces. The channel holds at most half a window.
pub(super) fn channel(head: &Response<RecvStream>, window: u32) -> (mpsc::Sender<Piece>, Incoming) {
    const FRAME: u32 = 16 * 1024;
    let length = if head.body().is_end_stream() {
        Some(0)
    } else {
        head.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok())
    };
    Incoming::channel(length, (window / 2 / FRAME).clamp(1, 16) as usize)
}

/// Passes the body to its reader, except the end, which waits until the request is complete.
pub(super) async fn body(
    body: &mut RecvStream,
    pieces: &mpsc::Sender<Piece>,
    timer: &StallTimer,
) -> Result<(), Unreceived> {
    let mut taken = Taken { flow: body.flow_control().clone(), pieces, lengths: VecDeque::new() };
    loop {
        taken.room(timer).await?;
        let Some(data) = taken.or_next(body, timer).await? else { break };
        timer.received(data.len());
        if data.is_empty() {
            continue;
        }
        taken.lengths.push_back(data.len());
        pieces.try_send(Piece::Data(data)).map_err(|_| Unreceived::Unwanted)?;
    }
    if let Some(trailers) = body.trailers().await.map_err(Unreceived::Failed)? {
        taken.room(timer).await?;
        pieces.try_send(Piece::Trailers(trailers)).map_err(|_| Unreceived::Unwanted)?;
    }
    timer.receiving(Receiving::Done);
    Ok(())
}

/// What the reader has and has not taken.
struct Taken<'a> {
    flow: FlowControl,
    pieces: &'a mpsc::Sender<Piece>,
    /// The lengths of the pieces that the window was not given back for.
    lengths: VecDeque<usize>,
}

impl Taken<'_> {
    /// Waits until there is room for a piece.
    async fn room(&mut self, timer: &StallTimer) -> Result<(), Unreceived> {
        if self.pieces.capacity() == 0 {
            timer.receiving(Receiving::Reader);
        }
        let room = self.pieces.reserve().await.map_err(|_| Unreceived::Unwanted)?;
        drop(room);
        timer.receiving(Receiving::Body);
        self.give_back()
    }

    /// Waits for the next piece of the body, and meanwhile gives the window back when the reader has taken all.
    async fn or_next(&mut self, body: &mut RecvStream, timer: &StallTimer) -> Result<Option<Bytes>, Unreceived> {
        loop {
            timer.receiving(Receiving::Body);
            tokio::select! {
                biased;
                data = body.data() => return data.transpose().map_err(Unreceived::Failed),
                () = self.pieces.closed() => return Err(Unreceived::Unwanted),
                _ = self.pieces.reserve_many(self.pieces.max_capacity()), if !self.lengths.is_empty() => {}
            }
            self.give_back()?;
        }
    }

    fn give_back(&mut self) -> Result<(), Unreceived> {
        let waiting = self.pieces.max_capacity() - self.pieces.capacity();
        while self.lengths.len() > waiting {
            let Some(length) = self.lengths.pop_front() else { break };
            self.flow.release_capacity(length).map_err(Unreceived::Failed)?;
        }
        Ok(())
    }
}
