//! `haul cp - URL`: uploads standard input.

use std::sync::Arc;

use dav::{RemotePath, transfer::upload_stream};
use futures_util::stream;
use haul_http::Chunks;
use serde::Serialize;
use tokio::io::AsyncReadExt;

use crate::files::{Outcome, results::Results, runtime::Stop, session::Session};

/// Bytes per read.
const PIECE: usize = 64 * 1024;

#[derive(Serialize)]
struct Done {
    files: u64,
    bytes: u64,
}

/// Uploads standard input as a file.
pub(super) async fn from_stdin(session: &Session, to: &RemotePath, stop: &Arc<Stop>, mut report: Results) -> Outcome {
    let done = match upload_stream(&session.dav, input(), to, stop.notified()).await {
        Ok(bytes) => Done { files: 1, bytes },
        Err(why) => {
            if !stop.is_requested() {
                report.fail(to, why);
            }
            Done { files: 0, bytes: 0 }
        }
    };
    report.finish(done)
}

fn input() -> Chunks {
    Box::pin(stream::try_unfold(tokio::io::stdin(), |mut input| async move {
        let mut piece = Vec::with_capacity(PIECE);
        let read = input.read_buf(&mut piece).await?;
        Ok((read > 0).then(|| (piece.into(), input)))
    }))
}
