//! Standard input and output, and servers that have names.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    process::{Output, Stdio},
    thread,
};

use crate::{
    common::{printed, text},
    place::{Place, tree, write},
};

fn with_input(place: &Place, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = place.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = command.spawn().unwrap();
    let (mut pipe, input) = (running.stdin.take().unwrap(), input.to_vec());
    let writer = thread::spawn(move || drop(pipe.write_all(&input)));
    let ended = running.wait_with_output().unwrap();
    writer.join().unwrap();
    ended
}

#[test]
fn standard_input_becomes_a_file_whole_or_not_at_all() {
    let place = Place::new();
    let long: Vec<u8> = (0..20_000_000_u32).map(|number| (number % 251) as u8).collect();
    for content in [&b""[..], b"short", &long] {
        printed(&with_input(&place, &["cp", "-", &place.at("there")], content));
        assert!(fs::read(place.served("there")).unwrap() == content, "{} bytes", content.len());
        assert_eq!(tree(&place.path("served")).len(), 1, "nothing else is left");
        let ended = place.haul(&["cp", &place.at("there"), "-"]);
        assert!(ended.status.success() && ended.stdout == content);
    }
    fs::create_dir(place.served("folder")).unwrap();
    for to in ["folder", "folder/"] {
        let ended = with_input(&place, &["cp", "-", &place.at(to)], b"x");
        assert!(ended.status.code() == Some(1) && text(&ended.stderr).contains("name the file"), "{to}");
    }
    let ended = place.haul(&["cp", "-", "also", &place.at("folder")]);
    assert_eq!(ended.status.code(), Some(2));
}

/// Before a server, a box that refuses what comes in chunks, as some servers do.
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
fn a_long_input_is_kept_here_for_a_server_that_wants_its_length() {
    let place = Place::new();
    let url = without_chunks(&place.url);
    let content = vec![9; 9_000_000];
    let ended = with_input(&place, &["cp", "-", &format!("{url}/there"), "--pipeline", "off"], &content);
    printed(&ended);
    assert!(fs::read(place.served("there")).unwrap() == content);
    assert_eq!(tree(&place.path("served")).len(), 1, "nothing else is left");
}

#[test]
fn a_named_server_stands_for_its_url_in_every_command() {
    let place = Place::new();
    fs::create_dir_all(place.path("home/.config/longhaul")).unwrap();
    let file = place.path("home/.config/longhaul/config.toml");
    fs::write(&file, format!("[servers.cloud]\nurl = \"{}/dav/\"\n", place.url)).unwrap();
    fs::create_dir(place.served("dav")).unwrap();
    write(&place.path(""), &[("photos/a b", "1"), ("a:b", "local")]);
    printed(&place.haul(&["cp", "-r", "photos", "cloud:"]));
    assert_eq!(fs::read_to_string(place.served("dav/photos/a b")).unwrap(), "1");
    assert_eq!(printed(&place.haul(&["ls", "cloud:photos"])), "a b\n");
    assert_eq!(printed(&place.haul(&["cat", "cloud:photos/a b"])), "1");
    printed(&place.haul(&["sync", "photos", "cloud:/mirror/"]));
    printed(&place.haul(&["mv", "cloud:mirror", "cloud:moved"]));
    assert!(place.served("dav/moved/a b").exists());
    // What is no server is a file; so is what has a folder before it.
    printed(&place.haul(&["cp", "a:b", "cloud:c"]));
    printed(&place.haul(&["cp", "./a:b", "cloud:d"]));
    assert_eq!(fs::read_to_string(place.served("dav/d")).unwrap(), "local");
    let ended = place.haul(&["ls", "cluod:photos"]);
    assert_eq!(ended.status.code(), Some(2), "{}", text(&ended.stderr));

    for table in
        ["[servers.\"a b\"]\nurl = \"http://h/\"", "[servers.cloud]\nurl = \"h/dav\"", "[servers.cloud]\nurk = 1"]
    {
        fs::write(&file, table).unwrap();
        let ended = place.haul(&["ls", "cloud:photos"]);
        assert!(!ended.status.success() && text(&ended.stderr).contains("servers") || table.contains("urk"), "{table}");
    }
}
