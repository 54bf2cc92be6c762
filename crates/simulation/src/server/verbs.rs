//! The other methods.

use super::{Author, Profile, Server, listing::date};
use crate::request::{Request, Response, path_of, plain};

/// A range of bytes, if a file of this length has it (RFC 9110 §14.1.2).
fn range(request: &Request, length: usize) -> Option<Result<std::ops::Range<usize>, ()>> {
    let (first, last) = request.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (first.parse::<usize>(), last.parse::<usize>()) {
        (Ok(first), last) => first..last.map_or(length, |last| (last + 1).min(length)),
        (Err(_), Ok(last)) => length.saturating_sub(last)..length,
        _ => return None,
    };
    Some(if range.start < range.end { Ok(range) } else { Err(()) })
}

impl Server {
    pub(super) fn options(&self) -> Response {
        let classes = match self.profile {
            Profile::Strong => "1, 2",
            Profile::Apache => "1, 2, <http://apache.org/dav/propset/fs/1>",
        };
        let methods = "OPTIONS, GET, HEAD, PUT, DELETE, MKCOL, MOVE, COPY, PROPFIND, LOCK, UNLOCK";
        let software = if self.profile == Profile::Strong { "longhaul" } else { "Apache" };
        Response::of(200).with("dav", classes).with("allow", methods).with("server", software)
    }

    pub(super) fn get(&mut self, by: Author, request: &Request) -> Response {
        let path = &*request.path;
        let Some(content) = self.content(path).cloned() else {
            return Response::of(if self.exists(path) { 405 } else { 404 });
        };
        let tag = self.tag(path).unwrap_or_default();
        if !crate::conditions::holds(request, Some(&tag)) {
            return Response::of(if request.headers.contains_key("if-none-match") { 304 } else { 412 });
        }
        self.show(by, path);
        let is_of_range = request.header("if-range").is_none_or(|known| crate::conditions::is_strongly(known, &tag));
        let modified = self.files.get(path).map_or_else(String::new, |file| date(file.changed));
        let answer = |status| Response::of(status).with("etag", tag.clone()).with("last-modified", modified.clone());
        match range(request, content.len()).filter(|_| is_of_range) {
            None => answer(200).body(content),
            Some(Ok(part)) => {
                let place = format!("bytes {}-{}/{}", part.start, part.end - 1, content.len());
                answer(206).with("content-range", place).body(content.slice(part))
            }
            Some(Err(())) => answer(416).with("content-range", format!("bytes */{}", content.len())),
        }
    }

    pub(super) fn put(&mut self, by: Author, request: &Request) -> Response {
        let path = &*request.path;
        if self.folders.contains_key(path) {
            return Response::of(405);
        }
        if let Some(refusal) = self.refusal(request, &[path]) {
            return refusal;
        }
        if !self.has_parent(path) {
            return Response::of(409);
        }
        if self.is_full {
            return Response::of(507);
        }
        let is_new = !self.files.contains_key(path);
        self.store(by, "PUT", path, request.body.clone());
        let answer = Response::of(if is_new { 201 } else { 204 });
        match self.profile {
            Profile::Apache => answer,
            Profile::Strong => {
                self.show(by, path);
                answer.with("etag", self.tag(path).unwrap_or_default())
            }
        }
    }

    pub(super) fn mkcol(&mut self, request: &Request) -> Response {
        let path = &*request.path;
        if self.exists(path) {
            return Response::of(405);
        }
        if let Some(refusal) = self.refusal(request, &[path]) {
            return refusal;
        }
        if !self.has_parent(path) {
            return Response::of(409);
        }
        self.add_folder(path);
        Response::of(201)
    }

    /// A folder is there from now on.
    pub fn add_folder(&mut self, path: &str) {
        self.counter += 1;
        self.folders.insert(path.to_owned(), self.counter);
        self.touch_parent(path);
    }

    pub(super) fn delete(&mut self, by: Author, request: &Request) -> Response {
        let path = &*request.path;
        // A request that names a version of what is gone has failed for that.
        if let Some(refusal) = self.refusal(request, &[path]).filter(|_| self.exists(path)) {
            return refusal;
        }
        if !self.exists(path) {
            return Response::of(404);
        }
        self.remove(by, "DELETE", path);
        Response::of(204)
    }

    fn remove(&mut self, by: Author, method: &str, path: &str) {
        for file in self.below(path) {
            self.remove_file(by, method, &file);
        }
        let below = format!("{path}/");
        self.folders.retain(|folder, _| folder != path && !folder.starts_with(&below));
        self.touch_parent(path);
    }

    /// The file at a path, and those below it.
    fn below(&self, path: &str) -> Vec<String> {
        let below = format!("{path}/");
        self.files.keys().filter(|file| *file == path || file.starts_with(&below)).cloned().collect()
    }

    pub(super) fn transfer(&mut self, by: Author, request: &Request, is_move: bool) -> Response {
        let from = &*request.path;
        let Some(to) = request.header("destination").map(|to| plain(path_of(to)).to_owned()) else {
            return Response::of(400);
        };
        if !self.exists(from) {
            return Response::of(404);
        }
        let both = [from, &to];
        let changed = if is_move { &both[..] } else { &both[1..] };
        if let Some(refusal) = self.refusal(request, changed) {
            return refusal;
        }
        if !self.has_parent(&to) || to.starts_with(&format!("{from}/")) || from == to {
            return Response::of(if from == to { 403 } else { 409 });
        }
        let is_new = !self.exists(&to);
        if !is_new && request.header("overwrite").is_some_and(|value| value.eq_ignore_ascii_case("F")) {
            return Response::of(412);
        }
        // RFC 4918 §9.8.4, §9.9.3: what is there is deleted; but a file by a file in one step.
        if !(self.files.contains_key(&to) && self.files.contains_key(from)) {
            self.remove(by, &request.method, &to);
        }
        self.carry(by, request, from, &to, is_move);
        Response::of(if is_new { 201 } else { 204 })
    }

    fn carry(&mut self, by: Author, request: &Request, from: &str, to: &str, is_move: bool) {
        let (method, below) = (&*request.method, format!("{from}/"));
        let target = |path: &str| format!("{to}{}", &path[from.len()..]);
        let is_there = |folder: &&String| *folder == from || folder.starts_with(&below);
        let folders: Vec<_> = self.folders.keys().filter(is_there).cloned().collect();
        for folder in folders {
            if is_move {
                self.folders.remove(&folder);
            }
            self.add_folder(&target(&folder));
        }
        for path in self.below(from) {
            let Some(file) = self.files.get(&path).cloned() else { continue };
            if is_move {
                self.set_version(by, method, &target(&path), file.version);
                if let Some(moved) = self.files.get_mut(&target(&path)) {
                    moved.changed = file.changed;
                }
                self.remove_file(by, method, &path);
            } else {
                let content = self.versions[file.version].content.clone();
                self.store(by, method, &target(&path), content);
            }
        }
        self.touch_parent(from);
        self.touch_parent(to);
    }
}
