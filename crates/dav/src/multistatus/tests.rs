use std::fmt::Write;

use proptest::prelude::*;

use super::*;

fn path(path: &str) -> RemotePath {
    RemotePath::from_url_path(path).unwrap()
}

/// The items before the end or the error, fed in pieces that end at these places.
fn in_pieces(document: &[u8], asked: &str, cuts: &[usize]) -> (Vec<Item>, Result<End, XmlError>) {
    let (mut answer, mut items, mut from) = (Multistatus::new(path(asked)), Vec::new(), 0);
    for to in cuts.iter().copied().chain([document.len()]) {
        for item in answer.feed(&document[from..to]) {
            match item {
                Ok(item) => items.push(item),
                Err(error) => return (items, Err(error)),
            }
        }
        from = to;
    }
    (items, answer.finish())
}

fn read(document: &str, asked: &str) -> (Vec<Item>, End) {
    let (items, end) = in_pieces(document.as_bytes(), asked, &[]);
    (items, end.unwrap())
}

fn entry(item: &Item) -> &Entry {
    match item {
        Item::Entry(entry) => entry,
        Item::Misplaced(error) => panic!("{error}"),
    }
}

const RESPONSE: &str = "<D:response><D:href>/a/b</D:href><D:propstat><D:prop><D:getetag>\"1\"</D:getetag>\
                        <D:getcontentlength>5</D:getcontentlength></D:prop></D:propstat></D:response>";

fn around(responses: &str) -> String {
    format!("<D:multistatus xmlns:D='DAV:'>{responses}</D:multistatus>")
}

#[test]
fn refused_properties_are_listed_beside_successful_ones() {
    let (items, _) = read(
        &around(
            "<D:response><D:href>/a/b</D:href>\
             <D:propstat><D:prop><D:getetag>\"1\"</D:getetag></D:prop></D:propstat>\
             <D:propstat><D:prop><D:getetag/><x:y xmlns:x='z'/></D:prop><D:status>HTTP/1.1 403 No</D:status></D:propstat>\
             <D:propstat><D:prop><D:owner/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>\
             <D:propstat><D:status>200</D:status><D:prop><D:getcontentlength> 5\n</D:getcontentlength></D:prop>\
             </D:propstat></D:response>",
        ),
        "/a/",
    );
    let entry = entry(&items[0]);
    assert_eq!(
        (entry.properties.etag.as_ref().unwrap().to_string().as_str(), entry.properties.length),
        ("\"1\"", Some(5))
    );
    let refused: Vec<_> =
        entry.refused.iter().map(|(name, status)| format!("{{{}}}{} {status}", name.namespace, name.local)).collect();
    assert_eq!(refused, ["{DAV:}getetag 403 Forbidden", "{z}y 403 Forbidden"]);
}

#[test]
fn one_status_may_have_several_hrefs() {
    let (items, end) = read(
        &around(
            "<D:response><D:href>/a/x</D:href><D:href>/b/y/</D:href><D:status>HTTP/1.1 423 Locked</D:status>\
             <D:error><D:lock-token-submitted><D:href>/a/</D:href></D:lock-token-submitted></D:error></D:response>\
             <D:response><D:status>HTTP/1.1 403 Forbidden</D:status></D:response>\
             <D:responsedescription>two</D:responsedescription>",
        ),
        "/",
    );
    assert_eq!(entry(&items[0]).conditions[0].hrefs, ["/a/"]);
    assert_eq!((entry(&items[1]).status, entry(&items[1]).path.is_folder()), (Some(StatusCode::LOCKED), true));
    assert!(matches!(&items[2], Item::Misplaced(error) if error.path.is_empty()));
    assert_eq!(end.description.as_deref(), Some("two"));
}

#[test]
fn answer_may_be_about_two_folders() {
    let document = around(
        "<D:response><D:href>/from/x</D:href><D:status>HTTP/1.1 403 No</D:status></D:response>\
         <D:response><D:href>/to/x</D:href><D:status>HTTP/1.1 403 No</D:status></D:response>\
         <D:response><D:href>/etc/x</D:href><D:status>HTTP/1.1 403 No</D:status></D:response>",
    );
    let mut answer = Multistatus::new(path("/from/")).or_below(path("/to/"));
    let items: Vec<_> = answer.feed(document.as_bytes()).map(Result::unwrap).collect();
    assert!(matches!(items.as_slice(), [Item::Entry(_), Item::Entry(_), Item::Misplaced(_)]), "{items:?}");
}

#[test]
fn unexpected_document_is_named_in_the_error() {
    let (_, end) = in_pieces(b"<html><body>Please log in</body></html>", "/", &[]);
    assert!(end.unwrap_err().to_string().contains("<html>"));
    let (_, end) = in_pieces(around("<D:response><D:status>fine</D:status></D:response>").as_bytes(), "/", &[]);
    assert_eq!(end.unwrap_err().problem, XmlProblem::Status("fine".into()));
}

#[test]
fn entries_before_an_error_are_kept_and_none_follow() {
    let document = around(&format!("{RESPONSE}{RESPONSE}&bomb;{RESPONSE}"));
    let mut answer = Multistatus::new(path("/a/"));
    let kinds: Vec<_> = answer.feed(document.as_bytes()).map(|item| item.is_ok()).collect();
    assert_eq!(kinds, [true, true, false]);
    assert_eq!(answer.feed(RESPONSE.as_bytes()).count(), 0);
    assert!(matches!(answer.finish().unwrap_err().problem, XmlProblem::Entity(_)));
}

#[test]
fn endless_response_is_refused() {
    let mut answer = Multistatus::new(path("/"));
    let start = "<D:multistatus xmlns:D='DAV:'><D:response><D:propstat><D:prop>";
    let failure = std::iter::once(start)
        .chain(std::iter::repeat("<D:lockdiscovery><D:activelock/></D:lockdiscovery>"))
        .take(100_000)
        .find_map(|piece| answer.feed(piece.as_bytes()).find_map(Result::err));
    assert_eq!(failure.unwrap().problem, XmlProblem::Large);
}

#[test]
fn many_entries_take_little_memory() {
    let mut answer = Multistatus::new(path("/a/"));
    let (mut count, mut most) = (0, 0);
    let mut feed = |answer: &mut Multistatus, piece: &str| {
        for item in answer.feed(piece.as_bytes()) {
            assert!(matches!(item, Ok(Item::Entry(_))));
            count += 1;
        }
        let Reading { trail, found, response, .. } = &answer.reading;
        most = most.max(trail.text.capacity() + found.capacity() * size_of::<Item>() + response.hrefs.len());
    };
    feed(&mut answer, "<D:multistatus xmlns:D='DAV:'>");
    let mut piece = String::new();
    for n in 0..100_000 {
        let _ = writeln!(piece, "{RESPONSE}<!-- {n} -->");
        if piece.len() > 16 * 1024 {
            let cut = 16 * 1000;
            feed(&mut answer, &piece[..cut]);
            piece.drain(..cut);
        }
    }
    feed(&mut answer, &piece);
    feed(&mut answer, "</D:multistatus>");
    answer.finish().unwrap();
    assert_eq!(count, 100_000);
    assert!(most < 64 * 1024, "{most} bytes");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn entries_are_the_same_however_the_input_is_split(
        responses in prop::collection::vec(
            prop::sample::select(vec![
                RESPONSE,
                "<D:response><D:href>/a/%2e%2e/b</D:href></D:response>",
                "<D:response>\r\n<D:href>/a/&#228; &amp;</D:href><D:status>HTTP/1.1 404 No</D:status></D:response>",
                "<x xmlns='DAV:'><response><href>no</href></response></x>",
                "<D:response><D:href><![CDATA[/a/<c>]]></D:href><D:propstat><D:prop><D:lockdiscovery><D:activelock>\
                 <D:owner>é<i>&lt;</i> <D:href>x</D:href></D:owner></D:activelock></D:lockdiscovery></D:prop>\
                 <D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>",
                "<D:sync-token>urn:1</D:sync-token>",
                "<!-- é -->",
                "&bad;",
            ]),
            0..6,
        ),
        cut_off in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let mut document = around(&responses.concat()).into_bytes();
        if let Some(at) = cut_off {
            document.truncate(at.index(document.len()));
            prop_assert!(in_pieces(&document, "/a/", &[]).1.is_err());
        }
        let mut cuts: Vec<_> = cuts.iter().map(|cut| if document.is_empty() { 0 } else { cut.index(document.len()) }).collect();
        cuts.sort_unstable();
        prop_assert_eq!(in_pieces(&document, "/a/", &cuts), in_pieces(&document, "/a/", &[]));
    }
}
