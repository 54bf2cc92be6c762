//! Listings that are not whole.

use crate::behaviour::Behaviour;

/// The document ends in its midst, as where its writer has died.
pub(super) struct CutOff;

impl Behaviour for CutOff {
    fn listing(&mut self, whole: &str) -> Option<String> {
        let entries: Vec<_> = whole.match_indices("<d:response>").map(|(at, _)| at).collect();
        (entries.len() > 2).then(|| whole[..entries[entries.len() / 2] + 20].to_owned())
    }
}

/// Half of it, and a 507 for the folder, as RFC 5323 §2.3.1 and RFC 6578 §3.6 have it for results that are too many.
pub(super) struct InPart;

impl Behaviour for InPart {
    fn listing(&mut self, whole: &str) -> Option<String> {
        let entries: Vec<_> = whole.match_indices("<d:response>").map(|(at, _)| at).collect();
        let half = &whole[..*entries.get(entries.len() / 2).filter(|_| entries.len() > 2)?];
        let href = whole.split_once("<d:href>")?.1.split_once("</d:href>")?.0;
        Some(format!(
            "{half}<d:response><d:href>{href}</d:href><d:status>HTTP/1.1 507 Insufficient Storage</d:status>\
             </d:response></d:multistatus>"
        ))
    }
}
