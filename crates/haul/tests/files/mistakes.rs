//! What cannot be done is one sentence, and the status says whose fault it is.

use std::net::TcpListener;

use crate::{
    common::{one_sentence, text},
    place::Place,
};

#[test]
fn wrong_usage_is_status_2() {
    let place = Place::new();
    let here = place.at("x");
    for (arguments, said) in [
        (&["ls"][..], "<URL>"),
        (&["ls", "folder"], "`folder` is not a URL"),
        (&["ls", "h.example:8080/a"], "write https://h.example:8080/a"),
        (&["mv", &here], "the target last"),
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
        let ended = place.haul(arguments);
        let told = text(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {told}");
        assert!(told.contains(said), "{arguments:?}: {told}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_status_1() {
    let place = Place::secured(&[]);
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}/", nobody.local_addr().unwrap());
    let closed = {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", gone.local_addr().unwrap())
    };
    for (arguments, said) in [
        (&["ls", &closed][..], "Connection refused"),
        (&["ls", &silent, "--timeout", "300ms"], "within 0.3 s"),
        (&["ls", &place.url], "certificate"),
        (&["probe", &place.url], "certificate"),
        (&["ls", &place.url, "--ca", "none.pem"], "none.pem"),
        (&["cp", "-r", "served", &closed], "Connection refused"),
    ] {
        let told = one_sentence(&place.haul(arguments), 1);
        assert!(told.contains(said), "{arguments:?}: {told}");
    }
    let insecure = place.haul(&["ls", "--insecure", &place.url]);
    assert!(insecure.status.success() && text(&insecure.stderr).contains("--insecure"));
}

#[test]
fn manual_and_completions_know_the_commands() {
    let place = Place::new();
    crate::common::printed(&place.haul(&["man", "man"]));
    for command in ["ls", "cp", "sync", "cat", "mv", "rm", "mkdir", "stat", "probe"] {
        assert!(place.path(&format!("man/haul-{command}.1")).exists(), "{command}");
    }
    let completions = crate::common::printed(&place.haul(&["completions", "bash"]));
    assert!(completions.contains("--pipeline"));
}
