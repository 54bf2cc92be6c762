//! HTTP/2 servers that keep a request waiting: each wait has a timeout, and its error names what was awaited.

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use haul_http::{Body, Client, Origin, Settings, auth::Authenticator};
use http::{Request, Version};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    time::timeout,
};
use transport::{ConnectError, Connected, Dial, Dialed, Offer};

use super::server::nothing_special;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// The error code (RFC 9113 §7).
const REFUSED_STREAM: u32 = 7;

/// Length of the client's preface (RFC 9113 §3.4).
const PREFACE: usize = 24;

/// The frames that a server sends first, and for each request on its stream.
#[derive(Clone)]
struct Server {
    settings: Vec<u8>,
    answer: fn(stream: u32) -> Vec<u8>,
}

impl Dial for Server {
    fn dial<'a>(
        &'a self,
        _: &'a Origin,
        _: Offer,
        _: bool,
        _: Option<&'a Origin>,
        _: Duration,
    ) -> BoxFuture<'a, Result<Dialed, ConnectError>> {
        let (near, far) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve(far, self.clone()));
        let connected =
            Connected { io: Box::new(near), version: Version::HTTP_2, facts: nothing_special(), confirmation: None };
        Box::pin(async move { Ok(Dialed::Stream(Box::new(connected))) })
    }

    fn takes_quic(&self, _: &Origin) -> bool {
        false
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

async fn serve(stream: DuplexStream, server: Server) -> std::io::Result<()> {
    let (mut read, mut write) = tokio::io::split(stream);
    let mut preface = [0; PREFACE];
    read.read_exact(&mut preface).await?;
    write.write_all(&frame(SETTINGS, 0, 0, &server.settings)).await?;
    loop {
        let mut header = [0; 9];
        read.read_exact(&mut header).await?;
        let [high, middle, low, kind, flags, stream @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        read.read_exact(&mut payload).await?;
        match kind {
            HEADERS => write.write_all(&(server.answer)(u32::from_be_bytes(stream))).await?,
            PING if flags & ACK == 0 => write.write_all(&frame(PING, ACK, 0, &payload)).await?,
            _ => {}
        }
    }
}

/// The error of a request, and the seconds until it came.
async fn error(server: Server, method: &str) -> (String, u64) {
    let client = Client::with_dialer(Settings::default(), Authenticator::default(), Arc::new(server));
    let request = Request::builder().method(method).uri("https://model/file").body(Body::empty()).unwrap();
    let began = tokio::time::Instant::now();
    let answer = timeout(Duration::from_hours(1), client.send(request)).await.expect("an error in time");
    (answer.unwrap_err().to_string(), began.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn zero_stream_limit_fails_after_two_connections() {
    // SETTINGS_MAX_CONCURRENT_STREAMS (RFC 9113 §6.5.2).
    let answer = |stream| frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes());
    let server = Server { settings: vec![0, 3, 0, 0, 0, 0], answer };
    for method in ["GET", "PUT", "POST"] {
        let (error, after) = error(server.clone(), method).await;
        assert!(error.contains("the server allowed no request on the connection for 30 s"), "{error}");
        assert!(after <= 90, "{method}: {after} s");
    }
}

#[tokio::test(start_paused = true)]
async fn endless_interim_responses_over_http2_are_an_error() {
    // `:status: 103` as a literal (RFC 7541 §6.2.2).
    let answer = |stream| frame(HEADERS, END_HEADERS, stream, b"\x08\x03103").repeat(200);
    let (error, after) = error(Server { settings: Vec::new(), answer }, "GET").await;
    assert!(error.contains("again and again"), "{error}");
    assert!(after < 30, "{after} s");
}
