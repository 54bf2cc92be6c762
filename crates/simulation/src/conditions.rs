//! `If-Match`, `If-None-Match` (RFC 9110 §13.1) and `If` (RFC 4918 §10.4), as the two kinds of servers judge them.
//!
//! Of the lists of `If`, one must hold (RFC 4918 §10.4.3), wherever the resource of its tag is. `haul serve` does so. Apache
//! judges the lists of each path that the request changes by themselves, and compares entity tags weakly.

use crate::request::{Request, path_of};

/// What a condition asks about a path.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Condition<'a> {
    /// A lock with this token covers it.
    Token(&'a str),
    /// It has this entity tag.
    Tag(&'a str),
}

/// A list of `If`: all its conditions must hold at its path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct List<'a> {
    pub(crate) path: String,
    /// Each with whether it is negated.
    pub(crate) conditions: Vec<(bool, Condition<'a>)>,
}

/// The lists of a request's `If`; none if it has none.
///
/// # Panics
/// If it is malformed: our client sends none such.
pub(crate) fn lists(request: &Request) -> Vec<List<'_>> {
    let Some(mut rest) = request.header("if").map(str::trim) else { return Vec::new() };
    let (mut lists, mut path) = (Vec::new(), request.path.clone());
    while !rest.is_empty() {
        if let Some(tagged) = rest.strip_prefix('<') {
            let (tag, after) = tagged.split_once('>').expect("a tag of If ends");
            path_of(tag).clone_into(&mut path);
            rest = after.trim_start();
        }
        let (inner, after) = rest.strip_prefix('(').and_then(|rest| rest.split_once(')')).expect("a list of If");
        lists.push(List { path: path.clone(), conditions: conditions(inner) });
        rest = after.trim_start();
    }
    lists
}

fn conditions(mut rest: &str) -> Vec<(bool, Condition<'_>)> {
    let mut conditions = Vec::new();
    loop {
        rest = rest.trim_start();
        let positive = rest.strip_prefix("Not").map(str::trim_start);
        let is_negated = positive.is_some();
        rest = positive.unwrap_or(rest);
        let (condition, after) = if let Some(token) = rest.strip_prefix('<') {
            let (token, after) = token.split_once('>').expect("a token of If ends");
            (Condition::Token(token), after)
        } else if let Some(tag) = rest.strip_prefix('[') {
            let (tag, after) = tag.split_once(']').expect("a tag of If ends");
            (Condition::Tag(tag), after)
        } else {
            assert!(rest.is_empty(), "unknown condition in If: {rest}");
            return conditions;
        };
        conditions.push((is_negated, condition));
        rest = after;
    }
}

/// The strong comparison (RFC 9110 §8.8.3.2).
pub(crate) fn is_strongly(one: &str, other: &str) -> bool {
    one == other && !one.starts_with("W/")
}

/// The weak comparison.
pub(crate) fn is_weakly(one: &str, other: &str) -> bool {
    one.trim_start_matches("W/") == other.trim_start_matches("W/")
}

/// Whether `If-Match` and `If-None-Match` of a request hold for what has this tag; none for nothing.
pub(crate) fn holds(request: &Request, tag: Option<&str>) -> bool {
    let any = |value: &str, is: fn(&str, &str) -> bool| {
        tag.is_some_and(|tag| value.trim() == "*" || value.split(',').any(|one| is(one.trim(), tag)))
    };
    request.header("if-match").is_none_or(|value| any(value, is_strongly))
        && request.header("if-none-match").is_none_or(|value| !any(value, is_weakly))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn request(name: &'static str, value: &str) -> Request {
        let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
        Request { method: "PUT".into(), path: "/a".into(), headers, body: bytes::Bytes::new() }
    }

    #[test]
    fn lists_belong_to_the_tag_before_them() {
        let request = request("if", "(<urn:1> [\"x\"]) <http://h/b/> (Not <urn:2>)([W/\"y\"])");
        let own = vec![(false, Condition::Token("urn:1")), (false, Condition::Tag("\"x\""))];
        let (not, weak) = (vec![(true, Condition::Token("urn:2"))], vec![(false, Condition::Tag("W/\"y\""))]);
        let list = |path: &str, conditions| List { path: path.into(), conditions };
        assert_eq!(lists(&request), [list("/a", own), list("/b", not), list("/b", weak)]);
    }

    #[test]
    fn if_match_compares_strongly_and_if_none_match_weakly() {
        for (name, value, tag, expected) in [
            ("if-match", "\"x\"", Some("\"x\""), true),
            ("if-match", "W/\"x\"", Some("W/\"x\""), false),
            ("if-match", "*", None, false),
            ("if-none-match", "*", None, true),
            ("if-none-match", "*", Some("\"x\""), false),
            ("if-none-match", "\"a\", W/\"x\"", Some("\"x\""), false),
        ] {
            assert_eq!(holds(&request(name, value), tag), expected, "{name}: {value} of {tag:?}");
        }
    }
}
