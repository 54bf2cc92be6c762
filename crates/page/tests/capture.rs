//! A page load in a capture, packet by packet: lost, repeated, out of order.

use std::{net::Ipv4Addr, time::Duration};

use capture::{LinkType, pcapng};
use etherparse::PacketBuilder;
use page::{Body, Until, import};

const CLIENT: [u8; 4] = [10, 0, 0, 1];
const SERVER: [u8; 4] = [10, 0, 0, 2];

/// A segment: whether the client sent it, the client's port, the offset in the stream, whether it is a SYN, its data.
fn segment(client: bool, port: u16, place: u32, syn: bool, data: &[u8]) -> Vec<u8> {
    let ((from, source), (to, target)) =
        if client { ((CLIENT, port), (SERVER, 80)) } else { ((SERVER, 80), (CLIENT, port)) };
    let number = 1000u32.wrapping_mul(port.into()).wrapping_add(u32::MAX - 50).wrapping_add(place + u32::from(!syn));
    let builder = PacketBuilder::ipv4(from, to, 64).tcp(source, target, number, 65535);
    let builder = match (syn, client) {
        (true, true) => builder.syn(),
        (true, false) => builder.syn().ack(1),
        _ => builder.ack(1),
    };
    let mut packet = Vec::new();
    builder.write(&mut packet, data).unwrap();
    packet
}

#[test]
fn page_is_imported_from_packets() {
    let page =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3000\r\n\r\n{}", "p".repeat(3000));
    let (head, page) = (page.find("\r\n\r\n").unwrap() + 4, page.as_bytes());
    let style = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n3;x\r\nefg\r\n0\r\nT: 1\r\n\r\n";
    let none = b"HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n";
    let host = Ipv4Addr::from(SERVER);
    let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a.example\r\nReferer: http://a.example/\r\n\r\n");
    let first = ask("/");
    let place = first.len() as u32;
    let packets: Vec<(u64, Vec<u8>)> = vec![
        (0, segment(true, 5000, 0, true, b"")),
        (20, segment(false, 5000, 0, true, b"")),
        (20, segment(true, 5000, 0, false, first.as_bytes())),
        (60, segment(false, 5000, 0, false, &page[..1000])),
        (70, segment(true, 5001, 0, true, b"")),
        // The third segment before the second, and the first one repeated.
        (72, segment(false, 5000, 2000, false, &page[2000..])),
        (74, segment(false, 5000, 0, false, &page[..1000])),
        (80, segment(false, 5000, 1000, false, &page[1000..2000])),
        (90, segment(false, 5001, 0, true, b"")),
        (90, segment(true, 5001, 0, false, ask("/style").as_bytes())),
        (130, segment(false, 5001, 0, false, style)),
        (140, segment(true, 5000, place, false, ask("/same").as_bytes())),
        (160, segment(false, 5000, page.len() as u32, false, none)),
        (170, segment(true, 5002, 0, true, b"")),
        (190, segment(true, 5002, 0, false, b"\x16\x03\x01\x02\x00\x01\x00")),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("load.pcapng");
    let mut writer = pcapng::Writer::new(Vec::new()).unwrap();
    let interface = writer.interface("tap", LinkType::RAW, None).unwrap();
    for (ms, packet) in &packets {
        writer.packet(interface, Duration::from_millis(1_000_000 + ms), None, packet).unwrap();
    }
    std::fs::write(&path, writer.into_output()).unwrap();

    let short = folder.path().join("short.pcapng");
    let mut writer = pcapng::Writer::new(Vec::new()).unwrap();
    let interface = writer.interface("tap", LinkType::RAW, Some(60)).unwrap();
    writer.packet(interface, Duration::ZERO, None, &packets[2].1).unwrap();
    std::fs::write(&short, writer.into_output()).unwrap();
    let error = import::import(&short).unwrap_err().to_string();
    assert!(error.contains("lacks parts of its packets"), "{error}");

    let imported = import::import(&path).unwrap();
    assert_eq!(imported.notes, [format!("connection 10.0.0.1:5002 > {host}:80: it is no plain HTTP/1.1")]);
    let [page_, style, same] = imported.spec.requests.as_slice() else { panic!("three: {:?}", imported.spec.requests) };
    assert_eq!((page_.host.as_str(), page_.path.as_str(), page_.head as usize), ("a.example", "/", first.len()));
    assert_eq!(page_.response.body, Body::Kept("p".repeat(3000).into()));
    assert_eq!((page_.response.head as usize, style.response.body.clone()), (head, Body::Kept("abcdefg".into())));
    assert_eq!((page_.connection, style.connection, same.connection), (Some(0), Some(1), Some(0)));
    // Sent at 70 ms, in the middle between the page's first byte, at 60 ms, and its last, at 80 ms.
    assert_eq!(style.after[0].until, Until::Head((head + 1500) as u64));
    assert_eq!((same.response.status.as_u16(), same.response.body.len()), (304, 0));
    assert_eq!((same.after[0].until, same.compute.as_millis()), (Until::End, 60));
}
