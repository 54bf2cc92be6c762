//! The sending half of an exchange: the body is sent as fast as the windows allow.
//!
//! At most one chunk is read ahead of the windows. If the length was announced, the last bytes are sent only once the
//! source has ended: a body that turns out longer is an error on both sides, not a truncated file.

use std::{future::poll_fn, task::Poll};

use bytes::Bytes;
use futures_util::StreamExt;
use h2::SendStream;

use crate::{
    Chunks,
    streams::{
        Unsent,
        stall_timer::{Sending, StallTimer},
        wrong_length,
    },
};

/// The maximum capacity requested at once: small, so that uploads take turns.
const TURN: usize = 64 * 1024;

/// Sends the body.
pub(super) async fn send(
    stream: &mut SendStream<Bytes>,
    mut chunks: Chunks,
    told: Option<u64>,
    timer: &StallTimer,
) -> Result<(), Unsent> {
    let mut left = told;
    let mut held = Bytes::new();
    while let Some(chunk) = next(&mut chunks, stream, timer).await? {
        pour(stream, std::mem::take(&mut held), false, timer).await?;
        left = match left {
            None => None,
            Some(left) => {
                Some(left.checked_sub(chunk.len() as u64).ok_or_else(|| Unsent::Source(wrong_length("longer")))?)
            }
        };
        if left == Some(0) {
            held = chunk;
        } else {
            pour(stream, chunk, false, timer).await?;
        }
    }
    if left.is_some_and(|left| left > 0) {
        return Err(Unsent::Source(wrong_length("shorter")));
    }
    pour(stream, held, true, timer).await?;
    timer.sending(Sending::Done);
    Ok(())
}

/// The next chunk that has any bytes.
async fn next(
    chunks: &mut Chunks,
    stream: &mut SendStream<Bytes>,
    timer: &StallTimer,
) -> Result<Option<Bytes>, Unsent> {
    timer.sending(Sending::Source);
    poll_fn(|context| {
        loop {
            return match chunks.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(chunk))) if chunk.is_empty() => continue,
                Poll::Ready(chunk) => Poll::Ready(chunk.transpose().map_err(Unsent::Source)),
                Poll::Pending => stream.poll_reset(context).map(|_| Err(Unsent::Closed)),
            };
        }
    })
    .await
}

/// Sends a chunk, in pieces as the windows open.
async fn pour(stream: &mut SendStream<Bytes>, mut chunk: Bytes, last: bool, timer: &StallTimer) -> Result<(), Unsent> {
    while !chunk.is_empty() {
        timer.sending(Sending::Window);
        stream.reserve_capacity(chunk.len().min(TURN));
        let open = poll_fn(|context| match stream.capacity() {
            0 => stream.poll_capacity(context).map(|open| open.and_then(Result::ok).ok_or(Unsent::Closed)),
            open => Poll::Ready(Ok(open)),
        })
        .await?;
        let piece = chunk.split_to(open.min(chunk.len()));
        let length = piece.len();
        stream.send_data(piece, last && chunk.is_empty()).map_err(|_| Unsent::Closed)?;
        timer.sent(length);
        if chunk.is_empty() && last {
            return Ok(());
        }
    }
    if last { stream.send_data(Bytes::new(), true).map_err(|_| Unsent::Closed) } else { Ok(()) }
}
