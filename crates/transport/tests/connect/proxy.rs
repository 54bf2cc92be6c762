use std::sync::{Arc, Mutex};

use http::Version;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, copy_bidirectional};
use transport::{Cause, ConnectSettings, Connector, Io, Offer, Step};

use crate::test_servers::{AMPLE, Authority, FAR, Server, cause, far, hold, mute, outwaited, serve, through, tunnel};

/// The requests of a proxy, verbatim.
type Asked = Arc<Mutex<Vec<String>>>;

/// A proxy that opens tunnels.
async fn relay(client: impl AsyncRead + AsyncWrite + Unpin, asked: Asked) {
    let mut client = BufReader::new(client);
    let mut request = String::new();
    while !request.ends_with("\r\n\r\n") {
        if client.read_line(&mut request).await.unwrap_or(0) == 0 {
            return;
        }
    }
    let target = request.split(' ').nth(1).unwrap().to_owned();
    asked.lock().unwrap().push(request);
    let Ok(mut server) = tunnel(&target).await else { return };
    let _ = client.write_all(b"HTTP/1.1 200 Connection established\r\nX-Proxy: yes\r\n\r\n").await;
    let _ = copy_bidirectional(&mut client, &mut server).await;
}

fn connector(proxy: &str) -> Connector {
    Connector::new(ConnectSettings { proxies: through(proxy), ..ConnectSettings::default() }).unwrap()
}

/// A connector through a proxy that sends `answer` to any request, and then waits.
async fn answered(user: &str, answer: impl Into<Vec<u8>>) -> Connector {
    let answer = Arc::new(answer.into());
    let address = serve(move |mut stream| {
        let answer = answer.clone();
        async move {
            let _ = stream.read(&mut [0; 1024]).await;
            let _ = stream.write_all(&answer).await;
            hold(stream).await;
        }
    })
    .await;
    connector(&format!("http://{user}{address}"))
}

#[tokio::test]
async fn tunnel_works_like_a_direct_connection() {
    let authority = Authority::new();
    let secure = Server { name: FAR, ..Server::new(&authority) }.start_far().await;
    let plain = far(
        "http",
        serve(|mut stream| async move {
            let _ = stream.write_all(b".").await;
            hold(stream).await;
        })
        .await,
    );
    let asked = Asked::default();
    let proxy = serve({
        let asked = asked.clone();
        move |stream| relay(stream, asked.clone())
    })
    .await;
    let mut settings = authority.settings();
    settings.proxies = through(&format!("me:p%40ss@{proxy}"));
    let connector = Connector::new(settings).unwrap();
    for (origin, offer, version) in [
        (&secure, Offer::Both, Version::HTTP_2),
        (&secure, Offer::Http1, Version::HTTP_11),
        (&plain, Offer::Http2, Version::HTTP_2),
    ] {
        let mut connected = connector.connect(origin, offer, AMPLE).await.unwrap();
        connected.io.read_exact(&mut [0]).await.unwrap();
        let facts = &connected.facts;
        assert_eq!((connected.version, facts.peer), (version, proxy));
        assert_eq!(facts.proxy.as_ref().unwrap().to_string(), format!("http://{proxy}"));
        assert!(facts.tunnel.is_some() && facts.tls.is_some() == origin.is_tls());
        assert!(connected.io.tcp_info().is_some());
        let request = asked.lock().unwrap().pop().unwrap();
        let target = format!("{FAR}:{}", origin.port());
        // "me:p@ss" in base64.
        let expected =
            format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n");
        assert_eq!(request, expected);
    }
}

#[tokio::test]
async fn tls_proxy_is_verified_even_if_the_origin_is_not() {
    let (authority, stranger) = (Authority::new(), Authority::named("a stranger"));
    // The origin's certificate has expired, which `unverified` allows for the origin but not for the proxy.
    let origin = Server { year: 2020, ..Server::new(&stranger) }.start_far().await;
    let proxy = async |vouched: &Authority| {
        let acceptor = Server { alpn: &["http/1.1"], ..Server::new(vouched) }.acceptor();
        serve(move |stream| {
            let acceptor = acceptor.clone();
            async move {
                if let Ok(tls) = acceptor.accept(stream).await {
                    relay(tls, Asked::default()).await;
                }
            }
        })
        .await
    };
    let mut settings = authority.settings();
    settings.tls.unverified = true;
    let good = proxy(&authority).await;
    settings.proxies = through(&format!("https://localhost:{}", good.port()));
    let mut connected = Connector::new(settings.clone()).unwrap().connect(&origin, Offer::Both, AMPLE).await.unwrap();
    connected.io.read_exact(&mut [0]).await.unwrap();
    assert!(connected.io.tcp_info().is_some());

    let bad = proxy(&stranger).await;
    settings.proxies = through(&format!("https://localhost:{}", bad.port()));
    let told = cause(Connector::new(settings).unwrap().connect(&origin, Offer::Both, AMPLE).await);
    assert!(matches!(&told, Cause::Proxy(why) if why.contains("not from a trusted authority")), "{told}");
}

#[tokio::test]
async fn bytes_behind_the_connect_response_are_not_lost() {
    let connector = answered("", b"HTTP/1.1 200 OK\r\n\r\nfirst words").await;
    let plain = far("http", ([127, 0, 0, 1], 9).into());
    let mut connected = connector.connect(&plain, Offer::Http2, AMPLE).await.unwrap();
    let mut words = [0; 11];
    connected.io.read_exact(&mut words).await.unwrap();
    assert_eq!(&words, b"first words");
    assert!(connected.io.tcp_info().is_some());
}

#[tokio::test]
async fn proxy_refusal_is_one_sentence() {
    let answer = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 6\r\n\r\nsecret").into_bytes();
    let endless = [&b"HTTP/1.1 200 OK\r\n"[..], &b"X-More: of it\r\n".repeat(100_000)].concat();
    for (user, answer, said) in [
        ("", answer("407 Who are you"), "requires authentication"),
        ("me:secret@", answer("407 Who are you"), "rejected the user and password"),
        ("", answer("403 No"), "refused a tunnel to far.test:9 (403 Forbidden); many proxies"),
        ("", answer("302 Elsewhere"), "302"),
        ("", b"SSH-2.0-OpenSSH\r\n\r\n".to_vec(), "not HTTP"),
        ("", endless, "16384 bytes"),
    ] {
        let connector = answered(user, answer).await;
        let plain = far("http", ([127, 0, 0, 1], 9).into());
        let error = connector.connect(&plain, Offer::Http1, AMPLE).await.unwrap_err();
        let told = error.to_string();
        assert!(told.contains(said) && told.contains("the proxy http://127.0.0.1:"), "{told}");
        assert!(!told.contains("secret") && !format!("{error:?} {connector:?}").contains("secret"), "{told}");
        assert!(matches!(cause::<()>(Err(error)), Cause::Proxy(_)));
    }
}

#[tokio::test]
async fn silent_or_unreachable_proxy_is_named_in_the_error() {
    let (address, told) = mute().await;
    let silent = connector(&address.to_string());
    let secure = far("https", ([127, 0, 0, 1], 9).into());
    let silent = cause(outwaited(told, silent.connect(&secure, Offer::Both, AMPLE)).await);
    assert!(matches!(silent, Cause::TimedOut(Step::Proxy, AMPLE)), "{silent:?}");

    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let absent = connector(&closed.local_addr().unwrap().to_string());
    let absent = cause(absent.connect(&secure, Offer::Both, AMPLE).await);
    assert!(matches!(&absent, Cause::Proxy(why) if why.contains("refused")), "{absent:?}");
}
