use std::net::Ipv4Addr;

use http::Version;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};
use transport::{Cause, ConnectSettings, Connector, Io, Offer, Step};

use crate::test_servers::{AMPLE, BRIEF, cause, mute, origin, outwaited, serve};

#[tokio::test]
async fn plain_connection_has_its_version_and_tcp_info() {
    let address = serve(|mut stream| async move {
        let (mut read, mut write) = stream.split();
        let _ = tokio::io::copy(&mut read, &mut write).await;
    })
    .await;
    let connector = Connector::new(ConnectSettings::default()).unwrap();
    for (offer, version) in
        [(Offer::Http1, Version::HTTP_11), (Offer::Both, Version::HTTP_11), (Offer::Http2, Version::HTTP_2)]
    {
        let mut connected = connector.connect(&origin("http", address), offer, AMPLE).await.unwrap();
        assert_eq!((connected.version, connected.facts.peer), (version, address));
        assert!(connected.facts.tls.is_none() && connected.facts.proxy.is_none() && connected.facts.tunnel.is_none());
        assert!(!connected.facts.tcp.is_zero() && !connected.facts.lookup.is_zero(), "{:?}", connected.facts);
        let mut echo = [0; 4];
        connected.io.write_all(b"echo").await.unwrap();
        connected.io.read_exact(&mut echo).await.unwrap();
        assert_eq!(&echo, b"echo");
        assert_eq!(connected.io.tcp_info().unwrap().bytes_received, Some(4));
    }
}

#[tokio::test]
async fn refused_connection_error_names_the_address() {
    // Bound but not listening: connections are refused, and no other process can take the port.
    let closed = tokio::net::TcpSocket::new_v4().unwrap();
    closed.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    let address = closed.local_addr().unwrap();
    let connector = Connector::new(ConnectSettings::default()).unwrap();
    let told = connector.connect(&origin("http", address), Offer::Http1, AMPLE).await.unwrap_err().to_string();
    assert!(told.contains(&format!("http://localhost:{}", address.port())), "{told}");
    assert!(told.contains(&address.to_string()) && told.contains("refused"), "{told}");
}

#[tokio::test]
async fn unknown_host_error_names_the_host() {
    let nowhere = transport::Origin::of(&"http://nowhere.invalid/".parse().unwrap()).unwrap();
    let connector = Connector::new(ConnectSettings::default()).unwrap();
    match cause(connector.connect(&nowhere, Offer::Http1, AMPLE).await) {
        Cause::Io(error) => assert!(error.to_string().contains("nowhere.invalid"), "{error}"),
        // A resolver without a network.
        other => assert!(matches!(other, Cause::TimedOut(Step::Resolve, _)), "{other:?}"),
    }
}

#[tokio::test]
async fn timeout_error_names_the_step() {
    let connector = Connector::new(ConnectSettings::default()).unwrap();
    let step = |cause| match cause {
        Cause::TimedOut(step, after) => (step, after),
        other => panic!("{other:?}"),
    };
    // A listener with a full accept queue ignores SYNs.
    let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    full.bind(&std::net::SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    full.listen(0).unwrap();
    let address = full.local_addr().unwrap().as_socket().unwrap();
    let _queued = tokio::net::TcpStream::connect(address).await.unwrap();
    let silent = connector.connect(&origin("http", address), Offer::Http1, BRIEF).await;
    assert_eq!(step(cause(silent)), (Step::Connect, BRIEF));

    let (address, told) = mute().await;
    let secure = origin("https", address);
    let silent = outwaited(told, connector.connect(&secure, Offer::Both, AMPLE)).await;
    assert_eq!(step(cause(silent)), (Step::Tls, AMPLE));
}

#[tokio::test]
async fn cancelled_connect_leaves_no_connection() {
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let address = serve(move |mut stream| {
        let told = told.clone();
        async move {
            let mut hello = [0; 4096];
            while let Ok(read) = stream.read(&mut hello).await {
                told.send(read).unwrap();
                if read == 0 {
                    break;
                }
            }
        }
    })
    .await;
    let connector = Connector::new(ConnectSettings::default()).unwrap();
    let connecting =
        tokio::spawn(async move { connector.connect(&origin("https", address), Offer::Both, AMPLE).await });
    let mut next = async || timeout(AMPLE, heard.recv()).await.expect("the server hears of it").unwrap();
    assert_ne!(next().await, 0);
    connecting.abort();
    while next().await != 0 {}
}
