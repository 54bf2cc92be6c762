//! One command as a page of the book.
//!
//! Options that many commands share stand on one page only: those of the connection fill a screen, and were on fourteen
//! pages. The others name them, with a link.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write,
};

use clap::{Arg, Command};

/// The book's page about the work that a command does.
const BACKGROUND: &[(&str, &str)] = &[
    ("explain", "[Why is this upload slow?](../tasks/slow-upload.md), [How explain works](../explain.md)"),
    ("lab", "[Run and compare experiments](../lab.md), [The experiment file](../experiment-file.md)"),
    ("link", "[Emulated links](../link.md)"),
    ("page", "[Page specs](../pages.md), [Page loads](../page-loads.md)"),
    ("password", "[Settings and passwords](../settings.md#passwords)"),
    ("race", "[A first race](../first-race.md), [The WebDAV race](../webdav-race.md)"),
    ("report", "[Reports](../report.md)"),
    ("serve", "[Serve a folder](../serve.md), [Semantics](../semantics.md#the-embedded-server)"),
    ("gateway", "[Put a gateway before a server](../gateway.md), [Semantics](../semantics.md#the-gateway)"),
    ("completions", "[Install](../install.md)"),
    ("man", "[Install](../install.md)"),
];

/// What the commands on files have in common.
const FILES: &str = "[Copy and mirror files](../files.md), [Settings and passwords](../settings.md), \
    [Semantics](../semantics.md#copies-and-mirrors)";

/// The commands whose pages describe what they share with others.
const OWNERS: &[&str] = &["cp", "link", "race"];
/// Fewer shared options than this under a heading are repeated: that is shorter than a link.
const MIN_SHARED: usize = 3;

/// What the pages of [`OWNERS`] describe.
pub(super) struct Shared {
    /// The owner's name, by heading and entry.
    options: HashMap<(String, String), &'static str>,
    /// The owner's name, by paragraph after the options.
    paragraphs: HashMap<String, &'static str>,
}

impl Shared {
    pub(super) fn of(haul: &Command) -> Self {
        let (mut options, mut texts) = (HashMap::new(), HashMap::new());
        for owner in OWNERS {
            let Some(command) = haul.find_subcommand(owner) else { continue };
            for (heading, arguments) in headings(command) {
                for argument in arguments.into_iter().filter(|argument| !argument.is_positional()) {
                    options.insert((heading.clone(), entry(argument)), *owner);
                }
            }
            let text = after(command);
            // A single line is the title of examples, which each command has of its own.
            let shared = split(&text).filter(|text| text.contains('\n'));
            texts.extend(shared.map(|text| (text.to_owned(), *owner)));
        }
        Self { options, paragraphs: texts }
    }
}

/// The page of a command. The subcommands of a group (`haul lab`) are sections of its page.
pub(super) fn page(command: &Command, shared: &Shared) -> String {
    let mut page =
        String::from("<!-- Made from the same source as `--help`. Edit crates/haul/src, then run: make commands -->\n");
    section(command, 1, shared, &mut page);
    let background = BACKGROUND.iter().find(|(name, _)| *name == command.get_name()).map_or(FILES, |(_, links)| links);
    let _ = write!(page, "\nSee also: {background}.\n");
    page
}

fn section(command: &Command, level: usize, shared: &Shared, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let _ = write!(page, "{} {name}\n\n", "#".repeat(level));
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        split(&about.to_string()).for_each(|text| paragraph(text, page));
    }
    let usage = command.clone().render_usage().to_string();
    let _ = write!(page, "```text\n{}\n```\n\n", usage.strip_prefix("Usage: ").unwrap_or(&usage).trim());
    let other = |owner: &&str| level > 1 || *owner != command.get_name();
    for (heading, arguments) in headings(command) {
        let _ = write!(page, "{} {heading}\n\n", "#".repeat(level + 1));
        let mut elsewhere: BTreeMap<&str, Vec<&Arg>> = BTreeMap::new();
        for argument in &arguments {
            let key = (heading.clone(), entry(argument));
            if let Some(owner) = shared.options.get(&key).copied().filter(other) {
                elsewhere.entry(owner).or_default().push(argument);
            }
        }
        elsewhere.retain(|_, options| options.len() >= MIN_SHARED);
        let is_elsewhere =
            |argument: &Arg| elsewhere.values().flatten().any(|other| other.get_id() == argument.get_id());
        for argument in arguments.iter().filter(|argument| !is_elsewhere(argument)) {
            *page += &entry(argument);
        }
        for (owner, options) in &elsewhere {
            let of_owner = |((under, _), name): &(&(String, String), &&str)| *under == heading && **name == *owner;
            let names = if shared.options.iter().filter(of_owner).count() == options.len() {
                "all its options".to_owned()
            } else {
                code_list(options.iter().map(|option| format!("--{}", option.get_long().unwrap_or_default())))
            };
            let anchor = heading.to_lowercase().replace(' ', "-");
            let _ = writeln!(page, "- As for [haul {owner}]({owner}.md#{anchor}): {names}");
        }
        page.push('\n');
    }
    for text in split(&after(command)) {
        match shared.paragraphs.get(text).copied().filter(other) {
            Some(owner) => {
                let title = text.lines().next().unwrap_or_default().trim_end_matches(':');
                let _ = write!(page, "{}: as for [haul {owner}]({owner}.md).\n\n", inline(title));
            }
            None => paragraph(text, page),
        }
    }
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        section(subcommand, level + 1, shared, page);
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    if level > 1 {
        page.push('\n');
    }
}

/// The text after a command's options.
fn after(command: &Command) -> String {
    command.get_after_long_help().or(command.get_after_help()).map(ToString::to_string).unwrap_or_default()
}

/// The arguments under their headings, in the order of `--help`: first what has no dash.
fn headings(command: &Command) -> Vec<(String, Vec<&Arg>)> {
    let mut headings: Vec<(String, Vec<&Arg>)> = Vec::new();
    let shown = |argument: &&Arg| !argument.is_hide_set() && !["help", "version"].contains(&argument.get_id().as_str());
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(shown).partition(|argument| argument.is_positional());
    for argument in positional.into_iter().chain(options) {
        let plain = if argument.is_positional() { "Arguments" } else { "Options" };
        let heading = argument.get_help_heading().unwrap_or(plain);
        match headings.iter_mut().find(|(name, _)| name == heading) {
            Some((_, arguments)) => arguments.push(argument),
            None => headings.push((heading.to_owned(), vec![argument])),
        }
    }
    headings
}

/// An argument as an entry of a list: its names, its help, then its values, default and environment variable.
fn entry(argument: &Arg) -> String {
    let mut page = String::new();
    let short = argument.get_short().filter(|_| argument.get_long().is_some());
    let short = short.map(|letter| format!("`-{letter}`, ")).unwrap_or_default();
    let _ = write!(page, "- {short}`{argument}`");
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let (help, default) = split_default(help.trim());
    for (number, paragraph) in help.split("\n\n").filter(|paragraph| !paragraph.is_empty()).enumerate() {
        let _ = match number {
            0 => write!(page, ": {}", inline(paragraph)),
            _ => write!(page, "\n\n  {}", inline(paragraph)),
        };
    }
    let facts = facts(argument, default);
    if !facts.is_empty() {
        let end = if page.ends_with(['.', ':', '`']) { "" } else { "." };
        let _ = write!(page, "{end} {facts}");
    }
    page.push('\n');
    let values = argument.get_possible_values();
    for value in values.iter().filter(|value| !value.is_hide_set() && argument.get_action().takes_values()) {
        if let Some(help) = value.get_help() {
            let _ = writeln!(page, "  - `{}`: {}", value.get_name(), inline(&help.to_string()));
        }
    }
    page
}

/// Help may end with a default that clap does not know, because a settings file can change it: `[default: 6]`.
fn split_default(help: &str) -> (&str, Option<&str>) {
    let found = help.strip_suffix(']').and_then(|help| help.rsplit_once("[default: "));
    found.map_or((help, None), |(help, default)| (help.trim_end(), Some(default)))
}

fn facts(argument: &Arg, default: Option<&str>) -> String {
    let mut facts = Vec::new();
    if argument.get_action().takes_values() {
        let values: Vec<_> = argument.get_possible_values().into_iter().filter(|value| !value.is_hide_set()).collect();
        let is_boolean = values.iter().map(clap::builder::PossibleValue::get_name).eq(["true", "false"]);
        if !argument.is_hide_possible_values_set()
            && !is_boolean
            && !values.is_empty()
            && values.iter().all(|value| value.get_help().is_none())
        {
            facts.push(format!("Values: {}.", code_list(values.iter().map(|value| value.get_name().to_owned()))));
        }
        let defaults = argument.get_default_values();
        if !argument.is_hide_default_value_set() && !defaults.is_empty() {
            facts.push(format!(
                "Default: {}.",
                code_list(defaults.iter().map(|value| value.to_string_lossy().into_owned()))
            ));
        }
    }
    if let Some(default) = default {
        let is_phrase = default.contains(' ');
        facts.push(if is_phrase { format!("Default: {}.", inline(default)) } else { format!("Default: `{default}`.") });
    }
    if let Some(variable) = argument.get_env().filter(|_| !argument.is_hide_env_set()) {
        facts.push(format!("Environment: `{}`.", variable.to_string_lossy()));
    }
    facts.join(" ")
}

fn code_list(values: impl Iterator<Item = String>) -> String {
    values.map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", ")
}

fn split(text: &str) -> impl Iterator<Item = &str> {
    text.trim().split("\n\n").filter(|paragraph| !paragraph.is_empty())
}

/// Indented lines are examples.
fn paragraph(text: &str, page: &mut String) {
    let _ = if text.lines().all(|line| line.starts_with("  ")) {
        write!(page, "```sh\n{}\n```\n\n", text.lines().map(str::trim).collect::<Vec<_>>().join("\n"))
    } else {
        write!(page, "{}\n\n", inline(text))
    };
}

/// Help is plain text: what Markdown would take for markup is escaped, and options are shown as code.
fn inline(text: &str) -> String {
    let mut out = String::new();
    for (number, piece) in text.split('`').enumerate() {
        if number % 2 == 1 {
            let _ = write!(out, "`{piece}`");
            continue;
        }
        for word in piece.split_inclusive(char::is_whitespace) {
            let bare = word.trim_end_matches(|letter: char| letter.is_whitespace() || ".,;:)".contains(letter));
            if bare.len() > 2 && bare.starts_with("--") {
                let _ = write!(out, "`{bare}`{}", &word[bare.len()..]);
                continue;
            }
            for letter in word.chars() {
                if "*<[\\".contains(letter) {
                    out.push('\\');
                }
                out.push(letter);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::{Shared, inline, page, split_default};

    #[test]
    fn options_of_another_page_are_named_and_others_are_described() {
        let options = ["one", "two", "three"].map(|name| Arg::new(name).long(name).help("Shared"));
        let command = |name| Command::new(name).args(options.clone()).after_help("A list:\n  of things");
        let own = command("ls").arg(Arg::new("own").long("own").help("Of its own"));
        let mut haul = Command::new("haul").subcommand(command("cp")).subcommand(own);
        haul.build();
        let shared = Shared::of(&haul);
        let [owner, other] = ["cp", "ls"].map(|name| page(haul.find_subcommand(name).unwrap(), &shared));
        assert_eq!(owner.matches(": Shared").count(), 3, "{owner}");
        assert!(owner.contains("of things"), "{owner}");
        assert!(other.contains("- As for [haul cp](cp.md#options): all its options\n"), "{other}");
        assert!(other.contains("`--own <own>`: Of its own"), "{other}");
        assert!(other.contains("A list: as for [haul cp](cp.md)."), "{other}");
    }

    #[test]
    fn inline_escapes_markup_and_marks_options_but_leaves_code_alone() {
        assert_eq!(inline("Skip *.tmp, see --exclude. Not `<a>`"), "Skip \\*.tmp, see `--exclude`. Not `<a>`");
    }

    #[test]
    fn split_default_takes_a_default_from_the_end_of_the_help() {
        assert_eq!(
            split_default("Maximum number of connections [default: 6]"),
            ("Maximum number of connections", Some("6"))
        );
        assert_eq!(split_default("A list [a, b]"), ("A list [a, b]", None));
    }
}
