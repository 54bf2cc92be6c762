//! `h1+serial` opens its connections one after another, `h1` together: counted in the captures, whatever the machine's speed.

use std::fs::{self, File};

use capture::{
    Source,
    pcapng::Reader,
    tcp::{Flags, Segment},
};

use crate::{
    Trials,
    harness::{lab_run, room, run, runs},
};

pub(crate) const TRIALS: Trials =
    &[("serial_connections_are_opened_one_after_another", serial_connections_are_opened_one_after_another)];

const EXPERIMENT: &str = r#"
title = "serial connections"
question = "Are connections opened one after another?"
contenders = ["h1", "h1+serial"]
servers = ["pages"]
samples = 1
tls = false

[source]
title = "a test"

[network.far]
rtt = "60ms"

[workload.load]
kind = "load"
page = "amazon"
"#;

/// The most SYNs that were unanswered at one time.
fn most_unanswered(capture: &std::path::Path) -> usize {
    let name = capture.display().to_string();
    let mut reader = Reader::new(File::open(capture).expect("a capture"), &name);
    let (mut unanswered, mut most) = (Vec::new(), 0);
    while let Some(packet) = reader.next().expect("a whole capture") {
        let Some(segment) = Segment::of(&packet).filter(|segment| segment.flags.has(Flags::SYN)) else { continue };
        if segment.flags.has(Flags::ACK) {
            unanswered.retain(|client| *client != segment.to);
        } else if !unanswered.contains(&segment.from) {
            unanswered.push(segment.from);
        }
        most = most.max(unanswered.len());
    }
    most
}

fn serial_connections_are_opened_one_after_another() {
    let room = room();
    fs::write(room.path("small.toml"), EXPERIMENT).expect("a file");
    run(&room, lab_run(&room, &["--server", "pages"])).success();
    let captures = runs(&room).pop().expect("a run").join("captures");
    let most = ["load-far-h1.pcapng", "load-far-h1+serial.pcapng"].map(|name| most_unanswered(&captures.join(name)));
    // Twenty connections wait for the beginning of the HTML.
    assert!(most[0] >= 10, "together: {} at most", most[0]);
    assert_eq!(most[1], 1, "one after another");
}
