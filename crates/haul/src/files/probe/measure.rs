//! What is asked of the server, and what the answers say.

use std::{
    error::Error,
    net::SocketAddr,
    time::{Duration, SystemTime},
};

use ::dav::{Capabilities, Depth, ETags, Entry, PropertySet, RemotePath};
use futures_util::future::join_all;
use haul_http::{
    Answer, Body, Class, Client, Options, ResponseInfo, Versions,
    auth::Authenticator,
    digest::{Algorithm, Field, claims, want},
};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version, header};
use http_body_util::BodyExt;
use tokio::{
    io::AsyncReadExt,
    time::{sleep, timeout},
};
use transport::{ConnectSettings, Connector, Facts, FastOpen, Io, Offer};

use super::{Connection, Dav, Found, Http3, Pipelining, Tls, fast_open, origin};
use crate::files::session::Session;

/// How long a server's TLS tickets are waited for beyond a round trip.
const TICKETS: Duration = Duration::from_millis(100);
/// How long, and how often, a connection that has answered is waited for to tell its windows.
const WINDOW_PAUSE: Duration = Duration::from_millis(5);
const WINDOW_LOOKS: u32 = 100;
/// How long an answer over QUIC is waited for, beyond its round trips, where none was announced.
const QUIC_WAIT: Duration = Duration::from_millis(500);
/// So many requests make the pipeline.
const PIPELINE: usize = 6;
/// No body here is larger: what a Nextcloud says of itself is some ten kilobytes.
const LARGEST: usize = 1024 * 1024;

/// Fills in what can be found out, about TCP Fast Open if `uses_tfo`; an error if there is nothing to talk to, or nothing
/// at the path.
pub(super) async fn measure(
    session: &Session,
    path: &RemotePath,
    uses_tfo: bool,
    found: &mut Found,
) -> Result<(), Box<dyn Error>> {
    let server = connections(session, found).await?;
    if uses_tfo {
        found.connection.fast_open = fast_open::measure(session, server).await;
    }
    let abilities = options(session, path, found).await?;
    http3(session, found).await;
    let (abilities, file) = listing(session, path, abilities, found).await?;
    found.files.etags = match abilities.etags {
        ETags::Unknown => None,
        ETags::None => Some("none"),
        ETags::Weak => Some("weak"),
        ETags::Strong => Some("strong"),
    };
    pipeline(session, path, found).await;
    if let Some(file) = file {
        one_byte(session, &file, found).await;
    }
    found.server.clone_from(&abilities.server);
    found.family = format!("{:?}", abilities.family).to_lowercase();
    describe(&abilities, &mut found.dav);
    Ok(())
}

/// Two connections: what is negotiated on the first, and whether the second may begin where that one ended.
async fn connections(session: &Session, found: &mut Found) -> Result<SocketAddr, Box<dyn Error>> {
    let (origin, settings) = (origin(session), &session.settings.client);
    // So that each step is timed by itself.
    let connector = Connector::new(ConnectSettings { fast_open: FastOpen::Off, ..settings.connect.clone() })?;
    let mut first = connector.connect(origin, Offer::Both, settings.timeouts.connect).await?;
    let rtt = first.io.tcp_info().map(|info| info.min_rtt.unwrap_or(info.rtt));
    let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
    let server = first.facts.peer;
    let Facts { peer, proxy, lookup, tcp, tls, .. } = &first.facts;
    found.connection = Connection {
        address: peer.to_string(),
        proxy: proxy.as_ref().map(ToString::to_string),
        look_up_ms: milliseconds(*lookup),
        tcp_handshake_ms: milliseconds(*tcp),
        rtt_ms: rtt.map(milliseconds),
        tls: tls.as_ref().map(|tls| Tls {
            version: tls.version.to_owned(),
            cipher_suite: tls.cipher_suite.clone(),
            handshake_ms: milliseconds(tls.handshake),
            ..Tls::default()
        }),
        fast_open: None,
    };
    if first.version != Version::HTTP_2 && !origin.is_tls() {
        found.http.versions.push("1.1");
        return Ok(server);
    }
    // TLS 1.3 hands out tickets after the handshake: they are read with whatever comes first.
    let wait = rtt.unwrap_or_default() * 2 + TICKETS;
    let _ = timeout(wait, first.io.read(&mut [0; 1024])).await;
    let is_http2 = first.version == Version::HTTP_2;
    drop(first);
    if let Ok(second) = connector.connect(origin, Offer::Http1, settings.timeouts.connect).await {
        found.http.versions.push("1.1");
        if let (Some(tls), Some(told)) = (&mut found.connection.tls, second.facts.tls) {
            tls.resumes = told.resumed;
            tls.second_handshake_ms = milliseconds(told.handshake);
        }
    }
    if is_http2 {
        found.http.versions.push("2");
        windows(session, found).await;
    }
    Ok(server)
}

/// Whether the server has HTTP/3: where an answer has announced it, or else at its own port.
async fn http3(session: &Session, found: &mut Found) {
    let (origin, settings) = (origin(session), &session.settings.client);
    let Ok(connector) = Connector::new(settings.connect.clone()) else { return };
    if !connector.takes_quic(origin) {
        return;
    }
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let known = session.dav.client().alt_svc(origin);
    let is_announced = known.is_offered(now);
    // Most servers without HTTP/3 do not answer at all.
    let usual = found.connection.rtt_ms.map_or(QUIC_WAIT, |ms| QUIC_WAIT + Duration::from_secs_f64(ms * 4.0 / 1000.0));
    let wait = if is_announced { settings.timeouts.connect } else { usual.min(settings.timeouts.connect) };
    let at = known.alternative(origin, now);
    let is_reached = connector.connect_quic(origin, at.as_ref(), false, wait).await.is_ok();
    if is_reached {
        found.http.versions.push("3");
    }
    found.http.http3 = Some(match (is_reached, is_announced) {
        (true, _) => Http3::Works,
        (false, true) => Http3::Announced,
        (false, false) => Http3::None,
    });
}

/// How much the server's HTTP/2 takes unasked. Any answer will do, also one that wants a password.
async fn windows(session: &Session, found: &mut Found) {
    let mut settings = session.settings.client.clone();
    settings.versions = Versions::Http2;
    let Ok(client) = Client::new(settings, Authenticator::default()) else { return };
    let (origin, options) = (origin(session), session.dav.requests().plain(Method::OPTIONS, &RemotePath::root()));
    let Ok(options) = options else { return };
    let _ = client.send(options.map(Body::from)).await;
    // They are told beside the answer, and may come to us after it.
    for _ in 0..WINDOW_LOOKS {
        if let Some(windows) = client.windows(origin) {
            found.http.http2_stream_window = Some(windows.stream);
            found.http.http2_connection_window = Some(windows.connection);
            return;
        }
        sleep(WINDOW_PAUSE).await;
    }
}

/// What the server says that it can do at the path.
async fn options(session: &Session, path: &RemotePath, found: &mut Found) -> Result<Capabilities, Box<dyn Error>> {
    let request = session.dav.requests().plain(Method::OPTIONS, path)?.map(Body::from);
    let answer = match session.dav.send(request, path).await {
        Ok(answer) => answer,
        // It does not do OPTIONS, and may do the rest.
        Err(::dav::Error::Refused(failure)) if failure.status != StatusCode::NOT_FOUND => {
            return Ok(Capabilities::default());
        }
        Err(error) => return Err(error.into()),
    };
    let headers = answer.headers();
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let list = |name: &str| -> Vec<String> {
        let lines = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        lines
            .flat_map(|line| line.split(','))
            .map(|item| item.trim().to_owned())
            .filter(|item| !item.is_empty())
            .collect()
    };
    found.dav.classes = list("dav");
    found.dav.methods = list("allow");
    found.http.keep_alive = text("keep-alive");
    found.http.closes = text("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let mut abilities = Capabilities::from_options(headers);
    drain(answer).await;
    if let Some(told) = session.dav.ocs_capabilities(path).await {
        abilities.add_ocs_capabilities(&told);
    }
    Ok(abilities)
}

/// What is there: the folder's abilities, and its smallest file that is not empty.
async fn listing(
    session: &Session,
    path: &RemotePath,
    mut abilities: Capabilities,
    found: &mut Found,
) -> Result<(Capabilities, Option<RemotePath>), Box<dyn Error>> {
    let mut smallest: Option<Entry> = None;
    let listed = session.dav.list(path, Depth::One, PropertySet::LISTING, |entry| {
        let Ok(entry) = entry else { return };
        abilities.see(&entry);
        let length = |entry: &Entry| entry.properties.length.filter(|length| *length > 0 && !entry.path.is_folder());
        if length(&entry).is_some_and(|new| smallest.as_ref().and_then(length).is_none_or(|old| new < old)) {
            smallest = Some(entry);
        }
    });
    match listed.await {
        Ok(()) => {}
        // No WebDAV here; it may still be a file.
        Err(::dav::Error::Refused(failure)) if failure.status != StatusCode::NOT_FOUND => {
            return Ok((abilities, (!path.is_folder()).then(|| path.clone())));
        }
        Err(error) => return Err(error.into()),
    }
    if let Ok(Some(entry)) = session.dav.stat(path, PropertySet::CAPABILITIES).await {
        found.dav.quota_available = entry.properties.quota_available;
        abilities.see(&entry);
    }
    Ok((abilities, smallest.map(|entry| entry.path)))
}

/// A pipeline of requests that change nothing.
async fn pipeline(session: &Session, path: &RemotePath, found: &mut Found) {
    if session.settings.client.pipelining == haul_http::Pipelining::Off {
        return;
    }
    let requests = session.dav.requests();
    let sent = (0..PIPELINE).filter_map(|number| {
        let request = if number % 2 == 0 {
            requests.plain(Method::OPTIONS, path)
        } else {
            requests.propfind(path, Depth::Zero, PropertySet::LISTING)
        };
        Some(session.dav.client().send(request.ok()?.map(Body::from)))
    });
    let mut responses = Vec::new();
    for answer in join_all(sent).await {
        let Ok(answer) = answer else { continue };
        responses.extend(answer.extensions().get::<ResponseInfo>().copied());
        drain(answer).await;
    }
    let known = session.dav.client().pipelining_history(origin(session));
    let pipelined = responses.iter().any(|info| info.behind > 0);
    let whole = responses.len() == PIPELINE && responses.iter().all(|info| info.sendings == 1);
    found.http.pipelining = match (pipelined, whole && known.is_tested()) {
        _ if responses.iter().any(|info| info.version == Version::HTTP_2) => Pipelining::Untried,
        (true, true) => Pipelining::Works,
        (false, true) => Pipelining::Untried,
        (_, false) => Pipelining::Fails,
    };
}

/// Asks for one byte of a file, and for digests.
async fn one_byte(session: &Session, file: &RemotePath, found: &mut Found) {
    let algorithms = [Algorithm::Sha256, Algorithm::Sha512, Algorithm::Md5];
    let wanted = [Field::ReprDigest, Field::ContentDigest, Field::Digest].map(|field| want(field, &algorithms));
    let mut headers: HeaderMap = wanted.into_iter().flatten().collect();
    headers.insert(header::RANGE, HeaderValue::from_static("bytes=0-0"));
    let options = Options { class: Class::Large, ..Options::default() };
    let Ok(answer) = session.dav.get(file, headers, options).await else { return };
    found.files.tried = Some(file.to_string());
    found.files.ranges = Some(answer.status() == StatusCode::PARTIAL_CONTENT);
    let claims = claims(answer.headers());
    found.files.digests = claims.iter().map(|claim| format!("{}: {}", claim.field, claim.algorithm)).collect();
}

fn describe(abilities: &Capabilities, dav: &mut Dav) {
    dav.locks = abilities.locks;
    dav.sync_collection = abilities.sync_collection;
    dav.guards = abilities.honors_preconditions;
    dav.content_range_put = abilities.content_range_put;
    dav.sets_mtime = abilities.sets_mtime;
    dav.bulk_upload = abilities.bulk_upload;
    dav.chunk_largest = abilities.chunking.and_then(|chunking| chunking.largest);
    dav.chunks_in_parallel = abilities.chunking.map(|chunking| chunking.parallel);
    dav.checksums.clone_from(&abilities.checksums);
}

/// Reads an answer's body, so that its connection is free for the next; one without end is not worth that.
async fn drain(answer: Answer) {
    let (mut body, mut length) = (answer.into_body(), 0);
    while length < LARGEST
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Some(piece) = frame.data_ref() {
            length += piece.len();
        }
    }
}
