//! The manifests of the 2013 reproduction of the TCP Fast Open paper (Kattouw and Meyers, Stanford CS 244).
//!
//! `NAME.reqs` begins with the number of requests, followed by one line per request: its file, its group, its
//! connection, the group whose *head* it waits for, the group whose *completion* it waits for (-1: none), and the bytes
//! of its response. The head of a group is the first 4000 bytes of each of its responses. Requests on one connection
//! are in the order of the file. `NAME.resp` has one line per response: the file, the bytes of the request, and the
//! beginning of the request line. Files of one connection are numbered in turns: `x.5` is the response to `x.4`.
//!
//! The manifests have no hosts; `NAME.hosts` may assign them to connections, one line each (`7 upload.wikimedia.org`).
//! They do not say where a response's head ends; 300 bytes are assumed. Queries are replaced by the request's name,
//! because they are truncated and may contain session ids.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    time::Duration,
};

use http::{HeaderMap, Method, StatusCode};

use super::{ImportError, Imported, mistake, name, short, text};
use crate::{
    After, Body, Request, Response, Spec, Until,
    body::seed,
    spec::{HEAD_BYTES, MAX_HEAD, MAX_REQUESTS, checked_host, checked_path},
};

/// The assumed size of a response's head.
const RESPONSE_HEAD: u64 = 300;

/// A line of `.reqs`.
struct Line {
    id: String,
    group: i64,
    connection: u32,
    head_of: i64,
    end_of: i64,
    bytes: u64,
}

/// Reads a page from its `.reqs`, or from the only one in a folder.
pub fn read(path: &Path) -> Result<Imported, ImportError> {
    let reqs = if path.is_dir() { only(path)? } else { path.to_owned() };
    let resp = reqs.with_extension("resp");
    let hosts = reqs.with_extension("hosts");
    let hosts = if hosts.is_file() { Some(text(&hosts)?) } else { None };
    parse(&text(&reqs)?, &text(&resp)?, hosts.as_deref(), &reqs)
}

fn only(folder: &Path) -> Result<PathBuf, ImportError> {
    let unreadable = |source| ImportError::Read { path: folder.display().to_string(), source };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|ending| ending == "reqs") {
            found.push(path);
        }
    }
    found.sort();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(mistake(folder, "there is no .reqs file in it")),
        [first, ..] => Err(mistake(folder, format!("has several pages; name one of them, as in {}", first.display()))),
    }
}

/// Imports manifests from their texts; `path` is that of the `.reqs`.
pub fn parse(reqs: &str, resp: &str, hosts: Option<&str>, path: &Path) -> Result<Imported, ImportError> {
    let lines = lines(reqs).map_err(|said| mistake(path, said))?;
    let starts = starts(resp);
    let name = name(path);
    let hosts = self::hosts(hosts.unwrap_or_default()).map_err(|said| mistake(&path.with_extension("hosts"), said))?;
    let nobody = format!("{}.example", name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"));
    let mut groups: HashMap<i64, Vec<usize>> = HashMap::new();
    for (place, line) in lines.iter().enumerate() {
        groups.entry(line.group).or_default().push(place);
    }
    let mut requests: Vec<Request> = Vec::with_capacity(lines.len());
    for (place, line) in lines.iter().enumerate() {
        let host = hosts.get(&line.connection).unwrap_or(&nobody);
        let request =
            request(line, place == 0, &starts, host).map_err(|said| mistake(path, format!("`{}` {said}", line.id)))?;
        requests.push(request);
    }
    // Limits the number of all dependencies, since each request may wait for a large group.
    let mut waits = 0;
    for (place, line) in lines.iter().enumerate() {
        for (group, head) in [(line.head_of, true), (line.end_of, false)].into_iter().filter(|(group, _)| *group != -1)
        {
            let members = groups
                .get(&group)
                .ok_or_else(|| mistake(path, format!("`{}` waits for group {group}, and nothing is in it", line.id)))?;
            waits += members.len();
            if waits > 50 * MAX_REQUESTS {
                return Err(mistake(path, format!("`{}` is one wait too many: there are a million", line.id)));
            }
            let after = members.iter().map(|member| {
                let part = head && requests[*member].response.size() > HEAD_BYTES;
                After { request: *member, until: if part { Until::Head(HEAD_BYTES) } else { Until::End } }
            });
            let after: Vec<After> = after.collect();
            requests[place].after.extend(after);
        }
    }
    let source = "The manifests of Kattouw and Meyers's reproduction of TCP Fast Open (Stanford CS 244, 2013): sizes, \
                  connections, dependencies. Hosts are concluded from paths, the head of a response is taken to have 300 \
                  bytes, queries are not kept, bodies are synthesised.";
    let spec = Spec {
        title: name.clone(),
        name,
        source: Some(source.to_owned()),
        recorded_at: None,
        compute: Duration::ZERO,
        requests,
    };
    let spec = spec.checked().map_err(|said| mistake(path, said))?;
    let mut notes = Vec::new();
    if hosts.is_empty() {
        let beside = path.with_extension("hosts");
        notes.push(format!(
            "the manifests name no hosts, so all is asked of {nobody}; {} may give them",
            beside.display()
        ));
    }
    Ok(Imported { spec, notes })
}

fn lines(reqs: &str) -> Result<Vec<Line>, String> {
    let mut lines = reqs.lines().enumerate();
    let count: Option<usize> = lines.next().and_then(|(_, line)| line.trim().parse().ok());
    let count = count.filter(|count| (1..=MAX_REQUESTS).contains(count));
    let count =
        count.ok_or_else(|| format!("line 1: a manifest begins with its number of requests, 1 to {MAX_REQUESTS}"))?;
    let mut read = Vec::new();
    for (at, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let parts: Vec<&str> = line.split_whitespace().collect();
        let parsed = match parts.as_slice() {
            [id, group, connection, head_of, end_of, bytes] => (|| {
                Some(Line {
                    id: (*id).to_owned(),
                    group: group.parse().ok()?,
                    connection: connection.parse().ok()?,
                    head_of: head_of.parse().ok()?,
                    end_of: end_of.parse().ok()?,
                    bytes: bytes.parse().ok()?,
                })
            })(),
            _ => None,
        };
        let shape = "a request's file, group, connection, two groups to wait for, and the bytes of its response";
        read.push(parsed.ok_or_else(|| format!("line {}: `{}` is not {shape}", at + 1, short(line.trim())))?);
        if read.len() > count {
            break;
        }
    }
    match read.len() {
        found if found < count => Err(format!("line 1: {count} requests are announced, and only {found} are there")),
        found if found > count => Err(format!("line 1: {count} requests are announced, and there are more")),
        _ => Ok(read),
    }
}

/// The bytes and the beginning of each request, by the file of its response.
fn starts(responses: &str) -> HashMap<&str, (u64, &str)> {
    responses
        .lines()
        .skip(1)
        .filter_map(|line| {
            let (id, rest) = line.trim().split_once(' ')?;
            let (bytes, start) = rest.split_once(' ')?;
            Some((id, (bytes.parse().ok()?, start)))
        })
        .collect()
}

fn hosts(text: &str) -> Result<HashMap<u32, String>, String> {
    let mut hosts = HashMap::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let parsed = line
            .trim()
            .split_once(' ')
            .and_then(|(number, host)| Some((number.parse().ok()?, checked_host(host.trim()).ok()?)));
        let (number, host) =
            parsed.ok_or_else(|| format!("line {}: `{}` is not a connection and its host", at + 1, short(line)))?;
        hosts.insert(number, host);
    }
    Ok(hosts)
}

fn request(line: &Line, first: bool, starts: &HashMap<&str, (u64, &str)>, host: &str) -> Result<Request, String> {
    let answer = line
        .id
        .rsplit_once('.')
        .and_then(|(stem, number)| Some(format!("{stem}.{}", number.parse::<u32>().ok()?.checked_add(1)?)));
    let answer = answer.ok_or("is no name with a number, as in `page.0`")?;
    let (bytes, start) =
        *starts.get(answer.as_str()).ok_or_else(|| format!("has no response: `{answer}` is not in .resp"))?;
    let mut words = start.split_whitespace();
    let method = words.next().and_then(|method| Method::from_bytes(method.as_bytes()).ok());
    let (method, target) =
        method.zip(words.next()).ok_or_else(|| format!("begins with `{}`, which is no request", short(start)))?;
    let path = target.split(['?', ';', '$', ':']).next().unwrap_or_default();
    let name: String =
        line.id.chars().filter(|letter| letter.is_ascii_alphanumeric() || "-_.".contains(*letter)).collect();
    let head = u32::try_from(bytes).ok().filter(|head| *head <= MAX_HEAD);
    let response_head = RESPONSE_HEAD.min(line.bytes);
    Ok(Request {
        id: line.id.clone(),
        method,
        secure: false,
        host: host.to_owned(),
        path: checked_path(&format!("{path}?{name}"))?,
        connection: Some(line.connection),
        head: head.ok_or_else(|| format!("has a request of {bytes} bytes, and {MAX_HEAD} is the most"))?,
        headers: HeaderMap::new(),
        body: Body::Synthetic { len: 0, seed: seed(&line.id) },
        after: Vec::new(),
        compute: Duration::ZERO,
        hold: None,
        delays_load: true,
        response: Response {
            status: StatusCode::OK,
            content_type: content_type(target, first).map(str::to_owned),
            head: response_head as u32,
            headers: HeaderMap::new(),
            body: Body::Synthetic { len: line.bytes - response_head, seed: !seed(&line.id) },
            think: Duration::ZERO,
        },
    })
}

/// The likely content type of a target.
fn content_type(target: &str, first: bool) -> Option<&'static str> {
    let path = target.split('?').next().unwrap_or_default();
    Some(match path.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).as_deref() {
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("png") => "image/png",
        Some("gif") => "image/gif",
        Some("css") => "text/css",
        // MediaWiki's loader of style sheets and scripts.
        Some("php") if target.contains("only=styles") => "text/css",
        Some("js" | "php") => "text/javascript",
        _ if first => "text/html",
        _ => return None,
    })
}
