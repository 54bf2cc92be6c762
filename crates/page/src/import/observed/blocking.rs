//! What holds a document's scripts and frames back.
//!
//! A recording over a short path does not show it in its times, but over a long one it decides. From the HTML standard, as
//! in WProf (Wang et al., NSDI 2013):
//!
//! - The parser stops at a script without `async`, `defer` or `type=module` until that has arrived and run.
//! - A script in the document does not run before the style sheets in front of it have arrived.
//! - Deferred scripts and modules run in order when the parser is done.
//! - A preload scanner finds scripts, style sheets and images in front of the parser, so these do not wait for it; frames
//!   do.
//! - What a style sheet or an element's style references is requested when the document is laid out: after all style
//!   sheets and scripts of its `<head>`. Chromium does not lay out a frame that is out of view until a script asks for it.

use url::Url;

use super::dependencies::offset;

/// The length of a tag up to a reference, and the number of places of a name that are looked at: enough for any page, and a
/// bound for hostile ones.
const LONGEST_TAG: usize = 64 * 1024;
const MAX_PLACES: usize = 100;

/// A reference in a document to one of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reference {
    /// The index of the document's request.
    pub(super) document: usize,
    /// The offset of its end.
    pub(super) offset: usize,
    pub(super) kind: Kind,
    /// Whether it is before the document's `<body>`.
    in_head: bool,
}

/// The kind of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A script that stops the parser.
    Blocking,
    /// A script that runs when the parser is done.
    Deferred,
    /// A style sheet.
    Style,
    /// A frame.
    Frame,
    /// What the style of an element references.
    Styled,
    /// Something else.
    Other,
}

impl Reference {
    /// The reference to `url` in `html`, the body of the request with index `document`, that ends at a line and column. For
    /// what the style of an element references, Chromium tells how far the parser was when the document was laid out; its
    /// place is then that of its name.
    pub(super) fn new(document: usize, html: &[u8], place: (u64, u64), url: &Url) -> Self {
        let end = offset(html, place);
        let told = Self::ending(document, html, end);
        let name = url.path_segments().and_then(Iterator::last).unwrap_or_default().as_bytes();
        let is_its_own = told.kind != Kind::Other
            || name.is_empty()
            || places(&html[tag_before(html, end)..end], name).next().is_some();
        if is_its_own {
            return told;
        }
        let named = places(html, name).take(MAX_PLACES).map(|at| Self::ending(document, html, at + name.len()));
        named.into_iter().find(|one| matches!(one.kind, Kind::Style | Kind::Styled)).unwrap_or(told)
    }

    fn ending(document: usize, html: &[u8], end: usize) -> Self {
        let start = tag_before(html, end);
        let tag = String::from_utf8_lossy(&html[start..end]).to_ascii_lowercase();
        Self { document, offset: end, kind: kind(&tag), in_head: is_in_head(&html[..start]) }
    }

    /// Whether the document's `<body>` waits for it, or for a script behind it.
    pub(super) fn is_before_body(self) -> bool {
        self.in_head && matches!(self.kind, Kind::Blocking | Kind::Style)
    }

    /// Whether a request that `self` caused may be one for which a script asked by a question about the layout: `other`, if
    /// that had always run before.
    pub(super) fn may_wait_for(self, other: Self) -> bool {
        self.document == other.document
            && matches!((self.kind, other.kind), (Kind::Style | Kind::Styled, Kind::Blocking | Kind::Deferred))
    }

    /// Whether a request that `self` caused waits for `other`. `self` is the reference of the frame itself, or of the
    /// script or style sheet that caused the request.
    pub(super) fn waits_for(self, other: Self) -> bool {
        if self.document != other.document || self.offset == other.offset {
            return false;
        }
        match (self.kind, other.kind) {
            (Kind::Deferred, Kind::Blocking) => true,
            (Kind::Style | Kind::Styled, Kind::Blocking | Kind::Style) => other.in_head,
            (Kind::Blocking | Kind::Frame, Kind::Blocking)
            | (Kind::Blocking | Kind::Deferred, Kind::Style)
            | (Kind::Deferred, Kind::Deferred) => other.offset < self.offset,
            _ => false,
        }
    }
}

/// Whether what follows `before` is still before the document's `<body>`, which the first element begins that a `<head>`
/// cannot have, if no tag does (HTML, "the in head insertion mode").
fn is_in_head(before: &[u8]) -> bool {
    const IN_HEAD: [&str; 12] = [
        "html", "head", "base", "basefont", "bgsound", "link", "meta", "noscript", "script", "style", "template",
        "title",
    ];
    const RAW_TEXT: [(&str, &str); 3] = [("script", "</script"), ("style", "</style"), ("title", "</title")];
    let mut rest = before;
    while let Some(at) = rest.iter().position(|byte| *byte == b'<') {
        rest = &rest[at + 1..];
        if rest.starts_with(b"!--") {
            rest = behind(&rest[3..], "-->");
            continue;
        }
        let length = rest.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let is = |name: &str| rest[..length].eq_ignore_ascii_case(name.as_bytes());
        let ends_head = rest.get(..5).is_some_and(|tag| tag.eq_ignore_ascii_case(b"/head"));
        if ends_head || length > 0 && !IN_HEAD.iter().any(|name| is(name)) {
            return false;
        }
        if let Some((_, end)) = RAW_TEXT.iter().find(|(name, _)| is(name)) {
            rest = behind(rest, end);
        }
    }
    true
}

/// Where the last tag begins before `end`; `end` if none does.
fn tag_before(html: &[u8], end: usize) -> usize {
    let from = end.saturating_sub(LONGEST_TAG);
    html[from..end].iter().rposition(|byte| *byte == b'<').map_or(end, |at| from + at)
}

/// Where `name` begins, in upper or lower case.
fn places(text: &[u8], name: &[u8]) -> impl Iterator<Item = usize> {
    text.windows(name.len()).enumerate().filter(|(_, part)| part.eq_ignore_ascii_case(name)).map(|(at, _)| at)
}

/// What follows the first occurrence of `end`, in upper or lower case; nothing if there is none.
fn behind<'a>(text: &'a [u8], end: &str) -> &'a [u8] {
    places(text, end.as_bytes()).next().map_or(&[], |at| &text[at + end.len()..])
}

/// The kind of a tag in lower case: `<script src="…" defer>`.
fn kind(tag: &str) -> Kind {
    let tag = tag.trim_start_matches('<');
    let (name, attributes) = tag.split_at(tag.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tag.len()));
    // What is in quotes is a value, and no attribute.
    let unquoted: String = attributes.split(['"', '\'']).step_by(2).collect::<Vec<_>>().join(" ");
    let has = |attribute: &str| {
        unquoted
            .split(|c: char| c.is_ascii_whitespace() || c == '>')
            .any(|word| word.split('=').next() == Some(attribute))
    };
    let has_value = |value: &str| attributes.replace(['"', '\''], "").contains(value);
    match name {
        "script" if has("async") => Kind::Other,
        "script" if has("defer") || has_value("type=module") => Kind::Deferred,
        "script" => Kind::Blocking,
        "link" if has_value("rel=stylesheet") && !has("disabled") => Kind::Style,
        // The text of the element, which imports another style sheet.
        "style" => Kind::Style,
        "iframe" | "frame" | "embed" | "object" => Kind::Frame,
        "img" | "input" | "source" | "video" | "audio" | "track" | "image" => Kind::Other,
        _ if has("style") => Kind::Styled,
        _ => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_told_apart() {
        for (tag, expected) in [
            ("<script src=a.js>", Kind::Blocking),
            ("<script src=\"/x async y\">", Kind::Blocking),
            ("<script async src=a.js>", Kind::Other),
            ("<script src='a' defer=''>", Kind::Deferred),
            ("<script type=\"module\" src=a>", Kind::Deferred),
            ("<link rel=stylesheet href=a.css>", Kind::Style),
            ("<link href=a rel='stylesheet'>", Kind::Style),
            ("<link rel=preload href=a.css>", Kind::Other),
            ("<iframe src=a>", Kind::Frame),
            ("<style>@import url(a.css)", Kind::Style),
            ("<img src=a>", Kind::Other),
            ("<img style='width: 1px' src=a>", Kind::Other),
            ("<span class=b style=\"background-image: url(a)\">", Kind::Styled),
            ("", Kind::Other),
        ] {
            assert_eq!(kind(tag), expected, "{tag}");
        }
    }

    #[test]
    fn head_ends_with_the_first_element_of_a_body() {
        for (before, expected) in [
            ("", true),
            ("<!doctype html><html><head><title>a < b <p></title><meta charset=utf-8>", true),
            ("<!-- <body> --><script>'<body>'</script><style>p{}</style>", true),
            ("<head></head>", false),
            ("<title>a</title><p>", false),
            ("<title>a</title><BODY class=a>", false),
            ("<script>", true),
            ("<!-- ", true),
        ] {
            assert_eq!(is_in_head(before.as_bytes()), expected, "{before}");
        }
    }

    #[test]
    fn what_a_style_references_is_found_by_its_name() {
        let html = "<link rel=stylesheet href=a.css><body><i class=\"b\" style=\"background: url(./x/1.jpg)\"></i><p>1.jpg\n\
                    <img src=2.jpg><script src=c.js></script><hr>";
        let of = |url: &str, column: u64| {
            let url = Url::parse(&format!("http://a.example/{url}")).unwrap();
            let found = Reference::new(0, html.as_bytes(), (1, column), &url);
            (found.kind, &html[..found.offset])
        };
        let (styled, _) = html.split_at(html.find("1.jpg").unwrap() + 5);
        assert_eq!(of("x/1.jpg?v=1", 15), (Kind::Styled, styled), "the parser was behind the image");
        assert_eq!(of("x/1.jpg", 200), (Kind::Styled, styled));
        assert_eq!(of("2.jpg", 15).0, Kind::Other, "its own tag");
        assert_eq!(of("c.js", 31).0, Kind::Blocking);
        assert_eq!(of("3.jpg", 200), (Kind::Other, html), "unknown");
    }

    #[test]
    fn frames_and_deferred_scripts_wait_for_scripts_that_stop_the_parser() {
        let html = "<link rel=stylesheet href=a>\n<script src=b></script>\n<script src=c defer></script>\n<body>\n\
                    <iframe src=d></iframe>\n<script src=e></script>";
        let at = |tag: &str| {
            let before = &html[..html.find(tag).unwrap() + tag.len()];
            let (line, start) = (before.matches('\n').count(), before.rfind('\n').map_or(0, |at| at + 1));
            let url = Url::parse("http://a.example/").unwrap();
            Reference::new(0, html.as_bytes(), (line as u64, (before.len() - start) as u64), &url)
        };
        let [style, script, deferred, frame, late] = ["href=a>", "src=b>", "defer>", "src=d>", "src=e>"].map(at);
        assert!(script.waits_for(style) && frame.waits_for(script) && deferred.waits_for(script));
        assert!(deferred.waits_for(late) && style.waits_for(script));
        assert!(!frame.waits_for(late) && !script.waits_for(late) && !style.waits_for(late) && !frame.waits_for(style));
        assert!(!script.waits_for(Reference { document: 1, ..style }));
    }
}
