//! The WebDAV server without faults: the methods that the tests need, on files in memory.

use std::{
    fmt::Write as _,
    time::{Duration, SystemTime},
};

use chrono::{DateTime, Utc};

use crate::{
    behaviour::FoundIn,
    double::{Node, ServerProfile, State},
    message::{Request, Response},
    nextcloud,
};

pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

pub(crate) fn etag(version: u64) -> String {
    format!("\"v{version}\"")
}

/// An HTTP date (RFC 9110 §5.6.7).
pub(crate) fn date(time: SystemTime) -> String {
    DateTime::<Utc>::from(time).format("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

impl State {
    pub(crate) fn is_folder(&self, path: &str) -> bool {
        matches!(self.nodes.get(path), Some(Node::Folder))
    }

    pub(crate) fn put(&mut self, path: &str, content: &[u8], age: Duration) {
        self.versions += 1;
        for (at, _) in path.match_indices('/').skip(1) {
            if self.nodes.insert(path[..at].into(), Node::Folder).is_none() {
                self.record_change(&path[..at]);
            }
        }
        let (version, modified) = (self.versions, self.now() - age);
        self.nodes.insert(path.into(), Node::File { content: content.into(), version, modified });
        self.record_change(path);
    }

    pub(crate) fn remove(&mut self, path: &str) -> Vec<(String, Node)> {
        let gone = self.below(path);
        for (path, _) in &gone {
            self.nodes.remove(path);
        }
        gone
    }

    /// A file, or a folder with its content.
    fn below(&self, path: &str) -> Vec<(String, Node)> {
        let below = format!("{path}/");
        let found = self.nodes.iter().filter(|(known, _)| *known == path || known.starts_with(&below));
        found.map(|(path, node)| (path.clone(), node.clone())).collect()
    }

    /// The status of a write that a lock or a precondition forbids.
    pub(crate) fn forbids(&self, path: &str, request: &Request) -> Option<u16> {
        if let Some((token, _)) = self.locks.get(path)
            && !request.header("if").is_some_and(|claims| claims.contains(token.as_str()))
        {
            return Some(423);
        }
        // A list of state tokens that name no lock does not match (RFC 4918 §10.4.3).
        if request.method == "PUT" && request.header("if").is_some() && !self.locks.contains_key(path) {
            return Some(412);
        }
        let tag = self.tag(path);
        let absent = request.header("if-none-match").is_some() && self.nodes.contains_key(path);
        let fits = |wanted: &str| tag.as_deref().is_some_and(|tag| wanted == "*" || wanted == tag);
        let state = request.header("if").filter(|_| request.method == "PUT");
        let state = state.and_then(|claims| Some(claims.split_once('[')?.1.split_once(']')?.0));
        let changed = request.header("if-match").into_iter().chain(state).any(|wanted| !fits(wanted));
        (absent || changed).then_some(412)
    }

    pub(crate) fn answer(&mut self, request: &Request, body: &[u8]) -> Response {
        let date = date(self.now());
        self.process(request, body).with("date", &date)
    }

    fn process(&mut self, request: &Request, body: &[u8]) -> Response {
        let refused = self.digest_auth.as_mut().and_then(|auth| auth.challenge(request));
        if let Some(refused) = refused.or_else(|| self.upload_digests.refuse(request)) {
            return refused;
        }
        let kept = self.stored_path(&request.path);
        let path = kept.as_str();
        let writes = matches!(request.method.as_str(), "PUT" | "DELETE" | "MKCOL" | "MOVE" | "PROPPATCH");
        if writes && let Some(status) = self.forbids(path, request) {
            return Response::new(status);
        }
        if self.profile == ServerProfile::Nextcloud
            && let Some(answer) = self.nextcloud(request, body)
        {
            return answer;
        }
        match request.method.as_str() {
            "OPTIONS" if self.profile == ServerProfile::Plain => Response::new(200).with("dav", "1, 2"),
            "OPTIONS" => Response::new(200).with("dav", "1,2, <http://apache.org/dav/propset/fs/1>"),
            "PROPFIND" => self.list(path, request.header("depth") == Some("1")),
            "REPORT" => self.sync_report(path, &String::from_utf8_lossy(body)),
            "GET" | "HEAD" => self.get(path, request),
            "PUT" if !self.is_folder(parent(path)) => Response::new(409),
            "PUT" if self.is_folder(path) => Response::new(405),
            "PUT" => match self.content_after_put(path, request, body) {
                None => Response::new(400),
                Some(content) => {
                    self.stored += body.len() as u64;
                    let mtime = request
                        .header("x-oc-mtime")
                        .filter(|_| self.keeps_times || self.profile == ServerProfile::Nextcloud);
                    let existed = self.store(path, content, mtime);
                    self.show(path, Response::new(if existed { 204 } else { 201 }))
                }
            },
            "MKCOL" if self.nodes.contains_key(path) => Response::new(405),
            "MKCOL" if !self.is_folder(parent(path)) => Response::new(409),
            "MKCOL" => {
                self.nodes.insert(path.into(), Node::Folder);
                Response::new(201)
            }
            "DELETE" => {
                let gone = self.remove(path);
                self.locks.remove(path);
                Response::new(if gone.is_empty() { 404 } else { 204 })
            }
            "MOVE" | "COPY" => self.move_or_copy(path, request),
            "PROPPATCH" => self.set_properties(path, &String::from_utf8_lossy(body)),
            "LOCK" => self.take_lock(path, request, &String::from_utf8_lossy(body)),
            "UNLOCK" => {
                let token = request.header("lock-token").unwrap_or_default();
                let is_held = self.locks.get(path).is_some_and(|(held, _)| token.contains(held.as_str()));
                if is_held {
                    self.locks.remove(path);
                }
                Response::new(if is_held { 204 } else { 409 })
            }
            _ => Response::new(405),
        }
    }

    fn get(&self, path: &str, request: &Request) -> Response {
        let Some(Node::File { content, .. }) = self.nodes.get(path) else { return Response::new(404) };
        if request.header("if-match").is_some_and(|wanted| self.tag(path).as_deref() != Some(wanted)) {
            return Response::new(412);
        }
        let range = request.header("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
        let range = range.and_then(|(first, last)| Some((first.parse().ok()?, last.parse::<usize>().ok()?)));
        let (mut answer, content) = match range {
            Some((first, _)) if first >= content.len() => return Response::new(416),
            Some((first, last)) => {
                let last = last.min(content.len() - 1);
                let told = format!("bytes {first}-{last}/{}", content.len());
                (Response::new(206).with("content-range", &told), &content[first..=last])
            }
            None => (Response::new(200), &content[..]),
        };
        answer.body = content.into();
        self.show(path, answer)
    }

    /// A file's content after a PUT, perhaps a partial one; none if it is refused.
    fn content_after_put(&self, path: &str, request: &Request, body: &[u8]) -> Option<Vec<u8>> {
        let range = request.header("content-range").and_then(|range| range.strip_prefix("bytes ")?.split_once('-'));
        let start = range.and_then(|(first, _)| first.parse::<usize>().ok());
        match (self.profile, start) {
            (ServerProfile::Apache | ServerProfile::CorruptsPartialPut, Some(start)) => {
                let Some(Node::File { content, .. }) = self.nodes.get(path) else { return None };
                let mut content = content.clone();
                content.resize(content.len().max(start + body.len()), 0);
                content[start..start + body.len()].copy_from_slice(body);
                content[start] ^= u8::from(self.profile == ServerProfile::CorruptsPartialPut);
                Some(content)
            }
            (ServerProfile::Plain | ServerProfile::RefusesPartialPut | ServerProfile::Nextcloud, Some(_)) => None,
            (_, None) | (ServerProfile::ReplacesOnPartialPut, Some(_)) => Some(body.into()),
        }
    }

    fn move_or_copy(&mut self, path: &str, request: &Request) -> Response {
        let to = self.stored_path_after_rename(path, &nextcloud::destination(request));
        let exists = self.nodes.contains_key(&to);
        if !self.nodes.contains_key(path) {
            return Response::new(404);
        }
        if let Some(status) = self.forbids_move(&to, request) {
            return Response::new(status);
        }
        self.remove(&to);
        let copies = request.method == "COPY";
        for (from, node) in if copies { self.below(path) } else { self.remove(path) } {
            self.versions += u64::from(copies);
            let node = match node {
                Node::File { content, .. } if copies => {
                    Node::File { content, version: self.versions, modified: self.now() }
                }
                node => node,
            };
            self.nodes.insert(from.replacen(path, &to, 1), node);
        }
        Response::new(if exists { 204 } else { 201 })
    }

    fn take_lock(&mut self, path: &str, request: &Request, body: &str) -> Response {
        let refresh = request.header("if").is_some();
        let status = match self.locks.get(path) {
            Some(_) if !refresh => return Response::new(423),
            Some(_) => 200,
            None if refresh => return Response::new(412),
            None if self.nodes.contains_key(path) => 200,
            None => 201,
        };
        self.versions += 1;
        let version = self.versions;
        let empty = Node::File { content: Vec::new(), version, modified: self.now() };
        self.nodes.entry(path.into()).or_insert(empty);
        let owner = body.split_once("owner>").and_then(|(_, rest)| rest.split_once('<')).map_or("", |(owner, _)| owner);
        let lock = || (format!("urn:lock:{version}"), owner.to_owned());
        let (token, _) = self.locks.entry(path.into()).or_insert_with(lock).clone();
        let mut answer = Response::new(status).with("lock-token", &format!("<{token}>"));
        answer.body = format!("<d:prop xmlns:d='DAV:'>{}</d:prop>", self.lock_discovery(path)).into();
        answer
    }

    /// The property `lockdiscovery`.
    fn lock_discovery(&self, path: &str) -> String {
        let Some((token, owner)) = self.locks.get(path) else { return String::new() };
        format!(
            "<d:lockdiscovery><d:activelock><d:locktype><d:write/></d:locktype><d:lockscope><d:exclusive/></d:lockscope>\
             <d:depth>0</d:depth><d:owner>{owner}</d:owner><d:timeout>Second-600</d:timeout><d:locktoken><d:href>{token}\
             </d:href></d:locktoken></d:activelock></d:lockdiscovery>"
        )
    }

    fn list(&self, path: &str, children: bool) -> Response {
        if !self.nodes.contains_key(path) {
            return Response::new(404);
        }
        let mut text = String::from(
            "<?xml version='1.0'?><d:multistatus xmlns:d='DAV:' xmlns:Z='urn:schemas-microsoft-com:' \
             xmlns:A='http://apache.org/dav/props/'>",
        );
        for (known, node) in &self.nodes {
            let is_shown = children && !known.is_empty() && parent(known) == path && self.is_listed(known);
            if known != path && !is_shown {
                continue;
            }
            self.describe(&mut text, known, node);
        }
        text.push_str("</d:multistatus>");
        let mut answer = Response::new(207).with("content-type", "application/xml");
        answer.body = text.into();
        answer
    }

    fn describe(&self, text: &mut String, path: &str, node: &Node) {
        let (slash, properties) = match node {
            Node::Folder => {
                let state = self.reports.map_or(String::new(), |_| {
                    let token = self.versions;
                    format!(
                        "<d:sync-token>urn:state:{token}</d:sync-token><d:supported-report-set><d:supported-report>\
                         <d:report><d:sync-collection/></d:report></d:supported-report></d:supported-report-set>"
                    )
                });
                let tag = self.folder_tag(path).map_or(String::new(), |tag| format!("<d:getetag>{tag}</d:getetag>"));
                ("/", format!("<d:resourcetype><d:collection/></d:resourcetype>{state}{tag}"))
            }
            Node::File { content, .. } => {
                let (length, locks) = (content.len(), self.lock_discovery(path));
                let own = self.properties.get(path).map_or("", String::as_str);
                let shown = self.validators(FoundIn::Listing, node);
                let date = shown.modified.map(date);
                let date = date.map_or(String::new(), |date| format!("<d:getlastmodified>{date}</d:getlastmodified>"));
                let tag = shown.etag.map_or(String::new(), |tag| format!("<d:getetag>{tag}</d:getetag>"));
                (
                    "",
                    format!(
                        "<d:resourcetype/><d:getcontentlength>{length}</d:getcontentlength>{date}{tag}{locks}{own}"
                    ),
                )
            }
        };
        let _ = write!(
            text,
            "<d:response><d:href>{path}{slash}</d:href><d:propstat><d:prop>{properties}</d:prop><d:status>HTTP/1.1 200 \
             OK</d:status></d:propstat></d:response>"
        );
    }

    /// Records that this path has changed, for reports.
    pub(crate) fn record_change(&mut self, path: &str) {
        self.changed.insert(path.into(), self.versions);
    }

    /// The changes in a folder since a sync token, the oldest first (RFC 6578 §3).
    fn sync_report(&self, path: &str, body: &str) -> Response {
        let Some(reports) = self.reports else { return Response::new(403) };
        if reports.refuses_infinite && body.contains("infinite") {
            return Response::new(400);
        }
        let token = body.split_once("urn:state:").and_then(|(_, rest)| rest.split_once('<')?.0.parse::<u64>().ok());
        if token.is_some_and(|token| token < reports.oldest_token) {
            let mut refused = Response::new(403).with("content-type", "application/xml");
            refused.body = "<d:error xmlns:d='DAV:'><d:valid-sync-token/></d:error>".into();
            return refused;
        }
        let below = format!("{path}/");
        let reached = |known: &str| {
            known
                .strip_prefix(&below)
                .is_some_and(|rest| (reports.is_infinite && body.contains("infinite")) || !rest.contains('/'))
        };
        let since = token.unwrap_or(0);
        let mut changed: Vec<(u64, &String)> = self
            .changed
            .iter()
            .filter(|(known, at)| **at > since && reached(known))
            .map(|(known, at)| (*at, known))
            .collect();
        changed.sort_unstable();
        let left = changed.len().saturating_sub(reports.limit);
        changed.truncate(reports.limit);
        let mut text = String::from("<?xml version='1.0'?><d:multistatus xmlns:d='DAV:'>");
        for (_, known) in &changed {
            match self.nodes.get(*known) {
                Some(node) => self.describe(&mut text, known, node),
                None if token.is_none() => {}
                None => {
                    let _ = write!(
                        text,
                        "<d:response><d:href>{known}</d:href><d:status>HTTP/1.1 404 Not Found</d:status></d:response>"
                    );
                }
            }
        }
        let mut now = self.versions;
        if left > 0 {
            now = changed.last().map_or(since, |(at, _)| *at);
            let _ = write!(
                text,
                "<d:response><d:href>{path}/</d:href><d:status>HTTP/1.1 507 Insufficient Storage</d:status><d:error>\
                 <d:number-of-matches-within-limits/></d:error></d:response>"
            );
        }
        let _ = write!(text, "<d:sync-token>urn:state:{now}</d:sync-token></d:multistatus>");
        let mut answer = Response::new(207).with("content-type", "application/xml");
        answer.body = text.into();
        answer
    }
}
