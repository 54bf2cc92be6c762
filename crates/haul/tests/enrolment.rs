//! `haul gateway enroll` and `status` as processes.

mod common;

use std::{
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::PermissionsExt,
    process::{Output, Stdio},
};

use common::{Room, one_sentence, printed, text};

/// Runs `haul gateway` with this on standard input.
fn gateway(room: &Room, arguments: &[&str], input: &str) -> Output {
    let mut command = room.command(common::HAUL);
    command.arg("gateway").args(arguments).arg("--state").arg(room.path("state")).arg("--key").arg(room.path("key"));
    // Samba's database has tests of its own, which need Samba.
    if arguments[0] == "enroll" && !arguments.contains(&"--remove") {
        command.arg("--keep-smb-password");
    }
    command.env_remove("CREDENTIALS_DIRECTORY");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // One that refuses does not read.
    let _ = child.stdin.take().expect("it is piped").write_all(input.as_bytes());
    child.wait_with_output().expect("it is ours")
}

fn vault_files(room: &Room) -> Vec<String> {
    let entries = fs::read_dir(room.path("state/vault")).into_iter().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn user_is_enrolled_listed_and_removed() {
    let room = Room::new();
    assert_eq!(printed(&gateway(&room, &["status"], "")), "nobody is enrolled\n");
    let enrolled = gateway(&room, &["enroll", "Ann", "--account", "ann@example.org"], "hunter2\n");
    assert!(enrolled.status.success(), "{}", text(&enrolled.stderr));
    assert!(gateway(&room, &["enroll", "bob", "--token"], "t0ken\n").status.success());
    let status = printed(&gateway(&room, &["status"], ""));
    assert_eq!(status, "ann: enrolled as ann@example.org\nbob: enrolled as bob\n");
    for name in ["state/vault/ann.sealed", "state/vault/bob.sealed", "key"] {
        let mode = fs::metadata(room.path(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
        let content = fs::read(room.path(name)).unwrap();
        for secret in ["hunter2", "t0ken"] {
            assert!(!content.windows(secret.len()).any(|part| part == secret.as_bytes()), "{name}");
        }
    }
    assert!(gateway(&room, &["enroll", "--remove", "ANN"], "").status.success());
    assert_eq!(vault_files(&room), ["bob.sealed"]);
    one_sentence(&gateway(&room, &["enroll", "--remove", "ann"], ""), 1);
}

#[test]
fn nothing_is_stored_when_something_is_wrong() {
    let room = Room::new();
    one_sentence(&gateway(&room, &["enroll", "ann"], "\n"), 1);
    for name in ["../ann", "a b", ""] {
        assert_eq!(gateway(&room, &["enroll", name], "x\n").status.code(), Some(2), "{name}");
    }
    assert_eq!(gateway(&room, &["enroll", "ann", "--account", "a:b"], "x\n").status.code(), Some(2));
    assert_eq!(vault_files(&room), Vec::<String>::new());
    assert!(gateway(&room, &["enroll", "ann"], "hunter2\n").status.success());
    fs::set_permissions(room.path("key"), Permissions::from_mode(0o640)).unwrap();
    let said = one_sentence(&gateway(&room, &["enroll", "bob"], "hunter2\n"), 1);
    assert!(said.contains("chmod 600") && !said.contains("hunter2"), "{said}");
    fs::rename(room.path("key"), room.path("lost")).unwrap();
    let said = one_sentence(&gateway(&room, &["enroll", "bob"], "hunter2\n"), 1);
    assert!(said.contains("its key") && said.contains("is missing"), "{said}");
    assert_eq!(vault_files(&room), ["ann.sealed"]);
}

#[test]
fn plain_gateway_still_needs_its_upstream() {
    let room = Room::new();
    let mut command = room.command(common::HAUL);
    command.arg("gateway");
    let said = common::output(command);
    assert_eq!(said.status.code(), Some(2));
    assert!(text(&said.stderr).contains("--upstream"), "{}", text(&said.stderr));
    let mut command = room.command(common::HAUL);
    command.args(["gateway", "--upstream", "https://dav.example.org/", "status"]);
    assert_eq!(common::output(command).status.code(), Some(2));
}
