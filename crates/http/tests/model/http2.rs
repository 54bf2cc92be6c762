//! The model server over HTTP/2.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use h2::{Reason, RecvStream, server::SendResponse};
use http::{Request, Response};
use tokio::{io::DuplexStream, time::Instant};

use super::server::{Fault, Model, process};

/// What happens to the connection after a request.
enum Then {
    Continue,
    GracefulShutdown,
    Close,
    /// GOAWAY with HTTP_1_1_REQUIRED.
    RequireHttp1,
}

pub(crate) async fn serve(stream: DuplexStream, model: Arc<Mutex<Model>>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let mut handlers = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(Ok((request, respond))) => handlers.push(answer(request, respond, &model)),
                _ => return,
            },
            Some(then) = handlers.next() => match then {
                Then::Continue => {}
                Then::GracefulShutdown => connection.graceful_shutdown(),
                Then::Close => return,
                Then::RequireHttp1 => connection.abrupt_shutdown(Reason::HTTP_1_1_REQUIRED),
            },
        }
    }
}

async fn answer(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, model: &Mutex<Model>) -> Then {
    let (method, path) = (request.method().to_string(), request.uri().path().to_owned());
    let (fault, delay, serves) = {
        let mut model = model.lock().unwrap();
        let (fault, delay) = model.draw();
        let serves = model.requests <= model.http2_until;
        if !serves {
            model.http1_required_at.get_or_insert_with(Instant::now);
        }
        (fault, delay, serves)
    };
    if !serves {
        // A GOAWAY in place of a reset is the fault.
        if fault.is_some() {
            return Then::RequireHttp1;
        }
        respond.send_reset(Reason::HTTP_1_1_REQUIRED);
        return Then::Continue;
    }
    let mut body = request.into_body();
    let mut all = Vec::new();
    while let Some(chunk) = body.data().await {
        let Ok(chunk) = chunk else { return Then::Continue };
        all.extend_from_slice(&chunk);
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    tokio::time::sleep(delay).await;
    match fault {
        Some(Fault::Close) => return Then::Close,
        Some(Fault::RequestTimeout) => {
            respond.send_reset(Reason::REFUSED_STREAM);
            return Then::Continue;
        }
        Some(Fault::Garbage) => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            return Then::Continue;
        }
        Some(Fault::Slow) => tokio::time::sleep(Duration::from_secs(5)).await,
        _ => {}
    }
    let (status, content) = process(&mut model.lock().unwrap(), &method, &path, all);
    match fault {
        Some(Fault::CloseAfterProcessing) => return Then::Close,
        Some(Fault::Silence) => {
            tokio::time::sleep(Duration::from_hours(1)).await;
            return Then::Continue;
        }
        _ => {}
    }
    let head = Response::builder().status(status).header("etag", format!("\"{path}\"")).body(()).unwrap();
    let Ok(mut stream) = respond.send_response(head, false) else { return Then::Continue };
    if fault == Some(Fault::TruncateResponse) {
        let _ = stream.send_data(content[..content.len() / 2].to_vec().into(), false);
        return Then::Close;
    }
    let _ = stream.send_data(content.into(), true);
    if fault == Some(Fault::LastResponse) { Then::GracefulShutdown } else { Then::Continue }
}
