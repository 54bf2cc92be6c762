//! Where passwords come from, and where they must not appear.

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
    fixture::{Fixture, answering, write},
};

pub(crate) fn guarded(options: &[&str]) -> Fixture {
    let users = tempfile::NamedTempFile::new().unwrap();
    fs::write(users.path(), format!("ann:{}\n", bcrypt::hash("hunter2", 4).unwrap())).unwrap();
    let fixture = Fixture::serving(&[&["--auth", users.path().to_str().unwrap()], options].concat());
    write(&fixture.path("served"), &[("a", "secret\n")]);
    fixture
}

fn private(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn password_is_read_from_every_source() {
    let fixture = guarded(&["--tls", "self-signed", "--cert-out", "cert.pem"]);
    let url = fixture.at("a");
    let cat = |url: &str| fixture.command(&["cat", "--ca", "cert.pem", url]);
    let at_ann = url.replace("://", "://ann@");

    let mut environment = cat(&url);
    environment.envs([("HAUL_USER", "ann"), ("HAUL_PASSWORD", "hunter2")]);
    assert_eq!(printed(&output(environment)), "secret\n");

    private(&fixture.path("word"), "hunter2\n");
    let mut file = cat(&at_ann);
    file.args(["--password-file", "word"]);
    assert_eq!(printed(&output(file)), "secret\n");

    private(&fixture.path("home/.netrc"), "machine 127.0.0.1 login ann password hunter2\n");
    assert_eq!(printed(&output(cat(&url))), "secret\n");
    assert_eq!(printed(&output(cat(&at_ann))), "secret\n");
    fs::set_permissions(fixture.path("home/.netrc"), fs::Permissions::from_mode(0o644)).unwrap();
    let warned = output(cat(&url));
    assert!(text(&warned.stderr).contains("chmod 600") && warned.status.success(), "{}", text(&warned.stderr));
    fs::remove_file(fixture.path("home/.netrc")).unwrap();

    fs::create_dir_all(fixture.path("home/.config/longhaul")).unwrap();
    let config =
        "[host.\"127.0.0.1\"]\nuser = \"ann\"\npassword-file = \"../../../word\"\nca = \"../../../cert.pem\"\n";
    fs::write(fixture.path("home/.config/longhaul/config.toml"), config).unwrap();
    assert_eq!(printed(&fixture.haul(&["cat", &url])), "secret\n");
}

#[test]
fn missing_or_wrong_password_error_says_what_to_do() {
    let fixture = guarded(&[]);
    let unknown = one_sentence(&fixture.haul(&["ls", &fixture.url]), 1);
    assert!(unknown.contains("~/.netrc"), "{unknown}");
    let mut wrong = fixture.command(&["ls", &fixture.url]);
    wrong.envs([("HAUL_USER", "ann"), ("HAUL_PASSWORD", "wrong-word")]);
    let refused = one_sentence(&output(wrong), 1);
    assert!(refused.contains("rejected") && !refused.contains("wrong-word"), "{refused}");
    private(&fixture.path("word"), "hunter2\n");
    let nobody = fixture.haul(&["ls", &fixture.url, "--password-file", "word"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(text(&nobody.stderr).contains("needs a user"), "{}", text(&nobody.stderr));
}

#[test]
fn password_in_an_argument_is_refused_and_not_printed() {
    let fixture = Fixture::new();
    let url = fixture.url.replace("://", "://ann:hunter2@");
    for arguments in [
        &["ls", &url][..],
        &["cp", "x", &url],
        &["cp", &url, "x"],
        &["sync", &url, "x"],
        &["mv", &url, &url],
        &["probe", &url],
    ] {
        let refused = fixture.haul(arguments);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("process list") && !said.contains("hunter2"), "{said}");
    }
    assert_eq!(fixture.requests("PROPFIND"), 0);
}

#[test]
fn requests_to_localhost_bypass_the_proxy() {
    let fixture = guarded(&[]);
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    proxy.set_nonblocking(true).unwrap();
    for variable in ["http_proxy", "all_proxy"] {
        let mut command = fixture.command(&["cat", &fixture.at("a"), "--timeout", "5s"]);
        command.envs([("HAUL_USER", "ann"), ("HAUL_PASSWORD", "hunter2")]);
        command.env(variable, format!("http://{}", proxy.local_addr().unwrap()));
        assert_eq!(printed(&output(command)), "secret\n");
        assert!(proxy.accept().is_err(), "{variable}");
    }
}

#[test]
fn insecure_and_ca_do_not_apply_after_a_redirect() {
    let fixture = guarded(&["--tls", "self-signed", "--cert-out", "cert.pem"]);
    let to = fixture.at("a");
    let first =
        answering(move |_, client| write!(client, "HTTP/1.1 302 There\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n"));
    let url = format!("http://localhost:{}/a", first.port());
    for granted in [&["--insecure"][..], &["--ca", "cert.pem"]] {
        let told = fixture.haul(&[&["cat", &url], granted].concat());
        assert_eq!(told.status.code(), Some(1));
        assert!(text(&told.stderr).contains("certificate"), "{granted:?}: {}", text(&told.stderr));
    }
    assert_eq!(fixture.requests("GET"), 0);
    // Another port is the same host.
    let url = format!("http://127.0.0.1:{}/a", first.port());
    for granted in [&["--insecure"][..], &["--ca", "cert.pem"]] {
        let told = fixture.haul(&[&["cat", &url], granted].concat());
        assert!(text(&told.stderr).contains("requires Basic"), "{granted:?}: {}", text(&told.stderr));
    }
}

#[test]
fn password_prompt_does_not_echo() {
    let fixture = guarded(&[]);
    let shell = format!("'{}' cat '{}'", crate::common::HAUL, fixture.at("a"));
    let mut script = Command::new("script");
    script.args(["-qec", &shell, "/dev/null"]).current_dir(fixture.path(".")).env("HOME", fixture.path("home"));
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
        // If the output ends without a prompt, the test ends too.
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
