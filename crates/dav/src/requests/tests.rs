use super::*;
use crate::etag::ETag;

fn requests() -> Requests {
    Requests::to(Origin::of(&"http://dav.example:8080/".parse().unwrap()).unwrap())
}

fn path(path: &str) -> RemotePath {
    RemotePath::from_url_path(path).unwrap()
}

/// The request's first line and headers, sorted, and its body after its declaration.
fn head_and_body(request: Made) -> (String, String) {
    let request = request.unwrap();
    let mut headers: Vec<_> =
        request.headers().iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    headers.sort();
    let head = format!("{} {}\n{}", request.method(), request.uri(), headers.join("\n"));
    let body = str::from_utf8(request.body()).unwrap();
    (head, body.trim_start_matches("<?xml version=\"1.0\" encoding=\"utf-8\"?>").to_owned())
}

const XML: &str = "content-type: application/xml; charset=utf-8";

#[test]
fn propfind_names_the_requested_properties() {
    let (head, body) = head_and_body(requests().propfind(&path("/a%20b/"), Depth::One, PropertySet::LISTING));
    assert_eq!(head, format!("PROPFIND http://dav.example:8080/a%20b/\naccept-encoding: gzip\n{XML}\ndepth: 1"));
    assert_eq!(
        body,
        "<D:propfind xmlns:D=\"DAV:\"><D:prop><D:resourcetype/><D:getcontentlength/><D:getlastmodified/><D:getetag/>\
         </D:prop></D:propfind>"
    );
    let (_, body) = head_and_body(requests().propfind(&path("/"), Depth::Zero, PropertySet::DETAILS));
    for namespace in ["xmlns:A=\"http://apache.org/dav/props/\"", "xmlns:Z=\"urn:", "xmlns:o=\"http://owncloud"] {
        assert!(body.contains(namespace), "{body}");
    }
}

#[test]
fn properties_are_set_by_one_proppatch() {
    let settings = [Setting::Attributes(0x20), Setting::Executable(true)];
    let (_, body) = head_and_body(requests().proppatch(&path("/a"), &settings, &If::default()));
    assert_eq!(
        body,
        "<D:propertyupdate xmlns:D=\"DAV:\" xmlns:A=\"http://apache.org/dav/props/\" \
         xmlns:Z=\"urn:schemas-microsoft-com:\"><D:set><D:prop><Z:Win32FileAttributes>00000020</Z:Win32FileAttributes>\
         <A:executable>T</A:executable></D:prop></D:set></D:propertyupdate>"
    );
}

#[test]
fn lock_refresh_and_unlock_requests() {
    let hour = Duration::from_hours(1);
    let (head, body) = head_and_body(requests().lock(&path("/a"), "Ann <ann@example.org> & \u{1}co", hour));
    assert_eq!(head, format!("LOCK http://dav.example:8080/a\n{XML}\ndepth: 0\ntimeout: Second-3600"));
    assert_eq!(
        body,
        "<D:lockinfo xmlns:D=\"DAV:\"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype>\
         <D:owner>Ann &lt;ann@example.org&gt; &amp; co</D:owner></D:lockinfo>"
    );
    assert!(head_and_body(requests().lock(&path("/a/"), "", hour)).0.contains("depth: infinity"));

    let token = LockToken::parse("urn:uuid:1").unwrap();
    let (head, body) = head_and_body(requests().refresh(&path("/a"), &token, Duration::ZERO));
    assert_eq!(head, "LOCK http://dav.example:8080/a\nif: (<urn:uuid:1>)\ntimeout: Second-1");
    assert_eq!(body, "");
    let (head, _) = head_and_body(requests().unlock(&path("/a"), &token));
    assert_eq!(head, "UNLOCK http://dav.example:8080/a\nlock-token: <urn:uuid:1>");
}

#[test]
fn writes_carry_their_preconditions() {
    let token = LockToken::parse("urn:uuid:1").unwrap();
    let (from, to) = (path("/a"), path("/b%20c"));
    let held = If::default().locked(&from, token);
    let unchanged = Precondition::Unchanged(ETag::parse("\"x\"").unwrap());
    assert_eq!(
        head_and_body(requests().put(&from, &unchanged, &held)).0,
        "PUT http://dav.example:8080/a\nif-match: \"x\"\nif: (<urn:uuid:1>)"
    );
    assert_eq!(
        head_and_body(requests().rename(&to, &from, false, &held)).0,
        "MOVE http://dav.example:8080/b%20c\ndestination: http://dav.example:8080/a\n\
         if: <http://dav.example:8080/a> (<urn:uuid:1>)\noverwrite: F"
    );
    assert_eq!(
        head_and_body(requests().copy(&path("/d/"), &path("/e/"), true, Depth::One, &If::default())).0,
        "COPY http://dav.example:8080/d/\ndepth: infinity\ndestination: http://dav.example:8080/e/\noverwrite: T"
    );
    assert_eq!(head_and_body(requests().mkcol(&path("/d"), &If::default())).0, "MKCOL http://dav.example:8080/d/\n");
    assert_eq!(
        head_and_body(requests().delete(&from, &Precondition::None, &If::default())).0,
        "DELETE http://dav.example:8080/a\n"
    );
}

#[test]
fn sync_collection_request_has_token_and_limit() {
    let (head, body) = head_and_body(requests().sync_collection(
        &path("/a/"),
        Some("urn:1?a&b"),
        Depth::One,
        Some(500),
        PropertySet(&[Element::Validator]),
    ));
    assert_eq!(head, format!("REPORT http://dav.example:8080/a/\naccept-encoding: gzip\n{XML}\ndepth: 0"));
    assert_eq!(
        body,
        "<D:sync-collection xmlns:D=\"DAV:\"><D:sync-token>urn:1?a&amp;b</D:sync-token><D:sync-level>1</D:sync-level>\
         <D:limit><D:nresults>500</D:nresults></D:limit><D:prop><D:getetag/></D:prop></D:sync-collection>"
    );
}

#[test]
fn unencodable_url_is_an_error() {
    let long = RemotePath::root().join(&vec![b'a'; 70_000], false).unwrap();
    let error = requests().propfind(&long, Depth::One, PropertySet::LISTING).unwrap_err();
    assert_eq!(error.why, PathProblem::Long);
}
