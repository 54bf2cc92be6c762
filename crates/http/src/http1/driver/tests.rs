//! Timeouts, recalls and slow responses. Ordinary exchanges are tested in `tests/model`.

use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::{
    io::{AsyncRead, AsyncReadExt, DuplexStream, ReadBuf},
    sync::oneshot,
};
use transport::TcpInfo;

use super::*;
use crate::{Body, Chunks, Error, Incoming, Step as Wait, connection_messages::Sent};

type Reply = oneshot::Receiver<Result<Response<Incoming>, Error>>;

/// The dispatcher's side of a connection.
struct Owner {
    jobs: mpsc::UnboundedSender<Job>,
    recalls: mpsc::UnboundedSender<Recall>,
    events: mpsc::UnboundedReceiver<ConnectionEvent>,
    next: u64,
}

fn start(io: impl Io + 'static) -> Owner {
    let (jobs, taken) = mpsc::unbounded_channel();
    let (recalls, called) = mpsc::unbounded_channel();
    let (reporter, events) = mpsc::unbounded_channel();
    tokio::spawn(run(Box::new(io), ConnectionId(1), Timeouts::default(), taken, called, reporter));
    Owner { jobs, recalls, events, next: 0 }
}

impl Owner {
    fn ask(&mut self, method: &str, body: Body) -> Reply {
        self.next += 1;
        let request = Request::builder().method(method).uri(format!("http://model/{}", self.next)).body(body).unwrap();
        let (reply, answer) = oneshot::channel();
        assert!(
            self.jobs
                .send(Job { id: JobId(self.next), request, reply, sendings: 0, is_follow_up: false, marks: None })
                .is_ok()
        );
        answer
    }

    fn recall(&self, sent: bool) {
        self.recalls.send(Recall { behind: JobId(1), sent }).unwrap();
    }

    async fn report(&mut self) -> ConnectionEvent {
        timeout(Duration::from_hours(1), self.events.recv()).await.expect("no event").expect("the connection has ended")
    }

    async fn stalls(&mut self) {
        let report = self.report().await;
        assert!(matches!(report, ConnectionEvent::Stalled { job: JobId(1), .. }), "{report:?}");
    }

    /// The next returned job: its number, how much was sent, and how often.
    async fn returned(&mut self) -> (u64, Sent, u32) {
        match self.report().await {
            ConnectionEvent::Returned { job, sent, cause: Cause::Retired(_), .. } => (job.id.0, sent, job.sendings),
            other => panic!("{other:?}"),
        }
    }
}

/// Reads `count` request headers.
async fn requests(server: &mut DuplexStream, count: usize) -> Vec<u8> {
    let mut read = Vec::new();
    while read.windows(4).filter(|end| end == b"\r\n\r\n").count() < count {
        assert_ne!(server.read_buf(&mut read).await.unwrap(), 0);
    }
    read
}

async fn body(reply: Reply) -> Vec<u8> {
    reply.await.unwrap().unwrap().into_body().collect().await.unwrap().to_bytes().into()
}

/// A body whose first byte never comes.
fn never() -> Body {
    Body::repeatable(Some(1), || -> Chunks { Box::pin(futures_util::stream::pending()) })
}

#[tokio::test(start_paused = true)]
async fn safe_requests_behind_a_stalled_response_are_recalled() {
    let (near, mut server) = tokio::io::duplex(1 << 16);
    let mut owner = start(near);
    let first = owner.ask("GET", Body::empty());
    let _others = [owner.ask("GET", Body::empty()), owner.ask("PROPFIND", "x".into())];
    requests(&mut server, 3).await;
    let begun = Instant::now();
    owner.stalls().await;
    assert_eq!(begun.elapsed().as_millis(), 1500);
    owner.recall(true);
    assert!(matches!(owner.report().await, ConnectionEvent::Draining { .. }));
    assert_eq!(owner.returned().await, (3, Sent::Something, 1));
    assert_eq!(owner.returned().await, (2, Sent::Something, 1));
    // All three are answered after all, at once.
    server.write_all(&b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nme".repeat(3)).await.unwrap();
    assert_eq!(body(first).await, b"me");
    assert!(matches!(owner.report().await, ConnectionEvent::Head { job: JobId(1), .. }));
    assert!(matches!(owner.report().await, ConnectionEvent::Done { job: JobId(1), .. }));
    match owner.report().await {
        ConnectionEvent::Closed { cause: Cause::Retired(_), unanswered, .. } => assert!(unanswered.is_empty()),
        other => panic!("not the server's fault: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn unsafe_request_is_recalled_only_if_unsent() {
    let (near, mut server) = tokio::io::duplex(1 << 16);
    let mut owner = start(near);
    let first = owner.ask("GET", Body::empty());
    let second = owner.ask("PUT", "x".into());
    let _third = owner.ask("PUT", never());
    let _fourth = owner.ask("GET", Body::empty());
    requests(&mut server, 3).await;
    owner.stalls().await;
    owner.recall(true);
    // A part of the third was sent.
    assert_eq!(owner.returned().await, (4, Sent::Nothing, 0));
    server.write_all(&b"HTTP/1.1 204 No Content\r\n\r\n".repeat(2)).await.unwrap();
    assert_eq!((body(first).await, body(second).await), (Vec::new(), Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn unwritten_requests_are_recalled_and_not_sent() {
    let (near, mut server) = tokio::io::duplex(100);
    let mut owner = start(near);
    let first = owner.ask("GET", Body::empty());
    let _others = [owner.ask("PUT", vec![b'2'; 1000].into()), owner.ask("PUT", "3".into())];
    owner.stalls().await;
    owner.recall(false);
    let mut back = vec![owner.returned().await];
    if let Ok(report) = timeout(Duration::from_secs(1), owner.returned()).await {
        back.push(report);
    }
    // The pipe holds the first header, and perhaps a part of the second.
    assert_eq!(back[0], (3, Sent::Nothing, 0));
    let mut read = requests(&mut server, 3 - back.len()).await;
    if back.len() == 1 {
        while !read.ends_with(&[b'2'; 1000]) {
            server.read_buf(&mut read).await.unwrap();
        }
    }
    let nothing_more = timeout(Duration::from_secs(1), server.read_u8()).await;
    assert!(nothing_more.is_err(), "{:?}", String::from_utf8_lossy(&read));
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nme").await.unwrap();
    assert_eq!(body(first).await, b"me");
}

#[tokio::test(start_paused = true)]
async fn late_recall_is_ignored() {
    let (near, mut server) = tokio::io::duplex(1 << 16);
    let mut owner = start(near);
    let replies = [0; 3].map(|_| owner.ask("GET", Body::empty()));
    requests(&mut server, 3).await;
    server.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
    assert!(matches!(owner.report().await, ConnectionEvent::Head { job: JobId(1), .. }));
    assert!(matches!(owner.report().await, ConnectionEvent::Done { job: JobId(1), .. }));
    owner.recall(true);
    server.write_all(&b"HTTP/1.1 204 No Content\r\n\r\n".repeat(2)).await.unwrap();
    for reply in replies {
        assert_eq!(body(reply).await, b"");
    }
}

#[tokio::test(start_paused = true)]
async fn large_response_and_unread_response_are_reported_as_stalled() {
    for (length, reads) in [(1_000_000, true), (500_000, false), (200_000, true)] {
        let (near, mut server) = tokio::io::duplex(1 << 16);
        let mut owner = start(near);
        let first = owner.ask("GET", Body::empty());
        requests(&mut server, 1).await;
        server.write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n").as_bytes()).await.unwrap();
        assert!(matches!(owner.report().await, ConnectionEvent::Head { .. }));
        let serving = tokio::spawn(async move {
            for _ in 0..length / 10_000 {
                tokio::time::sleep(Duration::from_millis(100)).await;
                server.write_all(&[0; 10_000]).await.unwrap();
            }
            server
        });
        let answer = first.await.unwrap().unwrap();
        if length == 200_000 {
            assert_eq!(answer.into_body().collect().await.unwrap().to_bytes().len(), length);
            assert!(
                matches!(owner.report().await, ConnectionEvent::Done { .. }),
                "a small response that makes progress is not slow"
            );
        } else if reads {
            let reading = tokio::spawn(answer.into_body().collect());
            owner.stalls().await;
            assert_eq!(reading.await.unwrap().unwrap().to_bytes().len(), length);
        } else {
            let reports = [owner.report().await, owner.report().await];
            let has_stalled = |report: &_| matches!(report, ConnectionEvent::Stalled { job: JobId(1), .. });
            let is_unread = |report: &_| matches!(report, ConnectionEvent::ReaderLags { is_lagging: true, .. });
            assert!(reports.iter().any(has_stalled) && reports.iter().any(is_unread), "{reports:?}");
            let reading = tokio::spawn(answer.into_body().collect());
            assert!(matches!(owner.report().await, ConnectionEvent::ReaderLags { is_lagging: false, .. }));
            reading.abort();
        }
        serving.abort();
    }
}

/// A connection whose `TCP_INFO` says that everything was acknowledged at once.
struct Acknowledged {
    io: DuplexStream,
    since: Instant,
}

impl Io for Acknowledged {
    fn tcp_info(&self) -> Option<TcpInfo> {
        let nothing = Duration::ZERO;
        Some(TcpInfo {
            last_ack: self.since.elapsed(),
            rtt: nothing,
            rtt_var: nothing,
            rto: nothing,
            min_rtt: None,
            snd_mss: 1460,
            snd_cwnd: 10,
            unacked: 0,
            lost: 0,
            retransmits: 0,
            bytes_acked: Some(100),
            bytes_received: None,
            delivery_rate: None,
            app_limited: false,
            busy_time: None,
            rwnd_limited: None,
            sndbuf_limited: None,
            snd_wnd: None,
            connecting: false,
            syn_data_accepted: false,
            fast_open_failure: None,
        })
    }

    fn abort(&self) {}
}

impl AsyncRead for Acknowledged {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, out)
    }
}

impl AsyncWrite for Acknowledged {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[tokio::test(start_paused = true)]
async fn first_byte_timeout_starts_with_the_last_acknowledgement() {
    let (near, _server) = tokio::io::duplex(1 << 16);
    let begun = Instant::now();
    let mut owner = start(Acknowledged { io: near, since: begun });
    let _reply = owner.ask("GET", Body::empty());
    owner.stalls().await;
    match owner.report().await {
        ConnectionEvent::Closed { cause: Cause::TimedOut(Wait::FirstByte, bound), .. } => {
            assert_eq!((bound, begun.elapsed().as_secs()), (Duration::from_mins(1), 60));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn large_body_in_memory_is_copied_in_pieces() {
    for length in [Some(10 << 20), None] {
        let (near, mut server) = tokio::io::duplex(1 << 20);
        let (mut unused, (jobs, taken)) = (mpsc::unbounded_channel().1, mpsc::unbounded_channel());
        unused.close();
        let (events, _reported) = mpsc::unbounded_channel();
        let mut driver = Driver::new(
            Box::new(near),
            ConnectionId(1),
            Timeouts::default(),
            Channels { jobs: Some(taken), recalls: unused, events },
        );
        let body = Body::repeatable(length, || Box::pin(futures_util::stream::iter([Ok(vec![7; 10 << 20].into())])));
        let request = Request::put("http://model/").body(body).unwrap();
        let (reply, _answer) = oneshot::channel();
        driver.waiting.push_back(Job { id: JobId(1), request, reply, sendings: 0, is_follow_up: false, marks: None });
        driver.start_waiting().unwrap();
        assert!(driver.output.buffer.len() <= 2 * WRITE_BUFFER, "{}", driver.output.buffer.len());
        let serving = tokio::spawn(async move { driver.serve().await });
        let mut read = Vec::new();
        while read.len() < 10 << 20 || (length.is_none() && !read.ends_with(b"0\r\n\r\n")) {
            assert_ne!(server.read_buf(&mut read).await.unwrap(), 0);
        }
        drop((server, jobs));
        serving.await.unwrap();
    }
}

/// Asks for something whose response has four pieces, which is as much as a reader may lag behind.
async fn answered_in_four_pieces(owner: &mut Owner, server: &mut DuplexStream) -> Response<Incoming> {
    let reply = owner.ask("GET", Body::empty());
    requests(server, 1).await;
    for piece in ["HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\na", "b", "c", "d"] {
        server.write_all(piece.as_bytes()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(matches!(owner.report().await, ConnectionEvent::Head { job: JobId(1), .. }));
    reply.await.unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn reader_of_a_complete_response_may_go_while_the_next_request_is_answered() {
    let (near, mut server) = tokio::io::duplex(1 << 16);
    let mut owner = start(near);
    let answer = answered_in_four_pieces(&mut owner, &mut server).await;
    assert!(matches!(owner.report().await, ConnectionEvent::Done { job: JobId(1), .. }));
    let next = owner.ask("PUT", "x".into());
    requests(&mut server, 1).await;
    // It has read what the length promises, and not that this was the end.
    drop(answer);
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    assert_eq!(next.await.unwrap().unwrap().status(), 201);
}

#[tokio::test(start_paused = true)]
async fn request_behind_a_dropped_response_has_its_own_timeout() {
    let (near, mut server) = tokio::io::duplex(1 << 16);
    let mut owner = start(near);
    let first = owner.ask("GET", Body::empty());
    requests(&mut server, 1).await;
    server.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na").await.unwrap();
    drop(first.await.unwrap().unwrap());
    server.write_all(b"b").await.unwrap();
    assert!(matches!(owner.report().await, ConnectionEvent::Head { job: JobId(1), .. }));
    assert!(matches!(owner.report().await, ConnectionEvent::Done { job: JobId(1), .. }));
    let next = owner.ask("PUT", "x".into());
    requests(&mut server, 1).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    server.write_all(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    assert_eq!(next.await.unwrap().unwrap().status(), 201);
}
