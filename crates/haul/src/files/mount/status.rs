//! `haul mount status`: the mounts, what the servers do not have yet, and what somebody has to know.
//!
//! It reads the kernel's table of mounts, and the journals in the cache folder, whether their shares are mounted or not.

use std::{
    error::Error,
    fmt::{self, Write as _},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::SystemTime,
};

use mount::Report;
use nix::unistd::getuid;
use serde::Serialize;
use units::rounded::binary_size;

use super::{
    default_cache,
    mount_table::{self, Entry},
};
use crate::files::{
    Outcome,
    results::{Results, format},
};

/// How many files of a share are shown.
const SHOWN: usize = 20;

/// List your mounts, what is not on the servers yet, and which uploads have failed
///
/// Uploads are those of all shares that are or were mounted with --write back from this cache folder. The exit status is 1 if
/// the program of a mount has ended without unmounting it, an upload has failed, or there is a message that nobody has
/// acknowledged.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Cache folder of the mounts [default: ~/.cache/longhaul/mount]
    #[arg(long, value_name = "DIR")]
    cache_dir: Option<PathBuf>,
    /// Acknowledge the messages: they are not shown again
    #[arg(long)]
    acknowledge: bool,
    /// Write the result as JSON to a file, or to standard output (`-`)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Serialize)]
struct Found {
    mounts: Vec<Mounted>,
    shares: Vec<Share>,
    unsaved: Vec<String>,
    /// What the cached contents and the journals take on the disk.
    cache_bytes: u64,
    journal_bytes: u64,
}

#[derive(Serialize)]
struct Mounted {
    url: String,
    folder: String,
    /// Whether its program has ended, so that nothing in the folder can be used until it is unmounted.
    has_ended: bool,
}

#[derive(Serialize)]
struct Share {
    url: String,
    is_mounted: bool,
    pending: Vec<Pending>,
    messages: Vec<Message>,
}

#[derive(Serialize)]
struct Pending {
    path: String,
    bytes: u64,
    closed: String,
    failure: Option<String>,
}

#[derive(Serialize)]
struct Message {
    at: String,
    what: String,
}

impl Share {
    fn of(report: &Report) -> Self {
        let pending = report.pending.iter().map(|file| Pending {
            path: file.path.to_string(),
            bytes: file.length,
            closed: format::rfc3339(file.closed),
            failure: file.failure.as_ref().map(|(_, why)| why.clone()),
        });
        let messages = report.messages.iter();
        let messages = messages.map(|it| Message { at: format::rfc3339(it.at), what: it.what.clone() }).collect();
        Self { url: report.share.clone(), is_mounted: report.is_in_use(), pending: pending.collect(), messages }
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let cache = default_cache(args.cache_dir.as_deref())?;
    let failed = |error: io::Error| format!("cannot read the journals in {}: {error}", cache.display());
    let reports = Report::read_all(&cache).map_err(failed)?;
    let unsaved = unsaved(&cache)?;
    let table = mount_table::read().map_err(|error| format!("cannot read /proc/self/mountinfo: {error}"))?;
    let shares = table.into_iter().filter(|mount| mount.is_share_of(getuid().as_raw()));
    let mounted = |mount: Entry| Mounted {
        has_ended: mount.has_ended(),
        url: mount.source,
        folder: mount.folder.display().to_string(),
    };
    let mounts: Vec<_> = shares.map(mounted).collect();
    let results = Results::new("mount status", args.json.as_deref());
    let [cache_bytes, journal_bytes] = [mount::CONTENTS, "journal"].map(|folder| size_on_disk(&cache.join(folder)));
    let sizes = [("cached contents", cache_bytes), ("journals", journal_bytes)];
    results.print(&(text(&mounts, &reports, &unsaved)? + &held(&cache, sizes)))?;
    let needs_attention = !unsaved.is_empty()
        || mounts.iter().any(|mount| mount.has_ended)
        || reports.iter().any(|report| {
            let unread = !report.messages.is_empty() && !args.acknowledge;
            unread || report.pending.iter().any(|file| file.failure.is_some())
        });
    if args.acknowledge {
        for report in &reports {
            report.acknowledge().map_err(failed)?;
        }
    }
    let unsaved = unsaved.iter().map(|path| path.display().to_string()).collect();
    results.finish(Found {
        mounts,
        shares: reports.iter().map(Share::of).collect(),
        unsaved,
        cache_bytes,
        journal_bytes,
    })?;
    Ok(if needs_attention { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Contents that could not be stored, which nobody has fetched from the cache folder yet.
fn unsaved(cache: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let folder = cache.join("unsaved");
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| format!("cannot read {}: {error}", folder.display()))?,
    };
    let mut paths: Vec<_> = entries.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

/// What the files below a folder take on the disk. Some may go while they are counted.
fn size_on_disk(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(facts) if facts.is_dir() => size_on_disk(&entry.path()),
        Ok(facts) => facts.blocks() * 512,
        Err(_) => 0,
    });
    sizes.sum()
}

/// `/home/ann/.cache/longhaul/mount: 1.2 GiB of cached contents, 3 MiB of journals`.
fn held(cache: &Path, sizes: [(&str, u64); 2]) -> String {
    let held = sizes.iter().filter(|(_, bytes)| *bytes > 0);
    let held: Vec<_> = held.map(|(what, bytes)| format!("{} of {what}", binary_size(*bytes))).collect();
    if held.is_empty() { String::new() } else { format!("{}: {}\n", cache.display(), held.join(", ")) }
}

fn text(mounts: &[Mounted], reports: &[Report], unsaved: &[PathBuf]) -> Result<String, fmt::Error> {
    let mut text = String::new();
    let mut reports: Vec<_> = reports.iter().filter(|report| !report.is_quiet()).collect();
    let is_all_uploaded = reports.is_empty() && unsaved.is_empty();
    if mounts.is_empty() {
        text.push_str("nothing is mounted\n");
    }
    for Mounted { url, folder, has_ended } in mounts {
        if *has_ended {
            writeln!(text, "{url} on {folder}: its program has ended; `haul unmount {folder}` frees the folder")?;
        } else {
            writeln!(text, "{url} is mounted on {folder}")?;
        }
        // While its program runs, it holds the journal.
        let is_its = |report: &mut &Report| report.share == *url && report.is_in_use() != *has_ended;
        for report in reports.extract_if(.., is_its) {
            describe(&mut text, report)?;
        }
    }
    for report in reports {
        let state = match report.is_in_use() {
            true => "is mounted elsewhere",
            false if mounts.iter().any(|mount| mount.url == report.share) => "has a journal that no mount uses",
            false => "is not mounted",
        };
        writeln!(text, "{} {state}", report.share)?;
        describe(&mut text, report)?;
    }
    if !unsaved.is_empty() {
        writeln!(text, "could not be stored on a server; fetch and delete:")?;
        unsaved.iter().try_for_each(|path| writeln!(text, "  {}", path.display()))?;
    }
    if is_all_uploaded && !mounts.is_empty() {
        text.push_str("everything is on the servers\n");
    }
    Ok(text)
}

/// What is not on the server yet, and what somebody has to know.
fn describe(text: &mut String, report: &Report) -> fmt::Result {
    writeln!(text, "  {}", summary(report))?;
    for file in report.pending.iter().take(SHOWN) {
        let age = format::roughly(SystemTime::now().duration_since(file.closed).unwrap_or_default());
        writeln!(text, "    {:>10}  {age:>8}  {}", binary_size(file.length), file.path)?;
        if let Some((_, failure)) = &file.failure {
            writeln!(text, "      the last upload failed: {failure}")?;
        }
    }
    if report.pending.len() > SHOWN {
        writeln!(text, "    … and {} more; --json lists all", report.pending.len() - SHOWN)?;
    }
    for message in &report.messages {
        writeln!(text, "  {}  {}", format::minute(message.at), message.what)?;
    }
    Ok(())
}

/// `2 files, 1.2 MiB, are not on the server yet`.
pub(super) fn summary(report: &Report) -> String {
    let bytes = report.pending.iter().map(|file| file.length).sum();
    match report.pending.len() {
        0 => "everything is on the server".into(),
        1 => format!("1 file, {}, is not on the server yet", binary_size(bytes)),
        count => format!("{count} files, {}, are not on the server yet", binary_size(bytes)),
    }
}
