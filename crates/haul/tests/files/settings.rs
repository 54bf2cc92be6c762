//! Settings from the file, the environment and options; and the cached server facts.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::{
    common::{one_sentence, output, printed, text},
    fixture::{Fixture, write},
};

fn configure(fixture: &Fixture, text: &str) {
    fs::create_dir_all(fixture.path("home/.config/longhaul")).unwrap();
    fs::write(fixture.path("home/.config/longhaul/config.toml"), text).unwrap();
}

#[test]
fn option_overrides_environment_overrides_file() {
    let fixture = Fixture::new();
    write(&fixture.path("."), &[("a", "1")]);
    configure(&fixture, "[defaults]\nlock = \"always\"\n");
    printed(&fixture.haul(&["cp", "a", &fixture.at("x")]));
    assert_eq!(fixture.requests("LOCK"), 1);
    let mut command = fixture.command(&["cp", "a", &fixture.at("y")]);
    command.env("HAUL_LOCK", "never");
    printed(&output(command));
    assert_eq!(fixture.requests("LOCK"), 1);
    let mut command = fixture.command(&["cp", "a", &fixture.at("z"), "--lock", "always"]);
    command.env("HAUL_LOCK", "never");
    printed(&output(command));
    assert_eq!(fixture.requests("LOCK"), 2);
}

#[test]
fn unknown_key_is_named_with_its_line() {
    let fixture = Fixture::new();
    configure(&fixture, "[defaults]\nlock = \"never\"\npipe = \"off\"\n");
    let told = one_sentence(&fixture.haul(&["ls", &fixture.url]), 1);
    assert!(told.contains("config.toml, line 3: ") && told.contains("`pipe`"), "{told}");
}

#[test]
fn server_facts_are_cached() {
    let fixture = Fixture::new();
    write(&fixture.path("served"), &[("a/x", ""), ("b/x", ""), ("c/x", ""), ("d/x", "")]);
    let kept = fixture.path("home/.cache/longhaul/servers.json");
    printed(&fixture.haul(&["probe", &fixture.url]));
    let servers: serde_json::Value = serde_json::from_slice(&fs::read(&kept).unwrap()).unwrap();
    assert!(servers["servers"][&fixture.url]["depth"].as_u64().unwrap() >= 8, "{servers}");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&kept, "{ broken").unwrap();
    let told = fixture.haul(&["probe", &fixture.url]);
    assert!(told.status.success());
    assert!(text(&told.stderr).contains("ignoring the invalid cache"), "{}", text(&told.stderr));
    assert!(serde_json::from_slice::<serde_json::Value>(&fs::read(&kept).unwrap()).is_ok());
}
