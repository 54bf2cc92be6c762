//! Which requests of a load may share connections.
//!
//! Over the recorded connections, those that did. Otherwise as in Chromium, which keeps apart what one site could learn from
//! the connections of another: those of frames of other sites than the page's (`NetworkAnonymizationKey`: the page's site,
//! and whether the frame is of another one), and those for requests without credentials (Fetch, "obtain a connection"). Over
//! QUIC, the latter resume the TLS sessions of the others.

use std::collections::{BTreeMap, HashMap};

use haul_http::{Client, Settings};

use super::protocol::Http;
use crate::{Request, Spec};

/// The clients of a load.
pub(super) struct Clients {
    /// One for each recorded connection, with its number of unanswered requests.
    recorded: BTreeMap<u32, (Client, usize)>,
    /// For requests without a recorded connection.
    shared: HashMap<Group, Client>,
    groups: Vec<Group>,
}

/// Requests that may share connections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Group {
    /// They are of frames of another site.
    is_foreign: bool,
    is_anonymous: bool,
}

impl Clients {
    /// `over` makes a client for frames of another site (`true`) or for everything else.
    pub(super) fn new(spec: &Spec, http: Http, settings: &Settings, over: impl Fn(bool, Settings) -> Client) -> Self {
        let mut recorded = BTreeMap::new();
        if http == Http::Recorded {
            for number in spec.requests.iter().filter_map(|request| request.connection) {
                let alone = || (over(false, Settings { connections: 1, ..settings.clone() }), 0);
                recorded.entry(number).or_insert_with(alone).1 += 1;
            }
        }
        let groups = groups(spec);
        let shared = groups.iter().map(|group| (*group, over(group.is_foreign, settings.clone()))).collect();
        Self { recorded, shared, groups }
    }

    /// The client of a request.
    pub(super) fn of(&self, spec: &Spec, request: usize) -> &Client {
        match spec.requests[request].connection.and_then(|number| self.recorded.get(&number)) {
            Some((client, _)) => client,
            None => &self.shared[&self.groups[request]],
        }
    }

    /// A request is answered. A connection without further requests is closed, so that thousands of visits do not stay
    /// open.
    pub(super) fn asked(&mut self, connection: Option<u32>) {
        let Some((number, (_, left))) = connection.and_then(|number| Some((number, self.recorded.get_mut(&number)?)))
        else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.recorded.remove(&number);
        }
    }
}

/// The group of each request. A request belongs to the same frame as its cause, unless it is a frame itself.
fn groups(spec: &Spec) -> Vec<Group> {
    let mut groups = vec![Group::default(); spec.requests.len()];
    for index in spec.order().unwrap_or_default() {
        let request = &spec.requests[index];
        let of_cause = request.after.first().is_some_and(|after| groups[after.request].is_foreign);
        let is_frame = ["iframe", "frame"].iter().any(|kind| has(request, "sec-fetch-dest", kind));
        let is_foreign = of_cause || is_frame && has(request, "sec-fetch-site", "cross-site");
        groups[index] = Group { is_foreign, is_anonymous: is_anonymous(request) };
    }
    groups
}

/// Whether a browser sent a request without credentials, so far as its header fields show: to another origin in the mode
/// `cors`, as for a font. A script may send credentials in this mode, which they do not show.
fn is_anonymous(request: &Request) -> bool {
    has(request, "sec-fetch-mode", "cors") && !has(request, "sec-fetch-site", "same-origin")
}

fn has(request: &Request, name: &str, value: &str) -> bool {
    request.headers.get(name).is_some_and(|known| known == value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(requests: &[(&str, &str, &[&str])]) -> Spec {
        let requests = requests.iter().map(|(id, after, fields)| {
            let after = if after.is_empty() { String::new() } else { format!("after = [{{ end = \"{after}\" }}]\n") };
            format!(
                "[[request]]\nid = \"{id}\"\nhost = \"a\"\npath = \"/{id}\"\n{after}headers = {fields:?}\n\
                 response = {{ body = 1 }}\n"
            )
        });
        let text = format!("schema = \"longhaul.page/1\"\n{}", requests.collect::<String>());
        Spec::parse(&text, "t.toml".as_ref()).unwrap()
    }

    #[test]
    fn what_is_sent_without_credentials_is_told_by_its_header_fields() {
        for (fields, expected) in [
            (&["sec-fetch-mode: cors", "sec-fetch-site: cross-site"][..], true),
            (&["sec-fetch-mode: cors", "sec-fetch-site: same-site"], true),
            (&["sec-fetch-mode: cors", "sec-fetch-site: same-origin"], false),
            (&["sec-fetch-mode: no-cors", "sec-fetch-site: cross-site"], false),
            (&[], false),
        ] {
            assert_eq!(groups(&spec(&[("a", "", fields)]))[0].is_anonymous, expected, "{fields:?}");
        }
    }

    #[test]
    fn frames_of_other_sites_are_kept_apart_with_all_they_load() {
        let (cross, same) = ("sec-fetch-site: cross-site", "sec-fetch-site: same-site");
        let frame = "sec-fetch-dest: iframe";
        let spec = spec(&[
            ("page", "", &["sec-fetch-dest: document", "sec-fetch-site: none"]),
            ("library", "page", &["sec-fetch-dest: script", cross]),
            ("advert", "page", &[frame, cross]),
            ("picture", "advert", &["sec-fetch-dest: image", same]),
            ("inner", "picture", &[frame, "sec-fetch-site: same-origin"]),
            ("own", "page", &[frame, same]),
        ]);
        let foreign: Vec<bool> = groups(&spec).iter().map(|group| group.is_foreign).collect();
        assert_eq!(foreign, [false, false, true, true, true, false]);
    }
}
