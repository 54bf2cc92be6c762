//! What a server tells of one file or folder.
//!
//! A property that is missing, empty or unreadable is not there: servers differ too much for one odd date to cost
//! a listing. Only what is asked for by [`crate::Wanted`] is read.

use std::time::{Duration, SystemTime};

use crate::{
    date,
    etag::ETag,
    lock_token::LockToken,
    qnames::{Element, ElementPath},
    xml::{self, Sink, XmlError, XmlProblem},
};

/// The properties of one resource, as far as it has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    /// Whether it is a folder (`resourcetype`); `None` if the server did not say.
    pub collection: Option<bool>,
    /// Its length in bytes.
    pub length: Option<u64>,
    /// When it was last changed.
    pub modified: Option<SystemTime>,
    /// When it was created.
    pub created: Option<SystemTime>,
    /// Its entity tag.
    pub etag: Option<ETag>,
    /// Its media type.
    pub content_type: Option<String>,
    /// How many more bytes fit in (RFC 4331 §3).
    pub quota_available: Option<u64>,
    /// How many bytes are in (RFC 4331 §4).
    pub quota_used: Option<u64>,
    /// The locks on it.
    pub locks: Vec<ActiveLock>,
    /// Which locks it can have.
    pub lockable: Lockable,
    /// Digests of its content, as ownCloud and Nextcloud keep them: `SHA1:da39a3ee…`, one each.
    pub checksums: Vec<String>,
    /// Apache's flag for a program.
    pub executable: Option<bool>,
    /// What the Windows redirector keeps.
    pub windows: Windows,
    /// The state of a folder for a later `sync-collection` (RFC 6578 §4).
    pub sync_token: Option<String>,
    /// Whether it answers the report `sync-collection` (`supported-report-set`, RFC 3253 §3.1.5).
    pub syncs: bool,
}

/// A lock that somebody holds (RFC 4918 §14.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActiveLock {
    /// The token; servers may hide it from others than its owner.
    pub token: Option<LockToken>,
    /// Who, in their client's words.
    pub owner: Option<String>,
    /// Whether others may hold one too.
    pub shared: bool,
    /// Whether it holds for all that is in the folder.
    pub infinite_depth: bool,
    /// How long it lasts from when the server said so; `None` if it does not end by itself or is not told.
    pub timeout: Option<Duration>,
    /// The href of what was locked.
    pub root: Option<String>,
}

/// Which write locks are offered (`supportedlock`, RFC 4918 §15.10).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lockable {
    /// A lock for one alone.
    pub exclusive: bool,
    /// A lock for several at once.
    pub shared: bool,
}

/// The Windows redirector's properties.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Windows {
    /// When the file was created.
    pub created: Option<SystemTime>,
    /// When it was last read.
    pub accessed: Option<SystemTime>,
    /// When it was last changed.
    pub modified: Option<SystemTime>,
    /// Its attributes, as in `FILE_ATTRIBUTE_…`.
    pub attributes: Option<u32>,
}

impl Properties {
    /// The properties in the body of an answer to LOCK (RFC 4918 §9.10.1).
    pub fn read(body: &[u8]) -> Result<Self, XmlError> {
        Ok(xml::read(body, Lone::default())?.properties)
    }

    /// An element below `prop` begins; its ancestors there, outermost first.
    pub(crate) fn open(&mut self, within: &[Element], tag: Element) {
        match (within, tag) {
            ([], Element::ResourceType) => self.collection = Some(false),
            ([Element::ResourceType], Element::Collection) => self.collection = Some(true),
            ([Element::LockDiscovery], Element::ActiveLock) => self.locks.push(ActiveLock::default()),
            ([Element::LockDiscovery, Element::ActiveLock, Element::LockScope], Element::Shared) => {
                if let Some(lock) = self.locks.last_mut() {
                    lock.shared = true;
                }
            }
            ([Element::SupportedLock, Element::LockEntry, Element::LockScope], Element::Exclusive) => {
                self.lockable.exclusive = true;
            }
            ([Element::SupportedLock, Element::LockEntry, Element::LockScope], Element::Shared) => {
                self.lockable.shared = true;
            }
            ([Element::ReportSet, Element::SupportedReport, Element::Report], Element::SyncCollection) => {
                self.syncs = true;
            }
            _ => {}
        }
    }

    /// An element below `prop` ends; its place there, outermost first, and its text.
    pub(crate) fn close(&mut self, place: &[Element], text: &str) {
        if text.is_empty() {
            return;
        }
        match place {
            [Element::Length] => self.length = text.parse().ok(),
            [Element::Modified] => self.modified = date::parse(text),
            [Element::Created] => self.created = date::parse(text),
            [Element::Validator] => self.etag = ETag::parse(text),
            [Element::ContentType] => self.content_type = Some(text.to_owned()),
            // ownCloud says -1 to -3 where it does not know or there is no limit.
            [Element::QuotaAvailable] => self.quota_available = text.parse().ok(),
            [Element::QuotaUsed] => self.quota_used = text.parse().ok(),
            [Element::SyncToken] => self.sync_token = Some(text.to_owned()),
            // Nextcloud writes several into one element.
            [Element::Checksums, Element::Checksum] => {
                self.checksums.extend(text.split_whitespace().map(str::to_owned));
            }
            [Element::Executable] => self.executable = Some(text.eq_ignore_ascii_case("T")),
            [Element::WinCreated] => self.windows.created = date::parse(text),
            [Element::WinAccessed] => self.windows.accessed = date::parse(text),
            [Element::WinModified] => self.windows.modified = date::parse(text),
            [Element::WinAttributes] => self.windows.attributes = u32::from_str_radix(text, 16).ok(),
            [Element::LockDiscovery, Element::ActiveLock, within @ ..] => {
                if let Some(lock) = self.locks.last_mut() {
                    lock.close(within, text);
                }
            }
            _ => {}
        }
    }
}

impl ActiveLock {
    fn close(&mut self, place: &[Element], text: &str) {
        match place {
            [Element::Depth] => self.infinite_depth = text.eq_ignore_ascii_case("infinity"),
            [Element::Owner] => self.owner = Some(text.split_whitespace().collect::<Vec<_>>().join(" ")),
            [Element::Timeout] => self.timeout = timeout(text),
            [Element::LockToken, Element::Href] => self.token = LockToken::parse(text),
            [Element::LockRoot, Element::Href] => self.root = Some(text.to_owned()),
            _ => {}
        }
    }
}

/// A `TimeType` (RFC 4918 §10.7): a time, or none for one that does not end.
fn timeout(text: &str) -> Option<Duration> {
    let (unit, seconds) = text.split_at_checked("Second-".len())?;
    let seconds: u64 = seconds.parse().ok().filter(|_| unit.eq_ignore_ascii_case("Second-"))?;
    // RFC 4918 bounds it so; servers that do not mean "never" by more.
    Some(Duration::from_secs(seconds.min(u64::from(u32::MAX))))
}

/// Reads a document that is one `prop`.
#[derive(Default)]
struct Lone {
    trail: ElementPath,
    properties: Properties,
}

impl Sink for Lone {
    fn open(&mut self, namespace: &str, local: &str) -> Result<(), XmlProblem> {
        let tag = Element::of(namespace, local);
        match self.trail.path.as_slice() {
            [] if tag != Element::Prop => return Err(XmlProblem::Root(local.to_owned())),
            [_, within @ ..] => self.properties.open(within, tag),
            [] => {}
        }
        self.trail.open(tag);
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), XmlProblem> {
        self.trail.text(text)
    }

    fn close(&mut self) -> Result<(), XmlProblem> {
        if let [_, place @ ..] = self.trail.path.as_slice() {
            self.properties.close(place, self.trail.text.trim());
        }
        self.trail.close();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(prop: &str) -> Properties {
        let body = format!(
            "<prop xmlns='DAV:' xmlns:o='http://owncloud.org/ns' xmlns:m='urn:schemas-microsoft-com:'>{prop}</prop>"
        );
        Properties::read(body.as_bytes()).unwrap()
    }

    #[test]
    fn an_owner_is_all_its_text() {
        let lock = |owner: &str| {
            let prop = format!(
                "<lockdiscovery><activelock><locktype><write/></locktype><lockscope><exclusive/></lockscope>\
                 <depth>infinity</depth><owner>{owner}</owner><timeout>Infinite</timeout><locktoken>\n<href> \
                 opaquelocktoken:e71d\n</href></locktoken></activelock></lockdiscovery>"
            );
            read(&prop).locks.remove(0)
        };
        let ann = lock("Ann <href>mailto:a@b</href>\n <x:y xmlns:x='z'>and <z/>others</x:y>");
        assert_eq!(ann.owner.as_deref(), Some("Ann mailto:a@b and others"));
        assert_eq!(ann.token.unwrap().as_str(), "opaquelocktoken:e71d");
        assert!(ann.infinite_depth && ann.timeout.is_none() && !ann.shared);
        assert_eq!(lock("").owner, None);
    }

    #[test]
    fn odd_values_are_none() {
        let odd = read(
            "<getcontentlength>-1</getcontentlength><getlastmodified>?</getlastmodified><getetag/>\
             <quota-available-bytes>-3</quota-available-bytes><m:Win32FileAttributes>zz</m:Win32FileAttributes>",
        );
        assert_eq!(odd, Properties::default());
        let checksums = read("<o:checksums><o:checksum>SHA1:aa MD5:bb ADLER32:cc</o:checksum></o:checksums>").checksums;
        assert_eq!(checksums, ["SHA1:aa", "MD5:bb", "ADLER32:cc"]);
    }

    #[test]
    fn timeouts_of_all_kinds() {
        let seconds = |n| Some(Duration::from_secs(n));
        for (text, expected) in [
            ("Second-604800", seconds(604_800)),
            ("second-5", seconds(5)),
            ("Second-99999999999999", seconds(4_294_967_295)),
            ("Infinite", None),
            ("ä", None),
            ("Second-", None),
        ] {
            assert_eq!(timeout(text), expected, "{text}");
        }
    }
}
