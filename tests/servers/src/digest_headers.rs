//! Digests that uploads state in their headers, and servers that do not want them.

use std::collections::BTreeMap;

use crate::wire::{Answer, Request};

const FIELDS: [&str; 3] = ["repr-digest", "content-digest", "oc-checksum"];

/// What uploads have stated.
#[derive(Debug, Default)]
pub struct StatedDigests {
    /// The status that a PUT with such a header is refused with.
    pub refused_with: Option<u16>,
    /// So many were.
    pub refused: usize,
    /// The headers of those that were taken, by path and name.
    pub taken: BTreeMap<(String, String), String>,
}

impl StatedDigests {
    /// The refusal, unless the request may pass.
    pub(crate) fn refuses(&mut self, request: &Request) -> Option<Answer> {
        let stated: Vec<_> = FIELDS.iter().filter_map(|name| Some((*name, request.header(name)?))).collect();
        if request.method != "PUT" || stated.is_empty() {
            return None;
        }
        if let Some(status) = self.refused_with {
            self.refused += 1;
            return Some(Answer::new(status));
        }
        let named = stated.into_iter().map(|(name, value)| ((request.path.clone(), name.to_owned()), value.to_owned()));
        self.taken.extend(named);
        None
    }
}
