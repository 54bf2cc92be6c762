//! Builds WebDAV requests (RFC 4918 §9, RFC 6578 §3), complete but for credentials.
//!
//! Properties are requested by name. `allprop` costs some servers a database query or a digest per file, and most of it would
//! be ignored.

use std::time::Duration;

use bytes::Bytes;
use haul_http::Origin;
use http::{HeaderName, HeaderValue, Method, Request, Uri, header};
use quick_xml::escape::escape;

use crate::{
    Properties,
    content_encoding::ACCEPTED,
    lock_token::LockToken,
    path::{PathError, PathProblem, RemotePath},
    preconditions::{If, Precondition},
    qnames::{Element, QName},
};

/// The header `Depth` (RFC 4918 §10.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Depth {
    /// The resource itself.
    Zero,
    /// The folder and its direct members.
    One,
    /// The folder and everything below. Many servers refuse this for PROPFIND.
    Infinity,
}

impl Depth {
    fn value(self) -> &'static str {
        match self {
            Self::Zero => "0",
            Self::One => "1",
            Self::Infinity => "infinity",
        }
    }
}

/// The properties to request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PropertySet(&'static [Element]);

impl PropertySet {
    /// For listings, copies and mirrors: kind, length, time and entity tag. Cheap for every server.
    pub const LISTING: Self = Self(&[Element::ResourceType, Element::Length, Element::Modified, Element::Validator]);
    /// The same, and ownCloud's digests.
    pub const DIGESTS: Self =
        Self(&[Element::ResourceType, Element::Length, Element::Modified, Element::Validator, Element::Checksums]);
    /// Entity tags alone.
    pub(crate) const ETAGS: Self = Self(&[Element::Validator]);
    /// The same as [`Self::LISTING`], and the sync token for a later [`crate::Dav::changes`].
    pub const STATE: Self = Self(&[
        Element::ResourceType,
        Element::Length,
        Element::Modified,
        Element::Validator,
        Element::ReportSet,
        Element::SyncToken,
    ]);
    /// Active locks. Separate from the others, because Apache searches its lock database for each file.
    pub const LOCKS: Self = Self(&[Element::LockDiscovery]);
    /// The capabilities of a folder.
    pub const CAPABILITIES: Self = Self(&[
        Element::ResourceType,
        Element::Validator,
        Element::SupportedLock,
        Element::ReportSet,
        Element::SyncToken,
        Element::QuotaAvailable,
        Element::QuotaUsed,
    ]);
    /// Every known property of one resource.
    pub const DETAILS: Self = Self(&[
        Element::ResourceType,
        Element::Length,
        Element::Modified,
        Element::Validator,
        Element::Created,
        Element::ContentType,
        Element::LockDiscovery,
        Element::SupportedLock,
        Element::QuotaAvailable,
        Element::QuotaUsed,
        Element::Checksums,
        Element::Executable,
        Element::WinCreated,
        Element::WinAccessed,
        Element::WinModified,
        Element::WinAttributes,
    ]);

    fn prop(self) -> String {
        element(Element::Prop, &self.0.iter().map(|tag| element(*tag, "")).collect::<String>())
    }
}

/// A property to set. Windows' times are not supported: Apache stores a `Win32LastModifiedTime` but still lists the
/// time of the upload, rclone refuses it, and nginx has no PROPPATCH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Windows file attributes (`Win32FileAttributes`).
    Attributes(u32),
    /// Apache's `executable`.
    Executable(bool),
}

impl Setting {
    fn element(self) -> String {
        match self {
            Self::Attributes(bits) => element(Element::WinAttributes, &format!("{bits:08x}")),
            Self::Executable(flag) => element(Element::Executable, if flag { "T" } else { "F" }),
        }
    }

    /// Whether a resource has this property.
    pub(crate) fn is_in(self, found: &Properties) -> bool {
        match self {
            Self::Attributes(bits) => found.windows.attributes == Some(bits),
            Self::Executable(flag) => found.executable == Some(flag),
        }
    }
}

/// Builds the requests to one server.
#[derive(Debug, Clone)]
pub struct Requests {
    origin: Origin,
}

/// A request, if its path can be in a URL.
pub(crate) type Made = Result<Request<Bytes>, PathError>;

impl Requests {
    /// A builder for requests to this server.
    pub fn to(origin: Origin) -> Self {
        Self { origin }
    }

    /// The server.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The URL of a path.
    pub fn url(&self, path: &RemotePath) -> Result<Uri, PathError> {
        let url = format!("{}{}", self.origin, path.target());
        // Nothing else can be wrong with it here.
        url.parse().map_err(|_| PathError { path: path.to_string().chars().take(80).collect(), why: PathProblem::Long })
    }

    /// A request without headers and with an empty body.
    pub fn plain(&self, method: Method, path: &RemotePath) -> Made {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = self.url(path)?;
        *request.method_mut() = method;
        Ok(request)
    }

    fn extended(&self, method: &'static str, path: &RemotePath) -> Made {
        self.plain(Method::from_bytes(method.as_bytes()).expect("WebDAV's methods are tokens"), path)
    }

    fn with_body(&self, method: &'static str, path: &RemotePath, body: String) -> Made {
        let mut request = self.extended(method, path)?;
        let xml = HeaderValue::from_static("application/xml; charset=utf-8");
        request.headers_mut().insert(header::CONTENT_TYPE, xml);
        *request.body_mut() = body.into();
        Ok(request)
    }

    /// PUT, with an empty body that the caller replaces.
    pub fn put(&self, path: &RemotePath, precondition: &Precondition, locks: &If) -> Made {
        let mut request = self.plain(Method::PUT, path)?;
        precondition.apply(request.headers_mut());
        locks.apply(request.headers_mut(), &self.origin, path);
        Ok(request)
    }

    /// DELETE, for a folder with its contents (RFC 4918 §9.6).
    pub fn delete(&self, path: &RemotePath, precondition: &Precondition, locks: &If) -> Made {
        let mut request = self.plain(Method::DELETE, path)?;
        precondition.apply(request.headers_mut());
        locks.apply_to_removal(request.headers_mut(), &self.origin);
        Ok(request)
    }

    /// MKCOL (RFC 4918 §9.3). The parent must exist; if the folder exists already, the answer is 405.
    pub fn mkcol(&self, path: &RemotePath, locks: &If) -> Made {
        let path = path.clone().as_folder(true);
        let mut request = self.extended("MKCOL", &path)?;
        locks.apply(request.headers_mut(), &self.origin, &path);
        Ok(request)
    }

    /// COPY (RFC 4918 §9.8), for a folder with its contents or, at depth 0, without.
    pub fn copy(&self, from: &RemotePath, to: &RemotePath, overwrite: bool, depth: Depth, locks: &If) -> Made {
        let mut request = self.transfer("COPY", from, to, overwrite, locks)?;
        // COPY allows only depth 0 and infinity (RFC 4918 §9.8.3).
        let depth = if depth == Depth::Zero { depth } else { Depth::Infinity };
        set(&mut request, "depth", depth.value());
        Ok(request)
    }

    /// MOVE (RFC 4918 §9.9), for a folder with its contents.
    pub fn rename(&self, from: &RemotePath, to: &RemotePath, overwrite: bool, locks: &If) -> Made {
        self.transfer("MOVE", from, to, overwrite, locks)
    }

    fn transfer(&self, method: &'static str, from: &RemotePath, to: &RemotePath, overwrite: bool, locks: &If) -> Made {
        let mut request = self.extended(method, from)?;
        set(&mut request, "destination", &self.url(to)?.to_string());
        set(&mut request, "overwrite", if overwrite { "T" } else { "F" });
        if method == "MOVE" {
            locks.apply_to_removal(request.headers_mut(), &self.origin);
        } else {
            locks.apply(request.headers_mut(), &self.origin, from);
        }
        Ok(request)
    }

    /// PROPFIND (RFC 4918 §9.1).
    pub fn propfind(&self, path: &RemotePath, depth: Depth, properties: PropertySet) -> Made {
        let mut request = self.with_body("PROPFIND", path, document(Element::Propfind, &properties.prop()))?;
        set(&mut request, "depth", depth.value());
        // The answer about a single resource is short enough.
        if depth != Depth::Zero {
            set(&mut request, "accept-encoding", ACCEPTED);
        }
        Ok(request)
    }

    /// PROPFIND for all properties of one resource (RFC 4918 §9.1.5), because only the server knows the dead ones.
    pub fn propfind_all(&self, path: &RemotePath) -> Made {
        let mut request =
            self.with_body("PROPFIND", path, document(Element::Propfind, &element(Element::AllProp, "")))?;
        set(&mut request, "depth", Depth::Zero.value());
        Ok(request)
    }

    /// PROPPATCH that sets a dead property to a text, or removes it. The name must be an XML name without a colon.
    pub fn set_property(&self, path: &RemotePath, name: &QName, text: Option<&str>, locks: &If) -> Made {
        let (namespace, local) = (escape_attribute(&name.namespace), &name.local);
        let (tag, inner) = match text {
            Some(text) => (Element::Set, escape_attribute(text)),
            None => (Element::Remove, String::new()),
        };
        // Without a namespace, a prefix cannot be used (Namespaces in XML §5).
        let property = match namespace.as_str() {
            "" => format!("<{local} xmlns=\"\">{inner}</{local}>"),
            namespace => format!("<x:{local} xmlns:x=\"{namespace}\">{inner}</x:{local}>"),
        };
        let body = document(Element::Update, &element(tag, &element(Element::Prop, &property)));
        let mut request = self.with_body("PROPPATCH", path, body)?;
        locks.apply(request.headers_mut(), &self.origin, path);
        Ok(request)
    }

    /// PROPPATCH (RFC 4918 §9.2), which is atomic.
    pub fn proppatch(&self, path: &RemotePath, settings: &[Setting], locks: &If) -> Made {
        let settings: String = settings.iter().map(|setting| setting.element()).collect();
        let body = document(Element::Update, &element(Element::Set, &element(Element::Prop, &settings)));
        let mut request = self.with_body("PROPPATCH", path, body)?;
        locks.apply(request.headers_mut(), &self.origin, path);
        Ok(request)
    }

    /// LOCK for an exclusive write lock (RFC 4918 §9.10). Other clients see `owner`. A folder is locked with its
    /// contents.
    pub fn lock(&self, path: &RemotePath, owner: &str, lasting: Duration) -> Made {
        let scope = element(Element::LockScope, &element(Element::Exclusive, ""));
        let kind = element(Element::LockType, &element(Element::Write, ""));
        let owner = element(Element::Owner, &escape(printable(owner)));
        let mut request = self.with_body("LOCK", path, document(Element::LockInfo, &(scope + &kind + &owner)))?;
        let depth = if path.is_folder() { Depth::Infinity } else { Depth::Zero };
        set(&mut request, "depth", depth.value());
        set(&mut request, "timeout", &timeout(lasting));
        Ok(request)
    }

    /// LOCK to refresh (RFC 4918 §9.10.2). 412 means that the lock is lost.
    pub fn refresh(&self, path: &RemotePath, token: &LockToken, lasting: Duration) -> Made {
        let mut request = self.extended("LOCK", path)?;
        If::default().locked(path, token.clone()).apply(request.headers_mut(), &self.origin, path);
        set(&mut request, "timeout", &timeout(lasting));
        Ok(request)
    }

    /// UNLOCK (RFC 4918 §9.11).
    pub fn unlock(&self, path: &RemotePath, token: &LockToken) -> Made {
        let mut request = self.extended("UNLOCK", path)?;
        set(&mut request, "lock-token", &token.to_string());
        Ok(request)
    }

    /// REPORT `sync-collection` (RFC 6578 §3.2): the changes since `token`, or without it all members. Servers may
    /// ignore `limit`.
    pub fn sync_collection(
        &self,
        path: &RemotePath,
        token: Option<&str>,
        depth: Depth,
        limit: Option<u32>,
        properties: PropertySet,
    ) -> Made {
        let token = element(Element::SyncToken, &escape(token.unwrap_or_default()));
        let level = if depth == Depth::Infinity { "infinite" } else { "1" };
        let limit = limit.map(|most| element(Element::Limit, &element(Element::Results, &most.to_string())));
        let inner = [token, element(Element::SyncLevel, level), limit.unwrap_or_default(), properties.prop()].concat();
        let mut request = self.with_body("REPORT", path, document(Element::SyncCollection, &inner))?;
        // `sync-level` holds the depth of the report (RFC 6578 §3.2).
        set(&mut request, "depth", Depth::Zero.value());
        set(&mut request, "accept-encoding", ACCEPTED);
        Ok(request)
    }
}

/// Sets a header; the value is visible ASCII.
fn set(request: &mut Request<Bytes>, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        request.headers_mut().insert(HeaderName::from_static(name), value);
    }
}

/// A `TimeType` (RFC 4918 §10.7), at least one second.
fn timeout(lasting: Duration) -> String {
    format!("Second-{}", lasting.as_secs().clamp(1, u64::from(u32::MAX)))
}

/// Text or the value of an attribute; line ends and tabs stay as they are (XML 1.0 §2.11, §3.3.3).
fn escape_attribute(text: &str) -> String {
    escape(text).replace('\r', "&#13;").replace('\n', "&#10;").replace('\t', "&#9;")
}

/// Removes characters that XML does not allow (XML 1.0 §2.2).
fn printable(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
}

/// An element with the markup `inner`.
fn element(tag: Element, inner: &str) -> String {
    let (namespace, local) = tag.name();
    let prefix = prefix(namespace);
    if inner.is_empty() {
        format!("<{prefix}:{local}/>")
    } else {
        format!("<{prefix}:{local}>{inner}</{prefix}:{local}>")
    }
}

/// A document with this root, which declares the namespaces that it uses.
fn document(root: Element, inner: &str) -> String {
    let (namespace, local) = root.name();
    let root = format!("{}:{local}", prefix(namespace));
    let namespaces =
        [Element::Prop, Element::Executable, Element::WinModified, Element::Checksums].map(|tag| tag.name().0);
    let used =
        namespaces.iter().filter(|other| **other == namespace || inner.contains(&format!("<{}:", prefix(other))));
    let declared: Vec<_> = used.map(|namespace| format!(" xmlns:{}=\"{namespace}\"", prefix(namespace))).collect();
    let declared = declared.concat();
    format!("<?xml version=\"1.0\" encoding=\"utf-8\"?><{root}{declared}>{inner}</{root}>")
}

fn prefix(namespace: &str) -> char {
    match namespace {
        "DAV:" => 'D',
        "http://apache.org/dav/props/" => 'A',
        "urn:schemas-microsoft-com:" => 'Z',
        _ => 'o',
    }
}

#[cfg(test)]
mod tests;
