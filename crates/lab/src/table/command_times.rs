//! Commands compared on one link, for the terminal and as Markdown.

use std::fmt::Write as _;

use comfy_table::CellAlignment;

use super::{
    Look,
    columns::{Column, draw},
};
use crate::{
    command_times::{CommandComparison, CommandTimes, Summary},
    format::{Scale, between, counted, estimated, times},
    stats::{
        range_coverage,
        shift::{CONFIDENCE, LEAST_CONFIDENCE, Shift},
    },
};

/// The letter of a command; `A27` and so on after the alphabet.
fn letter(index: usize) -> String {
    let letter = char::from(b'A' + (index % 26) as u8);
    if index < 26 { letter.to_string() } else { format!("{letter}{}", index / 26 + 1) }
}

/// The comparison as text, with a newline at its end.
pub fn render_commands(comparison: &CommandComparison, look: Look) -> String {
    let mut text = look.paragraph("", 2, &heading(comparison)) + "\n";
    for (index, command) in comparison.commands.iter().enumerate() {
        text += &look.paragraph(&format!("  {}  ", letter(index)), 5, &command.command);
    }
    let rows = Rows::of(comparison);
    if !rows.ranked.is_empty() {
        text = text + "\n" + &rows.draw(comparison, look) + "\n";
    }
    for sentence in sentences(comparison) {
        text += &look.paragraph("  ", 4, &sentence);
    }
    text
}

/// The comparison as a Markdown table, with the commands in full.
pub fn render_commands_as_markdown(comparison: &CommandComparison) -> String {
    let rows = Rows::of(comparison);
    let mut text = format!("{}\n\n", heading(comparison));
    let _ = writeln!(text, "| command | median | {} | quickest–slowest run | relative |", rows.spread);
    text += "|:---|---:|---:|---:|---:|\n";
    let ratios = comparison.ratios();
    for (index, summary) in &rows.ranked {
        let ratio = ratios.iter().find(|(other, _)| other == index);
        let relative = ratio.map_or_else(|| "1".to_owned(), |(_, ratio)| estimated(ratio.value, ratio.interval));
        let [median, spread, range] = rows.cells(summary);
        let command = code(&comparison.commands[*index].command);
        let _ = writeln!(text, "| {command} | {median} | {spread} | {range} | {relative} |");
    }
    for (command, failed) in comparison.commands.iter().filter_map(failure) {
        let _ = writeln!(text, "\n{} {failed}", code(command));
    }
    text
}

/// A command as code in a cell: longer fences than its own backticks, and no cell separators.
fn code(command: &str) -> String {
    let longest = command.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if longest > 0 { " " } else { "" };
    format!("{fence}{pad}{}{pad}{fence}", command.replace('|', "\\|").replace(['\n', '\r'], " "))
}

fn heading(comparison: &CommandComparison) -> String {
    let runs = comparison.commands.iter().map(|command| command.runs.len()).min().unwrap_or(0);
    let warmup = match comparison.warmup {
        0 => String::new(),
        count => format!(", after {} to warm up", counted(count.into(), "run")),
    };
    format!("{}: {} of each command, in turn{warmup}", comparison.link, counted(runs as u64, "run"))
}

/// The commands with times, the quickest first, and how to write these.
struct Rows {
    ranked: Vec<(usize, Summary)>,
    scale: Scale,
    spread: &'static str,
}

impl Rows {
    fn of(comparison: &CommandComparison) -> Self {
        let summary = |index: usize| Some((index, comparison.commands[index].summary()?));
        let ranked: Vec<_> = comparison.ranked().into_iter().filter_map(summary).collect();
        let scale = Scale::of(ranked.iter().map(|(_, summary)| summary.median));
        let count = |(index, _): &(usize, Summary)| comparison.commands[*index].samples().len();
        let fewest = ranked.iter().map(count).min().unwrap_or(0);
        let spread = if range_coverage(fewest) < CONFIDENCE { "interval" } else { "95 % interval" };
        Self { ranked, scale, spread }
    }

    /// Median, interval and range.
    fn cells(&self, summary: &Summary) -> [String; 3] {
        let Self { scale, .. } = self;
        let interval = summary.interval.map(|of| format!("{}–{}", scale.number(of.lo), scale.number(of.hi)));
        let range = format!("{}–{}", scale.number(summary.range.lo), scale.number(summary.range.hi));
        [scale.with_unit(summary.median), interval.unwrap_or_else(|| "–".to_owned()), range]
    }

    fn draw(&self, comparison: &CommandComparison, look: Look) -> String {
        let column = |heading: &str, rank, cell: &dyn Fn(usize, &Summary) -> String| Column {
            heading: heading.to_owned(),
            side: CellAlignment::Right,
            rank,
            cells: self.ranked.iter().map(|(index, summary)| cell(*index, summary)).collect(),
        };
        let time = |column: usize| move |_: usize, summary: &Summary| self.cells(summary)[column].clone();
        let ratios = comparison.ratios();
        let relative = |index: usize, _: &Summary| {
            let ratio = ratios.iter().find(|(other, _)| *other == index);
            ratio.map_or_else(String::new, |(_, ratio)| times(ratio.value))
        };
        let columns = vec![
            Column { side: CellAlignment::Left, ..column("", 0, &|index, _| letter(index)) },
            column("median", 0, &time(0)),
            column(self.spread, 1, &time(1)),
            column("quickest–slowest", 2, &time(2)),
            column("", 1, &relative),
        ];
        let slowest = self.ranked.last().map_or(1.0, |(_, summary)| summary.median);
        let shares: Vec<f64> = self.ranked.iter().map(|(_, summary)| summary.median / slowest).collect();
        draw(columns, &shares, &vec![false; shares.len()], look)
    }
}

fn sentences(comparison: &CommandComparison) -> Vec<String> {
    let ranked = comparison.ranked();
    let quickest = ranked.first().copied().map_or_else(String::new, letter);
    let ratios = comparison.ratios();
    let mut sentences: Vec<String> =
        ratios.iter().map(|(index, ratio)| said(&quickest, &letter(*index), ratio)).collect();
    let failed = comparison.commands.iter().enumerate();
    sentences.extend(failed.filter_map(|(index, command)| Some(format!("{} {}", letter(index), failure(command)?.1))));
    sentences
}

fn said(quickest: &str, other: &str, ratio: &Shift) -> String {
    let Shift { value, interval, confidence, .. } = ratio;
    if *confidence < LEAST_CONFIDENCE - 1e-9 {
        return format!("{quickest} against {other}: too few runs to tell; use --runs 4 or more.");
    }
    let confidence =
        if *confidence < CONFIDENCE { format!(", {:.0} % confidence", 100.0 * confidence) } else { String::new() };
    let factor = format!("{}× ({}{confidence})", times(*value).trim_end_matches('×'), between(*interval));
    if ratio.differs() {
        format!("{quickest} is {factor} as fast as {other}.")
    } else {
        format!("No difference shown between {quickest} and {other}: {other} takes {factor} as long.")
    }
}

/// The command, and what to say of its failures, if there were any.
fn failure(command: &CommandTimes) -> Option<(&str, String)> {
    let failures = command.failures();
    let status = command.runs.iter().find(|run| run.exit_status != 0)?.exit_status;
    let left_out = if failures == command.runs.len() { "it has no times" } else { "their times do not count" };
    let all = counted(command.runs.len() as u64, "run");
    Some((&command.command, format!("failed in {failures} of {all} (exit status {status}); {left_out}.")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_times::CommandRun;

    fn command(command: &str, runs: &[(f64, i32)]) -> CommandTimes {
        let runs =
            runs.iter().map(|(seconds, exit_status)| CommandRun { seconds: *seconds, exit_status: *exit_status });
        CommandTimes { command: command.to_owned(), runs: runs.collect() }
    }

    fn comparison(commands: Vec<CommandTimes>) -> CommandComparison {
        CommandComparison { link: "80ms RTT".to_owned(), warmup: 1, commands }
    }

    const LOOK: Look = Look { width: 80, colour: false };

    #[test]
    fn quickest_command_comes_first_with_its_factor() {
        let times = |base: f64| (0..10).map(|step| (base + f64::from(step) / 1000.0, 0)).collect::<Vec<_>>();
        let text = render_commands(
            &comparison(vec![command("curl a | tee b", &times(0.48)), command("wget b", &times(0.16))]),
            LOOK,
        );
        assert_eq!(
            text,
            "80ms RTT: 10 runs of each command, in turn, after 1 run to warm up

  A  curl a | tee b
  B  wget b

     median  95 % interval  quickest–slowest
  B  164 ms        162–167           160–169         █████████▏
  A  484 ms        482–487           480–489  2.95×  ███████████████████████████

  B is 2.95× (2.90–2.99) as fast as A.
"
        );
    }

    #[test]
    fn failed_runs_are_said_and_do_not_count() {
        let fails = command("curl -f x", &[(0.001, 22), (0.5, 0), (0.501, 0), (0.001, 22), (0.502, 0)]);
        let works = command("curl y", &[(0.4, 0), (0.401, 0), (0.402, 0), (0.403, 0), (0.404, 0)]);
        let never = command("nothing", &[(0.001, 3); 5]);
        let comparison = comparison(vec![fails, works, never]);
        let text = render_commands(&comparison, LOOK);
        assert!(text.contains("B is 1.2"), "the failures would be quicker: {text}");
        assert!(text.contains("A failed in 2 of 5 runs (exit status 22); their times do not count."), "{text}");
        assert!(text.contains("C failed in 5 of 5 runs (exit status 3); it has no times."), "{text}");
        let markdown = render_commands_as_markdown(&comparison);
        assert!(markdown.contains("`nothing` failed in 5 of 5 runs"), "{markdown}");
        assert_eq!(comparison.json()["commands"][2].get("median_s"), None);
    }

    #[test]
    fn equal_commands_and_too_few_runs_are_no_difference() {
        let same: Vec<_> = (0..10).map(|step| (0.4 + f64::from(step) / 100.0, 0)).collect();
        let text = render_commands(&comparison(vec![command("a", &same), command("b", &same)]), LOOK);
        assert!(text.contains("No difference shown between A and B: B takes 1.00× ("), "{text}");
        let text = render_commands(&comparison(vec![command("a", &same[..1]), command("b", &same[..1])]), LOOK);
        assert!(text.contains("A against B: too few runs to tell; use --runs 4 or more."), "{text}");
    }

    #[test]
    fn markdown_keeps_commands_whole() {
        assert_eq!(code("a | b"), "`a \\| b`");
        assert_eq!(code("echo `date`"), "`` echo `date` ``");
        assert_eq!([letter(0), letter(25), letter(26)], ["A", "Z", "A2"]);
    }
}
