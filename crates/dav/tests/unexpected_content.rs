//! Downloads from servers that send something else than requested.

use std::{fs, net::SocketAddr, sync::Arc};

use dav::{
    Dav, RemotePath,
    transfer::{Event, Options, Summary, download},
};
use haul_http::{Client, Origin, Settings, auth::Authenticator};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

/// How a file is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Manner {
    /// The whole file, whatever range was requested.
    Whole,
    /// Ranges with a wrong `Content-Range`.
    OtherParts,
    /// A login page.
    Login,
}

const LENGTH: usize = 9_000_000;

fn content() -> Vec<u8> {
    (0..LENGTH).map(|byte| (byte / 89) as u8).collect()
}

async fn start(manner: Manner) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, manner));
        }
    });
    address
}

/// Answers requests until the client closes the connection.
async fn serve(mut stream: TcpStream, manner: Manner) {
    let mut received = Vec::new();
    loop {
        let end = received.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        let Some(end) = end else {
            match stream.read_buf(&mut received).await {
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            }
        };
        let head = String::from_utf8_lossy(&received[..end]).to_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let length: usize = field("content-length:").map_or(0, |length| length.parse().unwrap());
        while received.len() < end + 4 + length {
            if stream.read_buf(&mut received).await.is_err() {
                return;
            }
        }
        let (head, body) = answer(manner, head.starts_with("propfind"), field("range: bytes="));
        received.drain(..end + 4 + length);
        let head = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len());
        if stream.write_all(&[head.as_bytes(), &body].concat()).await.is_err() {
            return;
        }
    }
}

fn answer(manner: Manner, lists: bool, range: Option<&str>) -> (String, Vec<u8>) {
    if lists {
        let listing = format!(
            "<?xml version='1.0'?><D:multistatus xmlns:D='DAV:'><D:response><D:href>/file</D:href><D:propstat><D:prop>\
             <D:resourcetype/><D:getcontentlength>{LENGTH}</D:getcontentlength><D:getetag>\"a\"</D:getetag></D:prop>\
             <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>"
        );
        return ("207 Multi-Status\r\nContent-Type: application/xml".into(), listing.into());
    }
    match (manner, range.and_then(|range| range.split_once('-'))) {
        (Manner::Login, _) => ("200 OK\r\nContent-Type: text/html".into(), b"<html>Who are you?</html>".to_vec()),
        (Manner::OtherParts, Some((first, last))) => {
            let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
            let head = format!("206 Partial Content\r\nContent-Range: bytes {}-{}/{LENGTH}", first + 1, last + 1);
            (head, content()[first..=last].to_vec())
        }
        _ => ("200 OK\r\nETag: \"a\"".into(), content()),
    }
}

/// Downloads the file; returns the summary and the files in the folder.
async fn fetch(manner: Manner) -> (Summary, Vec<(String, Vec<u8>)>) {
    let address = start(manner).await;
    let origin = Origin::of(&format!("http://{address}").parse().unwrap()).unwrap();
    let dav = Dav::new(Client::new(Settings::default(), Authenticator::default()).unwrap(), origin);
    let (here, options) = (tempfile::tempdir().unwrap(), Options { resume: true, ..Options::default() });
    let file = [RemotePath::from_url_path("/file").unwrap()];
    let deaf = Arc::new(|_: Event<'_>| ());
    let fetched = download(&dav, &file, here.path(), &options, &Notify::new(), &(deaf as _)).await.unwrap();
    let entries = fs::read_dir(here.path()).unwrap().map(|entry| entry.unwrap());
    let found = entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap()));
    (fetched, found.collect())
}

#[tokio::test]
async fn server_without_ranges_gets_a_request_for_the_whole_file() {
    let (summary, found) = fetch(Manner::Whole).await;
    assert_eq!((summary.files, summary.failed.len()), (1, 0), "{:?}", summary.failed);
    assert!(found == [("file".to_owned(), content())]);
}

#[tokio::test]
async fn wrong_content_is_not_kept() {
    for (manner, reason) in
        [(Manner::OtherParts, "its range is not the requested one"), (Manner::Login, "listed 9000000 bytes")]
    {
        let (summary, found) = fetch(manner).await;
        assert_eq!((summary.files, summary.failed.len(), found.len()), (0, 1, 0), "{manner:?}");
        let why = summary.failed[0].1.to_string();
        assert!(why.contains(reason), "{manner:?}: {why}");
    }
}
