//! Header fields on their way through: what the client calls this gateway becomes what the server is called.
//!
//! Paths are the same on both sides, so that the server's answers, with their paths in multistatus bodies, need no
//! translation.

use std::net::IpAddr;

use dav::RemotePath;
use haul_http::Origin;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, Version,
    header::{
        ALT_SVC, CONNECTION, CONTENT_LENGTH, CONTENT_LOCATION, EXPECT, HOST, LOCATION, PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
    },
    request::Parts,
    uri::Authority,
};
use percent_encoding::percent_decode_str;
use serve::AnswerBody;

use crate::answers;

const DESTINATION: HeaderName = HeaderName::from_static("destination");
const IF: HeaderName = HeaderName::from_static("if");
pub(crate) const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Fields of one connection (RFC 9110 §7.6.1), beside those that `Connection` names.
const OF_THE_CONNECTION: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Fields by which a server believes a proxy that it trusts, as it is told to trust this one: who the client is, or which
/// resource or method is meant. A client's own are no evidence.
const TRUSTED_OF_PROXIES: [&str; 15] = [
    "forwarded",
    "proxy",
    "x-real-ip",
    "true-client-ip",
    "client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "x-cluster-client-ip",
    "x-original-url",
    "x-original-uri",
    "x-original-host",
    "x-rewrite-url",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];
const TRUSTED_PREFIXES: [&str; 7] =
    ["x-forwarded-", "x-client-", "x-remote-", "remote-", "x-ssl-", "ssl-", "x-auth-request-"];

/// The server, and the folder that the gateway is for.
#[derive(Debug, Clone)]
pub(crate) struct Upstream {
    pub(crate) origin: Origin,
    /// Ends with a slash.
    pub(crate) base: String,
}

/// A refusal, and why, for people.
pub(crate) type Refused = (StatusCode, String);

impl Upstream {
    /// The URL and the header fields of a request to the server. A field is translated if it names the gateway as the
    /// request does.
    pub(crate) fn request(&self, parts: &Parts, client: IpAddr) -> Result<(Uri, HeaderMap), Refused> {
        let url = self.url(parts.uri.path(), parts.uri.query())?;
        let here = here(parts).ok_or((StatusCode::BAD_REQUEST, "the request names no host".to_owned()))?;
        let mut headers = parts.headers.clone();
        strip(&mut headers);
        distrust(&mut headers);
        // The client has the server's consent from this gateway.
        for name in [HOST, EXPECT, CONTENT_LENGTH] {
            headers.remove(name);
        }
        if let Some(there) = one(&headers, &DESTINATION)? {
            let there = self.translated(&there, &here)?;
            headers.insert(DESTINATION, there);
        }
        if let Some(conditions) = one(&headers, &IF)? {
            let conditions = self.conditions(&conditions, &here);
            headers.insert(IF, HeaderValue::from_str(&conditions).map_err(|_| malformed(&IF))?);
        }
        // Otherwise one user's wrong passwords would look to the server like everybody's.
        headers.insert(FORWARDED_FOR, address(client));
        headers.append(VIA, via(parts.version));
        Ok((url, headers))
    }

    /// The header fields of an answer to the client.
    pub(crate) fn answer(&self, headers: &mut HeaderMap) {
        strip(headers);
        // Without it, Microsoft's clients take the server for read-only.
        if headers.contains_key("dav") {
            headers.entry("ms-author-via").or_insert(HeaderValue::from_static("DAV"));
        }
        // Another address is not this gateway's.
        headers.remove(ALT_SVC);
        for name in [LOCATION, CONTENT_LOCATION] {
            let Some(url) = headers.get(&name).and_then(|value| value.to_str().ok()?.parse::<Uri>().ok()) else {
                continue;
            };
            let is_upstream = Origin::of(&url).is_ok_and(|origin| origin == self.origin);
            let path = url.path_and_query().and_then(|path| HeaderValue::from_str(path.as_str()).ok());
            if let Some(path) = path.filter(|_| is_upstream) {
                headers.insert(name, path);
            }
        }
    }

    /// The URL of a path at the server, if it is in the gateway's folder.
    pub(crate) fn at(&self, path: &RemotePath) -> Option<Uri> {
        self.url(&path.target(), None).ok()
    }

    /// Clients look at the folders above the one that they use, and Windows asks the root for the server's capabilities. These
    /// have nothing but the way to the gateway's folder.
    pub(crate) fn answer_above(&self, parts: &Parts) -> Option<Response<AnswerBody>> {
        let path = parts.uri.path();
        let rest = self.base.strip_prefix(path).filter(|rest| path.ends_with('/') && !rest.is_empty())?;
        if parts.method.as_str() != "PROPFIND" {
            return None;
        }
        let next = format!("{path}{}/", rest.split('/').next().unwrap_or_default());
        let depth = parts.headers.get("depth").and_then(|depth| depth.to_str().ok());
        let shown = match depth {
            Some("0") => vec![path],
            Some("1") => vec![path, &next],
            _ => return Some(answers::text(StatusCode::FORBIDDEN, "403: Depth: infinity is refused\n")),
        };
        let response = |path| {
            let path = quick_xml::escape::escape(path);
            format!(
                "<D:response><D:href>{path}</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop>\
                 <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>"
            )
        };
        let responses: String = shown.into_iter().map(response).collect();
        let head = "<?xml version=\"1.0\" encoding=\"utf-8\"?><D:multistatus xmlns:D=\"DAV:\">";
        Some(answers::multistatus(format!("{head}{responses}</D:multistatus>")))
    }

    /// The capabilities of a folder above are those of the gateway's folder.
    pub(crate) fn options_above(&self, parts: &mut Parts) {
        let is_above = parts.uri.path() == "*" || self.base.starts_with(parts.uri.path());
        if let Ok(base) = self.base.parse::<Uri>()
            && parts.method == Method::OPTIONS
            && is_above
        {
            let host = parts.uri.authority().cloned();
            parts.uri = base;
            if let Some(host) = host.and_then(|host| HeaderValue::from_str(host.as_str()).ok()) {
                parts.headers.entry(HOST).or_insert(host);
            }
        }
    }

    /// The URL of a path at the server, if it is in the folder.
    fn url(&self, path: &str, query: Option<&str>) -> Result<Uri, Refused> {
        let forbidden = |why| Err((StatusCode::FORBIDDEN, format!("403: {why}\n")));
        if !is_plain(path) {
            return forbidden("paths with `.`, `..`, backslashes or encoded slashes are refused".to_owned());
        }
        if !(path.starts_with(&self.base) || self.base.strip_suffix('/') == Some(path)) {
            return forbidden(format!("this gateway is for {}", self.base));
        }
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        let url = format!("{}{path}{query}", self.origin).parse();
        url.map_err(|_| (StatusCode::BAD_REQUEST, "400: the path is malformed\n".to_owned()))
    }

    /// A URL at the gateway, or a path, as a URL at the server.
    fn translated(&self, url: &str, here: &Authority) -> Result<HeaderValue, Refused> {
        let path = if url.starts_with('/') && !url.starts_with("//") {
            url.to_owned()
        } else {
            let url: Uri = url.parse().map_err(|_| malformed(&DESTINATION))?;
            let there = url.authority().filter(|_| url.scheme().is_some()).ok_or_else(|| malformed(&DESTINATION))?;
            if !serve::is_same_authority(url.scheme_str(), there, here) {
                // RFC 4918 §9.8.5
                let why = format!("502: the Destination is on another server, {}\n", there.host());
                return Err((StatusCode::BAD_GATEWAY, why));
            }
            url.path_and_query().map_or("/", |path| path.as_str()).to_owned()
        };
        let (path, query) = path.split_once('?').map_or((&*path, None), |(path, query)| (path, Some(query)));
        let url = self.url(path, query)?.to_string();
        HeaderValue::from_str(&url).map_err(|_| malformed(&DESTINATION))
    }

    /// An `If` (RFC 4918 §10.4), with the gateway's URLs in its resource tags as the server's. Lock tokens, which stand in
    /// parentheses, are nobody's to change. What names another server, or is malformed, is the server's to refuse.
    fn conditions(&self, text: &str, here: &Authority) -> String {
        let (mut out, mut rest, mut depth) = (String::with_capacity(text.len()), text, 0u32);
        while let Some(at) = rest.find(['(', ')', '<', '[']) {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            let closing = match from.as_bytes()[0] {
                b'(' => {
                    depth += 1;
                    None
                }
                b')' => {
                    depth = depth.saturating_sub(1);
                    None
                }
                b'<' => Some('>'),
                _ => Some(']'),
            };
            let length = closing.and_then(|closing| from.find(closing)).map_or(1, |end| end + 1);
            let (token, after) = from.split_at(length);
            let tag = token.strip_prefix('<').and_then(|tag| tag.strip_suffix('>')).filter(|_| depth == 0);
            match tag.and_then(|tag| self.translated(tag, here).ok()) {
                Some(url) => {
                    out.push('<');
                    out.push_str(url.to_str().unwrap_or_default());
                    out.push('>');
                }
                None => out.push_str(token),
            }
            rest = after;
        }
        out + rest
    }
}

/// What the client calls the gateway.
fn here(parts: &Parts) -> Option<Authority> {
    let host = || parts.headers.get(HOST).and_then(|host| host.to_str().ok()?.parse().ok());
    parts.uri.authority().cloned().or_else(host)
}

/// Whether a path means the same to everybody: it has no dot segments, and nothing that some take for a slash, among it
/// overlong UTF-8. Servers in Java ignore what follows a semicolon.
fn is_plain(path: &str) -> bool {
    if !path.contains(['%', ';', '\\']) {
        return path.starts_with('/') && !path.split('/').any(|segment| matches!(segment, "." | ".."));
    }
    let lower = path.to_ascii_lowercase();
    let is_dots = |segment: &str| {
        let segment = segment.replace("%2e", ".").replace("%3b", ";");
        matches!(segment.split(';').next(), Some("." | ".."))
    };
    path.starts_with('/')
        && !["%2f", "%5c", "%00", "\\"].iter().any(|text| lower.contains(text))
        && !is_overlong(&percent_decode_str(&lower).collect::<Vec<_>>())
        && !lower.split('/').any(is_dots)
}

/// Whether UTF-8 has characters in more bytes than they need, which stand for others in careless decoders (RFC 3629 §10). Names
/// in Latin-1 are none of them.
fn is_overlong(bytes: &[u8]) -> bool {
    let continues = |at: usize, most: u8| bytes.get(at).is_some_and(|byte| (0x80..=most).contains(byte));
    bytes.iter().enumerate().any(|(at, first)| match first {
        0xc0 | 0xc1 => true,
        0xe0 => continues(at + 1, 0x9f),
        0xf0 => continues(at + 1, 0x8f),
        0xf8 => continues(at + 1, 0x87),
        0xfc => continues(at + 1, 0x83),
        _ => false,
    })
}

fn strip(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in OF_THE_CONNECTION.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Removes what a server believes only of a proxy. To CGI and its kin, `_` in a name is the same as `-`.
fn distrust(headers: &mut HeaderMap) {
    let is_forged = |name: &HeaderName| {
        let name = name.as_str();
        let is_listed = TRUSTED_OF_PROXIES.contains(&name) || name.ends_with("-user");
        is_listed || name.contains('_') || TRUSTED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
    };
    let forged: Vec<_> = headers.keys().filter(|name| is_forged(name)).cloned().collect();
    for name in forged {
        headers.remove(name);
    }
}

/// The only value of a field.
fn one(headers: &HeaderMap, name: &HeaderName) -> Result<Option<String>, Refused> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(|value| Some(value.to_owned())).map_err(|_| malformed(name)),
        _ => Err(malformed(name)),
    }
}

fn malformed(name: &HeaderName) -> Refused {
    (StatusCode::BAD_REQUEST, format!("400: the header field {name} is malformed\n"))
}

fn address(client: IpAddr) -> HeaderValue {
    HeaderValue::from_str(&client.to_canonical().to_string()).unwrap_or(HeaderValue::from_static("unknown"))
}

/// The protocol's version, and who passes the request on (RFC 9110 §7.6.3).
fn via(version: Version) -> HeaderValue {
    HeaderValue::from_static(match version {
        Version::HTTP_09 | Version::HTTP_10 => "1.0 longhaul",
        Version::HTTP_2 => "2 longhaul",
        Version::HTTP_3 => "3 longhaul",
        _ => "1.1 longhaul",
    })
}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;

    use super::*;

    fn upstream() -> Upstream {
        let url = "https://dav.example/files/".parse().unwrap();
        Upstream { origin: Origin::of(&url).unwrap(), base: "/files/".into() }
    }

    fn request(path: &str, fields: &[(&str, &str)]) -> Result<(Uri, HeaderMap), Refused> {
        let mut request = Request::builder().method("MOVE").uri(path).header("host", "gw:8443");
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        upstream().request(&request.body(()).unwrap().into_parts().0, [10, 0, 0, 2].into())
    }

    #[test]
    fn names_of_the_gateway_become_the_servers() {
        let (url, headers) = request(
            "/files/a%20b?x=1",
            &[
                ("destination", "https://GW:8443/files/c"),
                ("if", "<https://gw:8443/files/c> (<urn:uuid:1> [\"<https://gw:8443/files/e>\"]) <http://other/x> (Not <DAV:no-lock>)"),
                ("connection", "close, x-own"),
                ("x-own", "1"),
                ("x-forwarded-for", "1.2.3.4"),
                ("X_Forwarded_For", "1.2.3.4"),
                ("x-forwarded-user", "root"),
                ("forwarded", "for=1.2.3.4"),
                ("remote-user", "root"),
                ("x-webauth-user", "root"),
                ("x-original-url", "/secret/"),
                ("x-http-method-override", "DELETE"),
                ("proxy", "http://elsewhere"),
                ("content-length", "0"),
                ("authorization", "Basic YTpi"),
            ],
        )
        .unwrap();
        assert_eq!(url, "https://dav.example/files/a%20b?x=1");
        let mut lines: Vec<_> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        let expected = [
            "authorization: Basic YTpi",
            "destination: https://dav.example/files/c",
            "if: <https://dav.example/files/c> (<urn:uuid:1> [\"<https://gw:8443/files/e>\"]) <http://other/x> (Not <DAV:no-lock>)",
            "via: 1.1 longhaul",
            "x-forwarded-for: 10.0.0.2",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn nothing_leaves_the_folder() {
        for path in [
            "/",
            "/other",
            "/filesx",
            "/files/../other",
            "/files/%2e%2E/other",
            "/files/a%2F..%2fb",
            "/files/a%5c",
            "/files/.%2e",
            "/files/%00",
            "/files/..;/other",
            "/files/%2e.%3Ba=b/other",
            "/files/%c0%ae%C0%AE/other",
            "/files/%e0%80%ae%E0%80%AE/other",
            "/files/a%E0%80%AFb",
            "/files/%f0%80%80%ae",
            "/files/%f8%80%80%80%ae",
            "/files/%fc%80%80%80%80%ae",
        ] {
            assert_eq!(request(path, &[]).unwrap_err().0, StatusCode::FORBIDDEN, "{path}");
            let refused = request("/files/a", &[("destination", &format!("https://gw:8443{path}"))]).unwrap_err();
            assert_eq!(refused.0, StatusCode::FORBIDDEN, "{path}");
        }
        for destination in ["https://other/files/a", "https://gw/files/a", "http://gw:80/files/a"] {
            assert_eq!(request("/files/a", &[("destination", destination)]).unwrap_err().0, StatusCode::BAD_GATEWAY);
        }
        for destination in ["a", "//gw/files/a", "mailto:a", ""] {
            assert_eq!(request("/files/a", &[("destination", destination)]).unwrap_err().0, StatusCode::BAD_REQUEST);
        }
        let twice = [("destination", "/files/b"), ("destination", "/files/c")];
        assert_eq!(request("/files/a", &twice).unwrap_err().0, StatusCode::BAD_REQUEST);
        assert_eq!(request("/files", &[]).unwrap().0, "https://dav.example/files");
        // Hindi, an emoji, and Latin-1.
        for path in ["/files/%e0%a4%85", "/files/%f0%9f%98%80", "/files/%fcber%e0"] {
            assert_eq!(request(path, &[]).unwrap().0.path(), path);
        }
    }

    #[test]
    fn an_answer_leads_back_to_the_gateway() {
        let mut headers: HeaderMap = [
            ("location", "https://dav.example/files/a/"),
            ("content-location", "https://elsewhere/files/a/"),
            ("alt-svc", "h3=\":443\""),
            ("connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("dav", "1,2"),
        ]
        .into_iter()
        .map(|(name, value)| (name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value)))
        .collect();
        upstream().answer(&mut headers);
        assert_eq!(headers.len(), 4);
        assert_eq!(headers["ms-author-via"], "DAV");
        assert_eq!(headers["location"], "/files/a/");
        assert_eq!(headers["content-location"], "https://elsewhere/files/a/");
    }

    proptest! {
        /// However it is written, an accepted path stays in the folder for every reader.
        #[test]
        fn accepted_paths_stay_in_the_folder(path in "(/|\\.|%2e|%2E|%2f|%5C|\\\\|a|files|%25|%){0,12}") {
            let path = format!("/files{path}");
            if upstream().url(&path, None).is_ok() {
                let decoded = path.replace("%2e", ".").replace("%2E", ".");
                prop_assert!(!decoded.split(['/', '\\']).any(|segment| segment == ".." || segment == "."));
                prop_assert!(path == "/files" || path.starts_with("/files/"));
            }
        }

        /// Conditions keep their lock tokens, and never panic.
        #[test]
        fn conditions_keep_what_is_in_parentheses(text in "[()<>\\[\\] a\"]{0,24}") {
            let here = "gw:8443".parse().unwrap();
            prop_assert_eq!(upstream().conditions(&text, &here), text);
        }
    }
}
