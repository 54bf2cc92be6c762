//! Credentials are sent only to the origin or proxy that they are for.

use std::sync::{Arc, Mutex};

use haul_http::{
    Body, Client, Origin, Settings,
    auth::{Authenticator, Clear, Credential, Credentials, Kerberos, Netrc},
};
use http::{Request, StatusCode};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, copy_bidirectional};
use transport::{ConnectSettings, Connector, Offer, Proxies};

use crate::test_servers::{AMPLE, FAR, origin, serve, tunnel};

/// Request headers, verbatim.
type Heard = Arc<Mutex<Vec<String>>>;

async fn head(io: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> Option<String> {
    let (mut io, mut head) = (BufReader::with_capacity(1, io), String::new());
    while !head.ends_with("\r\n\r\n") {
        if io.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

/// A server that records its requests, and sends a given response.
async fn server(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> (Origin, Heard) {
    let (noticed, answer) = (Heard::default(), Arc::new(answer));
    let noted = noticed.clone();
    let address = serve(move |mut stream| {
        let (noted, answer) = (noted.clone(), answer.clone());
        async move {
            while let Some(head) = head(&mut stream).await {
                let answer = answer(&head);
                noted.lock().unwrap().push(head);
                if stream.write_all(answer.as_bytes()).await.is_err() {
                    return;
                }
            }
        }
    })
    .await;
    (origin("http", address), noticed)
}

fn wants(challenge: &str) -> String {
    format!("HTTP/1.1 401 No\r\nWWW-Authenticate: {challenge}\r\nContent-Length: 0\r\n\r\n")
}

const FINE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A credential cache (version 4) with a ticket for HTTP/localhost, and nothing in the ticket.
fn ticket() -> tempfile::NamedTempFile {
    let data = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let principal = |names: &[&[u8]]| {
        let count = (names.len() as u32).to_be_bytes();
        [&[0, 0, 0, 1], &count[..], &data(b"R"), &names.iter().flat_map(|name| data(name)).collect::<Vec<_>>()].concat()
    };
    let ann = principal(&[b"ann"]);
    let times = [0, 0, u32::MAX, 0].map(u32::to_be_bytes).concat();
    let key = [&[0, 18][..], &data(&[7; 32])].concat();
    // No flags, addresses or authorization data; the ticket; and no second one.
    let rest = [&[0; 13][..], &data(&[0x61, 0]), &[0; 4]].concat();
    let cache = [vec![5, 4, 0, 0], ann.clone(), ann, principal(&[b"HTTP", b"localhost"]), key, times, rest].concat();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, cache).unwrap();
    file
}

#[tokio::test]
async fn redirect_to_another_origin_carries_no_credentials() {
    const DIGEST: &str = "Digest realm=\"r\", nonce=\"n\", qop=\"auth\"";
    let password = Credential::Password { user: "me".into(), password: "secret".into() };
    let token = Credential::Token("secret".into());
    let cache = ticket();
    let kerberos = Credential::Kerberos(Kerberos::new(cache.path().to_owned()));
    for (challenge, given, own) in [
        ("Basic realm=\"r\"", Some(password.clone()), None),
        (DIGEST, Some(password), None),
        ("Bearer", Some(token), None),
        // The other origin is another port of the host, and its ticket would be the same.
        ("Negotiate", Some(kerberos), None),
        // A netrc entry applies to every origin of the host that the user names.
        ("Basic realm=\"r\"", None, None),
        ("Basic realm=\"r\"", None, Some("Bearer mine")),
    ] {
        // It sends the same challenge, and would get the credentials if it were the first origin.
        let (other, overheard) = server(move |_| wants(challenge)).await;
        let there = other.clone();
        let (first, noticed) = server(move |head| {
            if head.contains("authorization: ") && !(challenge == DIGEST && head.contains("Basic")) {
                format!("HTTP/1.1 307 There\r\nLocation: {there}/x\r\nContent-Length: 0\r\n\r\n")
            } else {
                wants(challenge)
            }
        })
        .await;
        let netrc = Netrc::parse("machine localhost login me password secret", "".as_ref()).unwrap();
        let mut credentials = Credentials::new(if given.is_none() && own.is_none() { netrc } else { Netrc::default() });
        match given {
            Some(credential) => credentials.set(first.clone(), credential),
            None => drop(credentials.admit(&first, None, &haul_http::auth::Environment::default(), |_| None)),
        }
        let settings = Settings { cookies: true, ..Settings::default() };
        let client = Client::new(settings, Authenticator::new(credentials, Clear::Allowed)).unwrap();
        let mut request = Request::get(format!("{first}/x")).body(Body::empty()).unwrap();
        if let Some(own) = own {
            request.headers_mut().insert("authorization", own.parse().unwrap());
            request.headers_mut().insert("cookie", "own=1".parse().unwrap());
        }
        let error = client.send(request).await.unwrap_err().to_string();
        assert!(error.contains(&other.to_string()) && !error.contains("secret"), "{challenge}: {error}");
        assert!(
            noticed.lock().unwrap().iter().any(|head| head.contains("authorization: ")),
            "the first origin got the credentials"
        );
        let overheard = overheard.lock().unwrap();
        assert!(!overheard.is_empty(), "the redirect was followed");
        for head in &*overheard {
            let head = head.to_lowercase();
            assert!(!head.contains("authorization") && !head.contains("cookie"), "{challenge}: {head}");
        }
    }
}

#[tokio::test]
async fn unsafe_request_is_not_redirected_to_another_origin() {
    for method in ["PUT", "DELETE", "MOVE"] {
        let (other, overheard) = server(|_| FINE.to_owned()).await;
        let there = other.clone();
        let moved = move |_: &str| format!("HTTP/1.1 308 There\r\nLocation: {there}/x\r\nContent-Length: 0\r\n\r\n");
        let (first, _) = server(moved).await;
        let client = Client::new(Settings::default(), Authenticator::default()).unwrap();
        let request = Request::builder().method(method).uri(format!("{first}/x")).body(Body::empty()).unwrap();
        let told = client.send(request).await.unwrap_err().to_string();
        assert!(told.contains(&format!("{other}/x")) && told.contains(method), "{told}");
        assert!(overheard.lock().unwrap().is_empty(), "{method}");
    }
}

/// A proxy that opens tunnels, and records its requests.
async fn proxy() -> (u16, Heard) {
    let noticed = Heard::default();
    let noted = noticed.clone();
    let address = serve(move |mut client| {
        let noted = noted.clone();
        async move {
            let Some(head) = head(&mut client).await else { return };
            let target = head.split(' ').nth(1).unwrap().to_owned();
            noted.lock().unwrap().push(head);
            let Ok(mut server) = tunnel(&target).await else { return };
            let _ = client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
    })
    .await;
    (address.port(), noticed)
}

#[tokio::test]
async fn proxy_password_is_sent_only_to_its_proxy() {
    let (near, noticed) = server(|_| FINE.to_owned()).await;
    let ((plain, by_plain), (secure, by_secure)) = (proxy().await, proxy().await);
    let proxies = Proxies::from_environment(|name| match name {
        "http_proxy" => Some(format!("http://me:plain@localhost:{plain}")),
        "HTTPS_PROXY" => Some(format!("http://me:secure@localhost:{secure}")),
        _ => None,
    })
    .unwrap();
    let connect = ConnectSettings { proxies, ..ConnectSettings::default() };
    let settings = Settings { connect: connect.clone(), ..Settings::default() };
    let client = Client::new(settings, Authenticator::default()).unwrap();
    let request = Request::get(format!("http://{FAR}:{}/", near.port())).body(Body::empty()).unwrap();
    assert_eq!(client.send(request).await.unwrap().status(), StatusCode::OK);
    let https = Origin::of(&format!("https://{FAR}:{}/", near.port()).parse().unwrap()).unwrap();
    let _ = Connector::new(connect).unwrap().connect(&https, Offer::Http1, AMPLE).await.unwrap_err();
    for (by, proxys) in [(by_plain, "bWU6cGxhaW4="), (by_secure, "bWU6c2VjdXJl")] {
        let by = by.lock().unwrap();
        assert!(by.len() == 1 && by[0].contains(&format!("Proxy-Authorization: Basic {proxys}")), "{by:?}");
        assert_eq!(by[0].matches("Basic").count(), 1);
    }
    let noticed = noticed.lock().unwrap();
    assert!(
        noticed[0].starts_with("GET /") && noticed.iter().all(|head| !head.to_lowercase().contains("proxy-")),
        "{noticed:?}"
    );
}
