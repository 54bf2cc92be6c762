//! Digests in the headers of uploads, and servers that refuse them.

use std::collections::BTreeMap;

use crate::message::{Request, Response};

const FIELDS: [&str; 3] = ["repr-digest", "content-digest", "oc-checksum"];

/// The digests that uploads have sent.
#[derive(Debug, Default)]
pub struct UploadDigests {
    /// The status of a PUT with such a header, if they are refused.
    pub refused_with: Option<u16>,
    /// The number of refused uploads.
    pub refused: usize,
    /// The headers of accepted uploads, by path and name.
    pub accepted: BTreeMap<(String, String), String>,
}

impl UploadDigests {
    /// The response, if the request is refused.
    pub(crate) fn refuse(&mut self, request: &Request) -> Option<Response> {
        let stated: Vec<_> = FIELDS.iter().filter_map(|name| Some((*name, request.header(name)?))).collect();
        if request.method != "PUT" || stated.is_empty() {
            return None;
        }
        if let Some(status) = self.refused_with {
            self.refused += 1;
            return Some(Response::new(status));
        }
        let named = stated.into_iter().map(|(name, value)| ((request.path.clone(), name.to_owned()), value.to_owned()));
        self.accepted.extend(named);
        None
    }
}
