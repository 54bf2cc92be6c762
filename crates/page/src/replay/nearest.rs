//! Which recorded request answers a request of a browser.
//!
//! A browser finds its requests itself, and some differ from the recorded ones: a script writes a time, a random number or
//! the size of a window into the query. Mahimahi (Netravali et al., USENIX ATC 2015) answers such a request with the
//! recorded one of the same host and path whose query begins most like its own, and so does this. Method, host and path
//! must be the same.

use std::collections::HashMap;

use http::Method;

use crate::Spec;

/// The requests of a page by host, path and query. Equal requests form a group.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// By host, in lower case.
    hosts: HashMap<String, Host>,
    groups: usize,
}

#[derive(Debug, Default)]
struct Host {
    /// By path with query.
    targets: HashMap<String, Vec<(Method, usize)>>,
    /// By path without query: the targets.
    paths: HashMap<String, Vec<(String, Method, usize)>>,
}

/// What answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// The group of equal requests.
    pub(crate) group: usize,
    /// Whether it is the same request, and not the nearest one.
    pub(crate) is_exact: bool,
}

impl Index {
    /// The index of a page, and for each request its group.
    pub(crate) fn new(spec: &Spec) -> (Self, Vec<usize>) {
        let mut index = Self::default();
        let groups = spec.requests.iter().map(|request| {
            let host = index.hosts.entry(request.host.to_ascii_lowercase()).or_default();
            let methods = host.targets.entry(request.path.clone()).or_default();
            if let Some((_, group)) = methods.iter().find(|(method, _)| *method == request.method) {
                return *group;
            }
            let group = index.groups;
            index.groups += 1;
            methods.push((request.method.clone(), group));
            let targets = host.paths.entry(path(&request.path).to_owned()).or_default();
            targets.push((request.path.clone(), request.method.clone(), group));
            group
        });
        let groups = groups.collect();
        (index, groups)
    }

    /// The number of groups.
    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// What answers a request to `host` for `target`, a path with its query.
    pub(crate) fn find(&self, host: &str, target: &str, method: &str) -> Option<Found> {
        let host = self.hosts.get(host).or_else(|| self.hosts.get(&host.to_ascii_lowercase())).or_else(|| {
            // A page recorded at its scheme's port may be served at another one.
            self.hosts.get(&host.rsplit_once(':')?.0.to_ascii_lowercase())
        })?;
        let same = host.targets.get(target).and_then(|methods| methods.iter().find(|(known, _)| known == method));
        if let Some((_, group)) = same {
            return Some(Found { group: *group, is_exact: true });
        }
        let candidates = host.paths.get(path(target))?.iter().filter(|(_, known, _)| known == method);
        // Of equally near ones, the first.
        let nearest = candidates.rev().max_by_key(|(known, ..)| common(known, target));
        nearest.map(|(.., group)| Found { group: *group, is_exact: false })
    }
}

/// A target without its query.
fn path(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

/// The length of the common beginning.
fn common(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::spec::SCHEMA;

    #[test]
    fn nearest_request_has_the_longest_common_query() {
        let paths = ["/a?x=1&t=100", "/a?x=2&t=200", "/a?x=1&t=100", "/b"];
        let request = |(number, path): (usize, &&str)| {
            format!("[[request]]\nid = \"{number}\"\nhost = \"A.example\"\npath = \"{path}\"\nresponse = {{}}\n")
        };
        let text: String = paths.iter().enumerate().map(request).collect();
        let spec = Spec::parse(&format!("schema = \"{SCHEMA}\"\n{text}"), Path::new("x.toml")).unwrap();
        let (index, groups) = Index::new(&spec);
        assert_eq!((groups, index.groups()), (vec![0, 1, 0, 2], 3));
        let find =
            |host: &str, target: &str| index.find(host, target, "GET").map(|found| (found.group, found.is_exact));
        assert_eq!(find("a.example", "/a?x=1&t=100"), Some((0, true)));
        assert_eq!(find("A.EXAMPLE:8443", "/a?x=2&t=999"), Some((1, false)));
        assert_eq!(find("a.example", "/a?x=1&t=105"), Some((0, false)));
        assert_eq!(find("a.example", "/a"), Some((0, false)), "the first of the equally near ones");
        assert_eq!(find("a.example", "/b?new"), Some((2, false)));
        assert_eq!((find("a.example", "/c"), find("b.example", "/b")), (None, None));
        assert_eq!(index.find("a.example", "/b", "POST"), None);
    }
}
