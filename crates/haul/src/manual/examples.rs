//! Examples at the end of each command's help. They run as they stand, apart from the URL; a test parses each.

use clap::Command;

/// Examples, by the command's names behind `haul`. At most three each.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("race", &["haul race --quick", "haul race --workload upload-small --open"]),
    ("lab", &["haul lab list", "haul lab run webdav-race --quick", "haul lab show"]),
    ("lab run", &["haul lab run webdav-race --quick", "haul lab run idle-connection --samples 5 --open"]),
    ("lab plan", &["haul lab plan webdav-race --quick"]),
    ("lab merge", &["haul lab merge webdav-race runs/first runs/second"]),
    ("lab watch", &["haul lab watch"]),
    ("lab list", &["haul lab list"]),
    ("lab show", &["haul lab show", "haul lab show --json run.json"]),
    (
        "lab compare",
        &["haul lab compare runs/before runs/after", "haul lab compare runs/before runs/after --html compare.html"],
    ),
    ("lab claims", &["haul lab claims"]),
    ("report", &["haul report", "haul report --html report.html"]),
    (
        "link",
        &[
            "haul link --rtt 80ms --rate 50mbit -- ping -c 3 server",
            "haul link --rtt 80ms --server 'python3 -m http.server' -- curl -s server:8000",
            "haul link --rtt 300ms --outside -- curl -sI https://example.org/",
        ],
    ),
    ("link set", &["haul link set link.sock rate=10mbit", "haul link set link.sock loss.up=1%"]),
    (
        "explain",
        &[
            "haul explain upload.pcapng",
            "haul explain client.pcapng server.pcapng --html report.html",
            "haul explain upload.pcapng --bytes 18MB --what-if rtt=20ms",
        ],
    ),
    (
        "page",
        &["haul page show wikipedia", "haul page record https://example.org/", "haul page replay wikipedia --runs 3"],
    ),
    ("page show", &["haul page show wikipedia", "haul page show amazon --rtt 80ms --rate 10mbit"]),
    ("page import", &["haul page import load.har"]),
    ("page record", &["haul page record https://example.org/"]),
    ("page replay", &["haul page replay wikipedia --runs 3", "haul page replay wikipedia --over h1,h2,h3 --rtt 80ms"]),
    ("page serve", &["haul page serve wikipedia --listen 127.0.0.1:8443"]),
    (
        "ls",
        &[
            "haul ls -lh https://cloud.example.org/photos/",
            "haul ls 'https://cloud.example.org/photos/*.jpg'",
            "haul ls -R --json - https://cloud.example.org/",
        ],
    ),
    ("du", &["haul du -sh https://cloud.example.org/photos/", "haul du -h -d 1 https://cloud.example.org/"]),
    ("tree", &["haul tree https://cloud.example.org/photos/", "haul tree -h -L 2 https://cloud.example.org/"]),
    (
        "cp",
        &[
            "haul cp -r photos https://cloud.example.org/",
            "haul cp 'https://cloud.example.org/photos/*.jpg' .",
            "haul cp -rn photos https://cloud.example.org/",
        ],
    ),
    (
        "sync",
        &[
            "haul sync photos https://cloud.example.org/photos",
            "haul sync photos https://cloud.example.org/photos --delete -n",
            "haul sync https://old.example.org/photos https://new.example.org/photos",
        ],
    ),
    (
        "check",
        &[
            "haul check photos https://cloud.example.org/photos",
            "haul check photos https://cloud.example.org/photos --download",
        ],
    ),
    ("cat", &["haul cat https://cloud.example.org/notes.txt"]),
    (
        "mv",
        &[
            "haul mv https://cloud.example.org/a.txt https://cloud.example.org/b.txt",
            "haul mv photos https://cloud.example.org/",
            "haul mv 'https://cloud.example.org/photos/*.jpg' .",
        ],
    ),
    (
        "rm",
        &[
            "haul rm https://cloud.example.org/notes.txt",
            "haul rm -rn https://cloud.example.org/photos",
            "haul rm 'https://cloud.example.org/photos/*.tmp'",
        ],
    ),
    ("mkdir", &["haul mkdir -p https://cloud.example.org/photos/2026"]),
    ("stat", &["haul stat https://cloud.example.org/notes.txt"]),
    ("probe", &["haul probe https://cloud.example.org/"]),
    ("mount", &["haul mount https://cloud.example.org/ cloud", "haul mount status", "haul unmount cloud"]),
    ("mount status", &["haul mount status", "haul mount status --json -"]),
    ("unmount", &["haul unmount cloud"]),
    ("password", &["haul password set https://ann@cloud.example.org/"]),
    ("password set", &["haul password set https://ann@cloud.example.org/"]),
    ("password remove", &["haul password remove https://ann@cloud.example.org/"]),
    ("serve", &["haul serve .", "haul serve . --listen 127.0.0.1:8443 --tls self-signed --cert-out cert.pem"]),
    ("gateway", &["haul gateway --upstream https://dav.example.org/files/"]),
    ("gateway smb", &["haul gateway smb --upstream 'https://dav.example.org/{user}/' --share files"]),
    ("gateway enroll", &["haul gateway enroll ann", "haul gateway enroll ann --remove"]),
    ("gateway status", &["haul gateway status"]),
    ("completions", &["haul completions bash"]),
    ("man", &["haul man man1"]),
];

/// Adds the examples to a command and those below it. `names`: those of the command, behind `haul`.
pub(super) fn add(command: Command, names: &str) -> Command {
    let below: Vec<String> = command.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    let command = below.into_iter().fold(command, |command, name| {
        let names = format!("{names} {name}");
        command.mut_subcommand(&name, |subcommand| add(subcommand, names.trim_start()))
    });
    let Some((_, examples)) = EXAMPLES.iter().find(|(command, _)| *command == names) else { return command };
    let examples: String = examples.iter().flat_map(|example| ["\n  ", example]).collect();
    let behind = |text: &str| format!("{text}{}Examples:\n{examples}", if text.is_empty() { "" } else { "\n\n" });
    let long = command.get_after_long_help().map(|text| behind(&text.to_string()));
    let short = behind(&command.get_after_help().map(ToString::to_string).unwrap_or_default());
    let command = command.after_help(short);
    match long {
        Some(long) => command.after_long_help(long),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::EXAMPLES;

    /// Behind the indent, so that a terminal of 80 columns does not wrap it.
    const LONGEST: usize = 77;

    /// The words of a command line, as a shell splits it at spaces and single quotes.
    fn words(line: &str) -> Vec<String> {
        let pieces = line.split('\'').enumerate();
        let marked: String = pieces
            .map(|(number, piece)| if number % 2 == 1 { piece.replace(' ', "\0") } else { piece.to_owned() })
            .collect();
        marked.split(' ').map(|word| word.replace('\0', " ")).collect()
    }

    fn check(command: &Command, names: &str) {
        for subcommand in command.get_subcommands().filter(|command| !command.is_hide_set()) {
            let names = format!("{names} {}", subcommand.get_name());
            let names = names.trim_start();
            let examples: Vec<_> = EXAMPLES.iter().filter(|(command, _)| *command == names).collect();
            assert!(matches!(examples[..], [(_, lines)] if (1..=3).contains(&lines.len())), "examples of haul {names}");
            check(subcommand, names);
        }
    }

    #[test]
    fn each_command_has_examples_that_are_understood() {
        let haul = crate::manual::command().disable_help_subcommand(true);
        check(&haul, "");
        for (names, lines) in EXAMPLES {
            let command = names.split(' ').fold(&haul, |command, name| {
                command.find_subcommand(name).unwrap_or_else(|| panic!("there is no haul {names}"))
            });
            let help = command.clone().render_long_help().to_string();
            for line in *lines {
                assert!(line.len() <= LONGEST, "{line} is wrapped");
                assert!(help.contains(line), "{names}: {help}");
                let understood = haul.clone().try_get_matches_from(words(line));
                assert!(understood.is_ok(), "{line}: {}", understood.unwrap_err());
            }
        }
    }
}
