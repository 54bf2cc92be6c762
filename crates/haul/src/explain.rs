//! `haul explain`: where the time of captured transfers went.

use std::{
    error::Error,
    io::{self, IsTerminal},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use capture::Format;
use explain::{
    Explanation, KeepPackets, PacketStore, PairedConnection,
    render::{PredictionRequest, ReadCapture, json, notes, page, text},
    replica::WhatIf,
};
use units::Size;

mod each;

/// Explain where the time of captured transfers went, and predict the effect of changes
///
/// Reads pcap, pcapng and snoop captures, optionally compressed, and the printed output of snoop and tcpdump. Captures of
/// both ends of a connection can be given together.
#[derive(clap::Args)]
#[command(after_help = "Changes for --what-if, joined by commas: rtt=20ms, rate=100mbit, mss=1460, deferred-ack=1ms, \
                        initial-window=10, chunk=64KiB, send-buffer=128KiB, receive-window=1MiB, http2-window=1MiB, \
                        nodelay, no-loss, no-expect, no-server-think, no-client-think, no-idle, no-stalls, no-queue, \
                        no-pacing, alone")]
pub(crate) struct Args {
    /// Captures to explain; `-` is standard input
    #[arg(required_unless_present = "each", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Explain each capture separately, as one JSON document per line on standard output. Without FILE, read NUL-terminated
    /// paths from standard input, as `find -print0` writes them
    #[arg(long, conflicts_with_all = ["connection", "transfer", "top", "json", "html"])]
    each: bool,

    /// Override format detection: pcap, pcapng, snoop or tcpdump
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Only connections with this text in one of their ends: an address, a name, :PORT
    #[arg(long, value_name = "TEXT")]
    connection: Option<String>,

    /// Only transfers with this text in their request: a method, a path
    #[arg(long, value_name = "TEXT")]
    transfer: Option<String>,

    /// Number of transfers to show, those that lost most time first
    #[arg(long, value_name = "N", default_value = "5", value_parser = at_least_one)]
    top: usize,

    /// Predict the time for another number of bytes: 18MB
    #[arg(long, value_name = "SIZE")]
    bytes: Option<Size>,

    /// Predict the time with changes: rtt=20ms,nodelay
    #[arg(long, value_name = "CHANGES")]
    what_if: Option<WhatIf>,

    /// Also write the explanation as JSON (schema longhaul.explain/1); `-` writes it to standard output instead of the
    /// text
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Also write a report that shows the packets and opens from disk in any browser; `-` writes it to standard output
    /// instead of the text
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|count| *count > 0).ok_or_else(|| "expected a number of at least 1".to_owned())
}

pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let request = PredictionRequest { what_if: args.what_if.clone(), bytes: args.bytes.map(Size::as_bytes) };
    if args.each {
        return each::run(&args.files, args.format, &request);
    }
    if args.json.iter().chain(&args.html).filter(|path| is_stdout(path)).count() > 1 {
        return Err("--json and --html cannot both go to standard output; name a file for one of them".into());
    }
    let store = args.html.as_ref().map(|_| PacketStore::default());
    let keep = KeepPackets { for_pairing: args.files.len() > 1, for_page: store.as_ref() };
    let (captures, explanations): (Vec<_>, Vec<_>) = read(&args.files, args.format, keep).into_iter().unzip();
    let is_unreadable = captures.iter().any(is_unreadable);
    let status = if is_unreadable { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    let packets = captures.iter().map(|capture| capture.packets).sum();
    if is_unreadable && packets == 0 {
        return Ok(status);
    }
    let mut connections = explain::pair_captures(explanations);
    filter(&mut connections, args)?;
    let notes = notes(&captures, &connections);
    if let Some(path) = &args.html {
        let names: Vec<String> = captures.iter().map(|capture| capture.name.clone()).collect();
        report::save(path, &page::document(&names, &connections, packets, &request).with_notes(&notes))?;
    }
    let document = json::document(&captures, &connections, &request);
    if !args.json.iter().chain(&args.html).any(|path| is_stdout(path)) {
        let layout = layout(args.top);
        let text = text::render(&connections, packets, &request, &layout) + &text::notes(&notes, &layout);
        crate::print(text.as_bytes())?;
    }
    if let Some(path) = &args.json {
        let written = output::write(path, |to| {
            serde_json::to_writer_pretty(&mut *to, &document)?;
            to.write_all(b"\n")
        });
        written.map_err(|error| format!("cannot write the explanation to {}: {error}", path.display()))?;
    }
    Ok(status)
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Reads the captures, as many at a time as there are processors, and reports errors. A capture that breaks off is
/// explained up to there.
fn read(files: &[PathBuf], format: Option<Format>, keep: KeepPackets) -> Vec<(ReadCapture, Explanation)> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, (ReadCapture, Explanation))>> = Mutex::new(Vec::new());
    let threads = thread::available_parallelism().map_or(1, usize::from).min(files.len());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(file) = files.get(index) else { break };
                    let explained = explain(file, format, keep);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, explained));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|(index, ..)| *index);
    for error in done.iter().filter_map(|(_, (capture, _))| capture.error.as_ref()) {
        crate::say(error);
    }
    done.into_iter().map(|(_, explained)| explained).collect()
}

/// What could be read of a capture, and why the rest could not.
fn explain(file: &Path, format: Option<Format>, keep: KeepPackets) -> (ReadCapture, Explanation) {
    let (explanation, error) = match capture::open(file, format) {
        Ok(mut source) => explain::explain_keeping(&mut *source, keep),
        Err(error) => (Explanation::default(), Some(error)),
    };
    let capture = ReadCapture {
        name: file.display().to_string(),
        packets: explanation.packets,
        coverage: explanation.coverage,
        error: error.map(|error| error.to_string()),
    };
    (capture, explanation)
}

/// Whether nothing of it could be read.
fn is_unreadable(capture: &ReadCapture) -> bool {
    capture.error.is_some() && capture.packets == 0
}

/// Keeps the connections and transfers that the user selected.
fn filter(connections: &mut Vec<PairedConnection>, args: &Args) -> Result<(), String> {
    if let Some(wanted) = &args.connection {
        keep(connections, "connection", wanted, |paired| paired.connection.ends().contains(wanted))?;
    }
    if let Some(wanted) = &args.transfer {
        keep(connections, "transfer", wanted, |paired| {
            paired.connection.transfers.retain(|transfer| transfer.request.contains(wanted));
            !paired.connection.transfers.is_empty()
        })?;
    }
    Ok(())
}

fn keep(
    connections: &mut Vec<PairedConnection>,
    what: &str,
    wanted: &str,
    mut is_wanted: impl FnMut(&mut PairedConnection) -> bool,
) -> Result<(), String> {
    let any = !connections.is_empty();
    connections.retain_mut(|paired| is_wanted(paired));
    if any && connections.is_empty() {
        return Err(format!("no {what} matches `{wanted}`; omit --{what} to see all"));
    }
    Ok(())
}

/// The terminal's width, and colours if standard output is a terminal.
fn layout(top: usize) -> text::Layout {
    let terminal = io::stdout().is_terminal();
    text::Layout { width: crate::columns().min(120), colour: terminal && std::env::var_os("NO_COLOR").is_none(), top }
}
