//! Commands whose requests are done, while the answers get lost on the way back.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
};

use crate::{
    common::{one_sentence, printed, text},
    place::{Place, tree, write},
};

/// Passes requests on to a server, and its answers back, but for those to one method: the connection ends instead.
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

/// A head, and a body of the length that it tells, or in chunks; nothing at the end.
fn message(from: &mut impl BufRead) -> io::Result<Vec<u8>> {
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
fn what_was_done_is_no_failure_because_its_answer_was_lost() {
    let place = Place::new();
    write(&place.path("served"), &[("file", "1"), ("dir/x", "2"), ("old", "3"), ("here/y", "4")]);
    let server = place.url.strip_prefix("http://").unwrap().parse().unwrap();
    let through = |method, path: &str| format!("http://{}/{path}", losing(method, server));
    for (arguments, said) in [
        (&["rm", &through("DELETE", "file")][..], "/file: deleted (response lost"),
        (&["rm", "-r", &through("DELETE", "dir")], "/dir/: deleted (response lost"),
        (&["mkdir", &through("MKCOL", "new")], "/new/: created (response lost"),
    ] {
        let ended = place.haul(arguments);
        let told = text(&ended.stderr);
        assert!(told.contains(said), "{arguments:?}: {told}");
        assert!(!told.contains("spelling") && !told.contains("already"), "{told}");
    }
    let copying = format!("http://{}", losing("COPY", server));
    let ended = place.haul(&["cp", "-r", &format!("{copying}/here"), &format!("{copying}/copy")]);
    printed(&ended);
    assert!(text(&ended.stderr).contains("/here/: copied to /copy/ (response lost"), "{}", text(&ended.stderr));
    let moving = format!("http://{}", losing("MOVE", server));
    let ended = place.haul(&["mv", &format!("{moving}/old"), &format!("{moving}/young")]);
    printed(&ended);
    assert!(text(&ended.stderr).contains("/old: moved to /young (response lost"), "{}", text(&ended.stderr));
    let names: Vec<_> = tree(&place.path("served")).into_keys().collect();
    assert_eq!(names, ["copy/", "copy/y", "here/", "here/y", "new/", "young"]);
}

#[test]
fn names_without_a_shape_are_escaped_in_lists_and_errors() {
    let place = Place::new();
    let name = "photo_\u{202e}gpj.exe";
    write(&place.path("served"), &[(name, ""), ("dir\u{200b}/x", "")]);
    let listed = printed(&place.haul(&["ls", &place.url]));
    assert_eq!(listed, "dir\\u{200b}/\nphoto_\\u{202e}gpj.exe\n");
    let told = one_sentence(&place.haul(&["rm", &place.at("dir%E2%80%8B")]), 1);
    assert!(told.contains("dir\\u{200b}") && !told.contains('\u{200b}'), "{told}");
    let told = one_sentence(&place.haul(&["cp", name, &place.url]), 1);
    assert!(told.contains("\\u{202e}") && !told.contains('\u{202e}'), "{told}");
    let found = printed(&place.haul(&["ls", "--json", "-", &place.url]));
    assert!(found.contains(&format!("\"path\": \"/{name}\"")), "{found}");
}

#[test]
fn server_with_a_certificate_of_its_own_is_trusted_if_that_is_named() {
    let certificates = tempfile::tempdir().unwrap();
    let file = |name: &str| certificates.path().join(name).to_string_lossy().into_owned();
    for name in ["its", "another"] {
        let mut params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        std::fs::write(file(&format!("{name}.pem")), params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(file(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }
    let place = Place::serving(&["--tls", &format!("{},{}", file("its.pem"), file("its.key"))]);
    write(&place.path("served"), &[("file", "")]);
    assert_eq!(printed(&place.haul(&["ls", "--ca", &file("its.pem"), &place.url])), "file\n");
    for arguments in [&["ls", &place.url][..], &["ls", "--ca", &file("another.pem"), &place.url]] {
        let told = one_sentence(&place.haul(arguments), 1);
        assert!(told.contains("(CA:TRUE)") && !told.contains("Other"), "{told}");
    }
}
