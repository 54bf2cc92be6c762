//! Early ends of streams and connections, and the fate of their jobs.

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// END_STREAM and END_HEADERS.
const WHOLE: u8 = 5;
/// `:status: 200`, from HPACK's static table (RFC 7541, appendix A).
const OK: &[u8] = &[0x88];

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn goaway(last: u32, code: u32) -> Vec<u8> {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

/// A server whose frames the test writes; it discards what it reads.
fn by_hand() -> (Client, tokio::io::WriteHalf<DuplexStream>, JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let (mut read, write) = tokio::io::split(far);
    let reader = tokio::spawn(async move {
        let mut buffer = [0; 1024];
        while read.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
    });
    (Client::new(near, Http2Settings::default()), write, reader)
}

#[tokio::test]
async fn goaway_returns_later_streams_and_finishes_earlier_ones() {
    bounded(async {
        let (mut client, mut server, _reader) = by_hand();
        server.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
        let mut replies: Vec<_> = (0..5).map(|_| client.ask(get("/"))).collect();
        client.report(|report| matches!(report, ConnectionEvent::Streams { .. }).then_some(())).await;
        server.write_all(&goaway(3, 0)).await.unwrap();
        let mut back = Vec::new();
        let mut draining = 0;
        while back.len() < 3 {
            match client.events.recv().await.unwrap() {
                ConnectionEvent::Returned { job, sent, cause, .. } => {
                    assert!(sent == Sent::Nothing && matches!(cause, Cause::Http2 { code: 0, .. }), "{cause}");
                    assert_eq!(job.sendings, 0);
                    back.push(job.id.0);
                }
                ConnectionEvent::Draining { .. } => draining += 1,
                other => panic!("{other:?}"),
            }
        }
        back.sort_unstable();
        assert_eq!((back, draining), (vec![3, 4, 5], 1));
        assert!(client.jobs.as_ref().unwrap().is_closed(), "it takes no more jobs");
        server.write_all(&[frame(HEADERS, WHOLE, 1, OK), frame(HEADERS, WHOLE, 3, OK)].concat()).await.unwrap();
        for reply in replies.drain(..2) {
            assert_eq!(text(reply.await.unwrap()).await, "");
        }
        assert!(
            matches!(client.finish().await.last(), Some(ConnectionEvent::Closed { unanswered, .. }) if unanswered.is_empty())
        );
    })
    .await;
}

#[tokio::test]
async fn graceful_shutdown_loses_no_request() {
    bounded(async {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(async move {
            let mut connection = h2::server::handshake(far).await.unwrap();
            let mut held = Vec::new();
            while let Some(Ok((_, respond))) = connection.accept().await {
                held.push(respond);
                if held.len() == 3 {
                    connection.graceful_shutdown();
                    held.drain(..).for_each(|mut respond| drop(respond.send_response(Response::new(()), true)));
                }
            }
        });
        let mut client = Client::new(near, Http2Settings::default());
        let replies: Vec<_> = (0..3).map(|_| client.ask(get("/"))).collect();
        for reply in replies {
            assert!(reply.await.unwrap().is_ok());
        }
        let events = client.finish().await;
        assert!(matches!(events.last(), Some(ConnectionEvent::Closed { unanswered, .. }) if unanswered.is_empty()));
    })
    .await;
}

#[tokio::test]
async fn refused_stream_is_returned_and_others_continue() {
    bounded(async {
        let mut client = Client::to(&h2::server::Builder::new(), |request, mut respond| async move {
            match request.uri().path() {
                "/refused" => respond.send_reset(h2::Reason::REFUSED_STREAM),
                "/old" => respond.send_reset(h2::Reason::HTTP_1_1_REQUIRED),
                "/broken" => respond.send_reset(h2::Reason::INTERNAL_ERROR),
                _ => answer(respond, 200, "fine").await,
            }
        });
        for (path, fate, number, sendings) in
            [("/refused", Sent::Nothing, 7, 0), ("/old", Sent::Nothing, 13, 0), ("/broken", Sent::Something, 2, 1)]
        {
            let _reply = client.ask(put(path, "abc"));
            let (job, sent, cause) = client
                .report(|report| match report {
                    ConnectionEvent::Returned { job, sent, cause, .. } => Some((job, sent, cause)),
                    _ => None,
                })
                .await;
            assert!(sent == fate && matches!(cause, Cause::Http2 { code, .. } if code == number), "{path}: {cause}");
            assert!(job.sendings == sendings && !job.reply.is_closed() && job.request.uri().path() == path);
            assert_eq!(text(client.ask(get("/")).await.unwrap()).await, "fine");
        }
    })
    .await;
}

#[tokio::test]
async fn reset_stream_fails_its_body() {
    bounded(async {
        let mut client = Client::to(&h2::server::Builder::new(), |_, mut respond| async move {
            let mut stream = respond.send_response(Response::new(()), false).unwrap();
            pour(&mut stream, "begun".into(), false).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
            stream.send_reset(h2::Reason::INTERNAL_ERROR);
        });
        for (request, repeatable) in [(get("/"), true), (Request::post("http://a/").body("x".into()).unwrap(), false)] {
            let error = client.ask(request).await.unwrap().unwrap().into_body().collect().await.unwrap_err();
            let told = error.to_string();
            assert!(told.contains("INTERNAL_ERROR"), "{told}");
            assert_eq!(matches!(error, Error::Exchange { .. }), repeatable, "{told}");
        }
    })
    .await;
}

#[tokio::test]
async fn dropped_response_resets_only_its_stream() {
    bounded(async {
        let (observed, mut resets) = mpsc::unbounded_channel();
        let mut client = Client::to(&h2::server::Builder::new(), move |request, mut respond| {
            let observed = observed.clone();
            async move {
                let path = request.uri().path().to_owned();
                match path.as_str() {
                    "/silent" => {
                        observed.send((path, poll_fn(|context| respond.poll_reset(context)).await.unwrap())).unwrap();
                    }
                    "/endless" => {
                        let mut stream = respond.send_response(Response::new(()), false).unwrap();
                        pour(&mut stream, vec![0; 100 << 20].into(), true).await;
                        observed.send((path, poll_fn(|context| stream.poll_reset(context)).await.unwrap())).unwrap();
                    }
                    _ => answer(respond, 200, vec![1; 1 << 20]).await,
                }
            }
        });
        let others: Vec<_> = (0..5).map(|_| client.ask(get("/"))).collect();
        let silent = client.ask(get("/silent"));
        let endless = client.ask(get("/endless")).await.unwrap().unwrap();
        drop(silent);
        assert_eq!(resets.recv().await, Some(("/silent".to_owned(), h2::Reason::CANCEL)));
        drop(endless);
        assert_eq!(resets.recv().await, Some(("/endless".to_owned(), h2::Reason::CANCEL)));
        for other in others {
            assert_eq!(text(other.await.unwrap()).await.len(), 1 << 20);
        }
        let abandoned =
            client.finish().await.iter().filter(|report| matches!(report, ConnectionEvent::Abandoned { .. })).count();
        assert_eq!(abandoned, 2);
    })
    .await;
}

#[tokio::test]
async fn many_dropped_responses_do_not_end_the_connection() {
    bounded(async {
        let mut client = Client::to(&h2::server::Builder::new(), |_, respond| answer(respond, 200, vec![1; 400_000]));
        for _ in 0..20 {
            let begun: Vec<_> = (0..30).map(|_| client.ask(get("/"))).collect();
            for reply in begun {
                drop(reply.await.unwrap().unwrap());
            }
        }
        assert_eq!(text(client.ask(get("/")).await.unwrap()).await.len(), 400_000);
    })
    .await;
}

#[tokio::test]
async fn connection_end_returns_each_unanswered_job_once() {
    bounded(async {
        let cut = |bytes: &'static [u8]| async move {
            let (mut client, mut server, reader) = by_hand();
            let replies: Vec<_> = (0..150).map(|_| client.ask(get("/"))).collect();
            tokio::time::sleep(Duration::from_millis(20)).await;
            server.write_all(bytes).await.unwrap();
            reader.abort();
            let _ = reader.await;
            drop(server);
            let mut events = Vec::new();
            while let Some(report) = client.events.recv().await {
                events.push(report);
            }
            let mut ids = Vec::new();
            let mut cause = None;
            for report in events {
                match report {
                    ConnectionEvent::Returned { job, .. } => ids.push(job.id.0),
                    ConnectionEvent::Closed { unanswered, cause: why, .. } => {
                        ids.extend(unanswered.into_iter().map(|(job, _)| job.id.0));
                        cause = Some(why);
                    }
                    _ => {}
                }
            }
            ids.sort_unstable();
            assert_eq!(ids, (1..=150).collect::<Vec<_>>());
            for mut reply in replies {
                assert!(reply.try_recv().is_err());
            }
            cause.unwrap()
        };
        let cause = cut(b"").await;
        assert!(matches!(cause, Cause::Closed), "{cause}");
        let cause = cut(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").await;
        assert!(matches!(&cause, Cause::Protocol(why) if why.contains("HTTP/2")), "{cause}");
    })
    .await;
}

#[tokio::test]
async fn complete_body_is_readable_after_the_connection_ended() {
    bounded(async {
        let (mut client, mut server, reader) = by_hand();
        let data = |last| frame(0, u8::from(last), 1, &[7; 10_000]);
        let reply = client.ask(get("/"));
        let cut = client.ask(get("/"));
        server.write_all(&[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, 1, 0, &[])].concat()).await.unwrap();
        client.report(|report| matches!(report, ConnectionEvent::Streams { .. }).then_some(())).await;
        server.write_all(&[frame(HEADERS, 4, 1, OK), frame(HEADERS, 4, 3, OK)].concat()).await.unwrap();
        let (whole, cut) = (reply.await.unwrap().unwrap(), cut.await.unwrap().unwrap());
        for number in 0..100 {
            server.write_all(&data(number == 99)).await.unwrap();
        }
        server.write_all(&frame(0, 0, 3, b"begun")).await.unwrap();
        reader.abort();
        let _ = reader.await;
        drop(server);
        let closed = |report| match report {
            ConnectionEvent::Closed { unanswered, .. } => Some(unanswered),
            _ => None,
        };
        assert!(client.report(closed).await.is_empty());
        assert_eq!(text(Ok(whole)).await.len(), 1_000_000);
        let error = cut.into_body().collect().await.unwrap_err();
        assert!(matches!(error, Error::Exchange { cause: Cause::Closed, .. }), "{error}");
    })
    .await;
}
