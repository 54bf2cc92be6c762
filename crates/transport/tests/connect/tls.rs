use http::Version;
use rustls::version::{TLS12, TLS13};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transport::{Cause, ConnectError, ConnectSettings, Connector, Facts, Io, Offer, Origin, TlsFacts, TlsSettings};

use crate::test_servers::{AMPLE, Authority, Server, cause, origin, serve};

/// Connects, and reads the greeting: the TLS 1.3 tickets come before it.
async fn meet(connector: &Connector, origin: &Origin, offer: Offer) -> Result<(Version, Facts), ConnectError> {
    let mut connected = connector.connect(origin, offer, AMPLE).await?;
    connected.io.read_exact(&mut [0]).await.unwrap();
    assert!(connected.io.tcp_info().is_some());
    Ok((connected.version, connected.facts))
}

async fn sentence(connector: &Connector, origin: &Origin) -> String {
    let error = connector.connect(origin, Offer::Both, AMPLE).await.unwrap_err();
    let told = error.to_string();
    assert!(matches!(cause::<()>(Err(error)), Cause::Tls(_)), "{told}");
    assert!(told.contains(&origin.to_string()), "{told}");
    told
}

#[tokio::test]
async fn sessions_are_resumed_only_by_their_connector() {
    let authority = Authority::new();
    for (version, name) in [(&TLS13, "1.3"), (&TLS12, "1.2")] {
        let origin = Server { versions: &[version], ..Server::new(&authority) }.start().await;
        let (one, other) = (authority.connector(), authority.connector());
        let tls = async |connector, offer| -> TlsFacts {
            let (_, facts) = meet(connector, &origin, offer).await.unwrap();
            facts.tls.unwrap()
        };
        let first = tls(&one, Offer::Http1).await;
        assert_eq!((first.version, first.resumed), (name, false));
        assert!(first.cipher_suite.starts_with("TLS_") && !first.handshake.is_zero(), "{first:?}");
        let second = tls(&one, Offer::Http2).await;
        assert!(second.resumed);
        assert_eq!(second.alpn.as_deref(), Some("h2"));
        assert!(tls(&one, Offer::Both).await.resumed);
        assert!(!tls(&other, Offer::Http1).await.resumed);
    }
}

#[tokio::test]
async fn server_selects_a_protocol_of_the_offer() {
    let authority = Authority::new();
    let connector = authority.connector();
    for (speaks, offer, agreed) in [
        (&["h2", "http/1.1"][..], Offer::Both, Some((Version::HTTP_2, Some("h2")))),
        (&["http/1.1", "h2"], Offer::Both, Some((Version::HTTP_11, Some("http/1.1")))),
        (&["h2", "http/1.1"], Offer::Http1, Some((Version::HTTP_11, Some("http/1.1")))),
        (&["h2", "http/1.1"], Offer::Http2, Some((Version::HTTP_2, Some("h2")))),
        // A server without ALPN.
        (&[], Offer::Both, Some((Version::HTTP_11, None))),
        (&[], Offer::Http1, Some((Version::HTTP_11, None))),
        (&[], Offer::Http2, None),
        (&["http/1.1"], Offer::Http2, None),
    ] {
        let origin = Server { alpn: speaks, ..Server::new(&authority) }.start().await;
        let met = meet(&connector, &origin, offer).await;
        if let Some((version, alpn)) = agreed {
            let (spoken, facts) = met.unwrap();
            assert_eq!((spoken, facts.tls.unwrap().alpn.as_deref()), (version, alpn), "{speaks:?} {offer:?}");
        } else {
            let told = met.unwrap_err().to_string();
            assert!(told.contains("does not speak HTTP/2") || told.contains("none of the offered protocols"), "{told}");
        }
    }
}

#[tokio::test]
async fn error_says_what_is_wrong_with_a_certificate() {
    let (authority, stranger) = (Authority::new(), Authority::named("a stranger"));
    let connector = authority.connector();

    let told = sentence(&connector, &Server { name: "other.example", ..Server::new(&authority) }.start().await).await;
    assert!(told.contains("is for other.example, not for localhost"), "{told}");

    let told = sentence(&connector, &Server { year: 2020, ..Server::new(&authority) }.start().await).await;
    assert!(told.contains("expired") && told.contains("days ago"), "{told}");

    let told = sentence(&connector, &Server::new(&stranger).start().await).await;
    assert!(
        told.contains("not from a trusted authority") && told.contains(&*authority.file().to_string_lossy()),
        "{told}"
    );

    let again = Authority::new();
    let told = sentence(&connector, &Server::new(&again).start().await).await;
    assert!(told.contains("replaced"), "{told}");
}

#[tokio::test]
async fn unverified_connects_to_any_certificate() {
    let stranger = Authority::new();
    let origin = Server { name: "other.example", year: 2020, ..Server::new(&stranger) }.start().await;
    let tls = TlsSettings { unverified: true, ..TlsSettings::default() };
    let connector = Connector::new(ConnectSettings { tls, ..ConnectSettings::default() }).unwrap();
    for resumed in [false, true] {
        let (_, facts) = meet(&connector, &origin, Offer::Both).await.unwrap();
        assert_eq!(facts.tls.unwrap().resumed, resumed);
    }
}

#[tokio::test]
async fn settings_for_one_host_do_not_apply_to_another() {
    let authority = Authority::new();
    let one = Server::new(&authority).start().await;
    let other = Server { name: "other.localhost", ..Server::new(&authority) }.start().await;
    let other = Origin::of(&format!("https://other.localhost:{}/", other.port()).parse().unwrap()).unwrap();
    for unverified in [false, true] {
        for (only, is_met) in [(None, true), (Some("localhost".to_owned()), false)] {
            let mut settings = authority.settings();
            (settings.tls.unverified, settings.tls.only) = (unverified, only);
            // The other name needs no DNS.
            let reach = async |to: &Origin| {
                let mut settings = settings.clone();
                settings.tcp.instead = Some(([127, 0, 0, 1], to.port()).into());
                meet(&Connector::new(settings).unwrap(), to, Offer::Both).await
            };
            reach(&one).await.unwrap();
            match reach(&other).await {
                Ok(_) => assert!(is_met),
                Err(error) => {
                    let told = error.to_string();
                    assert!(
                        !is_met && told.contains("not from a trusted authority") && !told.contains("ca.pem"),
                        "{told}"
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn client_certificate_is_sent_on_demand_or_named_as_missing() {
    let (authority, stranger) = (Authority::new(), Authority::named("a stranger"));
    let with = |identity| {
        let mut settings = authority.settings();
        settings.tls.identity = identity;
        Connector::new(settings).unwrap()
    };
    for version in [&TLS13, &TLS12] {
        let server = Server { versions: &[version], clients: Some(&authority), ..Server::new(&authority) };
        let origin = server.start().await;
        meet(&with(Some(authority.identity(&origin))), &origin, Offer::Both).await.unwrap();
        for (identity, said) in
            [(None, "requires a client certificate"), (Some(stranger.identity(&origin)), "rejected")]
        {
            // TLS 1.3 reports a rejected client certificate only on the first read.
            let told = match with(identity).connect(&origin, Offer::Both, AMPLE).await {
                Err(error) => error.to_string(),
                Ok(mut connected) => Cause::from(connected.io.read_exact(&mut [0]).await.unwrap_err()).to_string(),
            };
            assert!(told.contains(said), "{version:?}: {told}");
        }
    }
}

#[tokio::test]
async fn mismatched_key_and_certificate_are_named() {
    let (one, other) = (Authority::new(), Authority::new());
    let origin = origin("https", ([127, 0, 0, 1], 9).into());
    let mut identity = one.identity(&origin);
    identity.key = other.identity(&origin).key;
    let key = identity.key.clone();
    let mut settings = one.settings();
    settings.tls.identity = Some(identity);
    let told = Connector::new(settings).unwrap_err().to_string();
    assert!(told.contains(&*key.to_string_lossy()) && told.contains("client.pem"), "{told}");
}

#[tokio::test]
async fn plain_http_server_is_recognized() {
    let address = serve(|mut stream| async move {
        let _ = stream.read(&mut [0; 1024]).await;
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        crate::test_servers::hold(stream).await;
    })
    .await;
    let told = sentence(&Authority::new().connector(), &origin("https", address)).await;
    assert!(told.contains("plain http"), "{told}");
}

#[tokio::test]
async fn close_during_the_handshake_is_reported_as_such() {
    let address = serve(|mut stream| async move {
        let _ = stream.read(&mut [0; 4096]).await;
    })
    .await;
    let told = sentence(&Authority::new().connector(), &origin("https", address)).await;
    assert!(told.contains("closed the connection during the TLS handshake"), "{told}");
}

#[tokio::test]
async fn client_certificate_is_sent_only_to_its_origin() {
    let authority = Authority::new();
    for version in [&TLS13, &TLS12] {
        let versions = [version];
        let demanding = || Server { versions: &versions, clients: Some(&authority), ..Server::new(&authority) };
        // Both have the same name, and the certificate is valid for both.
        let (ours, other) = (demanding().start().await, demanding().start().await);
        let mut settings = authority.settings();
        settings.tls.identity = Some(authority.identity(&ours));
        let connector = Connector::new(settings).unwrap();
        meet(&connector, &ours, Offer::Both).await.unwrap();
        let told = match connector.connect(&other, Offer::Both, AMPLE).await {
            Err(error) => error.to_string(),
            Ok(mut connected) => Cause::from(connected.io.read_exact(&mut [0]).await.unwrap_err()).to_string(),
        };
        assert!(told.contains("requires a client certificate") && !told.contains("client.pem"), "{told}");
        meet(&connector, &ours, Offer::Both).await.unwrap();
    }
}
