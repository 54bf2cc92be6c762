//! What has to be true of any input, for the fuzz targets in `fuzz/` and for the tests below.

use bytes::Bytes;
use dav::{Item, Multistatus, RemotePath};
use haul_http::Origin;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use percent_encoding::percent_decode_str;

use crate::{document::Document, head::Upstream, win32};

const SERVER: &str = "https://dav.example";
const BASE: &str = "/files/";

fn upstream() -> Upstream {
    let origin = Origin::of(&Uri::from_static(SERVER)).expect("it is one");
    Upstream { origin, base: BASE.to_owned() }
}

/// Whether a URL is in the folder for every reader: one that decodes once, one that takes backslashes for slashes, one that
/// ignores what follows a semicolon.
fn is_inside(url: &str) -> bool {
    let Some(path) = url.strip_prefix(SERVER) else { return false };
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let decoded = percent_decode_str(path).collect::<Vec<u8>>();
    let mut names = decoded.split(|byte| matches!(byte, b'/' | b'\\'));
    let is_dots = |name: &[u8]| matches!(name.split(|byte| *byte == b';').next(), Some(b"." | b".."));
    (path.starts_with(BASE) || path == "/files") && !names.any(is_dots)
}

/// A request's head: the target and the fields, one in each line. Whatever is passed on stays in the folder, and has no
/// field of the connection nor a forged one.
pub fn head(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let Some(target) = lines.next().and_then(|target| Uri::try_from(target).ok()) else { return };
    let mut request = Request::new(());
    *request.uri_mut() = target;
    for line in lines {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().and_then(|name| HeaderName::from_bytes(name).ok());
        let value = parts.next().and_then(|value| HeaderValue::from_bytes(value.trim_ascii()).ok());
        let Some((name, value)) = name.zip(value) else { continue };
        if name == "method" {
            *request.method_mut() = Method::from_bytes(value.as_bytes()).unwrap_or_default();
        }
        request.headers_mut().append(name, value);
    }
    let (mut parts, ()) = request.into_parts();
    let upstream = upstream();
    if upstream.answer_above(&parts).is_some() {
        assert_eq!(parts.method.as_str(), "PROPFIND");
        return;
    }
    upstream.options_above(&mut parts);
    let Ok((url, headers)) = upstream.request(&parts, [10, 0, 0, 2].into()) else { return };
    assert!(is_inside(&url.to_string()), "{url}");
    let own = [("x-forwarded-for", "10.0.0.2")];
    for (name, value) in own {
        assert!(headers.get_all(name).iter().eq([value]), "{name}");
    }
    for name in
        ["connection", "transfer-encoding", "content-length", "host", "te", "upgrade", "forwarded", "x-original-url"]
    {
        assert!(!headers.contains_key(name), "{name}");
    }
    assert!(headers.keys().all(|name| !name.as_str().contains('_')));
    let destinations: Vec<_> = headers.get_all("destination").iter().collect();
    assert!(
        destinations.len() <= 1 && destinations.iter().all(|to| to.to_str().is_ok_and(is_inside)),
        "{destinations:?}"
    );
    // Passed on once more, it is the same, but for tags that name this gateway, of which none is left.
    let mut again = parts.clone();
    (again.headers, again.uri) =
        (headers.clone(), url.path_and_query().map_or_else(Uri::default, |path| path.clone().into()));
    again.headers.insert("host", HeaderValue::from_static("other.example"));
    again.headers.remove("destination");
    if let Ok((_, twice)) = upstream.request(&again, [10, 0, 0, 2].into()) {
        assert_eq!(conditions_of(&twice), conditions_of(&headers));
    }
}

fn conditions_of(headers: &HeaderMap) -> Vec<&HeaderValue> {
    headers.get_all("if").iter().collect()
}

/// A PROPPATCH: an acknowledgement is well-formed and says what it has to.
pub fn properties(input: &[u8]) {
    let Some(names) = win32::only_sets(input) else { return };
    let answer = win32::all_set("/files/a&b", &names);
    assert!(win32::are_all_set(&answer));
    let folder = RemotePath::root();
    assert!(Document::parse(answer, &folder).is_none(), "it is no listing of a folder");
}

/// A listing: a name that another parser sees in it is not missing for this one, and each member is an answer of its own.
pub fn listing(input: &[u8]) {
    let Ok(folder) = RemotePath::from_url_path(BASE) else { return };
    let Some(document) = Document::parse(Bytes::copy_from_slice(input), &folder) else { return };
    for path in paths(input, &folder) {
        if path.same_place(&folder) {
            continue;
        }
        let name = path.name().unwrap_or_default();
        assert!(!document.lacks(name), "{path:?}");
        if let Some(member) = document.member(&path) {
            assert!(paths(&member, &folder).iter().all(|shown| shown.same_place(&path)), "{path:?}");
        }
    }
}

/// What the WebDAV client sees.
fn paths(document: &[u8], folder: &RemotePath) -> Vec<RemotePath> {
    let mut multistatus = Multistatus::new(folder.clone());
    let items: Vec<_> = multistatus.feed(document).collect();
    let entry = |item| match item {
        Ok(Item::Entry(entry)) => Some(entry.path),
        _ => None,
    };
    items.into_iter().map_while(entry).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADS: [&str; 4] = [
        "/files/a%20b?x\nhost: gw\nmethod: MOVE\ndestination: http://gw/files/c\nif: <http://gw/files/a> (<urn:uuid:1> [\"e\"]) (Not <DAV:no-lock>)",
        "http://gw:8443/files/\nmethod: PROPFIND\nconnection: close, x-own\nx-own: 1\nx_forwarded_for: 1\nte: trailers",
        "/\nmethod: OPTIONS\nhost: gw",
        "/\nmethod: PROPFIND\nhost: gw\ndepth: 1",
    ];
    const PROPERTIES: &str = "<D:propertyupdate xmlns:D=\"DAV:\" xmlns:Z=\"urn:schemas-microsoft-com:\"><D:set><D:prop><Z:Win32CreationTime>Tue</Z:Win32CreationTime><Z:Win32FileAttributes/></D:prop></D:set></D:propertyupdate>";
    const LISTING: &str = "<?xml version=\"1.0\"?><D:multistatus xmlns:D=\"DAV:\"><D:response><D:href>/files/</D:href><D:propstat><D:prop/><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response><D:response><D:href>/files/a%20&amp;b</D:href><D:propstat><D:prop/><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response></D:multistatus>";
    /// What changes an input's meaning.
    const PIECES: &str = "[-/.%2eEfFcC5\\\\;:?#@<>()\\[\\]\"'=&! \r\n\ta_xé]{0,6}|<!--|-->|<!\\[CDATA\\[|\\]\\]>|&amp;|&#47;|xmlns=\"DAV:\"|<D:href>|</D:href>|%2e%2e/|\\.\\./|\ndestination: |\nif: |\nconnection: ";

    fn changed(seed: &str, changes: &[(usize, usize, String)]) -> Vec<u8> {
        let mut bytes = seed.as_bytes().to_vec();
        for (at, gone, new) in changes {
            let at = at % (bytes.len() + 1);
            let end = (at + gone).min(bytes.len());
            bytes.splice(at..end, new.bytes());
        }
        bytes
    }

    fn changes() -> impl Strategy<Value = Vec<(usize, usize, String)>> {
        proptest::collection::vec((any::<usize>(), 0..8usize, PIECES), 0..4)
    }

    #[test]
    fn seeds_are_passed_on() {
        let inside = ["https://dav.example/files", "https://dav.example/files/a;b"];
        let outside =
            ["https://dav.example/files/%2e./x", "https://dav.example.org/files/", "https://dav.example/files/..;/x"];
        assert!(inside.into_iter().all(is_inside) && !outside.into_iter().any(is_inside));
        for seed in HEADS {
            head(seed.as_bytes());
        }
        assert!(win32::only_sets(PROPERTIES.as_bytes()).is_some());
        properties(PROPERTIES.as_bytes());
        let folder = RemotePath::from_url_path(BASE).unwrap();
        assert_eq!(paths(LISTING.as_bytes(), &folder).len(), 2);
        assert!(Document::parse(Bytes::from_static(LISTING.as_bytes()), &folder).is_some());
        listing(LISTING.as_bytes());
    }

    // `PROPTEST_CASES` sets how many.
    proptest! {
        #[test]
        fn any_head_stays_in_the_folder(seed in 0..HEADS.len(), changes in changes()) {
            head(&changed(HEADS[seed], &changes));
        }

        #[test]
        fn any_acknowledgement_is_well_formed(changes in changes()) {
            properties(&changed(PROPERTIES, &changes));
        }

        #[test]
        fn no_listed_name_is_missing(changes in changes()) {
            listing(&changed(LISTING, &changes));
        }
    }
}
