//! Standard input and output, and named servers.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Output, Stdio},
    thread,
};

use crate::{
    common::{printed, text},
    fixture::{Fixture, tree, write},
};

fn with_input(fixture: &Fixture, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = fixture.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let (mut pipe, input) = (running.stdin.take().unwrap(), input.to_vec());
    let writer = thread::spawn(move || drop(pipe.write_all(&input)));
    let ended = running.wait_with_output().unwrap();
    writer.join().unwrap();
    ended
}

#[test]
fn standard_input_is_uploaded_atomically() {
    let fixture = Fixture::new();
    let long: Vec<u8> = (0..20_000_000_u32).map(|number| (number % 251) as u8).collect();
    for content in [&b""[..], b"short", &long] {
        printed(&with_input(&fixture, &["cp", "-", &fixture.at("there")], content));
        assert!(fs::read(fixture.served("there")).unwrap() == content, "{} bytes", content.len());
        assert_eq!(tree(&fixture.path("served")).len(), 1, "nothing else is left");
        let ended = fixture.haul(&["cp", &fixture.at("there"), "-"]);
        assert!(ended.status.success() && ended.stdout == content);
    }
    fs::create_dir(fixture.served("folder")).unwrap();
    for to in ["folder", "folder/"] {
        let ended = with_input(&fixture, &["cp", "-", &fixture.at(to)], b"x");
        assert!(ended.status.code() == Some(1) && text(&ended.stderr).contains("name the file"), "{to}");
    }
    let ended = fixture.haul(&["cp", "-", "also", &fixture.at("folder")]);
    assert_eq!(ended.status.code(), Some(2));
}

/// A proxy that refuses chunked requests, as some servers do.
fn without_chunks(url: &str) -> String {
    let (listener, to) = (TcpListener::bind("127.0.0.1:0").unwrap(), url["http://".len()..].to_owned());
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut server = TcpStream::connect(&to).unwrap();
            let (mut back, mut answers) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || std::io::copy(&mut back, &mut answers));
            thread::spawn(move || {
                let mut piece = vec![0; 64 * 1024];
                while let Ok(read @ 1..) = client.read(&mut piece) {
                    if String::from_utf8_lossy(&piece[..read]).to_lowercase().contains("transfer-encoding: chunked") {
                        let refusal = b"HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                        let _ = client.write_all(refusal);
                        let _ = server.shutdown(std::net::Shutdown::Both);
                        return;
                    }
                    if server.write_all(&piece[..read]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

#[test]
fn long_input_is_spooled_for_a_server_that_requires_its_length() {
    let fixture = Fixture::new();
    let url = without_chunks(&fixture.url);
    let content = vec![9; 9_000_000];
    let ended = with_input(&fixture, &["cp", "-", &format!("{url}/there"), "--pipeline", "off"], &content);
    printed(&ended);
    assert!(fs::read(fixture.served("there")).unwrap() == content);
    assert_eq!(tree(&fixture.path("served")).len(), 1, "nothing else is left");
}

#[test]
fn named_server_works_in_every_command() {
    let fixture = Fixture::new();
    fs::create_dir_all(fixture.path("home/.config/longhaul")).unwrap();
    let file = fixture.path("home/.config/longhaul/config.toml");
    fs::write(&file, format!("[servers.cloud]\nurl = \"{}/dav/\"\n", fixture.url)).unwrap();
    fs::create_dir(fixture.served("dav")).unwrap();
    write(&fixture.path(""), &[("photos/a b", "1"), ("a:b", "local")]);
    printed(&fixture.haul(&["cp", "-r", "photos", "cloud:"]));
    assert_eq!(fs::read_to_string(fixture.served("dav/photos/a b")).unwrap(), "1");
    assert_eq!(printed(&fixture.haul(&["ls", "cloud:photos"])), "a b\n");
    assert_eq!(printed(&fixture.haul(&["cat", "cloud:photos/a b"])), "1");
    printed(&fixture.haul(&["sync", "photos", "cloud:/mirror/"]));
    printed(&fixture.haul(&["mv", "cloud:mirror", "cloud:moved"]));
    assert!(fixture.served("dav/moved/a b").exists());
    // A name that is not a server is a file, and so is one after a folder.
    printed(&fixture.haul(&["cp", "a:b", "cloud:c"]));
    printed(&fixture.haul(&["cp", "./a:b", "cloud:d"]));
    assert_eq!(fs::read_to_string(fixture.served("dav/d")).unwrap(), "local");
    let ended = fixture.haul(&["ls", "cluod:photos"]);
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended.stderr));

    for table in
        ["[servers.\"a b\"]\nurl = \"http://h/\"", "[servers.cloud]\nurl = \"h/dav\"", "[servers.cloud]\nurk = 1"]
    {
        fs::write(&file, table).unwrap();
        let ended = fixture.haul(&["ls", "cloud:photos"]);
        assert!(!ended.status.success() && text(&ended.stderr).contains("servers") || table.contains("urk"), "{table}");
    }
}
