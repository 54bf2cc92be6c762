//! Errors are one sentence; status 2 is for usage errors, status 1 for all others.

use std::net::TcpListener;

use crate::{
    common::{one_sentence, text},
    fixture::Fixture,
};

#[test]
fn wrong_usage_is_status_2() {
    let fixture = Fixture::new();
    let here = fixture.at("x");
    for (arguments, said) in [
        (&["ls"][..], "<URL>"),
        (&["ls", "folder"], "`folder` is not a URL"),
        (&["ls", "h.example:8080/a"], "write https://h.example:8080/a"),
        (&["mv", &here], "the target last"),
        (&["mv", "a", "b"], "all paths are local"),
        (&["mv", "-", &here], "standard input cannot be moved"),
        (&["mv", &here, "-"], "standard output"),
        (&["cp", "-n", &here, "-"], "--dry-run"),
        (&["cp", "-a", "served", &here], "use -r"),
        (&["ls", "-tU", &here], "--unsorted"),
        (&["mkdir", "https://h/a*"], "%2A"),
        (&["sync", "https://h/a[1]", "b"], "%5B"),
        (&["cp", "a", "https://h/*"], "%2A"),
        (&["ls", "https://h/a[1"], "without a `]`"),
        (&["ls", "https://h/**/b"], "`**`"),
        (&["sync", "log", &here], "log is not a folder"),
        (&["ls", "ftp://h/"], "`ftp://`"),
        (&["ls", "https:/h/"], "`//`"),
        (&["ls", "https://h/a?b"], "%3F"),
        (&["ls", &here, "http://other/"], "different servers or users"),
        (&["cp", "a", "b"], "all paths are local"),
        (&["cp", "a", &here, &here], "both local and remote"),
        (&["sync", "a", "b"], "both folders are local"),
        (&["cat", &here, "--json", "-"], "standard output is for the files"),
        (&["ls", &here, "--connections", "0"], "--connections"),
        (&["ls", &here, "--timeout", "0s"], "--timeout"),
        (&["ls", &here, "--pipeline", "on"], "safe"),
    ] {
        let ended = fixture.haul(arguments);
        let told = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(said), "{arguments:?}: {told}");
    }
}

#[test]
fn unreachable_server_is_status_1() {
    let fixture = Fixture::secured(&[]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}/", nobody.local_addr().unwrap());
    let closed = {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", gone.local_addr().unwrap())
    };
    for (arguments, said) in [
        (&["ls", &closed][..], "Connection refused"),
        (&["ls", &silent, "--timeout", "300ms"], "within 0.3 s"),
        (&["ls", &fixture.url], "with --ca FILE, or for commands on files as `ca` in config.toml ("),
        (&["probe", &fixture.url], "certificate"),
        (&["ls", &fixture.url, "--ca", "none.pem"], "none.pem"),
        (&["cp", "-r", "served", &closed], "Connection refused"),
    ] {
        let told = one_sentence(&fixture.haul(arguments), 1);
        assert!(told.contains(said), "{arguments:?}: {told}");
    }
    let insecure = fixture.haul(&["ls", "--insecure", &fixture.url]);
    assert!(insecure.status.success() && text(&insecure.stderr).contains("--insecure"));
}

#[test]
fn manual_and_completions_cover_all_commands() {
    let fixture = Fixture::new();
    crate::common::printed(&fixture.haul(&["man", "man"]));
    for command in ["ls", "cp", "sync", "cat", "mv", "rm", "mkdir", "stat", "probe", "du", "tree"] {
        assert!(fixture.path(&format!("man/haul-{command}.1")).exists(), "{command}");
    }
    let completions = crate::common::printed(&fixture.haul(&["completions", "bash"]));
    assert!(completions.contains("--pipeline"));
}
