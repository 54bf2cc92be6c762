//! `haul explain`, called as in the book.

use std::{error::Error, fs, path::Path};

use assert_cmd::Command;

const SLOW: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../explain/tests/traces/ie.snoop.txt");
const HEALTHY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../explain/tests/traces/netscape.snoop.txt");
/// A browser's upload as Solaris's snoop printed it, from the book.
const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/traces/browser-upload.snoop.txt");

/// Its exit status, and what it wrote to standard output and error.
fn explain(args: &[&str], input: &[u8]) -> (Option<i32>, String, String) {
    let mut haul = Command::new(env!("CARGO_BIN_EXE_haul"));
    let ended = haul.arg("explain").args(args).write_stdin(input).output().expect("haul runs");
    let text = |bytes| String::from_utf8(bytes).expect("it is text");
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

#[test]
fn example_trace_of_the_book_is_explained() {
    let (status, said, _) = explain(&[TRACE, "--bytes", "18MB", "--what-if", "deferred-ack=1ms"], b"");
    assert_eq!(status, Some(0));
    assert!(said.starts_with("93 ms of 113 ms (82 %) were lost: delayed ACKs"), "{said}");
    let unwrapped = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("writes of 8217 bytes (7 full segments and 97 bytes)"), "{said}");
    assert!(
        unwrapped.contains("for 18 MB without changes: 4.1 min") && unwrapped.contains("with deferred-ack=1ms: 37 s"),
        "{said}"
    );
    let is_wide = |line: &str| line.chars().count() > 80 && !line.contains("HKLM");
    assert!(!said.lines().any(is_wide), "only a registry path is wider than 80 columns: {said}");
}

#[test]
fn capture_from_a_pipe_gives_json() {
    let trace = std::fs::read(TRACE).expect("the book has it");
    let (status, said, _) = explain(&["-", "--format", "snoop", "--json", "-"], &trace);
    let document: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    assert_eq!((status, &document["schema"]), (Some(0), &"longhaul.explain/1".into()));
    let transfer = &document["connections"][0]["transfers"][0];
    assert_eq!(transfer["cause"], "delayed_ack");
    let sum: f64 = transfer["time_s"].as_object().expect("causes").values().filter_map(serde_json::Value::as_f64).sum();
    assert!((sum - transfer["duration_s"].as_f64().expect("a time")).abs() < 1e-6, "{transfer}");
}

/// A pcap file of this link type with one packet.
fn pcap(link: u32, packet: &[u8]) -> Vec<u8> {
    let len = packet.len() as u32;
    let words = [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, link, 1, 0, len, len];
    let mut file: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    file.extend_from_slice(packet);
    file
}

#[test]
fn capture_without_ip_is_refused_by_its_link_type() {
    let (status, said, error) = explain(&["-"], &pcap(220, &[0; 64]));
    assert_eq!((status, &*said), (Some(1), ""));
    assert!(
        error.contains("standard input contains only USB transfers (link type USB_LINUX_MMAPPED), not IP"),
        "{error}"
    );
}

#[test]
fn json_has_the_coverage_of_each_capture() {
    let (_, said, _) = explain(&[SLOW, HEALTHY, "--json", "-"], b"");
    let document: serde_json::Value = serde_json::from_str(&said).expect("it is JSON");
    let packets = |index: usize| document["connections"][index]["packets"].clone();
    let coverage = |index: usize, capture: &str| serde_json::json!({ "capture": capture, "packets": packets(index), "dropped": 0, "duplicates": 0, "error": null });
    assert_eq!(document["coverage"], serde_json::json!([coverage(0, SLOW), coverage(1, HEALTHY)]));
    let connection = &document["connections"][0];
    assert_eq!((&connection["uncaptured_bytes"], &connection["only_from"]), (&0.into(), &serde_json::Value::Null));
}

#[test]
fn each_capture_has_a_line_of_json_whatever_the_others_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken");
    fs::write(&broken, "no capture").expect("written");
    let broken = broken.to_str().expect("a plain name");
    let lines = |said: &str| -> Vec<serde_json::Value> {
        said.lines().map(|line| serde_json::from_str(line).expect("it is JSON")).collect()
    };
    let (status, said, _) = explain(&["--each", TRACE, broken, SLOW], b"");
    let documents = lines(&said);
    assert_eq!((status, documents.len()), (Some(1), 3));
    for (document, path) in documents.iter().zip([TRACE, broken, SLOW]) {
        let (_, alone, _) = explain(&[path, "--json", "-"], b"");
        if let Ok(alone) = serde_json::from_str::<serde_json::Value>(&alone) {
            assert_eq!(*document, alone);
            continue;
        }
        let incomplete = &document["coverage"][0];
        assert_eq!((&incomplete["capture"], &incomplete["packets"]), (&path.into(), &0.into()));
        assert!(incomplete["error"].as_str().is_some_and(|why| why.contains("is not a pcap")), "{document}");
    }
    let (status, piped, _) = explain(&["--each"], format!("{TRACE}\0-\0{SLOW}\0").as_bytes());
    let piped = lines(&piped);
    assert_eq!((status, piped.len(), &piped[0], &piped[2]), (Some(1), 3, &documents[0], &documents[2]));
    assert!(piped[1]["coverage"][0]["error"].as_str().is_some_and(|why| why.contains("./-")), "{}", piped[1]);
    let (status, _, wrong) = explain(&[], b"");
    assert!(status == Some(2) && wrong.contains("<FILE>"), "{wrong}");
}

#[test]
fn html_report_has_the_result_and_every_packet() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("page.html");
    let (status, said, _) = explain(&[TRACE, "--html", file.to_str().expect("a plain name")], b"");
    let page = fs::read_to_string(&file).expect("it is written");
    assert_eq!(status, Some(0));
    let (_, data) = page.split_once("id=\"data\">").expect("it has a place for data");
    let (data, _) = data.split_once("</script>").expect("which ends");
    let data: serde_json::Value = serde_json::from_str(data).expect("it is JSON");
    assert_eq!((&data["schema"], &data["packets_kept"]), (&"longhaul.view/1".into(), &24.into()));
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let answer = words(data["answer"].as_str().expect("an answer"));
    assert_eq!(words(&said)[..answer.len()], answer);
    let (status, printed, _) = explain(&[TRACE, "--html", "-"], b"");
    assert_eq!((status, printed), (Some(0), page));
    let (status, _, wrong) = explain(&[TRACE, "--html", "-", "--json", "-"], b"");
    assert!(status == Some(1) && wrong.contains("cannot both go to standard output"), "{wrong}");
}

#[test]
fn unreadable_capture_is_named_and_the_others_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().to_str().expect("a plain name");
    let (status, said, wrong) = explain(&[TRACE, "/nowhere", folder, "-"], b"");
    assert_eq!(status, Some(1));
    assert!(said.starts_with("93 ms of 113 ms"), "{said}");
    let told: Vec<&str> = wrong.lines().collect();
    assert_eq!(told.len(), 3, "{wrong}");
    assert!(told[0].contains("/nowhere: No such file") && told[1].contains("is a directory"), "{wrong}");
    assert!(told[2].starts_with("haul: standard input is empty"), "{wrong}");
}

#[test]
fn unmatched_connection_is_an_error() {
    let (status, said, wrong) = explain(&[TRACE, "--connection", "nobody"], b"");
    assert_eq!((status, &*said), (Some(1), ""));
    assert!(wrong.starts_with("haul: no connection matches `nobody`"), "{wrong}");
    assert_eq!(explain(&[TRACE, "--top", "0"], b"").0, Some(2));
    assert_eq!(explain(&[TRACE, "--what-if", "speed=2"], b"").0, Some(2));
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo_bin!("haul"));
    command.arg("explain").args(args);
    command
}

fn said(args: &[&str]) -> Result<String, Box<dyn Error>> {
    Ok(String::from_utf8(command(args).assert().success().get_output().stdout.clone())?)
}

#[test]
fn first_line_is_the_result() -> Result<(), Box<dyn Error>> {
    let slow = said(&["--format", "snoop", SLOW, "--bytes", "18MB"])?;
    assert!(slow.starts_with("93 ms of 113 ms (82 %) were lost: delayed ACKs."), "{slow}");
    assert!(slow.contains("with deferred-ack=1ms: 37 s instead of 4.1 min for 18 MB"), "{slow}");
    assert!(said(&[HEALTHY])?.starts_with("Healthy: "));
    Ok(())
}

#[test]
fn times_in_the_json_add_up() -> Result<(), Box<dyn Error>> {
    let text = said(&[SLOW, HEALTHY, "--json", "-"])?;
    let json: serde_json::Value = serde_json::from_str(&text)?;
    assert_eq!(json["schema"], "longhaul.explain/1");
    let connections = json["connections"].as_array().ok_or("a list")?;
    assert_eq!(connections.len(), 2);
    for transfer in connections.iter().filter_map(|one| one["transfers"].as_array()).flatten() {
        let times = transfer["time_s"].as_object().ok_or("a table")?.values().filter_map(serde_json::Value::as_f64);
        let duration = transfer["duration_s"].as_f64().ok_or("a number")?;
        assert!((times.sum::<f64>() - duration).abs() < 1e-9);
    }
    Ok(())
}

#[test]
fn invalid_capture_is_refused_in_one_sentence() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("no.pcap");
    fs::write(&file, b"\x00\x01no capture\xff")?;
    for file in [&*file, Path::new("/nowhere/at/all.pcap")] {
        let told = command(&[&file.display().to_string()]).assert().failure().code(1).get_output().stderr.clone();
        let told = String::from_utf8(told)?;
        assert!(told.starts_with("haul: ") && told.lines().count() == 1, "{told}");
    }
    command(&["--what-if", "speed=3", SLOW]).assert().code(2);
    Ok(())
}
