//! Dead properties: what clients attach to a file with `PROPPATCH` (RFC 4918 section 4.1).
//!
//! They live in one extended attribute of the file or directory itself. So they move, vanish and are
//! renamed with it in the same system call, survive a local `mv`, and need no database that could
//! disagree with the files. The price is the file system's limit: ext4 keeps about 4 KiB per file, xfs
//! and btrfs up to 64 KiB; beyond it, and on file systems without user attributes, `PROPPATCH` answers
//! 507. A set that does not fit changes nothing.

use std::os::fd::{AsFd, OwnedFd};

use dav_server::fs::{DavProp, FsResult};
use http::StatusCode;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::root::refusal;

const ATTRIBUTE: &str = "user.longhaul.properties";

/// The most that any Linux file system keeps in an attribute.
const LIMIT: usize = 64 * 1024;

/// One property as it is stored: a JSON array of these.
#[derive(Serialize, Deserialize)]
struct Stored {
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    #[serde(rename = "n")]
    name: String,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    /// The whole element.
    #[serde(rename = "x")]
    xml: String,
}

/// The attribute as it is, to be put on another file. `None` if there is none, or none can be had.
pub(crate) fn raw(file: impl AsFd) -> Option<Vec<u8>> {
    rustix::fs::fgetxattr_query(&file, ATTRIBUTE).ok()?;
    let mut value = Vec::with_capacity(LIMIT);
    rustix::fs::fgetxattr(file, ATTRIBUTE, rustix::buffer::spare_capacity(&mut value)).ok()?;
    Some(value)
}

/// Puts an attribute read with [`raw`] on another file.
pub(crate) fn set_raw(file: impl AsFd, value: &[u8]) -> rustix::io::Result<()> {
    rustix::fs::fsetxattr(file, ATTRIBUTE, value, XattrFlags::empty())
}

/// The properties of an open file. Unreadable ones are told to the operator and count as none.
pub(crate) fn read(file: impl AsFd) -> Vec<DavProp> {
    stored(file)
        .into_iter()
        .map(|s| DavProp { name: s.name, prefix: s.prefix, namespace: s.namespace, xml: Some(s.xml.into_bytes()) })
        .collect()
}

fn stored(file: impl AsFd) -> Vec<Stored> {
    raw(file).map_or_else(Vec::new, |value| {
        serde_json::from_slice(&value).unwrap_or_else(|error| {
            tracing::warn!("the attribute {ATTRIBUTE} of a file is not ours and is ignored: {error}");
            Vec::new()
        })
    })
}

/// Sets (`true`) and removes (`false`) properties, all or none.
pub(crate) fn patch(file: &OwnedFd, changes: Vec<(bool, DavProp)>) -> FsResult<Vec<(StatusCode, DavProp)>> {
    let mut all = stored(file);
    for (set, property) in &changes {
        all.retain(|old| old.name != property.name || old.namespace != property.namespace);
        if let (true, Some(xml)) = (*set, &property.xml) {
            all.push(Stored {
                namespace: property.namespace.clone(),
                name: property.name.clone(),
                prefix: property.prefix.clone(),
                xml: element(xml),
            });
        }
    }
    let outcome = if all.is_empty() {
        match rustix::fs::fremovexattr(file, ATTRIBUTE) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            other => other,
        }
    } else {
        set_raw(file, &serde_json::to_vec(&all).unwrap_or_default())
    };
    let status = match outcome {
        Ok(()) => StatusCode::OK,
        Err(Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG | Errno::RANGE | Errno::OPNOTSUPP) => {
            StatusCode::INSUFFICIENT_STORAGE
        }
        Err(errno) => return Err(refusal(errno)),
    };
    Ok(changes.into_iter().map(|(_, property)| (status, DavProp { xml: None, ..property })).collect())
}

/// The element without the XML declaration that `dav-server` writes before each.
fn element(xml: &[u8]) -> String {
    let text = String::from_utf8_lossy(xml);
    match text.strip_prefix("<?xml").and_then(|rest| rest.split_once("?>")) {
        Some((_, element)) => element.trim_start().to_owned(),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn property(name: &str, value: &str) -> DavProp {
        DavProp::new(name.into(), "t".into(), "urn:test".into(), value.into())
    }

    #[test]
    fn a_set_that_does_not_fit_changes_nothing() {
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        if set_raw(&file, b"[]") == Err(Errno::OPNOTSUPP) {
            // Past the test harness, which would swallow it.
            let _ = writeln!(std::io::stderr(), "SKIPPED: the temporary directory keeps no user attributes");
            return;
        }
        assert_eq!(patch(&file, vec![(true, property("a", "1"))]).unwrap()[0].0, StatusCode::OK);
        let huge = "x".repeat(LIMIT);
        let refused = patch(&file, vec![(false, property("a", "")), (true, property("b", &huge))]).unwrap();
        assert!(refused.iter().all(|(status, _)| *status == StatusCode::INSUFFICIENT_STORAGE));
        assert_eq!(read(&file).into_iter().map(|p| p.name).collect::<Vec<_>>(), ["a"]);
        patch(&file, vec![(false, property("a", ""))]).unwrap();
        assert!(read(&file).is_empty() && raw(&file).is_none());
    }

    #[test]
    fn the_declaration_goes_and_the_element_stays() {
        assert_eq!(element(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a/>"), "<a/>");
        assert_eq!(element(b"<a/>"), "<a/>");
    }
}
