//! Strict parsing of preconditions.
//!
//! A precondition that cannot be parsed must not be ignored: an upload with `If-Match` would overwrite somebody's
//! changes. `dav-server` skips malformed preconditions, and panics on some. So they are parsed here first: malformed
//! ones are refused, and an `If` header is rewritten in the one form that `dav-server` parses.

use std::fmt::Write;

use dav_server::davpath::DavPath;
use http::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE, RANGE};

/// The `If` header of RFC 4918 §10.4.
pub(crate) const IF: HeaderName = HeaderName::from_static("if");

/// A malformed precondition.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Validates a request's preconditions, and normalizes `If`.
pub(crate) fn check(headers: &mut HeaderMap) -> Result<(), Malformed> {
    for name in [IF_MATCH, IF_NONE_MATCH] {
        for value in headers.get_all(name) {
            value.to_str().ok().and_then(etag_list).ok_or(Malformed)?;
        }
    }
    if headers.get(IF_UNMODIFIED_SINCE).is_some_and(|v| v.to_str().ok().and_then(date).is_none()) {
        return Err(Malformed);
    }
    if let Some(value) = headers.get(IF_RANGE)
        && value.as_bytes().contains(&b'"')
        && value.to_str().ok().and_then(etag) != Some("")
    {
        // A range with an invalid `If-Range` is ignored (RFC 9110 §13.1.5).
        headers.remove(IF_RANGE);
        headers.remove(RANGE);
    }
    let mut values = headers.get_all(IF).iter();
    if let Some(value) = values.next() {
        let lists = value.to_str().ok().filter(|_| values.next().is_none()).and_then(if_header).ok_or(Malformed)?;
        headers.insert(IF, HeaderValue::from_str(&lists).map_err(|_| Malformed)?);
    }
    Ok(())
}

/// IMF-fixdate of RFC 9110 §5.6.7, the only form that senders may generate.
fn date(text: &str) -> Option<()> {
    chrono::NaiveDateTime::parse_from_str(text.trim(), "%a, %d %b %Y %H:%M:%S GMT").ok().map(drop)
}

/// Parses an entity tag (RFC 9110 §8.8.3) and returns the rest. Tags with commas or blanks, which no server generates,
/// are rejected: `dav-server` would split them.
fn etag(text: &str) -> Option<&str> {
    let (tag, rest) = text.strip_prefix("W/").unwrap_or(text).strip_prefix('"')?.split_once('"')?;
    tag.bytes().all(|b| b.is_ascii_graphic() && b != b',').then_some(rest)
}

/// `*` or a list of entity tags (RFC 9110 §13.1.1).
fn etag_list(text: &str) -> Option<()> {
    if text.trim() == "*" {
        return Some(());
    }
    text.split(',').all(|tag| etag(tag.trim()) == Some("")).then_some(())
}

/// Parses an `If` header and writes it in a normal form: a tagged list gets a full URL, of which only the path counts.
fn if_header(text: &str) -> Option<String> {
    let mut rest = text.trim_start();
    let mut out = String::new();
    while !rest.is_empty() {
        if let Some(tagged) = rest.strip_prefix('<') {
            let (tag, after) = tagged.split_once('>')?;
            write!(out, "<http://localhost{}> ", resource(tag)?.as_url_string()).ok()?;
            rest = after.trim_start();
        }
        rest = list(rest.strip_prefix('(')?.trim_start(), &mut out)?.trim_start();
    }
    (!out.is_empty()).then_some(out)
}

/// Parses the conditions of a list up to its closing parenthesis.
fn list<'t>(mut rest: &'t str, out: &mut String) -> Option<&'t str> {
    let mut open = '(';
    loop {
        out.push(open);
        open = ' ';
        if let Some((not, after)) = rest.split_at_checked(3)
            && not.eq_ignore_ascii_case("not")
        {
            out.push_str("Not ");
            rest = after.trim_start();
        }
        let after = if let Some(token) = rest.strip_prefix('<') {
            let (token, after) = token.split_once('>')?;
            if !token.contains(':') || token.contains(|c: char| !c.is_ascii_graphic() || c == '"') {
                return None;
            }
            after
        } else {
            etag(rest.strip_prefix('[')?)?.strip_prefix(']')?
        };
        out.push_str(&rest[..rest.len() - after.len()]);
        rest = after.trim_start();
        if let Some(after) = rest.strip_prefix(')') {
            out.push_str(") ");
            return Some(after);
        }
    }
}

/// The resource tag of a list: a URL or an absolute path.
fn resource(tag: &str) -> Option<DavPath> {
    let uri: http::Uri = tag.parse().ok()?;
    DavPath::new(uri.path()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_preconditions_parse() {
        for (given, written) in [
            ("(<urn:uuid:1>)", "(<urn:uuid:1>) "),
            ("  ( <urn:x> [\"e\"] )(not<DAV:no-lock>)", "(<urn:x> [\"e\"]) (Not <DAV:no-lock>) "),
            ("<http://h:1/a%20b/> ([W/\"e\"])", "<http://localhost/a%20b/> ([W/\"e\"]) "),
            ("</a/../b>(<urn:x>)", "<http://localhost/b> (<urn:x>) "),
        ] {
            assert_eq!(if_header(given).as_deref(), Some(written), "{given}");
        }
        for tags in ["*", " \"a\" , W/\"b\",\"\" "] {
            assert!(etag_list(tags).is_some(), "{tags}");
        }
        assert!(date("Sun, 06 Nov 1994 08:49:37 GMT").is_some());
    }

    #[test]
    fn invalid_preconditions_are_malformed() {
        for given in [
            "",
            "(",
            "()",
            "<",
            "<urn:x",
            "(<urn:x>",
            "([\"e\")",
            "([e])",
            "(Not)",
            "(word)",
            "<http://h/>",
            "(<\">)",
            "(é)",
        ] {
            assert_eq!(if_header(given), None, "{given}");
        }
        for tags in ["", "\"", "a", "\"a", "\"a\" \"b\"", "\"a\",", "W/\"", "\"a b\""] {
            assert_eq!(etag_list(tags), None, "{tags}");
        }
        assert_eq!(date("yesterday"), None);
    }

    proptest::proptest! {
        #[test]
        fn parser_never_panics(text in "[ (\\[<NotW/\"ae:,>\\])é]{0,24}") {
            let again = if_header(&text).map(|written| if_header(&written) == Some(written));
            proptest::prop_assert_ne!(again, Some(false), "what is written reads the same");
            etag_list(&text);
        }
    }
}
