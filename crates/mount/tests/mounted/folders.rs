//! Folders and names.

use std::{
    fs::{self, File},
    io::ErrorKind,
    os::unix::fs::MetadataExt,
    path::Path,
    process::Command,
    time::Duration,
};

use libtest_mimic::Failed;
use rustix::fs::{Dir, Mode, OFlags};

use crate::{
    Test,
    world::{World, noise},
};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a_tree_is_copied_and_compared", a_tree_is_copied_and_compared),
    ("a_folder_with_members_is_neither_removed_nor_replaced", a_folder_with_members_is_neither_removed_nor_replaced),
    ("a_folder_that_is_not_listed_yet_is_not_replaced", a_folder_that_is_not_listed_yet_is_not_replaced),
    ("a_file_is_renamed_over_another", a_file_is_renamed_over_another),
    ("an_editor_saves_by_a_rename", an_editor_saves_by_a_rename),
    ("a_renamed_open_file_is_stored_under_its_new_name", a_renamed_open_file_is_stored_under_its_new_name),
    ("a_new_file_replaces_one_that_is_being_written", a_new_file_replaces_one_that_is_being_written),
    ("an_exclusive_creation_succeeds_once", an_exclusive_creation_succeeds_once),
    ("odd_names_are_kept", odd_names_are_kept),
    ("a_rewound_folder_shows_its_present_names", a_rewound_folder_shows_its_present_names),
    ("reading_a_folder_brings_no_old_attributes_back", reading_a_folder_brings_no_old_attributes_back),
    ("the_time_of_a_folder_changes_with_its_members", the_time_of_a_folder_changes_with_its_members),
    ("git_works_in_a_mount", git_works_in_a_mount),
];

fn a_tree_is_copied_and_compared(world: &World) -> Result<(), Failed> {
    let source = tempfile::tempdir()?;
    for number in 0..30 {
        let folder = source.path().join(format!("folder{}/deep", number % 3));
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(format!("file{number}")), &noise(1000 * number)[..])?;
    }
    let tree = world.here.join("tree");
    for (program, source, target) in [("cp", source.path(), tree.as_path()), ("diff", source.path(), tree.as_path())] {
        let output = Command::new(program).arg("-r").arg(source).arg(target).output()?;
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let output = Command::new("diff").arg("-r").arg(source.path()).arg(world.there.join("tree")).output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    fs::remove_dir_all(&tree)?;
    assert!(!world.there.join("tree").exists());
    Ok(())
}

fn a_folder_with_members_is_neither_removed_nor_replaced(world: &World) -> Result<(), Failed> {
    fs::create_dir(world.here.join("full"))?;
    fs::create_dir(world.here.join("empty"))?;
    // Put there by somebody else, and not listed yet.
    fs::write(world.there.join("full/file"), "precious")?;
    let removed = fs::remove_dir(world.here.join("full"));
    assert_eq!(removed.map_err(|error| error.kind()), Err(ErrorKind::DirectoryNotEmpty));
    let renamed = fs::rename(world.here.join("empty"), world.here.join("full"));
    assert_eq!(renamed.map_err(|error| error.kind()), Err(ErrorKind::DirectoryNotEmpty));
    assert_eq!(fs::read(world.there.join("full/file"))?, b"precious");
    fs::rename(world.here.join("full"), world.here.join("empty"))?;
    assert_eq!(fs::read(world.there.join("empty/file"))?, b"precious");
    Ok(())
}

fn a_folder_that_is_not_listed_yet_is_not_replaced(world: &World) -> Result<(), Failed> {
    for name in ["file", "victim"] {
        fs::write(world.here.join(name), name)?;
    }
    fs::create_dir(world.here.join("folder"))?;
    // Put there by somebody else.
    fs::create_dir(world.there.join("theirs"))?;
    fs::write(world.there.join("theirs/file"), "precious")?;
    fs::remove_file(world.there.join("victim"))?;
    fs::rename(world.there.join("theirs"), world.there.join("victim"))?;
    fs::create_dir(world.there.join("new"))?;
    fs::write(world.there.join("new/file"), "precious")?;
    let [file, folder, victim, new] = ["file", "folder", "victim", "new"].map(|name| world.here.join(name));
    fs::rename(&file, &new).expect_err("it is a folder");
    fs::rename(&folder, &new).expect_err("it has members");
    fs::remove_file(&victim).expect_err("it is a folder");
    fs::rename(&file, &victim).expect_err("it is a folder");
    for kept in ["victim/file", "new/file"] {
        assert_eq!(fs::read(world.there.join(kept))?, b"precious");
    }
    assert_eq!(fs::read(world.there.join("file"))?, b"file");
    Ok(())
}

fn a_file_is_renamed_over_another(world: &World) -> Result<(), Failed> {
    fs::write(world.here.join("old"), "old")?;
    fs::write(world.here.join("new"), "new!")?;
    let open = File::open(world.here.join("old"))?;
    fs::rename(world.here.join("new"), world.here.join("old"))?;
    assert_eq!((open.metadata()?.nlink(), fs::metadata(world.here.join("old"))?.nlink()), (0, 1));
    assert_eq!(fs::read(world.here.join("old"))?, b"new!");
    assert_eq!(fs::read(world.there.join("old"))?, b"new!");
    assert!(!world.here.join("new").exists() && !world.there.join("new").exists());
    let over_folder = fs::create_dir(world.here.join("folder"))
        .and_then(|()| fs::rename(world.here.join("old"), world.here.join("folder")));
    assert_eq!(over_folder.map_err(|error| error.kind()), Err(ErrorKind::IsADirectory));
    Ok(())
}

fn an_editor_saves_by_a_rename(world: &World) -> Result<(), Failed> {
    for version in ["first", "second", "third!"] {
        let (file, backup) = (world.here.join("letter.txt"), world.here.join("letter.txt~"));
        let temporary = world.here.join(".letter.txt.swp");
        fs::write(&temporary, version)?;
        if file.exists() {
            fs::rename(&file, &backup)?;
        }
        fs::rename(&temporary, &file)?;
        assert_eq!(fs::read_to_string(world.there.join("letter.txt"))?, version);
    }
    assert_eq!(fs::read(world.there.join("letter.txt~"))?, b"second");
    Ok(())
}

fn a_renamed_open_file_is_stored_under_its_new_name(world: &World) -> Result<(), Failed> {
    use std::io::Write;
    world.store("target", b"before")?;
    assert!(world.here.join("target").exists());
    let mut file = fs::File::create(world.here.join("a"))?;
    file.write_all(b"content")?;
    fs::rename(world.here.join("a"), world.here.join("target"))?;
    file.write_all(b" and more")?;
    drop(file);
    assert_eq!(fs::read(world.there.join("target"))?, b"content and more");
    assert!(!world.there.join("a").exists());
    // One that the server has.
    let mut file = fs::File::options().append(true).open(world.here.join("target"))?;
    fs::rename(world.here.join("target"), world.here.join("b"))?;
    file.write_all(b".")?;
    drop(file);
    assert_eq!(fs::read(world.there.join("b"))?, b"content and more.");
    Ok(())
}

fn a_new_file_replaces_one_that_is_being_written(world: &World) -> Result<(), Failed> {
    use std::io::Write;
    world.store("target", b"before")?;
    let mut replaced = fs::File::create(world.here.join("target"))?;
    let mut file = fs::File::create(world.here.join("new"))?;
    file.write_all(b"new")?;
    replaced.write_all(b"lost")?;
    fs::rename(world.here.join("new"), world.here.join("target"))?;
    file.sync_all()?;
    replaced.sync_all()?;
    drop((file, replaced));
    assert_eq!(fs::read(world.there.join("target"))?, b"new");
    assert_eq!(fs::read_dir(&world.there)?.count(), 1);
    Ok(())
}

fn an_exclusive_creation_succeeds_once(world: &World) -> Result<(), Failed> {
    let path = world.here.join("lock");
    drop(fs::File::create_new(&path)?);
    assert_eq!(fs::File::create_new(&path).map(drop).map_err(|error| error.kind()), Err(ErrorKind::AlreadyExists));
    fs::remove_file(&path)?;
    drop(fs::File::create_new(&path)?);
    Ok(())
}

fn odd_names_are_kept(world: &World) -> Result<(), Failed> {
    let names = ["with space", "per%cent", "quest?ion", "ha#sh", "ümläut", "quote\"'", "semi;colon&amp", "new\nline"];
    for name in names {
        fs::write(world.here.join(name), name)?;
    }
    let mut listed: Vec<_> =
        fs::read_dir(&world.here)?.map(|entry| Ok(entry?.file_name())).collect::<Result<_, Failed>>()?;
    let mut expected: Vec<_> = names.map(std::ffi::OsString::from).to_vec();
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    for name in names {
        assert_eq!(fs::read_to_string(world.there.join(name))?, name);
    }
    assert!(fs::write(world.here.join("n".repeat(255)), "").is_ok());
    let too_long = fs::write(world.here.join("n".repeat(256)), "");
    assert_eq!(too_long.map_err(|error| error.raw_os_error()), Err(Some(nix::libc::ENAMETOOLONG)));
    Ok(())
}

fn open_folder(path: &Path) -> Result<Dir, Failed> {
    Ok(Dir::new(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty())?)?)
}

/// The names that a program sees that reads a folder to its end.
fn names(folder: &mut Dir) -> Result<Vec<String>, Failed> {
    let mut names = Vec::new();
    while let Some(entry) = folder.read() {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Ok(names)
}

fn a_rewound_folder_shows_its_present_names(world: &World) -> Result<(), Failed> {
    let path = world.here.join("folder");
    fs::create_dir(&path)?;
    fs::write(path.join("old"), "")?;
    let mut folder = open_folder(&path)?;
    fs::write(path.join("new"), "")?;
    folder.rewind();
    assert_eq!(names(&mut folder)?, ["new", "old"]);
    fs::remove_file(path.join("old"))?;
    fs::rename(path.join("new"), path.join("renamed"))?;
    fs::create_dir(path.join("made"))?;
    folder.rewind();
    assert_eq!(names(&mut folder)?, ["made", "renamed"]);
    world.store("folder/theirs", b"")?;
    folder.rewind();
    assert_eq!(names(&mut folder)?, ["made", "renamed", "theirs"]);
    Ok(())
}

fn reading_a_folder_brings_no_old_attributes_back(world: &World) -> Result<(), Failed> {
    let path = world.here.join("folder");
    fs::create_dir(&path)?;
    // More than the kernel asks for at a time.
    for number in 0..3000 {
        fs::write(world.there.join(format!("folder/file {number:04} {}", "n".repeat(40))), "")?;
    }
    world.store("folder/last", b"old")?;
    let mut folder = open_folder(&path)?;
    folder.read().expect("it has names")?;
    fs::write(path.join("last"), "this is longer")?;
    while let Some(entry) = folder.read() {
        let name = entry?.file_name().to_string_lossy().into_owned();
        // The kernel asks for attributes along with the names as long as the program looks at them.
        let found = fs::metadata(path.join(&name))?;
        assert_eq!(found.len(), if name == "last" { 14 } else { found.len() });
    }
    assert_eq!(fs::read(path.join("last"))?, b"this is longer");
    Ok(())
}

type Change<'a> = &'a dyn Fn() -> std::io::Result<()>;

fn the_time_of_a_folder_changes_with_its_members(world: &World) -> Result<(), Failed> {
    let [folder, other] = ["folder", "other"].map(|name| world.here.join(name));
    for path in [&world.here, &folder, &other] {
        fs::create_dir_all(path)?;
    }
    let [a, b, c, file] = ["a", "b", "c", "file"].map(|name| folder.join(name));
    let moved = other.join("moved");
    fs::write(&file, "content")?;
    let times = |path: &Path| fs::metadata(path).map(|found| (found.mtime(), found.mtime_nsec(), found.ino()));
    let untouched = times(&file)?;
    let changes: [(&str, &Path, Change); 8] = [
        ("create", &folder, &|| File::create(&a).map(drop)),
        ("mkdir", &folder, &|| fs::create_dir(&b)),
        ("rename", &folder, &|| fs::rename(&a, &c)),
        ("move away", &folder, &|| fs::rename(&c, &moved)),
        ("move here", &other, &|| fs::rename(&b, other.join("b"))),
        ("unlink", &other, &|| fs::remove_file(&moved)),
        ("rmdir", &other, &|| fs::remove_dir(other.join("b"))),
        ("mkdir in the root", &world.here, &|| fs::create_dir(world.here.join("new"))),
    ];
    for (what, changed, change) in changes {
        let before = times(changed)?;
        change()?;
        let after = times(changed)?;
        assert!((after.0, after.1) != (before.0, before.1) && after.2 == before.2, "{what}: {before:?}, {after:?}");
    }
    assert_eq!(times(&file)?.2, untouched.2);
    // What somebody else does shows later, by the server's time.
    std::thread::sleep(Duration::from_millis(1100));
    for path in ["folder", ""] {
        let theirs = Path::new(path).join("theirs");
        world.store(theirs.to_str().expect("it is ASCII"), b"")?;
        // The mount point's time is not asked for until somebody looks into it.
        fs::read_dir(world.here.join(path))?.next();
        assert_eq!(times(&world.here.join(path))?.0, fs::metadata(world.there.join(path))?.mtime(), "{path:?}");
    }
    Ok(())
}

fn git_works_in_a_mount(world: &World) -> Result<(), Failed> {
    let script = "git init -q r && cd r && echo one > a && git add a && git commit -qm first && echo two > a \
        && git commit -qam second && git checkout -q HEAD~1 && cat a && git status --porcelain && git fsck --strict 2>&1";
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(&world.here).env("HOME", &world.cache);
    for name in ["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"] {
        command.env(name, "somebody");
    }
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("not found") {
        println!("skipped: git is not installed");
        return Ok(());
    }
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("one"), "{output:?}");
    Ok(())
}
