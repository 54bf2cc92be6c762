//! The same server by HTTP/2.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt, stream::FuturesUnordered};
use h2::{Reason, RecvStream, server::SendResponse};
use http::{Request, Response};
use tokio::{io::DuplexStream, time::Instant};

use super::server::{Fault, Model, take_effect};

/// What becomes of the connection after a request.
enum Then {
    GoesOn,
    /// It takes no more.
    Ends,
    /// It is cut.
    Cut,
    /// It is given up for HTTP/1.1.
    Changes,
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
                Then::GoesOn => {}
                Then::Ends => connection.graceful_shutdown(),
                Then::Cut => return,
                Then::Changes => connection.abrupt_shutdown(Reason::HTTP_1_1_REQUIRED),
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
            model.said_so.get_or_insert_with(Instant::now);
        }
        (fault, delay, serves)
    };
    if !serves {
        // What is cut off with the others is a fault as well.
        if fault.is_some() {
            return Then::Changes;
        }
        respond.send_reset(Reason::HTTP_1_1_REQUIRED);
        return Then::GoesOn;
    }
    let mut body = request.into_body();
    let mut all = Vec::new();
    while let Some(chunk) = body.data().await {
        let Ok(chunk) = chunk else { return Then::GoesOn };
        all.extend_from_slice(&chunk);
        let _ = body.flow_control().release_capacity(chunk.len());
    }
    tokio::time::sleep(delay).await;
    match fault {
        Some(Fault::Cut) => return Then::Cut,
        Some(Fault::TimeOut) => {
            respond.send_reset(Reason::REFUSED_STREAM);
            return Then::GoesOn;
        }
        Some(Fault::Noise) => {
            respond.send_reset(Reason::INTERNAL_ERROR);
            return Then::GoesOn;
        }
        Some(Fault::Slow) => tokio::time::sleep(Duration::from_secs(5)).await,
        _ => {}
    }
    let (status, content) = take_effect(&mut model.lock().unwrap(), &method, &path, all);
    match fault {
        Some(Fault::CutAfter) => return Then::Cut,
        Some(Fault::Silence) => {
            tokio::time::sleep(Duration::from_hours(1)).await;
            return Then::GoesOn;
        }
        _ => {}
    }
    let head = Response::builder().status(status).header("etag", format!("\"{path}\"")).body(()).unwrap();
    let Ok(mut stream) = respond.send_response(head, false) else { return Then::GoesOn };
    if fault == Some(Fault::CutAmid) {
        let _ = stream.send_data(content[..content.len() / 2].to_vec().into(), false);
        return Then::Cut;
    }
    let _ = stream.send_data(content.into(), true);
    if fault == Some(Fault::Farewell) { Then::Ends } else { Then::GoesOn }
}
