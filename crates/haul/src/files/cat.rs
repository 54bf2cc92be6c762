//! `haul cat`: print files.

use std::io;

use dav::{PropertySet, RemotePath, transfer::Verify};
use haul_http::{
    Answer, Class, Options,
    digest::{Algorithm, Field, claims, want},
};
use http::{HeaderMap, header::CONTENT_TYPE};
use http_body_util::BodyExt;
use serde::Serialize;
use tokio::io::{AsyncWriteExt, Stdout};

use crate::files::{Outcome, options::urls::UrlArgs, results::Results, session::Session};
use crate::{say, usage};

/// Print files from a server to standard output
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Request a digest, and warn if the server sends none. Unrequested digests are always verified
    #[arg(long)]
    digest: bool,
    #[command(flatten)]
    named: UrlArgs,
}

#[derive(Serialize)]
struct Found {
    files: u64,
    bytes: u64,
}

/// Why a file was not printed.
enum Stop {
    Failed(dav::Error),
    Folder,
    /// The reader has closed the pipe.
    Closed,
    Output(io::Error),
}

pub(super) async fn run(args: Args) -> Outcome {
    if args.named.connection.json_to_stdout() {
        return Err(usage("standard output is for the files; write the JSON to a file"));
    }
    let (session, selected, report) = args.named.select("cat").await?;
    let paths: Vec<_> = selected.into_iter().map(|found| found.path).collect();
    let digest = args.digest || session.settings.verify == Verify::Digest;
    print_all(&session, &paths, digest, report).await
}

/// Prints files one after the other.
pub(super) async fn print_all(session: &Session, paths: &[RemotePath], digest: bool, mut report: Results) -> Outcome {
    let mut output = tokio::io::stdout();
    let mut found = Found { files: 0, bytes: 0 };
    for path in paths {
        match print(session, path, digest, &mut output, &mut found.bytes).await {
            Ok(()) => found.files += 1,
            Err(Stop::Folder) => report.fail(path, format_args!("{path}: is a folder; list it with haul ls")),
            Err(Stop::Failed(error)) => report.fail(path, error),
            Err(Stop::Closed) => break,
            Err(Stop::Output(error)) => return Err(format!("cannot write {path} to standard output: {error}").into()),
        }
    }
    report.finish(found)
}

async fn is_folder(session: &Session, path: &RemotePath) -> bool {
    matches!(session.dav.stat(path, PropertySet::LISTING).await, Ok(Some(entry)) if entry.path.is_folder())
}

/// Requests a file. For a folder, most servers send a page for browsers, and some an error.
async fn fetch(session: &Session, path: &RemotePath, headers: &HeaderMap, options: &Options) -> Result<Answer, Stop> {
    if path.is_folder() && is_folder(session, path).await {
        return Err(Stop::Folder);
    }
    let get = async || session.dav.get(path, headers.clone(), options.clone()).await;
    let failure = match get().await {
        Ok(answer) if path.is_folder() || !is_html(answer.headers()) => return Ok(answer),
        Err(error) if path.is_folder() || error.refusal().is_none() => return Err(Stop::Failed(error)),
        // Given up: the lookup might wait behind it.
        Ok(_) => None,
        Err(error) => Some(error),
    };
    match failure {
        _ if is_folder(session, path).await => Err(Stop::Folder),
        Some(error) => Err(Stop::Failed(error)),
        None => get().await.map_err(Stop::Failed),
    }
}

fn is_html(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    ["text/html", "application/xhtml"].iter().any(|html| kind.to_ascii_lowercase().starts_with(html))
}

/// Prints a file as it arrives.
async fn print(
    session: &Session,
    path: &RemotePath,
    digest: bool,
    output: &mut Stdout,
    bytes: &mut u64,
) -> Result<(), Stop> {
    let wanted = digest.then(|| want(Field::ReprDigest, &[Algorithm::Sha256, Algorithm::Sha512])).flatten();
    let options = Options { class: Class::Large, ..Options::default() };
    let answer = fetch(session, path, &HeaderMap::from_iter(wanted), &options).await?;
    if digest && claims(answer.headers()).is_empty() {
        say(format_args!("{path}: not verified: the server sends no digest"));
    }
    let mut body = answer.into_body();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Stop::Failed(error.into()))?;
        if let Some(piece) = frame.data_ref() {
            output.write_all(piece).await.map_err(stop)?;
            *bytes += piece.len() as u64;
        }
    }
    output.flush().await.map_err(stop)
}

fn stop(error: io::Error) -> Stop {
    if error.kind() == io::ErrorKind::BrokenPipe { Stop::Closed } else { Stop::Output(error) }
}
