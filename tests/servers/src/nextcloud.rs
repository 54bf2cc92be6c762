//! Nextcloud's extensions, after its developer manual: chunked uploads (v2) and bulk uploads.

use std::{fmt::Write as _, time::Duration};

use haul_http::digest::{Algorithm, Digests, Field};

use crate::{
    double::{Node, State},
    message::{Request, Response},
    paths,
    verbs::parent,
};

/// The user's files, as a path in requests.
pub const FILES: &str = "/remote.php/dav/files/ann";
/// Where chunks are kept until they are assembled.
pub const UPLOADS: &str = "/remote.php/dav/uploads/ann";
/// The minimum size of a chunk other than the last, and here the maximum too.
const CHUNK: usize = 5_000_000;

impl State {
    pub(crate) fn add_nextcloud_folders(&mut self) {
        for path in [FILES, UPLOADS] {
            for (at, _) in path.match_indices('/').skip(1).chain([(path.len(), "")]) {
                self.nodes.insert(path[..at].into(), Node::Folder);
            }
        }
    }

    /// The response, if this is not plain WebDAV.
    pub(crate) fn nextcloud(&mut self, request: &Request, body: &[u8]) -> Option<Response> {
        let path = request.path.as_str();
        let folder = parent(path);
        match request.method.as_str() {
            "OPTIONS" => {
                Some(Response::new(200).with("dav", "1, 3, extended-mkcol").with("dav", "nextcloud-checksum-update"))
            }
            "GET" if path == "/ocs/v2.php/cloud/capabilities?format=json" => Some(capabilities(request)),
            "GET" if path.starts_with(UPLOADS) => Some(Response::new(405)),
            "POST" if path == "/remote.php/dav/bulk" => Some(self.bulk(request, body)),
            "MKCOL" if folder == UPLOADS && request.header("destination").is_none() => Some(Response::new(400)),
            "PUT" if parent(folder) == UPLOADS && !is_chunk(request) => Some(Response::new(400)),
            "MOVE" if path.starts_with(UPLOADS) && path.ends_with("/.file") => Some(self.assemble(request, folder)),
            _ => None,
        }
    }

    fn assemble(&mut self, request: &Request, folder: &str) -> Response {
        let to = destination(request);
        let chunks: Vec<&Vec<u8>> =
            self.nodes.range(format!("{folder}/")..format!("{folder}0")).filter_map(content).collect();
        if !self.is_folder(folder) {
            return Response::new(404);
        }
        // Subject to locks and to the `If` header.
        if let Some(status) = self.forbids_move(&to, request) {
            return Response::new(status);
        }
        let short = chunks.split_last().is_some_and(|(_, others)| others.iter().any(|chunk| chunk.len() < CHUNK));
        let content: Vec<u8> = chunks.into_iter().flatten().copied().collect();
        if short || request.header("oc-total-length") != Some(content.len().to_string().as_str()) {
            return Response::new(400);
        }
        let existed = self.nodes.contains_key(&to);
        self.remove(folder);
        self.store(&to, content, request.header("x-oc-mtime"));
        Response::new(if existed { 204 } else { 201 })
    }

    /// Overwrites existing files, as Nextcloud does.
    fn bulk(&mut self, request: &Request, body: &[u8]) -> Response {
        let boundary =
            request.header("content-type").and_then(|kind| kind.strip_prefix("multipart/related; boundary="));
        let Some(boundary) = boundary else { return Response::new(400) };
        let (first, last) = (format!("--{boundary}\r\n"), format!("--{boundary}--\r\n"));
        let (mut rest, mut written, mut status) = (body, String::new(), 200);
        while rest != last.as_bytes() {
            let Some((part, content, behind)) = take_part(rest, first.as_bytes()) else {
                status = 400;
                break;
            };
            rest = behind;
            let names = part.path.trim_start_matches('/').split('/').map(|name| paths::encode(name.as_bytes()));
            let path = format!("{FILES}/{}", names.collect::<Vec<_>>().join("/"));
            let comma = if written.is_empty() { "" } else { "," };
            let _ = if self.is_folder(parent(&path)) {
                self.store(&path, content.into(), part.mtime.as_deref());
                write!(written, "{comma}\"{}\":{{\"error\":false,\"etag\":\"v{}\"}}", part.path, self.versions)
            } else {
                write!(written, "{comma}\"{}\":{{\"error\":true,\"message\":\"no such folder\"}}", part.path)
            };
        }
        let mut answer = Response::new(status).with("content-type", "application/json");
        answer.body = format!("{{{written}}}").into();
        answer
    }

    pub(crate) fn store(&mut self, path: &str, content: Vec<u8>, mtime: Option<&str>) -> bool {
        self.versions += 1;
        let since = mtime.and_then(|mtime| mtime.parse().ok()).map(Duration::from_secs);
        let modified = since.map_or_else(|| self.now(), |since| std::time::UNIX_EPOCH + since);
        self.nodes.insert(path.into(), Node::File { content, version: self.versions, modified }).is_some()
    }

    /// The status of a MOVE that a lock, the `If` header (RFC 4918 §10.4) or an existing target forbids.
    pub(crate) fn forbids_move(&self, to: &str, request: &Request) -> Option<u16> {
        let claims = request.header("if").unwrap_or_default();
        if self.locks.get(to).is_some_and(|(token, _)| !claims.contains(token.as_str())) {
            return Some(423);
        }
        let states: Vec<_> = claims.match_indices('[').collect();
        let holds = |at: usize| {
            let url = claims[..at].rfind("<http").and_then(|from| claims[from + 1..].split('>').next());
            let path = url.map_or(request.path.clone(), path_of);
            self.tag(&path).is_some_and(|tag| claims[at + 1..].starts_with(&format!("{tag}]")))
        };
        // A list with the source's token is an alternative.
        let source = self.locks.get(&request.path);
        let is_held = source.is_some_and(|(token, _)| claims.contains(&format!("(<{token}>)")));
        let changed = !states.is_empty() && !is_held && !states.into_iter().any(|(at, _)| holds(at));
        let taken = self.nodes.contains_key(to) && request.header("overwrite") == Some("F");
        (changed || taken).then_some(412)
    }
}

/// The path in `Destination`.
pub(crate) fn destination(request: &Request) -> String {
    path_of(request.header("destination").unwrap_or_default())
}

fn path_of(url: &str) -> String {
    let path = url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).unwrap_or_default();
    path.trim_end_matches('/').to_owned()
}

fn content<'a>((_, node): (&String, &'a Node)) -> Option<&'a Vec<u8>> {
    if let Node::File { content, .. } = node { Some(content) } else { None }
}

fn capabilities(request: &Request) -> Response {
    if request.header("ocs-apirequest").is_none() {
        return Response::new(412);
    }
    let mut answer = Response::new(200);
    answer.body = format!(
        "{{\"ocs\":{{\"data\":{{\"capabilities\":{{\"dav\":{{\"chunking\":\"1.0\",\"bulkupload\":\"1.0\"}},\"files\":\
         {{\"chunked_upload\":{{\"max_size\":{CHUNK},\"max_parallel_count\":3}}}}}}}}}}}}"
    )
    .into();
    answer
}

fn is_chunk(request: &Request) -> bool {
    let number = request.path.rsplit('/').next().and_then(|name| name.parse::<u32>().ok());
    number.is_some_and(|number| (1..=10_000).contains(&number)) && request.header("destination").is_some()
}

struct Part {
    path: String,
    mtime: Option<String>,
}

/// The first part of a multipart body, its content, and the rest; none if it is malformed.
fn take_part<'a>(body: &'a [u8], boundary: &[u8]) -> Option<(Part, &'a [u8], &'a [u8])> {
    let body = body.strip_prefix(boundary)?;
    let end = body.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = str::from_utf8(&body[..end]).ok()?;
    let field = |name: &str| head.lines().find_map(|line| line.split_once(": ").filter(|(known, _)| *known == name));
    let text = |name: &str| field(name).map(|(_, value)| value.to_owned());
    let length: usize = text("Content-Length")?.parse().ok()?;
    let (content, behind) = body[end + 4..].split_at_checked(length)?;
    let sum = Digests::of(content, &[Algorithm::Md5]).value(Field::OcChecksum)?;
    let fits = sum.to_str().ok()?.strip_prefix("MD5:") == text("X-File-MD5").as_deref();
    let part = Part { path: text("X-File-Path")?, mtime: text("X-File-Mtime") };
    Some((part, content, behind.strip_prefix(b"\r\n")?)).filter(|_| fits)
}
