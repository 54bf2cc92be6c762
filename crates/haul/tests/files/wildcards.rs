//! Wildcards in URLs.

use std::fs;

use crate::{
    common::{one_sentence, printed, text},
    fixture::{Fixture, json, tree, write},
};

fn photos() -> Fixture {
    let fixture = Fixture::new();
    let files = [("p/a.jpg", "1"), ("p/b.jpg", "2"), ("p/c.txt", "3"), ("p/.hidden.jpg", "4"), ("p/[1]*.pdf", "5")];
    write(&fixture.path("served"), &files);
    write(&fixture.path("served"), &[("q/2023/a.jpg", "6"), ("q/2024/a.jpg", "7"), ("q/2024/x/y", ""), ("q/file", "")]);
    fixture
}

#[test]
fn wildcards_select_files_for_each_command() {
    let fixture = photos();
    let at = |path: &str| fixture.at(path);
    assert_eq!(printed(&fixture.haul(&["ls", &at("p/*.jpg")])), "a.jpg\nb.jpg\n");
    assert_eq!(fixture.requests("PROPFIND"), 1, "the listing has all that is printed");
    assert_eq!(printed(&fixture.haul(&["ls", &at("q/*/a.jpg")])), "/q/2023/:\na.jpg\n\n/q/2024/:\na.jpg\n");
    assert_eq!(printed(&fixture.haul(&["ls", &at("q/*/x")])), "y\n");
    assert_eq!(printed(&fixture.haul(&["ls", &at("q/*4/")])), "a.jpg\nx/\n");
    assert_eq!(printed(&fixture.haul(&["ls", &at("p/.*")])), ".hidden.jpg\n");
    assert_eq!(printed(&fixture.haul(&["cat", &at("p/[ab].jpg"), &at("p/[!ab.]*.txt")])), "123");
    assert_eq!(printed(&fixture.haul(&["du", "-s", &at("q/20*")])), "1\t/q/2023/\n1\t/q/2024/\n");
    assert!(printed(&fixture.haul(&["stat", &at("p/*.txt")])).contains("/p/c.txt\n"));
    fs::create_dir(fixture.path("here")).unwrap();
    printed(&fixture.haul(&["cp", &at("p/*.jpg"), "here"]));
    assert_eq!(tree(&fixture.path("here")).into_keys().collect::<Vec<_>>(), ["a.jpg", "b.jpg"]);
    let copied = fixture.haul(&["cp", "-n", &at("p/*.jpg"), &at("q"), "--json", "-"]);
    let first = &json(printed(&copied).as_bytes(), "cp")["copied"][0];
    assert_eq!(first, &serde_json::json!({"from": "/p/a.jpg", "to": "/q/a.jpg"}));
    assert!(!fixture.served("q/a.jpg").exists(), "a dry run copies nothing");
    printed(&fixture.haul(&["cp", &at("p/*.jpg"), &at("q")]));
    printed(&fixture.haul(&["mv", &at("q/2*"), &at("p")]));
    assert!(fixture.served("q/b.jpg").exists() && fixture.served("p/2024/x/y").exists());
}

#[test]
fn rm_deletes_what_matches_and_no_more() {
    let fixture = photos();
    let would = printed(&fixture.haul(&["rm", "-n", &fixture.at("p/*.jpg")]));
    assert_eq!(would, "delete /p/a.jpg\ndelete /p/b.jpg\n");
    printed(&fixture.haul(&["rm", &fixture.at("p/*.jpg")]));
    assert_eq!(tree(&fixture.served("p")).into_keys().collect::<Vec<_>>(), [".hidden.jpg", "[1]*.pdf", "c.txt"]);
    // Folders need -r, and the files beside them are deleted, as by rm(1).
    assert!(one_sentence(&fixture.haul(&["rm", &fixture.at("q/2023"), &fixture.at("q/f*")]), 1).contains("add -r"));
    assert_eq!(tree(&fixture.served("q")).len(), 6, "but for the file");
    printed(&fixture.haul(&["rm", "-r", &fixture.at("q/*")]));
    assert!(tree(&fixture.served("q")).is_empty());
}

#[test]
fn name_with_wildcards_in_it_stays_reachable() {
    let fixture = photos();
    let url = fixture.at("p/%5B1%5D%2A.pdf");
    assert_eq!(printed(&fixture.haul(&["cat", &url])), "5");
    let found = json(printed(&fixture.haul(&["ls", "--json", "-", &fixture.at("p/*.pdf")])).as_bytes(), "ls");
    assert_eq!(found["entries"][0]["url"], url, "what is printed can be used");
    assert_eq!(printed(&fixture.haul(&["cat", &fixture.at("p/%5B1]*")])), "5");
    printed(&fixture.haul(&["rm", &url]));
    assert!(!fixture.served("p/[1]*.pdf").exists() && fixture.served("p/c.txt").exists());
}

#[test]
fn pattern_without_a_match_is_named() {
    let fixture = photos();
    for arguments in [&["ls"][..], &["cat"], &["rm"], &["stat"], &["du"], &["tree"]] {
        let told = one_sentence(&fixture.haul(&[arguments, &[&fixture.at("p/[xy]*.gif")]].concat()), 1);
        assert!(told.contains("/p/[xy]*.gif: nothing matches") && told.contains("%5B"), "{told}");
    }
    for verb in ["cp", "mv"] {
        let told = one_sentence(&fixture.haul(&[verb, &fixture.at("p/*.gif"), "here"]), 1);
        assert!(told.contains("/p/*.gif: nothing matches") && !fixture.path("here").exists(), "{told}");
    }
    let ended = fixture.haul(&["ls", &fixture.at("p/*.gif"), &fixture.at("p/*.txt")]);
    assert!(one_sentence(&ended, 1).contains("*.gif") && text(&ended.stdout) == "c.txt\n");
    assert!(one_sentence(&fixture.haul(&["ls", &fixture.at("none/*")]), 1).contains("/none/: not found"));
}
