//! Every wait has a timeout, and its error names the right cause.

use std::pin::Pin;
use std::sync::atomic::AtomicBool;

use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
use transport::TcpInfo;

use super::*;

async fn for_ever() {
    std::future::pending::<()>().await;
}

fn returned(report: ConnectionEvent) -> Option<(Sent, Cause)> {
    match report {
        ConnectionEvent::Returned { sent, cause, .. } => Some((sent, cause)),
        _ => None,
    }
}

#[tokio::test]
async fn first_byte_timeout_returns_the_job() {
    bounded(async {
        let mut client = Client::to(&h2::server::Builder::new(), |request, respond| async move {
            let _held = (respond, request.uri().path() == "/");
            for_ever().await;
        });
        let mut reply = client.ask(get("/"));
        let (sent, cause) = client.report(returned).await;
        let bound = Timeouts::default().first_byte;
        assert!(sent == Sent::Something && matches!(cause, Cause::TimedOut(Step::FirstByte, after) if after == bound));
        assert!(reply.try_recv().is_err());
    })
    .await;
}

#[tokio::test]
async fn request_timeouts_override_the_clients() {
    bounded(async {
        let mut client = Client::to(&h2::server::Builder::new(), |_, respond| async move {
            let _held = respond;
            for_ever().await;
        });
        let mut request = get("/");
        let timeouts = Timeouts { first_byte: Duration::from_hours(1), ..Timeouts::default() };
        request.extensions_mut().insert(crate::Options { timeouts: Some(timeouts), ..Default::default() });
        let start = tokio::time::Instant::now();
        let _reply = client.ask(request);
        client.report(returned).await;
        assert!(start.elapsed() >= timeouts.first_byte);
    })
    .await;
}

#[tokio::test]
async fn stalled_download_or_upload_times_out() {
    bounded(async {
        let mut client =
            Client::to(h2::server::Builder::new().initial_window_size(10), |request, mut respond| async move {
                if request.method() == http::Method::GET {
                    let mut stream = respond.send_response(Response::new(()), false).unwrap();
                    pour(&mut stream, "begun".into(), false).await;
                    for_ever().await;
                }
                let _held = request;
                for_ever().await;
            });
        let body = client.ask(get("/")).await.unwrap().unwrap().into_body();
        let error = body.collect().await.unwrap_err();
        assert!(matches!(error, Error::Exchange { cause: Cause::TimedOut(Step::Receive, _), .. }), "{error}");
        let _reply = client.ask(put("/", vec![0; 1000]));
        let (sent, cause) = client.report(returned).await;
        assert!(sent == Sent::Something && matches!(cause, Cause::TimedOut(Step::Send, _)), "{cause}");
    })
    .await;
}

#[tokio::test]
async fn slow_reader_or_body_source_does_not_time_out() {
    bounded(async {
        let mut client = Client::to(&h2::server::Builder::new(), |request, respond| async move {
            let body = all(request.into_body()).await.0;
            answer(respond, 200, [body, vec![1; 10 << 20]].concat()).await;
        });
        let hour = || tokio::time::sleep(Duration::from_hours(1));
        let slow = Body::repeatable(Some(2), move || {
            Box::pin(futures_util::stream::unfold(0, move |piece| async move {
                hour().await;
                (piece < 2).then(|| (Ok(Bytes::from_static(b"x")), piece + 1))
            }))
        });
        let head = client.ask(put("/", slow)).await.unwrap();
        hour().await;
        assert_eq!(text(head).await.len(), 2 + (10 << 20));
    })
    .await;
}

#[tokio::test]
async fn ping_detects_a_dead_link_before_streams_time_out() {
    bounded(async {
        let (near, far) = tokio::io::duplex(1 << 16);
        let aborted = Arc::new(AtomicBool::new(false));
        let mut client = Client::new(Abortable { io: near, aborted: aborted.clone() }, Http2Settings::default());
        let start = tokio::time::Instant::now();
        let _replies: Vec<_> = (0..3).map(|_| client.ask(get("/"))).collect();
        let closed = |report| match report {
            ConnectionEvent::Closed { cause, unanswered, .. } => Some((cause, unanswered)),
            _ => None,
        };
        let (cause, unanswered) = client.report(closed).await;
        assert!(matches!(cause, Cause::TimedOut(Step::Receive, _)), "{cause}");
        assert!(start.elapsed() < Timeouts::default().stall);
        assert!(
            unanswered.len() == 3 && unanswered.iter().all(|(job, sent)| *sent == Sent::Something && job.sendings == 1)
        );
        assert!(aborted.load(Ordering::Relaxed), "the kernel could still send its buffer");
        drop(far);
    })
    .await;
}

/// A connection that records whether it was aborted.
struct Abortable {
    io: DuplexStream,
    aborted: Arc<AtomicBool>,
}

impl Io for Abortable {
    fn tcp_info(&self) -> Option<TcpInfo> {
        None
    }

    fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
    }
}

impl AsyncRead for Abortable {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl AsyncWrite for Abortable {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[tokio::test]
async fn blocked_link_or_zero_stream_limit_ends_the_connection() {
    bounded(async {
        for server in [None, Some(h2::server::Builder::new().max_concurrent_streams(0).clone())] {
            let (near, far) = tokio::io::duplex(if server.is_some() { 1 << 16 } else { 1 });
            let mut client = Client::new(near, Http2Settings::default());
            let held = match server {
                Some(server) => Err(tokio::spawn(serve(far, server, |_, _| for_ever()))),
                None => Ok(far),
            };
            tokio::time::sleep(Duration::from_millis(1)).await;
            let _reply = client.ask(get("/"));
            let unanswered = client.report(|report| match report {
                ConnectionEvent::Closed { unanswered, .. } => Some(unanswered),
                _ => None,
            });
            assert!(matches!(unanswered.await[..], [(_, Sent::Nothing)]));
            drop(held);
        }
    })
    .await;
}
