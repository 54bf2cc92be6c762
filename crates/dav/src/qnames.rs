//! The XML elements that this client knows.

use std::borrow::Cow;

use crate::xml::{LONGEST, XmlProblem};

const DAV: &str = "DAV:";
const APACHE: &str = "http://apache.org/dav/props/";
const MOD_DAV: &str = "http://apache.org/dav/xmlns";
const MICROSOFT: &str = "urn:schemas-microsoft-com:";
const OWNCLOUD: &str = "http://owncloud.org/ns";
const SABRE: &str = "http://sabredav.org/ns";

/// A qualified XML name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QName {
    /// Its namespace; empty if it has none.
    pub namespace: Cow<'static, str>,
    /// Its name within the namespace.
    pub local: Cow<'static, str>,
}

macro_rules! tags {
    ($($tag:ident = $namespace:ident $local:literal),+ $(,)?) => {
        /// A known element.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Element {
            $($tag,)+
            Other,
        }

        impl Element {
            /// The element of this name. The case of the namespace is ignored, since some servers write `dav:`.
            pub(crate) fn of(namespace: &str, local: &str) -> Self {
                $(if local == $local && namespace.eq_ignore_ascii_case($namespace) {
                    return Self::$tag;
                })+
                Self::Other
            }

            /// The name of a known element.
            pub(crate) fn name(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$tag => ($namespace, $local),)+
                    Self::Other => ("", ""),
                }
            }
        }
    };
}

tags! {
    ResourceType = DAV "resourcetype",
    Collection = DAV "collection",
    Length = DAV "getcontentlength",
    Modified = DAV "getlastmodified",
    Validator = DAV "getetag",
    Href = DAV "href",
    Prop = DAV "prop",
    Propstat = DAV "propstat",
    Status = DAV "status",
    Response = DAV "response",
    Multistatus = DAV "multistatus",
    Description = DAV "responsedescription",
    Error = DAV "error",
    Location = DAV "location",
    SyncToken = DAV "sync-token",
    Created = DAV "creationdate",
    ContentType = DAV "getcontenttype",
    QuotaAvailable = DAV "quota-available-bytes",
    QuotaUsed = DAV "quota-used-bytes",
    LockDiscovery = DAV "lockdiscovery",
    ActiveLock = DAV "activelock",
    LockScope = DAV "lockscope",
    LockType = DAV "locktype",
    LockEntry = DAV "lockentry",
    LockInfo = DAV "lockinfo",
    LockToken = DAV "locktoken",
    LockRoot = DAV "lockroot",
    Depth = DAV "depth",
    Owner = DAV "owner",
    Timeout = DAV "timeout",
    Exclusive = DAV "exclusive",
    Shared = DAV "shared",
    Write = DAV "write",
    SupportedLock = DAV "supportedlock",
    ReportSet = DAV "supported-report-set",
    SupportedReport = DAV "supported-report",
    Report = DAV "report",
    SyncCollection = DAV "sync-collection",
    SyncLevel = DAV "sync-level",
    Limit = DAV "limit",
    Results = DAV "nresults",
    Propfind = DAV "propfind",
    Update = DAV "propertyupdate",
    Set = DAV "set",
    Remove = DAV "remove",
    AllProp = DAV "allprop",
    Executable = APACHE "executable",
    WinCreated = MICROSOFT "Win32CreationTime",
    WinAccessed = MICROSOFT "Win32LastAccessTime",
    WinModified = MICROSOFT "Win32LastModifiedTime",
    WinAttributes = MICROSOFT "Win32FileAttributes",
    Checksums = OWNCLOUD "checksums",
    Checksum = OWNCLOUD "checksum",
    SabreMessage = SABRE "message",
    ApacheMessage = MOD_DAV "human-readable",
}

impl QName {
    /// The name of a property that clients may set; none unless it is an XML name without a colon.
    pub fn of_property(namespace: &str, local: &str) -> Option<Self> {
        let is_first = |char: char| char.is_alphabetic() || char == '_';
        let is_next = |char: char| char.is_alphanumeric() || "-._".contains(char);
        let is_name = local.starts_with(is_first) && local.chars().all(is_next);
        let is_sound = is_name && !namespace.chars().any(char::is_control);
        is_sound.then(|| Self { namespace: namespace.to_owned().into(), local: local.to_owned().into() })
    }

    /// Whether it belongs to the protocol, so that the server decides on its value.
    pub fn is_of_server(&self) -> bool {
        [DAV, APACHE, OWNCLOUD, SABRE, "http://nextcloud.org/ns"]
            .iter()
            .any(|own| self.namespace.eq_ignore_ascii_case(own))
    }

    /// The name of an element, without a copy if it is known.
    pub(crate) fn new(tag: Element, namespace: &str, local: &str) -> Self {
        if tag == Element::Other {
            Self { namespace: namespace.to_owned().into(), local: local.to_owned().into() }
        } else {
            let (namespace, local) = tag.name();
            Self { namespace: namespace.into(), local: local.into() }
        }
    }
}

/// The path from the root to the current element, and the text of the innermost element.
#[derive(Debug, Default)]
pub(crate) struct ElementPath {
    pub(crate) path: Vec<Element>,
    pub(crate) text: String,
}

impl ElementPath {
    pub(crate) fn open(&mut self, tag: Element) {
        if !self.in_owner() {
            self.text.clear();
        }
        self.path.push(tag);
    }

    /// Keeps the text of elements whose text is used.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), XmlProblem> {
        let is_property = matches!(self.path.as_slice(), [.., Element::Prop, Element::Other]);
        if self.in_owner() || is_property || self.path.last().is_some_and(|tag| tag.has_text()) {
            self.text.push_str(text);
        }
        if self.text.len() > LONGEST { Err(XmlProblem::Long) } else { Ok(()) }
    }

    pub(crate) fn close(&mut self) {
        self.path.pop();
        if !self.in_owner() {
            self.text.clear();
        }
    }

    /// A lock's owner may be any XML (RFC 4918 §14.17), whose text is concatenated.
    fn in_owner(&self) -> bool {
        self.path.contains(&Element::Owner)
    }
}

impl Element {
    fn has_text(self) -> bool {
        matches!(
            self,
            Self::Href
                | Self::Status
                | Self::Description
                | Self::SyncToken
                | Self::Length
                | Self::Modified
                | Self::Created
                | Self::Validator
                | Self::ContentType
                | Self::QuotaAvailable
                | Self::QuotaUsed
                | Self::Depth
                | Self::Timeout
                | Self::Executable
                | Self::WinCreated
                | Self::WinAccessed
                | Self::WinModified
                | Self::WinAttributes
                | Self::Checksum
                | Self::SabreMessage
                | Self::ApacheMessage
        )
    }
}
