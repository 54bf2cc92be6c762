//! The explanation for people.
//!
//! The first line is the answer. Then the transfers, those first that lost most, each with a bar of where its time
//! went; then what is worth a change, with the packets that show it, and what to do about it. What was request with a
//! what-if comes with the transfer it is about. A transfer that lost nothing worth a change is only counted.

use std::fmt::Write as _;

use units::Size;

use super::{
    PredictionRequest,
    summary::{answer, ranked},
};
use crate::{
    Cause, CauseTimes, Connection, Direction, Finding, PageLoad, PairedConnection, Transfer, Vantage, bytes,
    page_loads, rate_text,
    replica::{PredictionError, WhatIf},
    time_text,
};

/// What to show, and on what.
#[derive(Debug, Clone)]
pub struct Look {
    /// Columns of the terminal.
    pub width: usize,
    /// Whether it shows colours.
    pub colour: bool,
    /// How many transfers.
    pub top: usize,
}

/// How many of the transfers that waited for one another are named.
const STEPS: usize = 6;

/// Cells of a bar.
const BAR: usize = 24;

/// How a bar is drawn: the dearest avoidable cause, the others that can be avoided, what no setting removes.
const CELLS: [(char, &str); 3] = [('█', "31"), ('▓', "33"), ('░', "2")];

/// The explanation of connections; `packets` were read in all.
pub fn render(connections: &[PairedConnection], packets: u64, request: &PredictionRequest, look: &Look) -> String {
    let ranked = ranked(connections);
    let transfers: Vec<_> = ranked.iter().map(|(place, transfer)| (&connections[*place], *transfer)).collect();
    let mut page = Page { text: String::new(), look };
    page.paragraph("", &answer(connections, &ranked, packets));
    if transfers.is_empty() {
        return page.text;
    }
    page.text.push('\n');
    page.table(&transfers);
    for set in page_loads(connections).iter().take(look.top) {
        page.set(connections, set);
    }
    for (number, (seen, transfer)) in transfers.iter().take(look.top).enumerate() {
        page.transfer(number + 1, seen, transfer, request);
    }
    page.text
}

struct Page<'a> {
    text: String,
    look: &'a Look,
}

impl Page<'_> {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.look.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn paragraph(&mut self, first: &str, text: &str) {
        let blanks = " ".repeat(first.chars().count());
        let options = textwrap::Options::new(self.look.width.max(60))
            .initial_indent(first)
            .subsequent_indent(&blanks)
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .break_words(false);
        self.text += &textwrap::fill(text, options);
        self.text.push('\n');
    }

    fn table(&mut self, transfers: &[(&PairedConnection, &Transfer)]) {
        let shown: Vec<_> = transfers.iter().take(self.look.top).collect();
        let named: Vec<String> = shown.iter().map(|(_, transfer)| name(transfer)).collect();
        let wide = named.iter().map(|name| name.chars().count()).max().unwrap_or(0).clamp(8, 32);
        let _ = writeln!(
            self.text,
            "  #  {:wide$}  {:>8}  {:>10}  {:>10}  where the time went",
            "transfer", "time", "bytes", "rate"
        );
        for (number, ((_, transfer), name)) in shown.iter().zip(&named).enumerate() {
            let name: String = name.chars().take(wide).collect();
            let (bar, legend) = (self.bar(transfer), shares(&transfer.times));
            let _ = writeln!(
                self.text,
                "{:>3}  {name:wide$}  {:>8}  {:>10}  {:>10}  {bar}  {legend}",
                number + 1,
                time_text(transfer.duration),
                bytes(transfer.bytes),
                rate_text(transfer.rate()),
            );
        }
        if transfers.len() > shown.len() {
            let _ = writeln!(self.text, "     and {} more; --top shows them", transfers.len() - shown.len());
        }
    }

    /// What a client did over several connections, and what of it waited for what.
    fn set(&mut self, connections: &[PairedConnection], set: &PageLoad) {
        self.text.push('\n');
        let waited = match set.path.len() {
            1 => "its last transfer waited for no other".to_owned(),
            count => format!("{count} transfers waited for one another"),
        };
        let title = format!(
            "Together: {} transfers over {} connections of {}, {} in {}; {waited}: {}.",
            set.transfers,
            set.connections,
            set.client,
            bytes(set.bytes),
            time_text(set.duration),
            shares(&set.times)
        );
        self.paragraph("", &title);
        let mut longest: Vec<_> = set.path.iter().map(|step| step.duration).collect();
        longest.sort_unstable();
        let least = longest[longest.len().saturating_sub(STEPS)];
        for step in set.path.iter().filter(|step| step.duration >= least).take(STEPS) {
            let seen = &connections[step.connection];
            let transfer = &seen.connection.transfers[step.transfer];
            let after = time_text(step.start.saturating_sub(set.start));
            let took = time_text(step.duration);
            let text = format!("after {after:>8}, for {took:>8}: ");
            self.paragraph("     ", &format!("{text}{}, port {}", name(transfer), seen.connection.client.port()));
        }
        if set.path.len() > STEPS {
            self.paragraph("     ", &format!("and {} shorter ones", set.path.len() - STEPS));
        }
    }

    fn bar(&self, transfer: &Transfer) -> String {
        let total = transfer.times.sum().max(1);
        let cells = |time: u64| (time * BAR as u64 + total / 2) / total;
        let mut bar = String::new();
        let mut drawn = 0;
        let ranked = transfer.times.ranked();
        let kind = |cause: Cause| match (transfer.cause == Some(cause), cause.is_avoidable()) {
            (true, _) => 0,
            (_, true) => 1,
            _ => 2,
        };
        for (wanted, (cell, colour)) in CELLS.into_iter().enumerate() {
            let time: u64 = ranked.iter().filter(|(cause, _)| kind(*cause) == wanted).map(|(_, time)| time).sum();
            let count = (cells(time) as usize).min(BAR - drawn);
            let count = if wanted + 1 == CELLS.len() { BAR - drawn } else { count };
            drawn += count;
            if count > 0 {
                bar += &self.paint(colour, &cell.to_string().repeat(count));
            }
        }
        bar
    }

    fn transfer(&mut self, number: usize, seen: &PairedConnection, transfer: &Transfer, request: &PredictionRequest) {
        let connection = &seen.connection;
        if transfer.findings.is_empty() && request.what_if.is_none() && request.bytes.is_none() {
            return;
        }
        self.text.push('\n');
        let title = format!("{number}. {}", name(transfer));
        let title = self.paint("1", &title);
        let _ = writeln!(self.text, "{title}  {}", connection.ends());
        self.paragraph("   ", &place(connection));
        if let Some(ways) = &seen.one_way {
            self.paragraph("   ", &ways.says());
        }
        for finding in &transfer.findings {
            self.finding(transfer, finding, request);
        }
        self.prediction(transfer, request);
        if let Some(Err(error)) = transfer.prediction() {
            self.text.push('\n');
            self.paragraph("   ", &declined(&error));
        }
    }

    fn finding(&mut self, transfer: &Transfer, finding: &Finding, request: &PredictionRequest) {
        let share = 100.0 * finding.cost.as_secs_f64() / transfer.duration.as_secs_f64().max(1e-9);
        let packets: Vec<String> = finding.packets.iter().map(u32::to_string).collect();
        let plural = if packets.len() == 1 { "" } else { "s" };
        let head = format!("{}: {} ({share:.0} %)", finding.cause.name(), time_text(finding.cost));
        let head = self.paint("1", &head);
        let _ = writeln!(self.text, "\n   {head}, packet{plural} {}", packets.join(", "));
        self.paragraph("     ", &finding.why);
        if let Some(what_if) = &finding.what_if
            && let Some(text) = predicted(transfer, what_if, request.bytes)
        {
            self.paragraph("     ", &text);
        }
        for fix in finding.fixes() {
            let but = if fix.but.is_empty() { String::new() } else { format!("  (but: {})", fix.but) };
            self.paragraph("     - ", &format!("{}: {}{but}", fix.system, fix.how));
        }
    }

    /// What was request.
    fn prediction(&mut self, transfer: &Transfer, request: &PredictionRequest) {
        let scaled = request.bytes.map(Size);
        let wanted = [scaled.map(|_| WhatIf::default()), request.what_if.clone()];
        for what_if in wanted.into_iter().flatten() {
            let Some(answer) = transfer.what_if(&what_if, scaled) else { continue };
            let condition = if what_if.is_empty() { "as it is".to_owned() } else { format!("with {what_if}") };
            let of = request.bytes.map(|size| format!("{} ", bytes(size))).unwrap_or_default();
            let Ok(predicted) = answer else { continue };
            let text = format!(
                "What if: {of}{condition}: {} (the replica of what was seen is {}).",
                time_text(predicted.duration),
                off(predicted.model_error)
            );
            self.text.push('\n');
            self.paragraph("   ", &text);
        }
    }
}

/// What a finding's change would do.
fn predicted(transfer: &Transfer, what_if: &WhatIf, size: Option<u64>) -> Option<String> {
    let scaled = size.map(Size);
    let change = transfer.what_if(what_if, scaled)?;
    let of = size.map(|size| format!(" for {}", bytes(size))).unwrap_or_default();
    let (Ok(before), Ok(after)) = (transfer.what_if(&WhatIf::default(), scaled)?, change) else { return None };
    Some(format!(
        "With {what_if}: {} in place of {}{of}; the replica of what was seen is {}.",
        time_text(after.duration),
        time_text(before.duration),
        off(after.model_error)
    ))
}

/// How true a replica is.
fn off(error: f64) -> String {
    let percent = (error.abs() * 100.0).round();
    match (percent > 0.0, error > 0.0) {
        (false, _) => "true to 1 %".to_owned(),
        (true, true) => format!("{percent} % too slow"),
        (true, false) => format!("{percent} % too quick"),
    }
}

fn declined(error: &PredictionError) -> String {
    let mut text = error.to_string();
    if let Some(first) = text.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    text + "."
}

fn name(transfer: &Transfer) -> String {
    match (&*transfer.request, transfer.direction) {
        ("", _) if transfer.bytes == 0 => "connect".to_owned(),
        ("", Direction::Upload) => "upload".to_owned(),
        ("", Direction::Download) => "download".to_owned(),
        (what, _) if transfer.status.is_empty() => what.to_owned(),
        (what, _) => format!("{what} → {}", transfer.status),
    }
}

/// The causes that took most, in words.
fn shares(times: &CauseTimes) -> String {
    let total = times.sum().max(1) as f64;
    let ranked = times.ranked().into_iter().filter(|(_, time)| *time as f64 >= 0.05 * total);
    let each = ranked.take(3).map(|(cause, time)| format!("{} {:.0} %", cause.name(), 100.0 * time as f64 / total));
    each.collect::<Vec<_>>().join(", ")
}

/// What is known of a connection.
fn place(connection: &Connection) -> String {
    let vantage = match connection.vantage {
        Vantage::Client => "captured at the client's end",
        Vantage::Server => "captured at the server's end",
        Vantage::Middle => "captured between the ends",
        Vantage::Unknown => "captured at an unknown place",
    };
    let mut text = format!("RTT {}, MSS {}, {vantage}", time_text(connection.rtt), connection.mss);
    if let Some(rate) = connection.rate {
        let _ = write!(text, ", narrowest link {}", rate_text(rate));
    }
    if let Some(acks) = connection.acks {
        let _ = write!(text, ", the receiver acknowledges {}", acks.says());
    }
    if let Some(chunk) = connection.chunk {
        let (full, rest) = (chunk / connection.mss, chunk % connection.mss);
        let _ = write!(text, ", writes of {chunk} bytes: {full} full segments");
        if rest > 0 {
            let _ = write!(text, " and {rest} bytes");
        }
    }
    text
}
