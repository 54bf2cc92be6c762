//! Commands whose requests take effect, but whose responses are lost.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use crate::{
    common::{one_sentence, printed, text},
    fixture::{Fixture, tree, write},
};

/// A proxy that drops the responses to one method and closes the connection instead.
fn losing(method: &'static str, server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for client in listener.incoming().flatten() {
            thread::spawn(move || pass(&client, method, server));
        }
    });
    address
}

fn pass(client: &TcpStream, method: &str, server: SocketAddr) -> io::Result<()> {
    let upstream = TcpStream::connect(server)?;
    let (mut requests, mut answers) = (BufReader::new(client), BufReader::new(&upstream));
    loop {
        let request = message(&mut requests)?;
        if request.is_empty() {
            return Ok(());
        }
        (&upstream).write_all(&request)?;
        let answer = message(&mut answers)?;
        if request.starts_with(method.as_bytes()) {
            return Ok(());
        }
        let mut client = client;
        client.write_all(&answer)?;
    }
}

/// Reads a head and its body, by `Content-Length` or in chunks; nothing at the end.
pub(crate) fn message(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let (mut bytes, mut length, mut is_chunked) = (Vec::new(), 0, false);
    loop {
        let begin = bytes.len();
        if from.read_until(b'\n', &mut bytes)? == 0 || bytes.ends_with(b"\r\n\r\n") {
            break;
        }
        let line = String::from_utf8_lossy(&bytes[begin..]).to_ascii_lowercase();
        if let Some(told) = line.strip_prefix("content-length:") {
            length = told.trim().parse().unwrap_or(0);
        }
        is_chunked |= line.starts_with("transfer-encoding: chunked");
    }
    while is_chunked && !bytes.ends_with(b"\r\n0\r\n\r\n") && from.read_until(b'\n', &mut bytes)? > 0 {}
    from.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[test]
fn request_with_lost_response_is_no_failure() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("file", "1"), ("dir/x", "2"), ("old", "3"), ("here/y", "4")]);
    let server = fixture.url.strip_prefix("http://").unwrap().parse().unwrap();
    let through = |method, path: &str| format!("http://{}/{path}", losing(method, server));
    for (arguments, said) in [
        (&["rm", &through("DELETE", "file")][..], "/file: deleted (response lost"),
        (&["rm", "-r", &through("DELETE", "dir")], "/dir/: deleted (response lost"),
        (&["mkdir", &through("MKCOL", "new")], "/new/: created (response lost"),
    ] {
        let ended = fixture.haul(arguments);
        let told = text(&ended.stderr);
        assert!(told.contains(said), "{arguments:?}: {told}");
        assert!(!told.contains("spelling") && !told.contains("already"), "{told}");
    }
    let copying = format!("http://{}", losing("COPY", server));
    let ended = fixture.haul(&["cp", "-r", &format!("{copying}/here"), &format!("{copying}/copy")]);
    printed(&ended);
    assert!(text(&ended.stderr).contains("/here/: copied to /copy/ (response lost"), "{}", text(&ended.stderr));
    let moving = format!("http://{}", losing("MOVE", server));
    let ended = fixture.haul(&["mv", &format!("{moving}/old"), &format!("{moving}/young")]);
    printed(&ended);
    assert!(text(&ended.stderr).contains("/old: moved to /young (response lost"), "{}", text(&ended.stderr));
    let names: Vec<_> = tree(&fixture.path("served")).into_keys().collect();
    assert_eq!(names, ["copy/", "copy/y", "here/", "here/y", "new/", "young"]);
}

#[test]
fn invisible_names_are_escaped_in_lists_and_errors() {
    let fixture = Fixture::new();
    let name = "photo_\u{202e}gpj.exe";
    write(&fixture.path("served"), &[(name, ""), ("dir\u{200b}/x", "")]);
    let listed = printed(&fixture.haul(&["ls", &fixture.url]));
    assert_eq!(listed, "dir\\u{200b}/\nphoto_\\u{202e}gpj.exe\n");
    let told = one_sentence(&fixture.haul(&["rm", &fixture.at("dir%E2%80%8B")]), 1);
    assert!(told.contains("dir\\u{200b}") && !told.contains('\u{200b}'), "{told}");
    let told = one_sentence(&fixture.haul(&["cp", name, &fixture.url]), 1);
    assert!(told.contains("\\u{202e}") && !told.contains('\u{202e}'), "{told}");
    let found = printed(&fixture.haul(&["ls", "--json", "-", &fixture.url]));
    assert!(found.contains(&format!("\"path\": \"/{name}\"")), "{found}");
}

#[test]
fn self_signed_certificate_is_trusted_with_ca() {
    let certificates = tempfile::tempdir().unwrap();
    let file = |name: &str| certificates.path().join(name).to_string_lossy().into_owned();
    for name in ["its", "another"] {
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(file(&format!("{name}.pem")), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    let fixture = Fixture::serving(&["--tls", &format!("{},{}", file("its.pem"), file("its.key"))]);
    write(&fixture.path("served"), &[("file", "")]);
    assert_eq!(printed(&fixture.haul(&["ls", "--ca", &file("its.pem"), &fixture.url])), "file\n");
    for arguments in [&["ls", &fixture.url][..], &["ls", "--ca", &file("another.pem"), &fixture.url]] {
        let told = one_sentence(&fixture.haul(arguments), 1);
        assert!(told.contains("(CA:TRUE)") && !told.contains("Other"), "{told}");
    }
}
