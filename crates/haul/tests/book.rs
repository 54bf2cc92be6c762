//! Checks the documentation: command pages match the help, links have targets, and every page is in the summary.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    error::Error,
    fs,
    path::{Path, PathBuf},
};

use assert_cmd::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn command_pages_match_the_help() -> Result<(), Box<dyn Error>> {
    let made = tempfile::tempdir()?;
    Command::new(assert_cmd::cargo_bin!("haul")).args(["man", "--markdown"]).arg(made.path()).assert().success();
    let (made, kept) = (pages_in(made.path())?, pages_in(&root().join("docs/src/commands"))?);
    let names: BTreeSet<&String> = made.keys().chain(kept.keys()).collect();
    let stale: Vec<&String> = names.into_iter().filter(|name| made.get(*name) != kept.get(*name)).collect();
    assert!(stale.is_empty(), "out of date in docs/src/commands: {stale:?}; run `make commands` and commit the result");
    Ok(())
}

#[test]
fn list_of_claims_has_the_claims_of_today() -> Result<(), Box<dyn Error>> {
    let book = root().join("docs/src");
    let runs = fs::read_dir(book.join("results/runs"))?.collect::<Result<Vec<_>, _>>()?;
    let mut runs: Vec<PathBuf> = runs.into_iter().map(|run| Path::new("results/runs").join(run.file_name())).collect();
    runs.sort();
    let mut command = Command::new(assert_cmd::cargo_bin!("haul"));
    let printed = command.args(["lab", "claims"]).args(runs).current_dir(&book).output()?;
    assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let kept = fs::read_to_string(book.join("results/claims.txt"))?;
    let is_same = kept == String::from_utf8(printed.stdout)?;
    assert!(is_same, "docs/src/results/claims.txt is out of date; run `make claims` and commit the result");
    Ok(())
}

#[test]
fn every_page_is_in_the_summary() -> Result<(), Box<dyn Error>> {
    let book = root().join("docs/src").canonicalize()?;
    let summary = fs::read_to_string(book.join("SUMMARY.md"))?;
    let listed: Vec<&str> = links(&summary);
    for page in markdown_files(&book)? {
        let path = page.strip_prefix(&book)?.to_string_lossy().into_owned();
        assert!(path == "SUMMARY.md" || listed.contains(&path.as_str()), "docs/src/SUMMARY.md does not list {path}");
    }
    Ok(())
}

/// What a reader can be asked to read, as `wc -w` counts it. Longer lists belong into `results`, outside of the summary.
const MAX_WORDS: usize = 80_000;

#[test]
fn pages_in_the_summary_stay_within_the_limit_of_words() -> Result<(), Box<dyn Error>> {
    let book = root().join("docs/src");
    let summary = fs::read_to_string(book.join("SUMMARY.md"))?;
    let mut pages = Vec::new();
    for page in links(&summary) {
        pages.push((fs::read_to_string(book.join(page))?.split_whitespace().count(), page));
    }
    pages.sort_unstable_by_key(|(words, _)| std::cmp::Reverse(*words));
    let words: usize = pages.iter().map(|(words, _)| words).sum();
    let longest = &pages[..pages.len().min(10)];
    assert!(words <= MAX_WORDS, "the book has {words} words, more than {MAX_WORDS}; its longest pages: {longest:?}");
    Ok(())
}

/// The program decides by the same rows.
#[test]
fn semantics_has_the_table_of_late_requests() -> Result<(), Box<dyn Error>> {
    let page = fs::read_to_string(root().join("docs/src/semantics.md"))?;
    let rows: Vec<String> = dav::Fence::ALL.into_iter().map(dav::Fence::row).collect();
    assert!(page.contains(&rows.join("\n")), "docs/src/semantics.md has other rows than\n{}", rows.join("\n"));
    Ok(())
}

#[test]
fn help_names_pages_as_the_summary_does() -> Result<(), Box<dyn Error>> {
    let summary = fs::read_to_string(root().join("docs/src/SUMMARY.md"))?;
    let titles: Vec<&str> =
        summary.lines().filter_map(|line| Some(line.split_once("- [")?.1.split_once("](")?.0)).collect();
    let made = tempfile::tempdir()?;
    Command::new(assert_cmd::cargo_bin!("haul")).args(["man", "--markdown"]).arg(made.path()).assert().success();
    let mut named = 0;
    for (command, page) in pages_in(made.path())? {
        let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
        for name in text.split("book's page \"").skip(1).filter_map(|rest| rest.split('"').next()) {
            assert!(
                titles.contains(&name),
                "{command} names the page {name:?}, which docs/src/SUMMARY.md does not have"
            );
            named += 1;
        }
    }
    assert!(named >= 2, "the help names {named} pages");
    Ok(())
}

#[test]
fn relative_links_lead_to_files_and_headings() -> Result<(), Box<dyn Error>> {
    let root = root().canonicalize()?;
    let mut files = markdown_files(&root.join("docs/src"))?;
    for entry in fs::read_dir(&root)? {
        files.push(entry?.path());
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let mut anchors = HashMap::new();
    for file in &files {
        anchors.insert(file.clone(), headings(&fs::read_to_string(file)?));
    }
    let mut broken = Vec::new();
    for file in &files {
        let text = fs::read_to_string(file)?;
        let folder = file.parent().unwrap_or(&root);
        for included in text.lines().filter_map(|line| line.trim().strip_prefix("{{#include ")?.strip_suffix("}}")) {
            if !folder.join(included).is_file() {
                broken.push(format!("{}: {included}", file.strip_prefix(&root)?.display()));
            }
        }
        for link in links(&text).into_iter().filter(|link| !link.contains(':')) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if path.is_empty() { file.clone() } else { folder.join(path).canonicalize().unwrap_or_default() };
            let leads = target.exists()
                && (anchor.is_empty() || anchors.get(&target).is_some_and(|anchors| anchors.contains(anchor)));
            if !leads {
                broken.push(format!("{}: {link}", file.strip_prefix(&root)?.display()));
            }
        }
    }
    assert!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
    Ok(())
}

#[test]
fn glossary_is_that_of_the_style_guide() -> Result<(), Box<dyn Error>> {
    let style = fs::read_to_string(root().join("STYLE.md"))?;
    let page = fs::read_to_string(root().join("docs/src/glossary.md"))?;
    let rows = |text: &str| text.lines().filter(|line| line.starts_with("| **")).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(rows(&style), rows(&page), "docs/src/glossary.md differs from the glossary of STYLE.md; copy it");
    Ok(())
}

/// Quoted output that is the same on every machine: the page, the text before the quotation, the command.
const QUOTED: &[(&str, &str, &str)] = &[
    ("README.md", "then explain it", "explain --format snoop docs/src/traces/browser-upload.snoop.txt --bytes 18MB"),
    (
        "docs/src/tasks/slow-upload.md",
        "prints\n",
        "explain --format snoop docs/src/traces/browser-upload.snoop.txt --bytes 18MB --what-if deferred-ack=1ms",
    ),
    ("docs/src/pages.md", "`haul page show` loads nothing", "page show wikipedia"),
];

#[test]
fn quoted_output_matches_the_program() -> Result<(), Box<dyn Error>> {
    for (page, before, command) in QUOTED {
        let text = fs::read_to_string(root().join(page))?;
        let output =
            Command::new(assert_cmd::cargo_bin!("haul")).args(command.split(' ')).current_dir(root()).output()?;
        let output = String::from_utf8(output.stdout)?;
        let mut printed = output.lines();
        // A quotation may omit lines, marked by `…`.
        for line in quotation(&text, before).lines().filter(|line| line.trim() != "…") {
            let is_printed = printed.any(|printed| printed.trim_end() == line);
            assert!(is_printed, "{page} quotes a line that `haul {command}` does not print; paste its output:\n{line}");
        }
    }
    Ok(())
}

/// The first fenced block without a language after a text.
fn quotation<'a>(page: &'a str, before: &str) -> &'a str {
    let start = page.find(before).unwrap_or_else(|| panic!("the page lacks the text {before:?}"));
    let mut blocks = page[start..].split("\n```").skip(1).step_by(2);
    let plain = |block: &&str| block.starts_with('\n') || block.starts_with("text\n");
    blocks.find(plain).and_then(|block| block.split_once('\n')).expect("a fenced block follows").1
}

fn pages_in(folder: &Path) -> Result<BTreeMap<String, String>, Box<dyn Error>> {
    let mut pages = BTreeMap::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        pages.insert(entry.file_name().to_string_lossy().into_owned(), fs::read_to_string(entry.path())?);
    }
    Ok(pages)
}

fn markdown_files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(markdown_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            files.push(path.canonicalize()?);
        }
    }
    Ok(files)
}

/// The lines outside fenced code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of `[text](target)`, but not of those shown as code.
fn links(text: &str) -> Vec<&str> {
    let mut links = Vec::new();
    for line in prose(text) {
        let mut offset = 0;
        while let Some(found) = line[offset..].find("](") {
            let start = offset + found + 2;
            offset = start;
            let is_code = line[..start].matches('`').count() % 2 == 1;
            if let Some(length) = line[start..].find(')').filter(|_| !is_code) {
                links.push(&line[start..start + length]);
            }
        }
    }
    links
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn headings(text: &str) -> BTreeSet<String> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut anchors = BTreeSet::new();
    for line in prose(text) {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        let Some(heading) = line[level..].strip_prefix(' ').filter(|_| (1..=6).contains(&level)) else { continue };
        let anchor: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter_map(|letter| match letter {
                ' ' => Some('-'),
                letter if letter.is_alphanumeric() || "-_".contains(letter) => Some(letter),
                _ => None,
            })
            .collect();
        let count = seen.entry(anchor.clone()).or_default();
        anchors.insert(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    anchors
}
