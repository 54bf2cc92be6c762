//! Who asks: where passwords come from, and where they never go.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
};

use crate::{
    common::{one_sentence, output, printed, text},
    place::{Place, answering, write},
};

pub(crate) fn guarded(options: &[&str]) -> Place {
    let users = tempfile::NamedTempFile::new().unwrap();
    fs::write(users.path(), format!("ann:{}\n", bcrypt::hash("hunter2", 4).unwrap())).unwrap();
    let place = Place::serving(&[&["--auth", users.path().to_str().unwrap()], options].concat());
    write(&place.path("served"), &[("a", "secret\n")]);
    place
}

fn private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn a_password_may_be_in_many_places() {
    let place = guarded(&["--tls", "self-signed", "--cert-out", "cert.pem"]);
    let url = place.at("a");
    let cat = |url: &str| place.command(&["cat", "--ca", "cert.pem", url]);
    let at_ann = url.replace("://", "://ann@");

    let mut environment = cat(&url);
    environment.envs([("HAUL_USER", "ann"), ("HAUL_PASSWORD", "hunter2")]);
    assert_eq!(printed(&output(environment)), "secret\n");

    private(&place.path("word"), "hunter2\n");
    let mut file = cat(&at_ann);
    file.args(["--password-file", "word"]);
    assert_eq!(printed(&output(file)), "secret\n");

    private(&place.path("home/.netrc"), "machine 127.0.0.1 login ann password hunter2\n");
    assert_eq!(printed(&output(cat(&url))), "secret\n");
    assert_eq!(printed(&output(cat(&at_ann))), "secret\n");
    fs::set_permissions(place.path("home/.netrc"), fs::Permissions::from_mode(0o644)).unwrap();
    let warned = output(cat(&url));
    assert!(text(&warned.stderr).contains("chmod 600") && warned.status.success(), "{}", text(&warned.stderr));
    fs::remove_file(place.path("home/.netrc")).unwrap();

    fs::create_dir_all(place.path("home/.config/longhaul")).unwrap();
    let config =
        "[host.\"127.0.0.1\"]\nuser = \"ann\"\npassword-file = \"../../../word\"\nca = \"../../../cert.pem\"\n";
    fs::write(place.path("home/.config/longhaul/config.toml"), config).unwrap();
    assert_eq!(printed(&place.haul(&["cat", &url])), "secret\n");
}

#[test]
fn without_the_right_one_it_is_said_what_is_wanted() {
    let place = guarded(&[]);
    let unknown = one_sentence(&place.haul(&["ls", &place.url]), 1);
    assert!(unknown.contains("~/.netrc"), "{unknown}");
    let mut wrong = place.command(&["ls", &place.url]);
    wrong.envs([("HAUL_USER", "ann"), ("HAUL_PASSWORD", "wrong-word")]);
    let refused = one_sentence(&output(wrong), 1);
    assert!(refused.contains("rejected") && !refused.contains("wrong-word"), "{refused}");
    private(&place.path("word"), "hunter2\n");
    let nobody = place.haul(&["ls", &place.url, "--password-file", "word"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(text(&nobody.stderr).contains("needs a user"), "{}", text(&nobody.stderr));
}

#[test]
fn a_password_in_an_argument_is_refused_and_not_repeated() {
    let place = Place::new();
    let url = place.url.replace("://", "://ann:hunter2@");
    for arguments in [
        &["ls", &url][..],
        &["cp", "x", &url],
        &["cp", &url, "x"],
        &["sync", &url, "x"],
        &["mv", &url, &url],
        &["probe", &url],
    ] {
        let refused = place.haul(arguments);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("process list") && !said.contains("hunter2"), "{said}");
    }
    assert_eq!(place.requests("PROPFIND"), 0);
}

#[test]
fn no_proxy_hears_what_is_for_this_machine() {
    let place = guarded(&[]);
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    for variable in ["http_proxy", "all_proxy"] {
        let mut command = place.command(&["cat", &place.at("a"), "--timeout", "5s"]);
        command.envs([("HAUL_USER", "ann"), ("HAUL_PASSWORD", "hunter2")]);
        command.env(variable, format!("http://{}", proxy.local_addr().unwrap()));
        assert_eq!(printed(&output(command)), "secret\n");
        assert!(proxy.accept().is_err(), "{variable}");
    }
}

#[test]
fn what_one_host_is_granted_no_redirect_takes_to_another() {
    let place = guarded(&["--tls", "self-signed", "--cert-out", "cert.pem"]);
    let to = place.at("a");
    let first =
        answering(move |_, client| write!(client, "HTTP/1.1 302 There\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"));
    let url = format!("http://localhost:{}/a", first.port());
    for granted in [&["--insecure"][..], &["--ca", "cert.pem"]] {
        let told = place.haul(&[&["cat", &url], granted].concat());
        assert_eq!(told.status.code(), Some(1));
        assert!(text(&told.stderr).contains("certificate"), "{granted:?}: {}", text(&told.stderr));
    }
    assert_eq!(place.requests("GET"), 0);
    // The same host is itself at another port.
    let url = format!("http://127.0.0.1:{}/a", first.port());
    for granted in [&["--insecure"][..], &["--ca", "cert.pem"]] {
        let told = place.haul(&[&["cat", &url], granted].concat());
        assert!(text(&told.stderr).contains("requires Basic"), "{granted:?}: {}", text(&told.stderr));
    }
}

#[test]
fn a_person_is_asked_and_the_answer_is_not_shown() {
    let place = guarded(&[]);
    let shell = format!("'{}' cat '{}'", crate::common::HAUL, place.at("a"));
    let mut script = Command::new("script");
    script.args(["-qec", &shell, "/dev/null"]).current_dir(place.path(".")).env("HOME", place.path("home"));
    script.env_remove("HAUL_USER").env_remove("HAUL_PASSWORD").stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut script) = script.spawn() else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: script is not installed; apt-get install bsdutils");
        return;
    };
    let (mut hand, mut screen) = (script.stdin.take().unwrap(), script.stdout.take().unwrap());
    let mut shown = String::new();
    for (question, answer) in
        [("User at http://127.0.0.1", "ann\n"), ("Password of ann at http://", "hunter2\n"), ("secret", "")]
    {
        // The end of what is shown is an end here too: a question that never comes does not hold the test.
        while !shown.contains(question) {
            let mut piece = [0; 1024];
            let length = screen.read(&mut piece).unwrap();
            assert!(length > 0, "no {question}: {shown}");
            shown.push_str(&text(&piece[..length]));
        }
        hand.write_all(answer.as_bytes()).unwrap();
    }
    assert!(script.wait().unwrap().success());
    assert!(!shown.contains("hunter2"), "{shown}");
}
