//! Dead properties, which clients set with `PROPPATCH` (RFC 4918 §4.1).
//!
//! They are stored in one extended attribute of the file or directory. So they are moved, renamed and deleted with it
//! in the same system call, survive a local `mv`, and need no database that could disagree with the files. The cost is
//! the file system's limit: ext4 keeps about 4 KiB per file, xfs and btrfs up to 64 KiB. A larger set is stored in a
//! file, and the attribute refers to it: see [`property_files`]. Beyond [`property_files::MAX_SIZE`], and on file
//! systems without user attributes, `PROPPATCH` gets 507. A set that does not fit changes nothing.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::PoisonError;

use dav_server::fs::{DavProp, FsResult};
use http::StatusCode;
use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::metadata::Meta;
use super::property_files::{self, Id};
use super::root::{Root, refusal};
use super::staged_upload::COMMIT;

const ATTRIBUTE: &str = "user.longhaul.properties";

/// The maximum size of an attribute on any Linux file system.
const LIMIT: usize = 64 * 1024;

/// A stored property; the attribute holds a JSON array of these.
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

/// The attribute's raw value, for another file. `None` if it is missing or unreadable.
pub(crate) fn raw(file: impl AsFd) -> Option<Vec<u8>> {
    rustix::fs::fgetxattr_query(&file, ATTRIBUTE).ok()?;
    let mut value = Vec::with_capacity(LIMIT);
    rustix::fs::fgetxattr(file, ATTRIBUTE, rustix::buffer::spare_capacity(&mut value)).ok()?;
    Some(value)
}

/// Sets a value read by [`raw`] on another file.
pub(crate) fn set_raw(file: impl AsFd, value: &[u8]) -> rustix::io::Result<()> {
    rustix::fs::fsetxattr(file, ATTRIBUTE, value, XattrFlags::empty())
}

/// Sets a value read by [`raw`] on another file, or removes the attribute.
pub(crate) fn set_raw_or_none(file: impl AsFd, value: Option<&[u8]>) -> rustix::io::Result<()> {
    match value {
        Some(value) => set_raw(file, value),
        None => match rustix::fs::fremovexattr(file, ATTRIBUTE) {
            Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            other => other,
        },
    }
}

/// Opens a name to read its properties.
pub(crate) fn open(dir: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

/// The property file that an attribute refers to, if it does.
pub(crate) fn reference(value: &[u8]) -> Option<Id> {
    Id::parse(&serde_json::from_slice::<String>(value).ok()?)
}

/// The property file to remove together with an open file.
pub(crate) fn last_reference(file: impl AsFd) -> Option<Id> {
    let id = reference(&raw(&file)?)?;
    // Another hard link still needs it.
    let meta = Meta::of(&file).ok()?;
    (meta.kind().is_dir() || meta.links() <= 1).then_some(id)
}

/// The attribute for a copy of a file; copies the property file that it refers to.
pub(crate) fn copied(root: &Root, value: Vec<u8>) -> rustix::io::Result<Option<Vec<u8>>> {
    let Some(id) = reference(&value) else { return Ok(Some(value)) };
    let Some(set) = property_files::read(root, &id) else { return Ok(None) };
    property_files::write(root, &set).map(|copy| Some(refer(&copy)))
}

fn refer(id: &Id) -> Vec<u8> {
    format!("\"{}\"", id.as_str()).into_bytes()
}

/// The properties of an open file. Unreadable ones are logged and ignored.
pub(crate) fn read(root: &Root, file: impl AsFd) -> Vec<DavProp> {
    stored(root, file)
        .into_iter()
        .map(|s| DavProp { name: s.name, prefix: s.prefix, namespace: s.namespace, xml: Some(s.xml.into_bytes()) })
        .collect()
}

fn stored(root: &Root, file: impl AsFd) -> Vec<Stored> {
    let value = raw(file).and_then(|value| match reference(&value) {
        Some(id) => property_files::read(root, &id).or_else(|| {
            tracing::warn!("property file {} is missing in {}", id.as_str(), property_files::FOLDER);
            None
        }),
        None => Some(value),
    });
    value.map_or_else(Vec::new, |value| {
        serde_json::from_slice(&value).unwrap_or_else(|error| {
            tracing::warn!("ignoring a malformed attribute {ATTRIBUTE}: {error}");
            Vec::new()
        })
    })
}

/// Sets (`true`) and removes (`false`) properties, all or none.
pub(crate) fn patch(
    root: &Root,
    file: &OwnedFd,
    changes: Vec<(bool, DavProp)>,
) -> FsResult<Vec<(StatusCode, DavProp)>> {
    let mut all = stored(root, file);
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
    let set = if all.is_empty() { Vec::new() } else { serde_json::to_vec(&all).unwrap_or_default() };
    let outcome = put(root, file, &set);
    let status = match outcome {
        Ok(()) => StatusCode::OK,
        Err(Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG | Errno::RANGE | Errno::OPNOTSUPP) => {
            StatusCode::INSUFFICIENT_STORAGE
        }
        Err(errno) => return Err(refusal(errno)),
    };
    Ok(changes.into_iter().map(|(_, property)| (status, DavProp { xml: None, ..property })).collect())
}

/// Stores a set in the attribute, or in a file if it is large.
fn put(root: &Root, file: &OwnedFd, set: &[u8]) -> rustix::io::Result<()> {
    match exchange(root, file, (!set.is_empty()).then_some(set)) {
        Err(Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) if set.len() <= property_files::MAX_SIZE => {
            let id = property_files::write(root, set)?;
            exchange(root, file, Some(&refer(&id))).inspect_err(|_| property_files::remove(root, &id))
        }
        done => done,
    }
}

/// Replaces an attribute, and removes the property file of the old one.
fn exchange(root: &Root, file: &OwnedFd, value: Option<&[u8]>) -> rustix::io::Result<()> {
    let old = {
        let _alone = COMMIT.lock().unwrap_or_else(PoisonError::into_inner);
        // An upload may have replaced the file meanwhile, and taken over its properties.
        if Meta::of(file)?.links() == 0 {
            return Err(Errno::NOENT);
        }
        let old = raw(file).and_then(|value| reference(&value));
        set_raw_or_none(file, value)?;
        old
    };
    if let Some(old) = old {
        property_files::remove(root, &old);
    }
    Ok(())
}

/// The element without the XML declaration that `dav-server` prefixes.
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
    fn property_set_that_does_not_fit_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let file: OwnedFd = std::fs::File::create(folder.path().join("file")).unwrap().into();
        if set_raw(&file, b"[]") == Err(Errno::OPNOTSUPP) {
            // Bypasses the test harness's capture of output.
            let _ = writeln!(std::io::stderr(), "SKIPPED: the temporary directory keeps no user attributes");
            return;
        }
        assert_eq!(patch(&root, &file, vec![(true, property("a", "1"))]).unwrap()[0].0, StatusCode::OK);
        let huge = "x".repeat(property_files::MAX_SIZE);
        let refused = patch(&root, &file, vec![(false, property("a", "")), (true, property("b", &huge))]).unwrap();
        assert!(refused.iter().all(|(status, _)| *status == StatusCode::INSUFFICIENT_STORAGE));
        assert_eq!(read(&root, &file).into_iter().map(|p| p.name).collect::<Vec<_>>(), ["a"]);
        patch(&root, &file, vec![(false, property("a", ""))]).unwrap();
        assert!(read(&root, &file).is_empty() && raw(&file).is_none());
    }

    #[test]
    fn large_set_is_stored_in_a_file_and_removed_when_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let file: OwnedFd = std::fs::File::create(folder.path().join("file")).unwrap().into();
        // Larger than an attribute on any file system.
        let value = "x".repeat(100 * 1024);
        let patched = patch(&root, &file, vec![(true, property("a", &value))]).unwrap();
        if patched[0].0 == StatusCode::INSUFFICIENT_STORAGE && set_raw(&file, b"[]") == Err(Errno::OPNOTSUPP) {
            let _ = writeln!(std::io::stderr(), "SKIPPED: the temporary directory keeps no user attributes");
            return;
        }
        assert_eq!(patched[0].0, StatusCode::OK);
        patch(&root, &file, vec![(true, property("b", "1"))]).unwrap();
        let kept = read(&root, &file);
        assert_eq!(kept.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(String::from_utf8_lossy(kept[0].xml.as_deref().unwrap()).contains(&value));
        assert_eq!(property_files::all(&root).len(), 1, "the one before is removed");
        patch(&root, &file, vec![(false, property("a", ""))]).unwrap();
        assert!(property_files::all(&root).is_empty() && read(&root, &file).len() == 1);
    }

    #[test]
    fn xml_declaration_is_removed_from_a_property() {
        assert_eq!(element(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a/>"), "<a/>");
        assert_eq!(element(b"<a/>"), "<a/>");
    }
}
