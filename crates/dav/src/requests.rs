//! WebDAV's requests (RFC 4918 §9, RFC 6578 §3), ready to be sent but for credentials.
//!
//! Properties are asked for by name. To ask for all of them costs some servers a database query or a digest per
//! file, and a client has no use for what it does not know.

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
    qnames::Element,
};

/// How far below a folder a request reaches (RFC 4918 §10.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Depth {
    /// The resource itself.
    Zero,
    /// And what is directly in it.
    One,
    /// And all that is below. Many servers refuse it to PROPFIND.
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

/// The properties to ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted(&'static [Element]);

impl Wanted {
    /// What a list, a copy and a mirror need: kind, length, time and entity tag. Cheap for every server.
    pub const LISTING: Self = Self(&[Element::ResourceType, Element::Length, Element::Modified, Element::Validator]);
    /// The same, and the digests that a server of the ownCloud family keeps.
    pub const DIGESTS: Self =
        Self(&[Element::ResourceType, Element::Length, Element::Modified, Element::Validator, Element::Checksums]);
    /// Entity tags alone.
    pub(crate) const ETAGS: Self = Self(&[Element::Validator]);
    /// What a list needs, and the state of the folder for a later [`crate::Dav::changes`], if it has that.
    pub const STATE: Self = Self(&[
        Element::ResourceType,
        Element::Length,
        Element::Modified,
        Element::Validator,
        Element::ReportSet,
        Element::SyncToken,
    ]);
    /// Who holds which locks. Not among the others, since Apache looks into its lock database for every file.
    pub const LOCKS: Self = Self(&[Element::LockDiscovery]);
    /// What a folder can do.
    pub const CAPABILITIES: Self = Self(&[
        Element::ResourceType,
        Element::Validator,
        Element::SupportedLock,
        Element::ReportSet,
        Element::SyncToken,
        Element::QuotaAvailable,
        Element::QuotaUsed,
    ]);
    /// All that is known here of one resource.
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

/// A property to set. Windows' times are not among them: Apache keeps a `Win32LastModifiedTime` beside the file and goes
/// on listing the time of the upload, rclone refuses it, and nginx has no PROPPATCH.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    /// Its attributes, as Windows keeps them (`Win32FileAttributes`).
    Attributes(u32),
    /// Whether it is a program, as Apache keeps it.
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

/// Makes the requests to one server.
#[derive(Debug, Clone)]
pub struct Requests {
    origin: Origin,
}

/// A request, if its path can be in a URL.
pub(crate) type Made = Result<Request<Bytes>, PathError>;

impl Requests {
    /// The requests to this server.
    pub fn to(origin: Origin) -> Self {
        Self { origin }
    }

    /// Whom they are to.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The URL of a path.
    pub fn url(&self, path: &RemotePath) -> Result<Uri, PathError> {
        let url = format!("{}{}", self.origin, path.target());
        // The only thing that can be wrong with it by now.
        url.parse().map_err(|_| PathError { path: path.to_string().chars().take(80).collect(), why: PathProblem::Long })
    }

    /// A request with no header and an empty body: OPTIONS, GET, HEAD as they are, PUT by exchanging the body.
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

    /// PUT: the body is for the caller to exchange.
    pub fn put(&self, path: &RemotePath, precondition: &Precondition, locks: &If) -> Made {
        let mut request = self.plain(Method::PUT, path)?;
        precondition.apply(request.headers_mut());
        locks.apply(request.headers_mut(), &self.origin, path);
        Ok(request)
    }

    /// DELETE, of a folder with all that is in it (RFC 4918 §9.6).
    pub fn delete(&self, path: &RemotePath, precondition: &Precondition, locks: &If) -> Made {
        let mut request = self.plain(Method::DELETE, path)?;
        precondition.apply(request.headers_mut());
        locks.apply(request.headers_mut(), &self.origin, path);
        Ok(request)
    }

    /// MKCOL (RFC 4918 §9.3). Its parent must be there; if the folder is, the answer is 405.
    pub fn mkcol(&self, path: &RemotePath, locks: &If) -> Made {
        let path = path.clone().as_folder(true);
        let mut request = self.extended("MKCOL", &path)?;
        locks.apply(request.headers_mut(), &self.origin, &path);
        Ok(request)
    }

    /// COPY (RFC 4918 §9.8), of a folder with what is in it or as an empty one (depth 0).
    pub fn copy(&self, from: &RemotePath, to: &RemotePath, overwrite: bool, depth: Depth, locks: &If) -> Made {
        let mut request = self.transfer("COPY", from, to, overwrite, locks)?;
        // Of a folder, one level alone is not offered (RFC 4918 §9.8.3).
        let depth = if depth == Depth::Zero { depth } else { Depth::Infinity };
        set(&mut request, "depth", depth.value());
        Ok(request)
    }

    /// MOVE (RFC 4918 §9.9), of a folder always with what is in it.
    pub fn rename(&self, from: &RemotePath, to: &RemotePath, overwrite: bool, locks: &If) -> Made {
        self.transfer("MOVE", from, to, overwrite, locks)
    }

    fn transfer(&self, method: &'static str, from: &RemotePath, to: &RemotePath, overwrite: bool, locks: &If) -> Made {
        let mut request = self.extended(method, from)?;
        set(&mut request, "destination", &self.url(to)?.to_string());
        set(&mut request, "overwrite", if overwrite { "T" } else { "F" });
        locks.apply(request.headers_mut(), &self.origin, from);
        Ok(request)
    }

    /// PROPFIND (RFC 4918 §9.1).
    pub fn propfind(&self, path: &RemotePath, depth: Depth, wanted: Wanted) -> Made {
        let mut request = self.with_body("PROPFIND", path, document(Element::Propfind, &wanted.prop()))?;
        set(&mut request, "depth", depth.value());
        // What is said of one resource is short enough.
        if depth != Depth::Zero {
            set(&mut request, "accept-encoding", ACCEPTED);
        }
        Ok(request)
    }

    /// PROPPATCH (RFC 4918 §9.2): all of the settings take effect, or none.
    pub fn proppatch(&self, path: &RemotePath, settings: &[Setting], locks: &If) -> Made {
        let settings: String = settings.iter().map(|setting| setting.element()).collect();
        let body = document(Element::Update, &element(Element::Set, &element(Element::Prop, &settings)));
        let mut request = self.with_body("PROPPATCH", path, body)?;
        locks.apply(request.headers_mut(), &self.origin, path);
        Ok(request)
    }

    /// LOCK for one alone (RFC 4918 §9.10): nobody else may write it. `owner` is what others are told in the way
    /// of a name. A folder is locked with all that is in it.
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

    /// LOCK anew for longer (RFC 4918 §9.10.2). 412 means that the lock is lost.
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

    /// REPORT `sync-collection` (RFC 6578 §3.2): what changed in the folder since `token`, or all that is in it.
    /// `limit` is a wish.
    pub fn sync_collection(
        &self,
        path: &RemotePath,
        token: Option<&str>,
        depth: Depth,
        limit: Option<u32>,
        wanted: Wanted,
    ) -> Made {
        let token = element(Element::SyncToken, &escape(token.unwrap_or_default()));
        let level = if depth == Depth::Infinity { "infinite" } else { "1" };
        let limit = limit.map(|most| element(Element::Limit, &element(Element::Results, &most.to_string())));
        let inner = [token, element(Element::SyncLevel, level), limit.unwrap_or_default(), wanted.prop()].concat();
        let mut request = self.with_body("REPORT", path, document(Element::SyncCollection, &inner))?;
        // How far it reaches is said by the level (RFC 6578 §3.2).
        set(&mut request, "depth", Depth::Zero.value());
        set(&mut request, "accept-encoding", ACCEPTED);
        Ok(request)
    }
}

/// Sets a header to a value made of visible ASCII.
fn set(request: &mut Request<Bytes>, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        request.headers_mut().insert(HeaderName::from_static(name), value);
    }
}

/// RFC 4918 §10.7. Whole seconds, at least one.
fn timeout(lasting: Duration) -> String {
    format!("Second-{}", lasting.as_secs().clamp(1, u64::from(u32::MAX)))
}

/// Without the characters that XML cannot hold (XML 1.0 §2.2).
fn printable(text: &str) -> String {
    text.chars().filter(|char| !char.is_control()).collect()
}

/// The element, with `inner` as it is.
fn element(tag: Element, inner: &str) -> String {
    let (namespace, local) = tag.name();
    let prefix = prefix(namespace);
    if inner.is_empty() {
        format!("<{prefix}:{local}/>")
    } else {
        format!("<{prefix}:{local}>{inner}</{prefix}:{local}>")
    }
}

/// The document with this root, and the namespaces that it uses declared.
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
