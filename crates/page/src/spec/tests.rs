use super::*;
use proptest::prelude::*;

fn parse(text: &str) -> Result<Spec, SpecError> {
    Spec::parse(text, Path::new("a/page.toml"))
}

/// A spec of requests `a`, `b`, … with these lines in them.
fn requests(lines: &[&str]) -> String {
    let entries = lines.iter().zip('a'..).map(|(lines, id)| {
        let response = if lines.contains("response") { "" } else { "response = { head = 100, body = 900 }" };
        format!("[[request]]\nid = \"{id}\"\nhost = \"x.example\"\npath = \"/{id}\"\n{lines}\n{response}\n")
    });
    format!("schema = \"{SCHEMA}\"\n{}", entries.collect::<String>())
}

fn said(lines: &[&str]) -> String {
    parse(&requests(lines)).unwrap_err().to_string()
}

#[test]
fn spec_is_parsed() {
    let spec = parse(&requests(&[
        "method = \"POST\"\ntext = \"ab\"\nhead = 300\nconnection = 7",
        "after = [{ head = \"a\", bytes = 500 }, { end = \"a\" }]\ncompute = \"1.5ms\"\nscheme = \"http\"\n\
         hold = { priority = \"low\", behind = [\"a\"], compute = \"2ms\" }",
    ]))
    .unwrap();
    let [a, b] = spec.requests.as_slice() else { panic!("two requests") };
    assert_eq!((a.method.as_str(), a.body.len(), a.head, a.connection), ("POST", 2, 300, Some(7)));
    assert_eq!(a.response.size(), 1000);
    assert_eq!(b.after[0], After { request: 0, until: Until::Head(500) });
    assert_eq!(b.after[0].until.body_bytes(&a.response), 400);
    assert_eq!((b.after[1].until, b.compute, b.secure), (Until::End, Duration::from_micros(1500), false));
    let hold = Hold { priority: Priority::Low, behind: vec![0], compute: Duration::from_millis(2) };
    assert_eq!((&a.hold, &b.hold), (&None, &Some(hold)));
    assert_eq!((spec.name.as_str(), spec.connections(), spec.hosts()), ("page", 1, vec!["x.example"]));
}

#[test]
fn heads_are_padded_to_the_recorded_size() {
    for head in [70, 90, 300, 5000] {
        let spec = parse(&requests(&[&format!(
            "head = {head}\nheaders = [\"accept: */*\"]\nresponse = {{ type = \"text/css\", head = {}, body = 5 }}",
            head + 10
        )]))
        .unwrap();
        let request = &spec.requests[0];
        let sent = |fields: HeaderMap| -> usize {
            fields.iter().map(|(name, value)| format!("{name}: {}\r\n", value.to_str().unwrap()).len()).sum()
        };
        let asked = sent(request.fields()) + "GET /a HTTP/1.1\r\n\r\n".len();
        let answered = sent(request.response.fields("x.example")) + "HTTP/1.1 200 OK\r\n\r\n".len();
        for (is, wanted) in [(asked, head), (answered, head + 10)] {
            assert!((wanted - 8..=wanted).contains(&is) && (wanted < 100 || is == wanted), "{is}, not {wanted}");
        }
    }
}

// One line for each error.
#[test]
fn errors_are_one_sentence_with_line() {
    let after = |what: &str| format!("after = [{what}]");
    let hold = |behind: &str| format!("hold = {{ priority = \"low\", behind = [{behind}] }}");
    for (lines, wanted) in [
        (vec!["", &after("{ end = \"z\" }")], "a/page.toml:8: request `b` is after `z`, which does not exist"),
        (vec![&after("{ end = \"a\" }")], "a/page.toml:2: request `a` waits for itself; remove the dependency"),
        (
            vec![&after("{ end = \"b\" }"), &after("{ end = \"a\" }")],
            "request `a` waits for itself, through `b`; remove a dependency, or change a connection",
        ),
        (
            vec![&format!("connection = 1\n{}", after("{ end = \"b\" }")), "connection = 1"],
            "request `a` waits for itself, through `b`",
        ),
        (
            vec!["", &after("{ head = \"a\" }")],
            "request `b` waits for 4000 bytes of `a`, whose response has 1000; write `end` to wait for all of it",
        ),
        (vec!["", &after("{ end = \"a\", bytes = 5 }")], "request `b` has an unclear dependency"),
        (vec!["head = 20"], "request `a`: the head of the request has 20 bytes, but its fields need 36"),
        (
            vec!["response = { head = 1000000000 }"],
            "the head of the response has 1000000000 bytes; the maximum is 262144",
        ),
        (vec!["response = { body = 9000000000000000 }"], "the body of the response has 9000000000000000 bytes"),
        (
            vec!["response = { body = 99999999999999999999 }"],
            "a/page.toml:6: invalid type: integer `99999999999999999999` as i128, expected a number of bytes, like 12000",
        ),
        (vec!["response = { body = -1 }"], "integer `-1`, expected a number of bytes"),
        (vec!["response = { body = \"much\" }"], "string \"much\", expected a number of bytes"),
        (vec!["response = { text = \"abc\", body = 4 }"], "the response has `body = 4`, but its content has 3 bytes"),
        (vec!["response = { file = \"../../etc/passwd\" }"], "body file `../../etc/passwd` is not below a"),
        (vec!["response = { file = \"no\" }"], "cannot read the body file a/no: No such file"),
        (vec!["response = { status = 101 }"], "invalid `status`"),
        (vec!["response = { status = 304, body = 4 }"], "the response to GET with status 304 cannot have a body"),
        (vec!["headers = [\"content-length: 5\"]"], "`content-length` is not allowed in `headers`"),
        (vec!["headers = [\"a b: 5\"]"], "`a b: 5` is not a header field"),
        (vec!["compute = \"fast\""], "`fast` is not a time"),
        (vec![&hold("\"z\"")], "a/page.toml:2: request `a`: is held back by `z`, which does not exist"),
        (vec![&hold("\"a\"")], "a/page.toml:2: request `a`: is held back by itself"),
        (vec![&hold("")], "request `a`: is held back by nothing; name requests in `behind`, or remove `hold`"),
        (vec!["hold = { priority = \"high\", behind = [] }"], "unknown variant `high`"),
        (vec!["colour = 1"], "a/page.toml:6: unknown field `colour`"),
    ] {
        let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
        let said = said(&lines);
        assert!(said.contains(wanted) && !said.contains('\n'), "{said}");
    }
    for host in ["..", "a..b", "", "a/b", "u@h", "a:0", "a:99999", "a b", "/"] {
        let text = requests(&[""]).replace("x.example", host);
        let said = parse(&text).unwrap_err().to_string();
        assert!(said.ends_with(&format!("request `a`: `{host}` is not a host")), "{said}");
    }
    for host in ["a", "a:8080", "10.0.0.1", "[2001:db8::1]:8080", "a_b.example"] {
        assert_eq!(parse(&requests(&[""]).replace("x.example", host)).unwrap().requests[0].host, host);
    }
    assert!(
        parse(&requests(&["", ""]).replace("\"b\"", "\"a\"")).unwrap_err().to_string().contains("duplicate id `a`")
    );
    assert!(parse("").unwrap_err().to_string().contains("not a page spec"));
    assert!(parse(&requests(&[])).unwrap_err().to_string().contains("from one to"));
}

#[test]
fn json_is_parsed_and_its_errors_have_a_line() {
    let text = format!(
        r#"{{"schema": "{SCHEMA}", "request": [
  {{"id": "a", "host": "x.example", "path": "/a", "response": {{"body": 7}}}},
  {{"id": "b", "host": "x.example", "path": "/b",
    "after": [{{"end": "a"}}], "response": {{}}}}
]}}"#
    );
    let json = |text: &str| Spec::parse(text, Path::new("page.json"));
    assert_eq!(json(&text).unwrap().requests[1].after, [After { request: 0, until: Until::End }]);
    let said = |wrong: &str, right: &str| json(&text.replace(right, wrong)).unwrap_err().to_string();
    assert!(said("\"end\": \"c\"", "\"end\": \"a\"").starts_with("page.json:3: request `b` is after `c`"));
    assert!(said("[{\"ende\": 1}]", "[{\"end\": \"a\"}]").starts_with("page.json:4: unknown field `ende`"));
    assert!(said("", "]}").starts_with("page.json:5: EOF"));
}

#[test]
fn spec_is_read_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.toml");
    let mut spec = parse(&requests(&[
        "headers = [\"accept: */*\", \"cookie: a=\\\"1\\\"\"]\ntext = \"sent\"\nmethod = \"POST\"",
        "after = [{ head = \"a\", bytes = 50 }]\nresponse = { status = 404, type = \"text/html\", text = \"no\\n\", think = \"15ms\" }",
        "after = [{ end = \"b\" }]\ncompute = \"12ms\"\nscheme = \"http\"\nconnection = 3",
        "hold = { priority = \"medium\", behind = [\"b\", \"a\"] }",
        "hold = { priority = \"low\", behind = [\"a\"], compute = \"1.5ms\" }",
    ]))
    .unwrap();
    spec.compute = Duration::from_millis(3);
    spec.recorded_at = chrono::DateTime::from_timestamp_millis(1_700_000_000_123);
    spec.requests[1].delays_load = false;
    spec.source = Some("somewhere \"else\"\nfrom a\u{7f}far".to_owned());
    spec.write(&path).unwrap();
    assert!(folder.path().join("site/0001.html").is_file());
    let mut read = Spec::read(&path).unwrap();
    read.name.clone_from(&spec.name);
    assert_eq!(read, spec);
}

#[test]
fn load_event_comes_after_what_is_computed_last() {
    let script = "response = { type = \"text/javascript\" }";
    let text = requests(&[script, "", "delays_load = false"]);
    let head = format!("schema = \"{SCHEMA}\"\ncompute = \"50ms\"");
    let ms = Duration::from_millis;
    let spec = parse(&text.replace(&format!("schema = \"{SCHEMA}\""), &head)).unwrap();
    assert_eq!(spec.load_event(&[ms(100), ms(120), ms(900)]), ms(150), "the script still runs");
    assert_eq!(spec.load_event(&[ms(100), ms(160), ms(900)]), ms(160), "or has run");
    assert_eq!(parse(&text).unwrap().load_event(&[ms(100), ms(120), ms(900)]), ms(120));
}

proptest! {
    #[test]
    fn parser_never_panics(text in ".*") {
        let _ = parse(&text);
        let _ = Spec::parse(&text, Path::new("x.json"));
        let _ = parse(&format!("schema = \"{SCHEMA}\"\n{text}"));
    }
}
