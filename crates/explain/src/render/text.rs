//! The explanation as text for a terminal.
//!
//! The first line is the answer. Then come the transfers, those that lost most first, each with a bar of its time by
//! cause; then the findings, with the packets that show them and what to do. Predictions that the user requested follow
//! the transfer that they are about. Transfers without findings appear in the table only.

use std::{fmt::Write as _, time::Duration};

use units::Size;

use super::{
    PredictionRequest,
    summary::{also, answer, declined, name, ranked, sentence},
};
use crate::{
    Cause, CauseTimes, Connection, Finding, PageLoad, PairedConnection, Transfer, Vantage, bytes,
    number_format::percent, page_loads, rate_text, replica::WhatIf, system::Inferred, time_text,
};

/// The terminal, and how much to show.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether to use colours.
    pub colour: bool,
    /// The number of transfers to show.
    pub top: usize,
}

/// The maximum number of a page load's transfers that are named.
const MAX_STEPS: usize = 6;

/// The columns of a transfer's number, time, bytes and rate, with the spaces between.
const NUMBERS: usize = 5 + 10 + 12 + 12;

/// The smallest share of a transfer's time that is named beside its bar, in whole per cent.
const MIN_NAMED: u64 = 5;

/// The cells of a bar.
const BAR: usize = 24;

/// The cells and colours of a bar: the most expensive avoidable cause, other avoidable causes, causes that no setting
/// removes.
const CELLS: [(char, &str); 3] = [('█', "31"), ('▓', "33"), ('░', "2")];

/// Renders the explanation of connections; `packets` is the number of packets read.
pub fn render(connections: &[PairedConnection], packets: u64, request: &PredictionRequest, layout: &Layout) -> String {
    let ranked = ranked(connections);
    let mut writer = Writer { text: String::new(), layout };
    writer.paragraph("", &answer(connections, &ranked, packets));
    if ranked.is_empty() {
        return writer.text;
    }
    writer.text.push('\n');
    writer.table(connections, &ranked);
    for page_load in page_loads(connections).iter().take(layout.top) {
        writer.page_load(connections, page_load);
    }
    for (number, (index, transfer)) in ranked.iter().take(layout.top).enumerate() {
        let paired = &connections[*index];
        let name = format!("{}. {}", number + 1, name(*index, &paired.connection, transfer));
        writer.transfer(&name, paired, transfer, request);
    }
    writer.text
}

/// Renders sentences about the captures, each a paragraph.
pub fn notes(notes: &[String], layout: &Layout) -> String {
    let mut writer = Writer { text: String::new(), layout };
    for note in notes {
        writer.text.push('\n');
        writer.paragraph("", note);
    }
    writer.text
}

struct Writer<'a> {
    text: String,
    layout: &'a Layout,
}

impl Writer<'_> {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.layout.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn paragraph(&mut self, first: &str, text: &str) {
        let indent = " ".repeat(first.chars().count());
        let options = textwrap::Options::new(self.layout.width.max(60))
            .initial_indent(first)
            .subsequent_indent(&indent)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .break_words(false);
        self.text += &textwrap::fill(text, options);
        self.text.push('\n');
    }

    /// Two lines for each transfer: its numbers, and where its time went.
    fn table(&mut self, connections: &[PairedConnection], transfers: &[(usize, &Transfer)]) {
        let shown = &transfers[..transfers.len().min(self.layout.top)];
        let name = |(index, transfer): &(usize, &Transfer)| name(*index, &connections[*index].connection, transfer);
        let names: Vec<String> = shown.iter().map(name).collect();
        let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
        let width = width.clamp(8, self.layout.width.max(60) - NUMBERS);
        let _ = writeln!(self.text, "  #  {:width$}  {:>8}  {:>10}  {:>10}", "transfer", "time", "bytes", "rate");
        for (index, ((_, transfer), name)) in shown.iter().zip(&names).enumerate() {
            let name = shortened(name, width);
            let _ = writeln!(
                self.text,
                "{:>3}  {name:width$}  {:>8}  {:>10}  {:>10}",
                index + 1,
                time_text(transfer.duration),
                bytes(transfer.bytes),
                rate_text(transfer.rate()),
            );
            let bar = self.bar(transfer);
            let room = self.layout.width.max(60) - (5 + BAR + 2);
            for (line, part) in in_lines(shares(&transfer.times), room).iter().enumerate() {
                let bar = if line == 0 { bar.clone() } else { " ".repeat(BAR) };
                let _ = writeln!(self.text, "     {bar}  {part}");
            }
        }
        if transfers.len() > shown.len() {
            let _ = writeln!(self.text, "     and {} more; show them with --top", transfers.len() - shown.len());
        }
    }

    fn page_load(&mut self, connections: &[PairedConnection], page_load: &PageLoad) {
        self.text.push('\n');
        let path = match page_load.path.len() {
            1 => "the last transfer waited for no other".to_owned(),
            count => format!("{count} transfers on the critical path"),
        };
        let title = format!(
            "Client {}: {} transfers over {} connections, {} in {}; {path}: {}.",
            page_load.client,
            page_load.transfers,
            page_load.connections,
            bytes(page_load.bytes),
            time_text(page_load.duration),
            shares(&page_load.times).join(", ")
        );
        self.paragraph("", &title);
        let mut durations: Vec<_> = page_load.path.iter().map(|step| step.duration).collect();
        durations.sort_unstable();
        let shortest_named = durations[durations.len().saturating_sub(MAX_STEPS)];
        for step in page_load.path.iter().filter(|step| step.duration >= shortest_named).take(MAX_STEPS) {
            let paired = &connections[step.connection];
            let transfer = &paired.connection.transfers[step.transfer];
            let start = time_text(step.start.saturating_sub(page_load.start));
            let duration = time_text(step.duration);
            let (name, port) = (name(step.connection, &paired.connection, transfer), paired.connection.client.port());
            self.paragraph("     ", &format!("at {start:>8}, for {duration:>8}: {name}, client port {port}"));
        }
        if page_load.path.len() > MAX_STEPS {
            self.paragraph("     ", &format!("and {} shorter ones", page_load.path.len() - MAX_STEPS));
        }
    }

    fn bar(&self, transfer: &Transfer) -> String {
        let total = transfer.times.sum().max(1);
        let cells = |time: u64| (time * BAR as u64 + total / 2) / total;
        let mut bar = String::new();
        let mut drawn = 0;
        let ranked = transfer.times.ranked();
        let kind_of = |cause: Cause| match (transfer.cause == Some(cause), cause.is_avoidable()) {
            (true, _) => 0,
            (_, true) => 1,
            _ => 2,
        };
        for (kind, (cell, colour)) in CELLS.into_iter().enumerate() {
            let time: u64 = ranked.iter().filter(|(cause, _)| kind_of(*cause) == kind).map(|(_, time)| time).sum();
            let count = (cells(time) as usize).min(BAR - drawn);
            let count = if kind + 1 == CELLS.len() { BAR - drawn } else { count };
            drawn += count;
            if count > 0 {
                bar += &self.paint(colour, &cell.to_string().repeat(count));
            }
        }
        bar
    }

    fn transfer(&mut self, name: &str, paired: &PairedConnection, transfer: &Transfer, request: &PredictionRequest) {
        let connection = &paired.connection;
        let also: Vec<String> = also(transfer).collect();
        let is_silent = transfer.findings.is_empty() && also.is_empty();
        if is_silent && request.what_if.is_none() && request.bytes.is_none() {
            return;
        }
        self.text.push('\n');
        let title = self.paint("1", name);
        let _ = writeln!(self.text, "{title}");
        self.paragraph("   ", &connection.ends());
        self.paragraph("   ", &describe(connection));
        if let Some(one_way) = &paired.one_way {
            self.paragraph("   ", &one_way.to_string());
        }
        for finding in &transfer.findings {
            self.finding(transfer, finding, request);
        }
        if !also.is_empty() {
            self.text.push('\n');
        }
        for line in &also {
            self.paragraph("   ", line);
        }
        self.requested_predictions(transfer, request);
        if let Some(why) = declined(connection, transfer) {
            let has_predicted =
                request.bytes.is_none() && transfer.findings.iter().any(|finding| transfer.without(finding).is_some());
            let text = if has_predicted { format!("nothing else is predicted; {why}") } else { why };
            self.text.push('\n');
            self.paragraph("   ", &sentence(text));
        }
    }

    fn finding(&mut self, transfer: &Transfer, finding: &Finding, request: &PredictionRequest) {
        let share = percent(nanos(finding.cost), nanos(transfer.duration));
        let packets: Vec<String> = finding.packets.iter().map(u32::to_string).collect();
        let packets = match &packets[..] {
            [] => String::new(),
            [one] => format!(", packet {one}"),
            several => format!(", packets {}", several.join(", ")),
        };
        let (title, name) = (finding.cause.title(), finding.cause.name());
        let head = self.paint("1", &format!("{title} ({name}) {share} %"));
        let _ = writeln!(self.text, "\n   {head}: {}{packets}", time_text(finding.cost));
        self.paragraph("     ", &finding.why);
        if let Some(what_if) = &finding.what_if
            && let Some(text) = effect(transfer, finding, what_if, request.bytes)
        {
            self.paragraph("     ", &text);
        }
        let mut others: Vec<&str> = Vec::new();
        for (fix, applies) in finding.ranked_fixes() {
            if applies == Some(false) {
                if !others.contains(&fix.system) {
                    others.push(fix.system);
                }
                continue;
            }
            let but = if fix.but.is_empty() { String::new() } else { format!("  (side effect: {})", fix.but) };
            self.paragraph("     - ", &format!("{}: {}{but}", fix.system, fix.how));
        }
        if let Some((last, rest)) = others.split_last() {
            let list = if rest.is_empty() { (*last).to_owned() } else { format!("{} and {last}", rest.join(", ")) };
            self.paragraph("     - ", &format!("for {list}: see --html or --json"));
        }
    }

    fn requested_predictions(&mut self, transfer: &Transfer, request: &PredictionRequest) {
        let size = request.bytes.map(Size);
        let changes = [size.map(|_| WhatIf::default()), request.what_if.clone()];
        for what_if in changes.into_iter().flatten() {
            let Some(Ok(predicted)) = transfer.what_if(&what_if, size) else { continue };
            let condition = if what_if.is_empty() { "without changes".to_owned() } else { format!("with {what_if}") };
            let of = request.bytes.map(|size| format!("for {} ", bytes(size))).unwrap_or_default();
            let text = format!(
                "Prediction {of}{condition}: {} ({}).",
                time_text(predicted.duration),
                accuracy(predicted.model_error)
            );
            self.text.push('\n');
            self.paragraph("   ", &text);
        }
    }
}

/// The predicted effect of a finding's change.
fn effect(transfer: &Transfer, finding: &Finding, what_if: &WhatIf, size: Option<u64>) -> Option<String> {
    if size.is_none() {
        let after = transfer.without(finding)?;
        let measured = match after.range {
            Some([from, to]) => {
                format!("; 9 in 10 measured cases were between {} and {}", time_text(from), time_text(to))
            }
            None => format!("; {}", accuracy(after.model_error)),
        };
        let (after, before) = (time_text(after.duration), time_text(transfer.duration));
        return Some(format!("Prediction with {what_if}: {after} instead of {before}{measured}."));
    }
    let after = transfer.what_if(what_if, size.map(Size))?;
    let before = transfer.what_if(&WhatIf::default(), size.map(Size))?;
    let (Ok(before), Ok(after)) = (before, after) else { return None };
    let of = size.map(|size| format!(" for {}", bytes(size))).unwrap_or_default();
    Some(format!(
        "Prediction with {what_if}: {} instead of {}{of} ({}).",
        time_text(after.duration),
        time_text(before.duration),
        accuracy(after.model_error)
    ))
}

/// How far a replica's time is from the captured one.
fn accuracy(model_error: Option<f64>) -> String {
    let Some(model_error) = model_error else { return "nothing but this wait changes".to_owned() };
    let percent = (model_error.abs() * 100.0).round();
    match (percent > 0.0, model_error > 0.0) {
        (false, _) => "its replica of the captured transfer differs by less than 1 %".to_owned(),
        (true, true) => format!("its replica of the captured transfer is {percent} % too slow"),
        (true, false) => format!("its replica of the captured transfer is {percent} % too fast"),
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A name in at most `width` characters.
fn shortened(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.to_owned();
    }
    name.chars().take(width - 1).chain(['…']).collect()
}

/// The three most expensive causes with their shares.
fn shares(times: &CauseTimes) -> Vec<String> {
    let ranked = times.ranked().into_iter().map(|(cause, time)| (cause, percent(time, times.sum())));
    let each = ranked.filter(|(_, share)| *share >= MIN_NAMED).take(3);
    each.map(|(cause, share)| format!("{} {share} %", cause.title())).collect()
}

/// Joins these with commas, in lines of at most this many characters; none is broken.
fn in_lines(parts: Vec<String>, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            Some(line) if line.chars().count() + part.chars().count() + 3 <= room => {
                line.push_str(", ");
                line.push_str(&part);
            }
            Some(line) => {
                line.push(',');
                lines.push(part);
            }
            None => lines.push(part),
        }
    }
    lines
}

/// The operating systems of both ends, as far as they are known.
fn systems(connection: &Connection) -> String {
    let name = |inferred: Option<Inferred>| inferred.map(|inferred| inferred.system.name());
    match (name(connection.systems.client), name(connection.systems.server)) {
        (Some(client), Some(server)) if client == server => format!("; both ends run {client}"),
        (Some(client), Some(server)) => format!("; the client runs {client}, the server {server}"),
        (Some(client), None) => format!("; the client runs {client}"),
        (None, Some(server)) => format!("; the server runs {server}"),
        (None, None) => String::new(),
    }
}

/// What was inferred of a connection.
fn describe(connection: &Connection) -> String {
    let vantage = match connection.vantage {
        Vantage::Client => "captured at the client",
        Vantage::Server => "captured at the server",
        Vantage::Middle => "captured between client and server",
        Vantage::Unknown => "captured at an unknown point",
    };
    if let Some(side) = connection.only_from {
        return format!("only the {}'s packets were captured", side.name());
    }
    let rtt = if connection.is_rtt_unknown { "unknown".to_owned() } else { time_text(connection.rtt) };
    let mut text = format!("RTT {rtt}, MSS {}, {vantage}", connection.mss);
    if let Some(rate) = connection.rate {
        let _ = write!(text, ", bottleneck {}", rate_text(rate));
    }
    if let Some(chunk) = connection.chunk {
        let (full, rest) = (chunk / connection.mss, chunk % connection.mss);
        let _ = write!(text, ", writes of {chunk} bytes ({full} full segments");
        if rest > 0 {
            let _ = write!(text, " and {rest} bytes");
        }
        text.push(')');
    }
    if !connection.knows_window {
        text += ", receive window of unknown scale (no handshake)";
    }
    text += &systems(connection);
    if let Some(acks) = connection.acks {
        let _ = write!(text, "; the receiver acknowledges {acks}");
    }
    if connection.uncaptured > 0 {
        let _ = write!(text, "; {} acknowledged, but not captured", bytes(connection.uncaptured));
    }
    text
}
