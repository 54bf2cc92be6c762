//! Incomplete listings.

use crate::behaviour::Behaviour;

/// The document ends in the middle, as when its generator crashes.
pub(super) struct Truncated;

impl Behaviour for Truncated {
    fn alter_listing(&mut self, whole: &str) -> Option<String> {
        let entries: Vec<_> = whole.match_indices("<d:response>").map(|(at, _)| at).collect();
        (entries.len() > 2).then(|| whole[..entries[entries.len() / 2] + 20].to_owned())
    }
}

/// Half of the entries, and a 507 for the folder, as after too many results (RFC 5323 §2.3.1, RFC 6578 §3.6).
pub(super) struct Partial;

impl Behaviour for Partial {
    fn alter_listing(&mut self, whole: &str) -> Option<String> {
        let entries: Vec<_> = whole.match_indices("<d:response>").map(|(at, _)| at).collect();
        let half = &whole[..*entries.get(entries.len() / 2).filter(|_| entries.len() > 2)?];
        let href = whole.split_once("<d:href>")?.1.split_once("</d:href>")?.0;
        Some(format!(
            "{half}<d:response><d:href>{href}</d:href><d:status>HTTP/1.1 507 Insufficient Storage</d:status>\
             </d:response></d:multistatus>"
        ))
    }
}
