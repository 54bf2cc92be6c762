//! Two clients at the same files, one of them impacket. What a setting of `smb.conf` prevents is also shown to happen without
//! it: Samba reads its settings again for each new connection.

use std::fs;

use libtest_mimic::Failed;
use serde_json::json;

use crate::{Test, World, common::text, library::Library};

pub(crate) const TESTS: [(&str, Test); 7] = [
    ("oplocks_and_leases_are_not_granted", oplocks_and_leases_are_not_granted),
    ("share_modes_hold_between_clients", share_modes_hold_between_clients),
    ("byte_range_locks_hold_between_clients", byte_range_locks_hold_between_clients),
    ("second_client_finds_a_file_in_any_case", second_client_finds_a_file_in_any_case),
    ("file_id_is_the_same_for_all_clients_of_a_user", file_id_is_the_same_for_all_clients),
    ("users_do_not_share_files_of_the_same_name_and_id", users_do_not_share_files),
    ("second_client_library_is_refused_without_enrolment", library_is_refused_without_enrolment),
];

impl World {
    /// Runs `test` while settings of Samba are others, for connections that begin meanwhile.
    fn with_settings<T>(&self, settings: &[(&str, &str)], test: impl FnOnce() -> T) -> T {
        let path = self.room.path("state/samba/smb.conf");
        let before = fs::read_to_string(&path).expect("it is there");
        let is_other = |line: &&str| !settings.iter().any(|(name, _)| line.starts_with(&format!("{name} = ")));
        let mut other: Vec<_> = before.lines().filter(is_other).map(str::to_owned).collect();
        // The last section is the share's, in which Samba takes global settings too.
        other.extend(settings.iter().map(|(name, value)| format!("{name} = {value}")));
        // Samba compares whole seconds of the file's time.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        fs::write(&path, other.join("\n") + "\n").expect("it is ours");
        let result = test();
        fs::write(&path, before).expect("it is ours");
        result
    }
}

fn oplocks_and_leases_are_not_granted() -> Result<(), Failed> {
    let world = World::new();
    let mut client = Library::of(&world, "ann");
    for oplock in ["batch", "lease"] {
        let opened = client.open(oplock, "rw", "rwd", "replace", oplock)?;
        assert_eq!(opened.oplock, 0, "{oplock}");
        // So each read of the client is a read of the mount.
        client.done(&json!(["write", opened.handle, 0, "mine"]));
        client.done(&json!(["close", opened.handle]));
    }
    for (settings, oplock) in [
        (&[("oplocks", "yes")][..], "batch"),
        (&[("oplocks", "yes"), ("level2 oplocks", "yes"), ("smb2 leases", "yes")], "lease"),
    ] {
        let granted = world.with_settings(settings, || {
            Library::of(&world, "ann").open(oplock, "rw", "rwd", "open", oplock).map(|opened| opened.oplock)
        })?;
        assert_ne!(granted, 0, "the client would keep what it reads to itself: {oplock}");
    }
    Ok(())
}

fn share_modes_hold_between_clients() -> Result<(), Failed> {
    let world = World::new();
    let file = world.local("file", "by smbclient");
    let mut client = Library::of(&world, "ann");
    let reader = client.open("report.txt", "rw", "r", "replace", "none")?;
    client.done(&json!(["write", reader.handle, 0, "by impacket"]));
    for commands in [format!("put {file} report.txt"), "del report.txt".into(), "rename report.txt other.txt".into()] {
        let said = text(&world.smb("ann", &commands).stdout);
        assert!(said.contains("NT_STATUS_SHARING_VIOLATION"), "{commands}: {said}");
    }
    // A second one of the library, under another spelling.
    let mut second = Library::of(&world, "ann");
    assert_eq!(
        second.open("REPORT.txt", "w", "rwd", "open", "none").err().as_deref(),
        Some("STATUS_SHARING_VIOLATION"),
        "the first one shares reading only"
    );
    let other = second.open("Report.TXT", "r", "rwd", "open", "none")?;
    assert_eq!(second.done(&json!(["read", other.handle, 0, 100])), "by impacket");
    second.done(&json!(["close", other.handle]));
    client.done(&json!(["close", reader.handle]));
    world.done("ann", &format!("put {file} report.txt"));
    assert_eq!(world.there("ann/report.txt").as_deref(), Some("by smbclient"));
    Ok(())
}

fn byte_range_locks_hold_between_clients() -> Result<(), Failed> {
    let world = World::new();
    let read_of_second = || -> Result<Result<String, String>, Failed> {
        let (mut first, mut second) = (Library::of(&world, "ann"), Library::of(&world, "ann"));
        let opened = first.open("locked.txt", "rw", "rw", "replace", "none")?;
        first.done(&json!(["write", opened.handle, 0, "locked and free"]));
        first.done(&json!(["lock", opened.handle, 0, 6]));
        let other = second.open("locked.txt", "r", "rw", "open", "none")?;
        assert_eq!(second.done(&json!(["read", other.handle, 7, 8])), "and free");
        let read = second.run(&json!(["read", other.handle, 0, 6]));
        Ok(read.map(|text| text.to_string()))
    };
    assert_eq!(read_of_second()?, Err("STATUS_FILE_LOCK_CONFLICT".into()));
    let unchecked = world.with_settings(&[("strict locking", "no")], read_of_second)?;
    assert!(unchecked.is_ok(), "{unchecked:?}");
    Ok(())
}

fn second_client_finds_a_file_in_any_case() -> Result<(), Failed> {
    let world = World::new();
    let file = world.local("file", "content");
    world.done("ann", &format!("mkdir Folder; put {file} Folder\\ReadMe.TXT"));
    let names = || fs::read_dir(world.room.path("there/ann/Folder")).map(Iterator::count);
    let find = || Library::of(&world, "ann").open("FOLDER\\readme.txt", "r", "r", "open", "none").map(drop);
    assert_eq!(find(), Ok(()));
    // Saved under another spelling it is still one file.
    let mut client = Library::of(&world, "ann");
    let saved = client.open("folder\\README.txt", "w", "", "replace", "none")?;
    client.done(&json!(["write", saved.handle, 0, "new"]));
    client.done(&json!(["close", saved.handle]));
    assert_eq!((world.there("ann/Folder/ReadMe.TXT").as_deref(), names()?), (Some("new"), 1));
    let found = world.with_settings(&[("case sensitive", "yes")], find);
    assert_eq!(found.err().as_deref(), Some("STATUS_OBJECT_PATH_NOT_FOUND"));
    Ok(())
}

fn file_id_is_the_same_for_all_clients() -> Result<(), Failed> {
    let world = World::new();
    let (mut first, mut second) = (Library::of(&world, "ann"), Library::of(&world, "ann"));
    let a = first.open("A.txt", "rw", "rwd", "replace", "none")?;
    let b = first.open("b.txt", "rw", "rwd", "replace", "none")?;
    let same = second.open("a.TXT", "r", "rwd", "open", "none")?;
    assert_eq!(a.id, same.id);
    assert_ne!(a.id, b.id);
    for opened in [a.handle, b.handle] {
        first.done(&json!(["close", opened]));
    }
    second.done(&json!(["close", same.handle]));
    // Closed, and listed anew, it is still that file; and with another name, too.
    std::thread::sleep(std::time::Duration::from_secs(2));
    world.done("ann", "ls; rename A.txt c.txt");
    assert_eq!(second.open("c.txt", "r", "rwd", "open", "none")?.id, a.id);
    // What gets its name is another one.
    assert_ne!(first.open("A.txt", "rw", "rwd", "replace", "none")?.id, a.id);
    Ok(())
}

fn users_do_not_share_files() -> Result<(), Failed> {
    let world = World::new();
    let (mut ann, mut bob) = (Library::of(&world, "ann"), Library::of(&world, "bob"));
    // Each wants the file for themselves. The ids are the same, because they stem from the path in the user's folder, so only
    // the device tells them apart.
    let [anns, bobs] = [&mut ann, &mut bob].map(|client| client.open("same.txt", "rw", "", "replace", "batch"));
    let (anns, bobs) = (anns?, bobs?);
    assert_eq!(anns.id, bobs.id);
    ann.done(&json!(["write", anns.handle, 0, "by ann"]));
    bob.done(&json!(["lock", bobs.handle, 0, 6]));
    bob.done(&json!(["write", bobs.handle, 0, "by bob"]));
    assert_eq!(ann.done(&json!(["read", anns.handle, 0, 6])), "by ann");
    ann.done(&json!(["close", anns.handle]));
    bob.done(&json!(["close", bobs.handle]));
    for user in ["ann", "bob"] {
        assert_eq!(world.there(&format!("{user}/same.txt")), Some(format!("by {user}")));
    }
    Ok(())
}

fn library_is_refused_without_enrolment() -> Result<(), Failed> {
    let world = World::new();
    let enters = |user: &str, password: &str| {
        let mut client = Library::start();
        client.run(&json!(["connect", world.port, "files", user, password])).err()
    };
    assert_eq!(enters("carol", "x").as_deref(), Some("STATUS_LOGON_FAILURE"));
    world.wait_for("SMB login of carol refused: not enrolled; run `haul gateway enroll carol`");
    fs::remove_file(world.room.path("state/vault/bob.sealed"))?;
    assert_eq!(enters("bob", "smb bob").as_deref(), Some("STATUS_ACCESS_DENIED"));
    world.wait_for("bob refused: not enrolled; run `haul gateway enroll bob`");
    assert_eq!(enters("ann", "smb ann"), None);
    Ok(())
}
