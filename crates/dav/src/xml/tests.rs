use proptest::prelude::*;

use super::*;

/// Writes down what it is told, texts joined.
#[derive(Debug, Default, PartialEq, Eq)]
struct Log(Vec<String>);

impl Sink for Log {
    fn open(&mut self, namespace: &str, local: &str) -> Result<(), XmlProblem> {
        self.0.push(format!("<{{{namespace}}}{local}>"));
        Ok(())
    }

    fn text(&mut self, text: &str) -> Result<(), XmlProblem> {
        match self.0.last_mut() {
            Some(last) if last.starts_with('"') => last.push_str(text),
            _ => self.0.push(format!("\"{text}")),
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), XmlProblem> {
        self.0.push("</>".to_owned());
        Ok(())
    }
}

fn log(document: &[u8]) -> Result<String, XmlError> {
    read(document, Log::default()).map(|log| log.0.join(" "))
}

fn problem(document: &[u8]) -> (u64, XmlProblem) {
    let error = log(document).unwrap_err();
    (error.at, error.problem)
}

/// What was told before it ended or went wrong, fed in pieces that end at these places.
fn in_pieces(document: &[u8], cuts: &[usize]) -> (Log, Result<(), XmlError>) {
    let (mut log, mut reader, mut from) = (Log::default(), Document::default(), 0);
    for to in cuts.iter().copied().chain([document.len()]) {
        if let Err(error) = reader.feed(&document[from..to], &mut log) {
            return (log, Err(error));
        }
        from = to;
    }
    let end = reader.finish();
    (log, end)
}

const GOOD: &str = "\u{feff}<?xml version='1.0' encoding=\"UTF-8\"?>\r\n<!-- <a> -- \u{e4} --><D:a xmlns:D=\"DAV:\" \
                    x='>'><b xmlns='u:&#97;'>t&amp;&lt;&#x41;<![CDATA[<&>]]>\u{feff}\u{1f600}</b ><c/>\n</D:a>\n<?p ?> ";

#[test]
fn elements_and_text_are_reported_in_document_order() {
    assert_eq!(log(GOOD.as_bytes()).unwrap(), "<{DAV:}a> <{u:a}b> \"t&<A<&>\u{feff}\u{1f600} </> <{}c> </> \"\n </>");
}

#[test]
fn result_is_the_same_for_every_split() {
    let whole = in_pieces(GOOD.as_bytes(), &[]);
    for cut in 0..=GOOD.len() {
        assert_eq!(in_pieces(GOOD.as_bytes(), &[cut]), whole, "cut at {cut}");
    }
    let all: Vec<_> = (0..GOOD.len()).collect();
    assert_eq!(in_pieces(GOOD.as_bytes(), &all), whole);
}

#[test]
fn invalid_character_is_an_error_within_a_tag_too() {
    let document = b"<r><?processing \x80 never ends</r>";
    for cut in 0..document.len() {
        assert_eq!(in_pieces(document, &[cut]).1, Err(XmlError { at: 16, problem: XmlProblem::Utf8 }), "cut at {cut}");
    }
}

#[test]
fn every_truncation_is_an_error() {
    let end = GOOD.rfind("</D:a>").unwrap() + "</D:a>".len();
    for length in 0..end {
        assert_eq!(problem(&GOOD.as_bytes()[..length]), (length as u64, XmlProblem::Truncated), "{length} bytes");
    }
}

#[test]
fn deep_and_expanding_documents_are_refused() {
    let laughs =
        "<?xml version='1.0'?><!DOCTYPE lolz [<!ENTITY lol 'lol'><!ENTITY lol2 '&lol;&lol;'>]><lolz>&lol2;</lolz>";
    assert_eq!(problem(laughs.as_bytes()), (21, XmlProblem::Doctype));
    assert_eq!(problem(b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>"), (0, XmlProblem::Doctype));
    assert_eq!(problem(b"<!doctype html><html/>"), (0, XmlProblem::Doctype));
    assert_eq!(problem(b"<!DOCTYPE never ends"), (0, XmlProblem::Doctype));
    assert_eq!(problem(b"<a>&lol;</a>"), (3, XmlProblem::Entity("lol".to_owned())));
    assert_eq!(problem("<a>".repeat(65).as_bytes()), (64 * 3, XmlProblem::Deep));
    assert_eq!(problem(format!("<{}/>", "a".repeat(LONGEST_NAME + 1)).as_bytes()).1, XmlProblem::Long);
    assert_eq!(problem(format!("<a b='{}'/>", "c".repeat(LONGEST)).as_bytes()).1, XmlProblem::Long);
    assert_eq!(problem(format!("<a><!--{}", "c".repeat(LONGEST)).as_bytes()), (3, XmlProblem::Long));
    let many = (0..1000).map(|n| format!(" xmlns:n{n}='u'")).collect::<Vec<_>>().concat();
    assert!(matches!(problem(format!("<a{many}/>").as_bytes()).1, XmlProblem::Malformed(_)));
}

#[test]
fn error_names_the_byte_offset() {
    for (document, at, expected) in [
        (&b"<a><b></a>"[..], 6, XmlProblem::Mismatch { open: "b".into(), close: "a".into() }),
        (b"<a/><b/>", 4, XmlProblem::Outside),
        (b"<a/> tail", 5, XmlProblem::Outside),
        (b"Warning: <a/>", 0, XmlProblem::Outside),
        (b"<a></a></a>", 7, XmlProblem::Outside),
        (b"<a>ab\xff</a>", 5, XmlProblem::Utf8),
        (b"<a b='\xe4'></a>", 6, XmlProblem::Utf8),
        (b"\xff\xfe<\0a\0/\0>\0", 0, XmlProblem::Encoding("UTF-16".into())),
        (b"\0<\0a\0/\0>", 0, XmlProblem::Encoding("UTF-16".into())),
        (b"<?xml version='1.0' encoding='ISO-8859-1'?><a/>", 0, XmlProblem::Encoding("ISO-8859-1".into())),
        (b"", 0, XmlProblem::Truncated),
        (b"<a>b", 4, XmlProblem::Truncated),
    ] {
        assert_eq!(problem(document), (at, expected), "{}", String::from_utf8_lossy(document));
    }
    for document in [&b"<a>a & b</a>"[..], b"<a>&;</a>", b"<a>&#0;</a>", b"<a><!x></a>", b"<a>&#xD800;</a>"] {
        let (at, what) = problem(document);
        let told = matches!(what, XmlProblem::Malformed(_) | XmlProblem::Entity(_));
        assert!(told && at >= 3, "{}: {at} {what:?}", String::from_utf8_lossy(document));
    }
}

#[test]
fn namespace_is_unescaped() {
    let (plain, escaped) = (in_pieces(b"<x:a xmlns:x='b'/>", &[]), in_pieces(b"<x:a xmlns:x='&#98;'/>", &[]));
    assert_eq!(plain, escaped);
    assert!(in_pieces(b"<x:a xmlns:x='&other;'/>", &[]).1.is_err());
}

#[test]
fn long_tag_in_single_bytes_takes_linear_time() {
    let document = format!("<a b='{}'/>", "c".repeat(LONGEST - 100));
    let cuts: Vec<_> = (0..document.len()).collect();
    assert_eq!(in_pieces(document.as_bytes(), &cuts).1, Ok(()));
}

proptest! {
    #[test]
    fn result_is_the_same_for_any_split_of_any_input(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "<a>", "</a>", "<a/>", "<p:b xmlns:p='DAV:'>", "</p:b>", "&amp;", "&", ";", "&#65;", "<!--", "-->", "<![CDATA[",
                "]]>", "<?x", "?>", "<!", "<", ">", "'", "\"", "-", "]", "\u{feff}", "ä", "\u{1f600}", " ", "text", "<!D", "/",
            ]),
            0..24,
        ),
        junk in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut document = format!("<r>{}</r>", parts.concat()).into_bytes();
        if let Some((at, byte)) = junk {
            let at = at.index(document.len());
            document[at] = byte;
        }
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(document.len())).collect();
        cuts.sort_unstable();
        prop_assert_eq!(in_pieces(&document, &cuts), in_pieces(&document, &[]));
    }
}
