//! Properties of files and folders.
//!
//! A property that is missing, empty or unreadable is `None`: servers differ too much for one odd date to fail a whole
//! listing. Only the properties in [`crate::PropertySet`] are parsed.

use std::time::{Duration, SystemTime};

use crate::{
    date,
    etag::ETag,
    lock_token::LockToken,
    qnames::{Element, ElementPath, QName},
    xml::{self, Sink, XmlError, XmlProblem},
};

/// The properties of one resource; one field each, as WebDAV has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    /// Whether it is a folder (`resourcetype`); `None` if unknown.
    pub collection: Option<bool>,
    /// Its length in bytes.
    pub length: Option<u64>,
    /// Time of the last change.
    pub modified: Option<SystemTime>,
    /// When it was created.
    pub created: Option<SystemTime>,
    /// Its entity tag.
    pub etag: Option<ETag>,
    /// Its media type.
    pub content_type: Option<String>,
    /// Available bytes (RFC 4331 §3).
    pub quota_available: Option<u64>,
    /// Used bytes (RFC 4331 §4).
    pub quota_used: Option<u64>,
    /// The locks on it.
    pub locks: Vec<ActiveLock>,
    /// The kinds of locks that it supports.
    pub lockable: Lockable,
    /// Digests of its content from ownCloud and Nextcloud, each as `SHA1:da39a3ee…`.
    pub checksums: Vec<String>,
    /// Apache's `executable` property.
    pub executable: Option<bool>,
    /// Properties of the Windows redirector.
    pub windows: Windows,
    /// The folder's sync token (RFC 6578 §4).
    pub sync_token: Option<String>,
    /// Whether it supports the report `sync-collection` (`supported-report-set`, RFC 3253 §3.1.5).
    pub syncs: bool,
    /// All others, with their text.
    pub others: Vec<(QName, String)>,
}

/// A lock that somebody holds (RFC 4918 §14.1).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ActiveLock {
    /// The token; servers may hide it from other users.
    pub token: Option<LockToken>,
    /// The owner, as the client that locked it calls them.
    pub owner: Option<String>,
    /// Whether it is a shared lock.
    pub shared: bool,
    /// Whether it covers the contents of the folder.
    pub infinite_depth: bool,
    /// Time to its end, as of the answer; `None` if it does not expire or the server does not say.
    pub timeout: Option<Duration>,
    /// The href of what was locked.
    pub root: Option<String>,
}

/// The supported write locks (`supportedlock`, RFC 4918 §15.10).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lockable {
    /// Exclusive locks.
    pub exclusive: bool,
    /// Shared locks.
    pub shared: bool,
}

/// The Windows redirector's properties.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Windows {
    /// When the file was created.
    pub created: Option<SystemTime>,
    /// When it was last read.
    pub accessed: Option<SystemTime>,
    /// Time of the last change.
    pub modified: Option<SystemTime>,
    /// Its attributes, as in `FILE_ATTRIBUTE_…`.
    pub attributes: Option<u32>,
}

impl Properties {
    /// The properties in the body of an answer to LOCK (RFC 4918 §9.10.1).
    pub fn read(body: &[u8]) -> Result<Self, XmlError> {
        Ok(xml::read(body, Lone::default())?.properties)
    }

    /// Called for the start of an element below `prop`; `within` are its ancestors there, outermost first.
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

    /// Called for the end of an element below `prop`; `place` is its path there, outermost first.
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
            // ownCloud says -1 to -3 if it is unknown or unlimited.
            [Element::QuotaAvailable] => self.quota_available = text.parse().ok(),
            [Element::QuotaUsed] => self.quota_used = text.parse().ok(),
            [Element::SyncToken] => self.sync_token = Some(text.to_owned()),
            // Nextcloud puts several into one element.
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

/// Parses a `TimeType` (RFC 4918 §10.7); none if it is infinite.
fn timeout(text: &str) -> Option<Duration> {
    let (unit, seconds) = text.split_at_checked("Second-".len())?;
    let seconds: u64 = seconds.parse().ok().filter(|_| unit.eq_ignore_ascii_case("Second-"))?;
    // The limit of RFC 4918; servers mean "never" by more.
    Some(Duration::from_secs(seconds.min(u64::from(u32::MAX))))
}

/// Parses a document whose root is `prop`.
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
    fn lock_owner_is_all_text_of_its_element() {
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
    fn unreadable_values_are_none() {
        let odd = read(
            "<getcontentlength>-1</getcontentlength><getlastmodified>?</getlastmodified><getetag/>\
             <quota-available-bytes>-3</quota-available-bytes><m:Win32FileAttributes>zz</m:Win32FileAttributes>",
        );
        assert_eq!(odd, Properties::default());
        let checksums = read("<o:checksums><o:checksum>SHA1:aa MD5:bb ADLER32:cc</o:checksum></o:checksums>").checksums;
        assert_eq!(checksums, ["SHA1:aa", "MD5:bb", "ADLER32:cc"]);
    }

    #[test]
    fn lock_timeouts_are_parsed() {
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
