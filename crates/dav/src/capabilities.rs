//! What a server supports beyond the minimum.
//!
//! This is read from what servers say about themselves, and never from a single sign where a wrong guess would lose data.
//! Names mislead: a Nextcloud calls itself `Apache` or `nginx` in `Server`, but its WebDAV is PHP's. So Apache's own WebDAV
//! is recognised by a property set that only mod_dav_fs names, and nginx's by what it omits.

use http::{HeaderMap, Method, header};
use serde::Deserialize;

use crate::{multistatus::Entry, properties::Properties};

/// What a server supports in a folder, as far as is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
// Not grouped: each is independent of the others.
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub struct Capabilities {
    /// The `Server` header.
    pub server: Option<String>,
    /// The WebDAV implementation, if it is recognised.
    pub family: Family,
    /// Whether it supports WebDAV at all (class 1 of RFC 4918 §18, which nginx does not claim, or PROPFIND).
    pub webdav: bool,
    /// Write locks (class 2).
    pub locks: bool,
    /// The methods that the folder itself allows (`Allow`); empty if it does not say. Apache omits PUT and MKCOL, which
    /// are for resources that do not exist yet.
    pub methods: Vec<Method>,
    /// Extended MKCOL (RFC 5689).
    pub extended_mkcol: bool,
    /// Lists of changes since a sync token (RFC 6578).
    pub sync_collection: bool,
    /// PUT of a part of a file with `Content-Range`. Only mod_dav is known to write a part; others replace the whole
    /// file, or refuse (RFC 9110 §14.5).
    pub content_range_put: bool,
    /// Whether a PUT honours [`crate::Precondition`], as far as is known of this software. nginx overwrites in any
    /// case, and so do several others (seen with golang.org/x/net/webdav, rclone 1.60 and dufs 0.47).
    pub honors_preconditions: Option<bool>,
    /// The kind of entity tags in its listings.
    pub etags: ETags,
    /// `X-OC-Mtime` on a PUT sets the file's time.
    pub sets_mtime: bool,
    /// Uploads in chunks (Nextcloud's "v2").
    pub chunking: Option<Chunking>,
    /// Many small files in one request (Nextcloud's `/remote.php/dav/bulk`).
    pub bulk_upload: bool,
    /// The digests that it stores with files (`OC-Checksum`): `SHA1`, `MD5`, ….
    pub checksums: Vec<String>,
}

/// A WebDAV implementation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Family {
    /// Apache's mod_dav with files.
    Apache,
    /// nginx's dav module with dav-ext.
    Nginx,
    /// Microsoft's IIS.
    Iis,
    /// Nextcloud.
    Nextcloud,
    /// ownCloud.
    OwnCloud,
    /// Another one.
    #[default]
    Other,
}

/// The kind of entity tags that a server sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum ETags {
    /// No file has been seen yet.
    #[default]
    Unknown,
    /// None: versions differ only by time and length.
    None,
    /// Weak ones, which `If-Match` never matches.
    Weak,
    /// Strong ones.
    Strong,
}

/// Limits of chunked uploads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunking {
    /// Maximum size of a chunk in bytes, if limited.
    pub largest: Option<u64>,
    /// Maximum number of chunks in flight.
    pub parallel: u32,
}

impl Capabilities {
    /// The capabilities in an answer to OPTIONS.
    pub fn from_options(headers: &HeaderMap) -> Self {
        let server = headers.get(header::SERVER).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let classes = list(headers, "dav");
        let methods: Vec<Method> =
            list(headers, "allow").iter().filter_map(|name| name.to_uppercase().parse().ok()).collect();
        let has = |class: &str| classes.iter().any(|known| known.eq_ignore_ascii_case(class));
        let takes = |method: &str| methods.iter().any(|known| known.as_str() == method);
        let called = |name: &str| server.as_deref().is_some_and(|server| server.to_lowercase().contains(name));
        let begins = |start: &str| classes.iter().any(|known| known.to_lowercase().starts_with(start));

        let family = if begins("nextcloud-") || begins("nc-") {
            Family::Nextcloud
        } else if begins("oc-") {
            Family::OwnCloud
        } else if begins("<http://apache.org/dav/propset/fs") {
            Family::Apache
        } else if called("nginx") && !headers.contains_key("ms-author-via") && !takes("PROPPATCH") {
            Family::Nginx
        } else if called("microsoft-iis") {
            Family::Iis
        } else {
            Family::Other
        };
        let nextcloud = matches!(family, Family::Nextcloud | Family::OwnCloud);
        Self {
            webdav: has("1") || has("2") || takes("PROPFIND"),
            locks: has("2") || takes("LOCK"),
            extended_mkcol: has("extended-mkcol"),
            // Some say so here; normative is the property `supported-report-set` (RFC 6578 §3.1).
            sync_collection: has("sync-collection"),
            content_range_put: family == Family::Apache,
            honors_preconditions: match family {
                Family::Nginx => Some(false),
                Family::Apache | Family::Nextcloud | Family::OwnCloud => Some(true),
                _ => (called("longhaul") || called("lighttpd")).then_some(true),
            },
            sets_mtime: nextcloud || has("<urn:longhaul:x-oc-mtime>"),
            server,
            family,
            methods,
            ..Self::default()
        }
    }

    /// Adds what a listing entry shows: the kind of entity tags, and what a folder supports.
    pub fn see(&mut self, entry: &Entry) {
        let Properties { collection, etag, lockable, syncs, .. } = &entry.properties;
        self.sync_collection |= *syncs;
        self.locks |= lockable.exclusive;
        if *collection != Some(true) {
            let seen = etag.as_ref().map_or(ETags::None, |tag| if tag.is_weak() { ETags::Weak } else { ETags::Strong });
            // Apache's are weak for a moment after a change, so a single strong tag decides.
            self.etags = if self.etags == ETags::Strong { ETags::Strong } else { seen };
        }
    }

    /// Adds what a Nextcloud or ownCloud says of itself in JSON
    /// (`/ocs/v2.php/nextcloud/capabilities?format=json`). What is not such a document adds nothing.
    pub fn add_ocs_capabilities(&mut self, json: &[u8]) {
        let Ok(Envelope { ocs }) = serde_json::from_slice(json) else { return };
        let OcsCapabilities { dav, files, checksums } = ocs.data.capabilities;
        // ownCloud announces its older protocol by the same name, which has no `Destination` on each chunk.
        if self.family == Family::Nextcloud && dav.chunking.is_some() {
            let Chunked { max_size, max_parallel_count } = files.chunked_upload;
            let parallel = if dav.one_at_a_time { 1 } else { max_parallel_count.unwrap_or(5).max(1) };
            self.chunking = Some(Chunking { largest: max_size.filter(|most| *most > 0), parallel });
        }
        self.bulk_upload = dav.bulkupload.is_some_and(|version| version != "0.0");
        self.checksums = checksums.supported;
    }

    /// Whether the folder allows the method, or does not list methods.
    pub fn allows(&self, method: &str) -> bool {
        self.methods.is_empty() || self.methods.iter().any(|known| known.as_str() == method)
    }
}

/// The members of a list header (RFC 9110 §5.6.1), over all its lines.
fn list(headers: &HeaderMap, name: &str) -> Vec<String> {
    let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(|item| item.trim().to_owned()).filter(|item| !item.is_empty()).collect()
}

#[derive(Deserialize)]
struct Envelope {
    ocs: Ocs,
}

#[derive(Deserialize)]
struct Ocs {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    capabilities: OcsCapabilities,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OcsCapabilities {
    dav: DavCapabilities,
    files: FilesCapabilities,
    checksums: ChecksumCapabilities,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct DavCapabilities {
    chunking: Option<String>,
    bulkupload: Option<String>,
    #[serde(rename = "chunkingParallelUploadDisabled")]
    one_at_a_time: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FilesCapabilities {
    chunked_upload: Chunked,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Chunked {
    max_size: Option<u64>,
    max_parallel_count: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ChecksumCapabilities {
    #[serde(rename = "supportedTypes")]
    supported: Vec<String>,
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::{ETag, RemotePath};

    /// From the lines of a head.
    fn options(lines: &str) -> Capabilities {
        let header = |line: &'static str| {
            let (name, value) = line.split_once(": ").unwrap();
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in lines.to_owned().leak().lines().map(header) {
            headers.append(name, value);
        }
        Capabilities::from_options(&headers)
    }

    #[test]
    fn apache_supports_partial_put() {
        // As Apache 2.4.71 answers.
        let apache = options(
            "Server: Apache/2.4.71 (Debian)\nDAV: 1,2\nDAV: <http://apache.org/dav/propset/fs/1>\nMS-Author-Via: DAV\n\
             Allow: OPTIONS,GET,HEAD,POST,DELETE,TRACE,PROPFIND,PROPPATCH,COPY,MOVE,LOCK,UNLOCK",
        );
        assert_eq!(apache.family, Family::Apache);
        assert!(
            apache.content_range_put
                && apache.locks
                && apache.honors_preconditions == Some(true)
                && !apache.extended_mkcol
        );
        // It does not list PUT among what a folder takes.
        assert!(apache.allows("PROPPATCH") && !apache.allows("PUT"));
    }

    #[test]
    fn nginx_ignores_preconditions() {
        // As nginx 1.22.1 with dav-ext answers.
        let nginx = options(
            "Server: nginx/1.22.1\nDAV: 2\nAllow: GET,HEAD,PUT,DELETE,MKCOL,COPY,MOVE,PROPFIND,OPTIONS,LOCK,UNLOCK",
        );
        assert_eq!(nginx.family, Family::Nginx);
        assert!(nginx.webdav && nginx.locks && nginx.honors_preconditions == Some(false) && !nginx.allows("PROPPATCH"));
    }

    #[test]
    fn nextcloud_behind_apache_is_recognised() {
        let mut nextcloud = options(
            "Server: Apache/2.4.71 (Debian)\nDAV: 1, 3, extended-mkcol, access-control, oc-resource-sharing\n\
             DAV: nextcloud-checksum-update, nc-calendar-search",
        );
        assert_eq!(nextcloud.family, Family::Nextcloud);
        assert!(nextcloud.extended_mkcol && nextcloud.sets_mtime && !nextcloud.locks && !nextcloud.content_range_put);
        assert!(nextcloud.allows("PUT") && nextcloud.chunking.is_none());

        nextcloud.add_ocs_capabilities(
            br#"{"ocs":{"meta":{"status":"ok"},"data":{"version":{"major":31},"capabilities":{"core":{"webdav-root":
            "remote.php/webdav"},"dav":{"chunking":"1.0","bulkupload":"1.0"},"files":{"bigfilechunking":true,
            "chunked_upload":{"max_size":104857600,"max_parallel_count":7}},"checksums":{"supportedTypes":["SHA1"],
            "preferredUploadType":"SHA1"}}}}}"#,
        );
        assert_eq!(nextcloud.chunking, Some(Chunking { largest: Some(104_857_600), parallel: 7 }));
        assert!(nextcloud.bulk_upload && nextcloud.checksums == ["SHA1"]);

        let before = nextcloud.clone();
        for junk in [&b"<html>"[..], b"{}", b"[]", br#"{"ocs":{"data":[]}}"#] {
            nextcloud.add_ocs_capabilities(junk);
            assert_eq!(nextcloud, before);
        }
        let own = options("Server: nginx/1.22.1\nDAV: 1, 3, extended-mkcol, oc-resource-sharing");
        assert_eq!(own.family, Family::OwnCloud);
    }

    #[test]
    fn unknown_server_promises_nothing_and_gets_preconditions() {
        let unknown = options("Content-Length: 0");
        assert!(!unknown.webdav && !unknown.locks && unknown.honors_preconditions.is_none() && unknown.allows("PUT"));
        assert_eq!((unknown.family, unknown.etags), (Family::Other, ETags::Unknown));
    }

    #[test]
    fn listing_shows_the_kind_of_entity_tags() {
        let entry = |collection, tag| Entry {
            path: RemotePath::root(),
            status: None,
            properties: Properties { collection: Some(collection), etag: ETag::parse(tag), ..Properties::default() },
            refused: vec![],
            conditions: vec![],
            description: None,
        };
        let mut capabilities = Capabilities::default();
        for (entry, seen) in [
            (entry(true, "\"1\""), ETags::Unknown),
            (entry(false, ""), ETags::None),
            (entry(false, "W/\"1\""), ETags::Weak),
            (entry(false, "\"1\""), ETags::Strong),
            (entry(false, "W/\"1\""), ETags::Strong),
        ] {
            capabilities.see(&entry);
            assert_eq!(capabilities.etags, seen);
        }
    }
}
