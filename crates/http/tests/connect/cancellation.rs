//! Cancelled requests do not arrive late, and what may arrive late is told from what was never sent.

use std::{
    io::ErrorKind,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haul_http::{Body, Client, Error, Settings, Timeouts, Versions, auth::Authenticator};
use http::Request;
use rustls::ServerConfig;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    sync::mpsc,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;
use transport::ConnectSettings;

use crate::test_servers::{AMPLE, Authority, Server, hold, origin, outwaited, serve};

/// The server starts to read after the client has cancelled its upload. It must find a reset, not the bytes buffered in
/// the kernels and a FIN.
#[tokio::test]
async fn cancelled_upload_is_removed_from_the_send_buffer() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let (let_read, may_read) = tokio::sync::watch::channel(false);
    let address = serve(move |mut stream| {
        let (tell, mut may_read) = (tell.clone(), may_read.clone());
        async move {
            let _ = may_read.wait_for(|may| *may).await;
            let mut buffer = vec![0; 64 * 1024];
            let end = loop {
                match stream.read(&mut buffer).await {
                    Ok(1..) => {}
                    Ok(0) => break None,
                    Err(error) => break Some(error.kind()),
                }
            };
            let _ = tell.send(end);
        }
    })
    .await;
    let brief = Duration::from_millis(300);
    let timeouts = Timeouts { first_byte: brief, stall: brief, ..Timeouts::default() };
    let settings = Settings { timeouts, connections: 1, ..Settings::default() };
    let client = Client::new(settings, Authenticator::default()).unwrap();
    let request = Request::put(format!("{}/file", origin("http", address)));
    let outcome = client.send(request.body(Body::from(vec![7; 32 << 20])).unwrap()).await;
    assert!(outcome.is_err());
    let_read.send(true).unwrap();
    let end = timeout(AMPLE, told.recv()).await.unwrap().unwrap();
    assert_eq!(end, Some(ErrorKind::ConnectionReset));
}

/// The server ends after it has read an upload. That no connection can be made for another copy says nothing of the first.
#[tokio::test]
async fn upload_that_was_sent_does_not_count_as_never_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("{}/file", origin("http", listener.local_addr().unwrap()));
    let client = Client::new(Settings::default(), Authenticator::default()).unwrap();
    let put = || client.send(Request::put(&url).body(Body::from("content")).unwrap());
    let server = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        drop(listener);
        let mut read = Vec::new();
        while !read.ends_with(b"content") {
            assert!(stream.read_buf(&mut read).await.unwrap() > 0);
        }
    };
    let (first, ()) = timeout(AMPLE, async { tokio::join!(put(), server) }).await.unwrap();
    assert!(matches!(first, Err(Error::Exchange { .. })), "{first:?}");
    let second = timeout(AMPLE, put()).await.unwrap();
    assert!(matches!(second, Err(Error::Connect(_))), "{second:?}");
}

/// With early data, an unsafe request still waits for the handshake, but with a timeout.
#[tokio::test]
async fn endless_handshake_behind_early_data_times_out() {
    let authority = Authority::new();
    let mut config = ServerConfig::clone(Server::new(&authority).acceptor().config());
    (config.max_early_data_size, config.alpn_protocols) = (16_384, vec![b"http/1.1".to_vec()]);
    let (acceptor, connections) = (TlsAcceptor::from(Arc::new(config)), Arc::new(AtomicUsize::new(0)));
    let (tell, told) = mpsc::unbounded_channel();
    let address = serve(move |mut stream| {
        let (acceptor, connections, tell) = (acceptor.clone(), connections.clone(), tell.clone());
        async move {
            if connections.fetch_add(1, Ordering::SeqCst) > 0 {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = tell.send(());
                return hold(stream).await;
            }
            let mut tls = acceptor.accept(stream).await.unwrap();
            let _ = tls.read(&mut [0; 4096]).await;
            let _ = tls.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").await;
            let _ = tls.shutdown().await;
        }
    })
    .await;
    let bound = Duration::from_secs(20);
    let timeouts = Timeouts { connect: bound, first_byte: bound, pipelined: bound, stall: bound, idle: 100 * bound };
    let connect = ConnectSettings { tls: authority.settings().tls, ..ConnectSettings::default() };
    let settings = Settings { versions: Versions::Http1, timeouts, connect, ..Settings::default() };
    let client = Client::new(settings, Authenticator::default()).unwrap();
    let send = |request: http::request::Builder| client.send(request.body(Body::from("")).unwrap());
    let url = format!("{}/file", origin("https", address));
    send(Request::get(&url)).await.unwrap();
    // The connection is idle: only a timeout of the handshake itself ends it before the idle timeout.
    let outcome = outwaited(told, timeout(50 * bound, send(Request::put(&url)))).await;
    assert!(outcome.expect("the handshake has its own timeout").is_err());
}
