//! Passwords in the kernel's keyring: `haul password`, and the commands that find them there.

use std::{
    fs,
    io::Write,
    process::{Command, Output, Stdio},
};

use crate::{
    common::{HAUL, one_sentence, output, text},
    credentials::guarded,
    fixture::Fixture,
};

/// Runs a script in a user namespace of its own. The keyrings of its users end with it, so nothing is left behind.
fn in_namespace(fixture: &Fixture, script: &str) -> Output {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &format!("haul() {{ '{HAUL}' \"$@\"; }}\n{script}")]);
    command.current_dir(fixture.path(".")).stdin(Stdio::null()).env_clear();
    command.env("HOME", fixture.path("home")).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.env("URL", fixture.at("a")).env("ANN", fixture.at("a").replace("://", "://ann@")).env("HAUL_LOG", "trace");
    output(command)
}

/// Whether there are namespaces, and persistent keyrings in them.
fn has_keyring(fixture: &Fixture) -> bool {
    let tried = in_namespace(fixture, "echo word | HAUL_LOG=warn haul password set http://ann@127.0.0.1:1/");
    if !tried.status.success() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no keyring in a user namespace: {}", text(&tried.stderr));
    }
    tried.status.success()
}

/// Runs a script in which `FILTERED` is a `haul` without the system call keyctl, as in many containers.
fn filtered(fixture: &Fixture, script: &str) -> Output {
    // seccomp(2) in classic BPF: load the number of the call; if it is keyctl, fail with EPERM; else allow it.
    let (keyctl, prctl) = (nix::libc::SYS_keyctl, nix::libc::SYS_prctl);
    let program = format!(
        r#"my $bpf = pack("SCCL" x 4, 0x20,0,0,0, 0x15,0,1,{keyctl}, 0x06,0,0,0x50001, 0x06,0,0,0x7fff0000);
        syscall({prctl}, 38, 1, 0, 0, 0) == 0 && syscall({prctl}, 22, 2, pack("Sx6P", 4, $bpf)) == 0 or die "$!";
        exec @ARGV"#
    );
    fs::write(fixture.path("filter.pl"), program).unwrap();
    let haul = format!("perl filter.pl '{HAUL}'");
    in_namespace(fixture, &format!("export HAUL_LOG=warn\n{}", script.replace("FILTERED", &haul)))
}

#[test]
fn stored_password_is_found_until_it_is_removed() {
    let fixture = guarded(&[]);
    if !has_keyring(&fixture) {
        return;
    }
    let script = r#"
        echo hunter2 | haul password set "$ANN" || exit 10
        haul cat "$URL" || exit 11
        haul cat "$ANN" || exit 12
        haul cat "$(echo "$ANN" | sed s/ann/bob/)" && exit 13
        haul cat "$(echo "$URL" | sed s/127.0.0.1/localhost/)" && exit 14
        echo wrong-word | HAUL_USER=bob haul password set "$URL" || exit 15
        haul cat "$URL" && exit 16
        haul cat "$ANN" || exit 17
        HAUL_USER=ann HAUL_PASSWORD=wrong-word haul cat "$URL" && exit 18
        haul password remove "$URL" || exit 19
        haul password remove "$ANN" || exit 20
        haul password remove "$ANN" && exit 21
        haul cat "$ANN" && exit 22
        exit 0"#;
    let done = in_namespace(&fixture, script);
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(0), "{said}");
    assert_eq!(text(&done.stdout), "secret\n".repeat(3));
    assert!(!said.contains("hunter2") && !said.contains("wrong-word"), "{said}");
    assert!(said.contains("removed the password of bob") && said.contains("has no password of ann"), "{said}");
}

#[test]
fn netrc_entry_of_the_host_is_preferred_to_the_keyring() {
    let fixture = guarded(&[]);
    if !has_keyring(&fixture) {
        return;
    }
    let netrc = fixture.path("netrc");
    fs::write(&netrc, "machine 127.0.0.1 login ann password hunter2\n").unwrap();
    let script =
        "echo wrong-word | haul password set \"$ANN\"; haul cat \"$URL\" && exit 1; NETRC=netrc haul cat \"$URL\"";
    let done = in_namespace(&fixture, script);
    assert_eq!((done.status.code(), text(&done.stdout).as_str()), (Some(0), "secret\n"), "{}", text(&done.stderr));
}

#[test]
fn unusable_keyring_is_an_error_only_on_request() {
    let fixture = guarded(&[]);
    let tried = filtered(&fixture, "FILTERED --version");
    if !tried.status.success() {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no seccomp by perl: {}", text(&tried.stderr));
        return;
    }
    for asked in ["echo hunter2 | FILTERED password set \"$ANN\"", "FILTERED password remove \"$ANN\""] {
        let said = one_sentence(&filtered(&fixture, asked), 1);
        assert!(said.contains("permission denied") && said.contains("netrc") && !said.contains("hunter2"), "{said}");
    }
    let found = filtered(&fixture, "HAUL_USER=ann HAUL_PASSWORD=hunter2 FILTERED cat \"$URL\"");
    assert_eq!((text(&found.stdout), text(&found.stderr)), ("secret\n".into(), String::new()));
    let none = one_sentence(&filtered(&fixture, "FILTERED cat \"$URL\""), 1);
    assert!(none.contains("there are no credentials") && !none.contains("permission"), "{none}");
}

#[test]
fn password_needs_a_user_and_some_text() {
    let fixture = guarded(&[]);
    let nobody = in_namespace(&fixture, "echo hunter2 | HAUL_LOG=warn haul password set \"$URL\"");
    if !has_keyring(&fixture) {
        return;
    }
    assert!(nobody.status.code() == Some(2) && text(&nobody.stderr).contains("needs a user"), "{nobody:?}");
    let empty = in_namespace(&fixture, "HAUL_LOG=warn haul password set \"$ANN\" < /dev/null");
    assert!(one_sentence(&empty, 1).contains("nothing stored"));
    let in_url = in_namespace(&fixture, "haul password set http://ann:hunter2@127.0.0.1/");
    assert!(in_url.status.code() == Some(2) && !text(&in_url.stderr).contains("hunter2"), "{in_url:?}");
}
