//! The systems of both ends, by their SYNs, and the fixes for them.

use explain::{
    Explanation, pair_captures,
    render::{PredictionRequest, ReadCapture, json, text},
};

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    LINUX_OPTIONS, MSS, ScriptedConnection,
};

/// Options of 12 bytes, and the time to live.
const LINUX: ([u8; 12], u8) = (LINUX_OPTIONS, 57);
const WINDOWS: ([u8; 12], u8) = ([2, 4, 4, 136, 1, 3, 3, 7, 1, 1, 4, 2], 128);
const UNKNOWN: ([u8; 12], u8) = ([2, 4, 4, 136, 3, 3, 7, 4, 2, 1, 1, 1], 64);

/// An upload whose receiver delays an acknowledgement for each chunk, between these systems.
fn upload(client: ([u8; 12], u8), server: ([u8; 12], u8)) -> Explanation {
    let mut connection = ScriptedConnection::new(40_000, 12.0);
    let mut now = connection.open(0.0) + 0.8;
    for _ in 0..6 {
        let arrived = connection.bulk(Client, now, 2 * MSS);
        connection.ack(Server, arrived);
        let arrived = connection.bulk(Client, now, MSS + 97);
        now = connection.ack(Server, arrived + 100.0) + 0.1;
    }
    let mut captured = Captured::at(&[connection], Client, 0.0);
    for (_, packet) in captured.packets.iter_mut().filter(|(_, packet)| packet[33] & 2 != 0) {
        let (options, time_to_live) = if packet[33] & 16 == 0 { client } else { server };
        packet[8] = time_to_live;
        packet[40..52].copy_from_slice(&options);
    }
    captured.explained()
}

fn systems_of_fixes(explanation: &Explanation) -> Vec<&'static str> {
    explanation.connections[0].transfers[0].findings[0].fixes().into_iter().map(|fix| fix.system).collect()
}

#[test]
fn fixes_for_the_system_of_the_end_to_change_come_first() {
    let linux = systems_of_fixes(&upload(WINDOWS, LINUX));
    let windows = systems_of_fixes(&upload(LINUX, WINDOWS));
    assert_eq!((linux[0], windows[0]), ("Linux receiver", "Windows receiver"));
    // Those for others are last, behind what is for any.
    for (fixes, other) in [(&linux, "Windows receiver"), (&windows, "Linux receiver")] {
        let position = |what: &str| fixes.iter().position(|system| *system == what).expect("it is there");
        assert!(position(fixes[0]) < position("sending software") && position("sending software") < position(other));
    }
    let unknown = systems_of_fixes(&upload(UNKNOWN, UNKNOWN));
    assert_eq!((unknown[0], unknown.len()), ("Solaris/illumos receiver", linux.len()));
}

#[test]
fn text_names_the_systems_and_leaves_out_the_fixes_for_others() {
    let explanation = upload(WINDOWS, LINUX);
    let paired = pair_captures([explanation]);
    let layout = text::Layout { width: 400, colour: false, top: 5 };
    let said = text::render(&paired, 1, &PredictionRequest::default(), &layout);
    assert!(said.contains("the client runs Windows, the server Linux"), "{said}");
    assert!(said.contains("Linux receiver: ip route") && !said.contains("netsh"), "{said}");
    assert!(
        said.contains(
            "for Solaris/illumos receiver, Windows receiver, macOS receiver and FreeBSD receiver: see --html or --json"
        ),
        "{said}"
    );

    let captures = [ReadCapture { name: "one".to_owned(), ..ReadCapture::default() }];
    let request = PredictionRequest::default();
    let document = serde_json::to_value(json::document(&captures, &paired, &request)).expect("it is JSON");
    let connection = &document["connections"][0];
    let system = &connection["system"];
    assert_eq!([&system["client"], &system["server"]], ["Windows", "Linux"]);
    assert_eq!(system["signs"]["server"]["packet"], 2);
    let why = system["signs"]["server"]["why"].as_str().expect("signs");
    assert!(why.starts_with("time to live 57 (64 less 7 hops), options in the order MSS, padding, SACK"), "{why}");
    let fixes = connection["transfers"][0]["findings"][0]["fix"].as_array().expect("fixes");
    let applies: Vec<_> = fixes.iter().map(|fix| fix["applies"].as_bool()).collect();
    assert!(applies.is_sorted_by_key(|applies| *applies == Some(false)) && applies[0] == Some(true), "{applies:?}");
}
