//! The waterfall and the floors, as text for a terminal.
//!
//! ```text
//!                 conn      size  0              0.5 s              1 s
//! * page             0   20.2 kB  ╌╌╌╌────━━━━
//!   picture          0    1.2 kB              ────
//! * style            1    1.2 kB          ╌╌╌╌────
//! ```
//!
//! Colour only repeats what the characters show.

use std::{fmt::Write as _, time::Duration};

use textwrap::core::display_width;
use units::{
    Rate, Span,
    rounded::{count, decimal_size},
};

use crate::{Connections, IdealNetwork, Schedule, Spec, schedule::INITIAL_WINDOW};

/// Terminal settings.
#[derive(Debug, Clone, Copy)]
pub struct Look {
    /// The width of the terminal, in columns.
    pub width: usize,
    /// Whether to use colours.
    pub colour: bool,
}

/// Character and colour of each phase of a request.
const OPENING: (char, &str) = ('╌', "33");
const HELD: (char, &str) = ('·', "2");
const WAITING: (char, &str) = ('─', "34");
const RECEIVING: (char, &str) = ('━', "32");
const CRITICAL: &str = "1;31";

/// The load over the recorded connections with TCP's usual initial window; `handshake` in round trips.
pub fn recorded(spec: &Spec, rtt: Duration, rate: Option<Rate>, handshake: u32) -> Schedule {
    let connections = Connections::Recorded { handshake, initial_window: Some(INITIAL_WINDOW) };
    spec.schedule(&IdealNetwork { rtt, rate, connections, has_processing: true })
}

/// The page, its waterfall at the last of `rtts`, its critical path, and its floors at all of them.
pub fn render(spec: &Spec, rtts: &[Duration], rate: Option<Rate>, look: Look) -> String {
    let mut text = String::new();
    let paint =
        |colour: &str, text: &str| if look.colour { format!("\x1b[{colour}m{text}\x1b[0m") } else { text.to_owned() };
    let _ = writeln!(text, "{}", paint("1", &shown(&spec.title)));
    let hosts = spec.hosts().len();
    let over = match spec.connections() {
        0 => String::new(),
        connections => format!(" over {}", count(connections as u64, "connection")),
    };
    let _ = writeln!(
        text,
        "{} to {}{over}: {} sent, {} received\n",
        count(spec.requests.len() as u64, "request"),
        count(hosts as u64, "host"),
        decimal_size(spec.request_bytes()),
        decimal_size(spec.response_bytes()),
    );
    let rtt = rtts.last().copied().unwrap_or_default();
    let schedule = recorded(spec, rtt, rate, 1);
    text += &waterfall(spec, &schedule, look, &paint);
    let legend = [(OPENING, "connecting"), (HELD, "queued"), (WAITING, "waiting"), (RECEIVING, "receiving")];
    let legend = legend.map(|((sign, colour), what)| format!("{} {what}", paint(colour, &sign.to_string().repeat(2))));
    let _ = writeln!(text, "\n{}; * the critical path; at {}", legend.join(", "), Span(rtt));

    let names = |indices: &[usize]| {
        indices.iter().map(|index| shown(&spec.requests[*index].id)).collect::<Vec<_>>().join(" > ")
    };
    let depth = format!("Depth {}: {}", spec.depth(), names(&spec.critical_path()));
    let critical = format!(
        "Critical path: {}; it opens {}",
        names(&schedule.critical),
        count(schedule.handshakes() as u64, "connection")
    );
    for line in [depth, critical] {
        let _ =
            writeln!(text, "\n{}", textwrap::fill(&line, textwrap::Options::new(look.width).subsequent_indent("  ")));
    }
    let _ =
        writeln!(text, "\n{:>8}  {:>9}  {:>9}  {:>15}  {:>6}", "RTT", "floor", "HTTP/1.1", "with Fast Open", "saves");
    for rtt in rtts {
        let [plain, fast] = [1, 0].map(|handshake| recorded(spec, *rtt, rate, handshake).load);
        let saves = if plain.is_zero() { 0.0 } else { 100.0 * (1.0 - fast.as_secs_f64() / plain.as_secs_f64()) };
        let _ = writeln!(
            text,
            "{:>8}  {:>9}  {:>9}  {:>15}  {saves:>5.1}%",
            Span(*rtt).to_string(),
            seconds(spec.floor(*rtt, rate)),
            seconds(plain),
            seconds(fast),
        );
    }
    text
}

fn waterfall(spec: &Spec, schedule: &Schedule, look: Look, paint: &dyn Fn(&str, &str) -> String) -> String {
    let mut text = String::new();
    let widest = spec.requests.iter().map(|request| display_width(&shown(&request.id))).max().unwrap_or(0);
    let name_width = widest.clamp(4, (look.width / 4).clamp(8, 40));
    // Two columns for the mark, five and eleven for the numbers, two before the bar.
    let bar = look.width.saturating_sub(name_width + 20).max(10);
    let scale = |time: Duration| {
        let share = time.as_secs_f64() / schedule.load.as_secs_f64().max(1e-9);
        ((share * bar as f64).round() as usize).min(bar)
    };
    let ends = seconds(schedule.load);
    let ruler = format!("0{ends:>width$}", width = bar.saturating_sub(1));
    let _ = writeln!(text, "  {:name_width$} {:>4} {:>9}  {ruler}", "", "conn", "size");
    for (index, request) in spec.requests.iter().enumerate() {
        let critical = schedule.critical.contains(&index);
        let (sent, first, end) =
            (scale(schedule.sent[index]), scale(schedule.first[index]), scale(schedule.end[index]));
        let ready = scale(schedule.ready[index]);
        let opened = schedule.opened[index].map_or(sent, scale);
        // Every phase gets at least one column.
        let end = end.max(first + usize::from(schedule.end[index] > schedule.first[index])).min(bar);
        let first = first.min(end);
        let mut line = " ".repeat(ready);
        for ((sign, colour), from, to) in
            [(HELD, ready, opened), (OPENING, opened, sent), (WAITING, sent, first), (RECEIVING, first, end)]
        {
            let part = sign.to_string().repeat(to.saturating_sub(from));
            if !part.is_empty() {
                line += &paint(colour, &part);
            }
        }
        let name = cut(&shown(&request.id), name_width);
        let padded = format!("{name}{}", " ".repeat(name_width.saturating_sub(display_width(&name))));
        let connection = request.connection.map_or_else(String::new, |number| number.to_string());
        let size = decimal_size(request.response.size());
        let (mark, name) =
            if critical { (paint(CRITICAL, "*"), paint(CRITICAL, &padded)) } else { (" ".to_owned(), padded) };
        let _ = writeln!(text, "{mark} {name} {connection:>4} {size:>9}  {line}");
    }
    text
}

/// A name without control characters.
fn shown(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

/// The name in at most so many columns; a long one keeps its beginning and end.
fn cut(name: &str, width: usize) -> String {
    if display_width(name) <= width {
        return name.to_owned();
    }
    let letters: Vec<char> = name.chars().collect();
    let end = letters.len() - (width / 3).min(letters.len());
    let tail: String = letters[end..].iter().collect();
    let mut head = String::new();
    for letter in &letters[..end] {
        let longer = format!("{head}{letter}");
        if display_width(&longer) + display_width(&tail) + 1 > width {
            break;
        }
        head = longer;
    }
    format!("{head}…{tail}")
}

fn seconds(time: Duration) -> String {
    format!("{:.3} s", time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waterfall_fits_the_terminal_and_is_coloured_on_request() {
        let spec = Spec::shipped("wikipedia").unwrap();
        let rtts = [21, 172].map(Duration::from_millis);
        for width in [90, 120, 200] {
            let text = render(&spec, &rtts, None, Look { width, colour: false });
            let widest = text.lines().map(display_width).max().unwrap();
            assert!(widest <= width && !text.contains('\x1b'), "{width}: {widest}");
        }
        assert!(render(&spec, &rtts, None, Look { width: 80, colour: true }).contains("\x1b["));
    }

    #[test]
    fn long_names_keep_their_ends() {
        assert_eq!(cut("a-long-name.jpg", 10), "a-long…jpg");
        assert_eq!(cut("short", 10), "short");
    }
}
