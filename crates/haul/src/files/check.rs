//! `haul check`: compare two folders.
//!
//! Names and lengths are always compared. Content is compared by digest where the server has one, and byte by byte between
//! local folders or with `--download`, which fetches every file. Files whose content could not be compared are counted
//! separately: the result must not claim more than was verified.

use std::{collections::BTreeSet, ffi::OsStr, io, os::unix::ffi::OsStrExt, path::PathBuf};

use dav::{
    Error, PropertySet, RemotePath,
    transfer::{FileFacts, Filter, Tree, body_of, digests_agree, place_in},
};
use futures_util::{StreamExt, TryStreamExt, future::BoxFuture, stream};
use haul_http::Body;
use serde::Serialize;

use crate::files::{
    Outcome,
    options::filters::FilterOptions,
    options::{ConnectionOptions, Links, TransferOptions},
    results::Results,
    results::format,
    session::Session,
    session::location::{Location, location},
};
use crate::{say, usage};

/// Maximum number of comparisons in flight.
const AT_ONCE: usize = 32;

/// Compare two folders, local or on servers
///
/// Prints a line for each missing or different file. The exit status is 0 if there is none, else 1. Changes nothing.
#[derive(clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(crate) struct Args {
    /// Reference folder
    #[arg(value_name = "FROM")]
    from: String,
    /// Folder to compare with it
    #[arg(value_name = "TO")]
    to: String,
    /// Download all files and compare them byte by byte
    #[arg(long, conflicts_with = "size_only")]
    download: bool,
    /// Compare names and sizes only
    #[arg(long)]
    size_only: bool,
    /// Ignore files that exist only in TO
    #[arg(long)]
    one_way: bool,
    /// Print each error, even if many files fail for the same reason
    #[arg(short, long)]
    verbose: bool,
    /// Symbolic links in a local folder
    #[arg(long, value_enum, value_name = "HOW", default_value_t)]
    links: Links,
    #[command(flatten)]
    filters: FilterOptions,
    #[command(flatten)]
    connection: ConnectionOptions,
}

/// A folder to compare.
enum Side {
    Here(PathBuf),
    There(Box<Session>, RemotePath),
}

/// The results.
#[derive(Serialize, Default)]
struct Found {
    /// Files with equal content.
    equal: u64,
    /// Files of equal size whose content was not compared.
    same_size: u64,
    differ: Vec<Differ>,
    missing_in_to: Vec<String>,
    missing_in_from: Vec<String>,
}

#[derive(Serialize)]
struct Differ {
    path: String,
    why: String,
}

/// The comparison of one file.
enum Verdict {
    Equal,
    SameSize,
    Differs(String),
}

pub(super) async fn run(args: Args) -> Outcome {
    let mut report = Results::new("check", args.connection.json.as_deref()).listing_each_failure(args.verbose);
    let filter = args.filters.read()?;
    let (from, to) = (location(&args.from).map_err(usage)?, location(&args.to).map_err(usage)?);
    let two = matches!((&from, &to), (Location::Remote(from), Location::Remote(to)) if (&from.origin, &from.user) != (&to.origin, &to.user));
    if two {
        args.connection.for_two_servers()?;
    }
    let (from, to) = (Side::open(from, &args.connection).await?, Side::open(to, &args.connection).await?);
    // What FROM has may have another size or age in TO.
    let of_names = filter.of_names();
    let (source, target) = futures_util::try_join!(from.tree(&filter, args.links), to.tree(&of_names, args.links))?;
    source.skipped.iter().chain(&target.skipped).for_each(say);
    for (path, why) in source.failed.iter().chain(&target.failed) {
        report.fail(format::name(path.as_bytes()), why);
    }
    let mut found = Found::default();
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let names: BTreeSet<_> = source.files.keys().chain(target.files.keys()).collect();
    let mut both = Vec::new();
    for name in names {
        match (source.files.get(name), target.files.get(name)) {
            (Some(a), Some(b)) => both.push((name, a, b)),
            (Some(_), None) if !target.is_unknown(name) => found.missing_in_to.push(text(name)),
            (None, Some(facts)) if !args.one_way && !source.is_unknown(name) && filter.takes(facts) => {
                found.missing_in_from.push(text(name));
            }
            _ => {}
        }
    }
    let compared = both.into_iter().map(|(name, a, b)| {
        let verdict = compare(&args, (&from, a), (&to, b), name);
        async move { (name, verdict.await) }
    });
    let mut compared = stream::iter(compared).buffered(AT_ONCE);
    while let Some((name, verdict)) = compared.next().await {
        match verdict {
            Ok(Verdict::Equal) => found.equal += 1,
            Ok(Verdict::SameSize) => found.same_size += 1,
            Ok(Verdict::Differs(why)) => found.differ.push(Differ { path: text(name), why }),
            Err(why) => report.fail(format::name(name), why),
        }
    }
    drop(compared);
    found.end(report)
}

impl Found {
    fn end(self, mut report: Results) -> Outcome {
        let name = |path: &String| format::name(path.as_bytes());
        for path in &self.missing_in_to {
            report.print(&format!("missing in TO: {}\n", name(path)))?;
        }
        for path in &self.missing_in_from {
            report.print(&format!("missing in FROM: {}\n", name(path)))?;
        }
        for Differ { path, why } in &self.differ {
            report.print(&format!("differs: {}: {why}\n", name(path)))?;
        }
        let Self { equal, same_size, differ, missing_in_to, missing_in_from } = &self;
        let mut line = format!("{} equal", format::count(*equal, "file"));
        for (number, what) in [
            (*same_size, "of the same size, content not compared"),
            (differ.len() as u64, "differ"),
            (missing_in_to.len() as u64, "missing in TO"),
            (missing_in_from.len() as u64, "missing in FROM"),
        ] {
            if number > 0 {
                line.extend(["; ", &number.to_string(), " ", what]);
            }
        }
        report.print_failures();
        say(line);
        if !(differ.is_empty() && missing_in_to.is_empty() && missing_in_from.is_empty()) {
            report.differs();
        }
        report.finish(self)
    }
}

impl Side {
    async fn open(place: Location, connection: &ConnectionOptions) -> Result<Self, Box<dyn std::error::Error>> {
        Ok(match place {
            Location::Local(path) => Self::Here(path),
            Location::Remote(remote) => {
                let session = Session::open(&remote, connection, &TransferOptions::default()).await?;
                Self::There(Box::new(session), remote.path.as_folder(true))
            }
        })
    }

    async fn tree(&self, filter: &Filter, links: Links) -> Result<Tree, Error> {
        match self {
            Self::Here(path) => Tree::here(path, filter, links.into()),
            Self::There(session, path) => Tree::there(&session.dav, path, filter, PropertySet::DIGESTS).await,
        }
    }

    /// The content of a file.
    fn body(&self, name: &[u8], facts: &FileFacts) -> Result<Body, Error> {
        Ok(match self {
            Self::Here(root) => {
                let path = root.join(OsStr::from_bytes(name));
                Body::file(path, 0, facts.length.unwrap_or_default())
            }
            Self::There(session, root) => body_of(&session.dav, &place_in(root, name, false)?, facts),
        })
    }
}

/// Compares one file.
fn compare<'a>(
    args: &'a Args,
    (from, a): (&'a Side, &'a FileFacts),
    (to, b): (&'a Side, &'a FileFacts),
    name: &'a [u8],
) -> BoxFuture<'a, Result<Verdict, Error>> {
    Box::pin(async move {
        if let (Some(a), Some(b)) = (a.length, b.length)
            && a != b
        {
            return Ok(Verdict::Differs(format!("{} in FROM, {b} in TO", format::count(a, "byte"))));
        }
        if args.size_only {
            return Ok(Verdict::SameSize);
        }
        let same = match (from, to) {
            (Side::Here(_), Side::Here(_)) => Some(same_bytes(from.body(name, a)?, to.body(name, b)?).await?),
            // The one that is asked, and the one that is compared with it.
            (other, Side::There(session, root)) => content(args, session, root, (name, b), (other, a)).await?,
            (Side::There(session, root), other) => content(args, session, root, (name, a), (other, b)).await?,
        };
        Ok(match same {
            Some(true) => Verdict::Equal,
            Some(false) => Verdict::Differs("same size, different content".into()),
            None => Verdict::SameSize,
        })
    })
}

/// Whether a file on a server has the content of another; `None` if unknown.
async fn content(
    args: &Args,
    session: &Session,
    root: &RemotePath,
    (name, there): (&[u8], &FileFacts),
    (other, facts): (&Side, &FileFacts),
) -> Result<Option<bool>, Error> {
    let path = place_in(root, name, false)?;
    if args.download {
        return session
            .dav
            .has_bytes(&path, &mut other.body(name, facts)?, haul_http::Expected::default())
            .await
            .map(Some);
    }
    if let Side::There(second, root) = other {
        let second = (&second.dav, &place_in(root, name, false)?, facts);
        return digests_agree((&session.dav, &path, there), second).await;
    }
    session.dav.digest_fits(&path, &mut other.body(name, facts)?, &there.checksums).await
}

async fn same_bytes(mut a: Body, mut b: Body) -> Result<bool, Error> {
    let failed = |error: io::Error| Error::Local { doing: "compare", path: "the files".into(), source: error.into() };
    let (mut ours, mut theirs) = (a.open().map_err(failed)?, b.open().map_err(failed)?);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        if left.is_empty() {
            left = ours.try_next().await.map_err(failed)?.map(Vec::from).unwrap_or_default();
        }
        if right.is_empty() {
            right = theirs.try_next().await.map_err(failed)?.map(Vec::from).unwrap_or_default();
        }
        let length = left.len().min(right.len());
        if length == 0 {
            return Ok(left.is_empty() && right.is_empty());
        }
        if left[..length] != right[..length] {
            return Ok(false);
        }
        left.drain(..length);
        right.drain(..length);
    }
}
