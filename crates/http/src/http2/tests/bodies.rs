//! Request and response bodies: windows, slow readers, wrong lengths.

use futures_util::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::*;
use crate::Chunks;

type Wrong = (Option<u64>, fn() -> Chunks, &'static str);

/// Chunks that come one by one.
fn chunks(chunks: &'static [&'static str]) -> Chunks {
    Box::pin(stream::iter(chunks).then(|chunk| async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(Bytes::from_static(chunk.as_bytes()))
    }))
}

#[tokio::test]
async fn uploads_pass_through_tiny_windows_which_are_reported() {
    bounded(async {
        let mut client =
            Client::to(h2::server::Builder::new().initial_window_size(10), |request, respond| async move {
                let body = all(request.into_body()).await.0;
                answer(respond, 201, body).await;
            });
        let bodies: Vec<Bytes> =
            (0..5u8).map(|number| (0..3000).map(|at| (at % 251) as u8 ^ number).collect()).collect();
        let replies: Vec<_> = bodies.iter().map(|body| client.ask(put("/", body.clone()))).collect();
        for (body, reply) in bodies.into_iter().zip(replies) {
            assert!(text(reply.await.unwrap()).await == body);
        }
        let windows = client.report(|report| match report {
            ConnectionEvent::Streams { windows, .. } => Some(windows),
            _ => None,
        });
        assert_eq!(windows.await, Windows { stream: 10, ..Windows::default() });
    })
    .await;
}

#[tokio::test]
async fn slow_reader_stops_only_its_own_stream() {
    bounded(async {
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = sent.clone();
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(far, h2::server::Builder::new(), move |request, mut respond| {
            let sent = counter.clone();
            async move {
                if request.uri().path() == "/small" {
                    return answer(respond, 200, "small").await;
                }
                let mut stream = respond.send_response(Response::new(()), false).unwrap();
                for round in 0..1000u32 {
                    let piece = vec![round as u8; 10_000];
                    sent.fetch_add(pour(&mut stream, piece.into(), round == 999).await, Ordering::SeqCst);
                }
            }
        }));
        let window = 100_000;
        let mut client = Client::new(near, Http2Settings { stream_window: window, connection_window: 1 << 20 });
        let slow = client.ask(get("/large")).await.unwrap().unwrap();
        for _ in 0..20 {
            assert_eq!(text(client.ask(get("/small")).await.unwrap()).await, "small");
        }
        assert!(sent.load(Ordering::SeqCst) <= window as usize, "the server sent more than the window");
        let body = text(Ok(slow)).await;
        assert!(body.iter().enumerate().all(|(at, byte)| *byte == (at / 10_000) as u8) && body.len() == 10_000_000);
    })
    .await;
}

#[tokio::test]
async fn window_is_restored_when_the_reader_has_taken_everything() {
    bounded(async {
        let window = 128 * 1024;
        let (near, far) = tokio::io::duplex(1 << 20);
        tokio::spawn(serve(far, h2::server::Builder::new(), move |_, mut respond| async move {
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            pour(&mut stream, vec![0; window / 8 * 3].into(), false).await;
            stream.reserve_capacity(window);
            while stream.capacity() < window {
                if poll_fn(|context| stream.poll_capacity(context)).await.is_none() {
                    return;
                }
            }
            stream.send_data(Bytes::new(), true).unwrap();
        }));
        let settings = Http2Settings { stream_window: window as u32, connection_window: 1 << 20 };
        let mut client = Client::new(near, settings);
        let head = client.ask(get("/")).await.unwrap();
        // By then the whole body is in the reader's channel.
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(text(head).await.len(), window / 8 * 3);
    })
    .await;
}

#[tokio::test]
async fn body_with_a_wrong_length_is_not_sent_whole() {
    bounded(async {
        let (observed, mut ends) = mpsc::unbounded_channel();
        let mut client = Client::to(&h2::server::Builder::new(), move |request, respond| {
            let observed = observed.clone();
            async move {
                let (came, end) = all(request.into_body()).await;
                let end = end.map_err(|error| error.reason().unwrap());
                observed.send((came.len(), end)).unwrap();
                if end.is_ok() {
                    answer(respond, 201, "").await;
                }
            }
        });
        let broken =
            || -> Chunks { Box::pin(stream::iter([Ok("abc".into()), Err(io::Error::other("the disk is gone"))])) };
        let wrong: [Wrong; 4] = [
            (Some(7), || chunks(&["abc", "de"]), "shorter"),
            (Some(4), || chunks(&["abc", "de"]), "longer"),
            (Some(3), || chunks(&["abc", "de"]), "longer"),
            (None, broken, "the disk is gone"),
        ];
        for (told, open, why) in wrong {
            let error = client.ask(put("/", Body::repeatable(told, open))).await.unwrap().unwrap_err();
            assert!(matches!(error, Error::Sending { .. }) && error.to_string().contains(why), "{error}");
            let (came, end) = ends.recv().await.unwrap();
            assert!(
                end == Err(h2::Reason::CANCEL) && told.is_none_or(|told| (came as u64) < told),
                "{came} bytes came"
            );
        }
        let at_once = || -> Chunks { Box::pin(stream::iter([Ok("a".into())])) };
        let error = client.ask(put("/", Body::repeatable(Some(0), at_once))).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Sending { .. }), "{error}");
        for told in [None, Some(5)] {
            text(client.ask(put("/", Body::repeatable(told, || chunks(&["abc", "", "de"])))).await.unwrap()).await;
            assert_eq!(ends.recv().await.unwrap(), (5, Ok(())));
        }
        let abandoned =
            client.finish().await.iter().filter(|report| matches!(report, ConnectionEvent::Abandoned { .. })).count();
        assert_eq!(abandoned, 5);
    })
    .await;
}

#[tokio::test]
async fn early_error_response_ends_the_upload() {
    bounded(async {
        let mut client =
            Client::to(h2::server::Builder::new().initial_window_size(10), |request, respond| async move {
                let _held = request;
                answer(respond, 507, "full").await;
            });
        assert_eq!(text(client.ask(put("/", vec![1; 1 << 20])).await.unwrap()).await, "full");
        let sent = client
            .report(|report| match report {
                ConnectionEvent::Done { sent, .. } => Some(sent),
                _ => None,
            })
            .await;
        assert!(sent <= 65_535);
    })
    .await;
}

#[tokio::test]
async fn malformed_response_fails_only_its_stream() {
    bounded(async {
        let mut client = Client::to(&h2::server::Builder::new(), |request, mut respond| async move {
            let mut head = Response::builder();
            head = match request.uri().path() {
                "/headers" => head.header("x-large", "x".repeat(HEADER_LIST as usize)),
                "/length" => head.header("content-length", "9"),
                "/lengths" => head.header("content-length", "5").header("content-length", "6"),
                _ => head,
            };
            let mut stream = respond.send_response(head.body(()).unwrap(), false).unwrap();
            pour(&mut stream, "12345".into(), true).await;
        });
        // `h2` checks this.
        let error = client.ask(get("/lengths")).await.unwrap().unwrap_err();
        assert!(matches!(error, Error::Exchange { cause: Cause::Protocol(_), .. }), "{error}");
        let error = client.ask(get("/headers")).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("response header") && error.contains("64 KiB"), "{error}");
        let cut = client.ask(get("/length")).await.unwrap();
        let error = match cut {
            Ok(head) => head.into_body().collect().await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, Error::Exchange { cause: Cause::Protocol(_), .. }), "{error}");
        assert_eq!(text(client.ask(get("/")).await.unwrap()).await, "12345");
    })
    .await;
}

#[tokio::test]
async fn trailers_are_delivered() {
    bounded(async {
        let mut client = Client::to(&h2::server::Builder::new(), |_, mut respond| async move {
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            pour(&mut stream, "body".into(), false).await;
            stream.send_trailers([("x-sum".parse().unwrap(), "1".parse().unwrap())].into_iter().collect()).unwrap();
        });
        let body = client.ask(get("/")).await.unwrap().unwrap().into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()["x-sum"], "1");
    })
    .await;
}

/// A link with a delay of half an RTT each way, and no rate limit.
fn long_link(round_trip: Duration) -> (DuplexStream, DuplexStream) {
    let ((near, one), (other, far)) = (tokio::io::duplex(1 << 20), tokio::io::duplex(1 << 20));
    let ((one_read, one_write), (other_read, other_write)) = (tokio::io::split(one), tokio::io::split(other));
    tokio::spawn(carry(one_read, other_write, round_trip / 2));
    tokio::spawn(carry(other_read, one_write, round_trip / 2));
    (near, far)
}

async fn carry(mut from: ReadHalf<DuplexStream>, mut to: WriteHalf<DuplexStream>, delay: Duration) {
    let (sender, mut under_way) = mpsc::unbounded_channel::<(_, Vec<u8>)>();
    let arrive = async {
        while let Some((time, bytes)) = under_way.recv().await {
            tokio::time::sleep_until(time).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
    };
    let leave = async move {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
            let _ = sender.send((tokio::time::Instant::now() + delay, buffer[..bytes].to_vec()));
        }
    };
    tokio::join!(arrive, leave);
}

#[tokio::test]
async fn two_thirds_of_a_window_pass_per_round_trip() {
    bounded(async {
        let round_trip = Duration::from_millis(200);
        let (near, far) = long_link(round_trip);
        tokio::spawn(serve(far, h2::server::Builder::new(), |request, respond| async move {
            let length = request.uri().path()[1..].parse().unwrap();
            answer(respond, 200, vec![0; length]).await;
        }));
        let settings = Http2Settings::default();
        let mut client = Client::new(near, settings);
        let windows = 20;
        let start = tokio::time::Instant::now();
        let length = settings.stream_window as usize * windows;
        assert_eq!(text(client.ask(get(&format!("/{length}"))).await.unwrap()).await.len(), length);
        let round_trips = start.elapsed().as_secs_f64() / round_trip.as_secs_f64();
        assert!(round_trips < windows as f64 * 1.5 + 2.0, "{round_trips} round trips for {windows} windows");
    })
    .await;
}
