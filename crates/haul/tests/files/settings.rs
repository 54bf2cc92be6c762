//! Settings from the file, the environment and flags; and what is remembered of servers.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::{
    common::{one_sentence, output, printed, text},
    place::{Place, write},
};

fn configure(place: &Place, text: &str) {
    fs::create_dir_all(place.path("home/.config/longhaul")).unwrap();
    fs::write(place.path("home/.config/longhaul/config.toml"), text).unwrap();
}

#[test]
fn a_flag_is_stronger_than_the_environment_and_that_than_the_file() {
    let place = Place::new();
    write(&place.path("."), &[("a", "1")]);
    configure(&place, "[defaults]\nlock = \"always\"\n");
    printed(&place.haul(&["cp", "a", &place.at("x")]));
    assert_eq!(place.requests("LOCK"), 1);
    let mut command = place.command(&["cp", "a", &place.at("y")]);
    command.env("HAUL_LOCK", "never");
    printed(&output(command));
    assert_eq!(place.requests("LOCK"), 1);
    let mut command = place.command(&["cp", "a", &place.at("z"), "--lock", "always"]);
    command.env("HAUL_LOCK", "never");
    printed(&output(command));
    assert_eq!(place.requests("LOCK"), 2);
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let place = Place::new();
    configure(&place, "[defaults]\nlock = \"never\"\npipe = \"off\"\n");
    let told = one_sentence(&place.haul(&["ls", &place.url]), 1);
    assert!(told.contains("config.toml, line 3: ") && told.contains("`pipe`"), "{told}");
}

#[test]
fn what_was_learned_of_a_server_is_kept() {
    let place = Place::new();
    write(&place.path("served"), &[("a/x", ""), ("b/x", ""), ("c/x", ""), ("d/x", "")]);
    let kept = place.path("home/.cache/longhaul/servers.json");
    printed(&place.haul(&["probe", &place.url]));
    let servers: serde_json::Value = serde_json::from_slice(&fs::read(&kept).unwrap()).unwrap();
    assert!(servers["servers"][&place.url]["depth"].as_u64().unwrap() >= 8, "{servers}");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&kept, "{ broken").unwrap();
    let told = place.haul(&["probe", &place.url]);
    assert!(told.status.success());
    assert!(text(&told.stderr).contains("ignoring the invalid cache"), "{}", text(&told.stderr));
    assert!(serde_json::from_slice::<serde_json::Value>(&fs::read(&kept).unwrap()).is_ok());
}
