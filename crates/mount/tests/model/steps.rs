//! The operations, each of which is done to the mount and to the model.

use std::{
    fs::{self, File, Metadata},
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use nix::fcntl::{AT_FDCWD, PosixFadviseAdvice, RenameFlags, posix_fadvise, renameat2};
use simulation::{Random, fill};

/// Files above this size are not made longer.
const MOST_BYTES: usize = 1_200_000;
const FILES: &[&str] = &["a", "b", "c", "d/a", "d/b", "e/a", "d/f/a", "d/f/b"];
pub(crate) const FOLDERS: &[&str] = &["d", "e", "d/f", "e/g"];

#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Open(&'static str, Access, Existing),
    Close(usize),
    Sync(usize),
    Read {
        file: usize,
        at: usize,
        length: usize,
    },
    Write {
        file: usize,
        at: usize,
        length: usize,
        seed: u8,
    },
    Append {
        file: usize,
        length: usize,
        seed: u8,
    },
    SetLength {
        file: usize,
        length: usize,
    },
    StatOpen(usize),
    /// The kernel forgets its cached pages.
    DropPages(usize),
    Truncate(&'static str, usize),
    Rename {
        from: &'static str,
        to: &'static str,
        may_replace: bool,
    },
    Unlink(&'static str),
    MakeFolder(&'static str),
    RemoveFolder(&'static str),
    List(&'static str),
    Stat(&'static str),
    ReadWhole(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Access {
    Read,
    Write,
    ReadWrite,
    Append,
}

/// What an open does with a file that exists, or does not.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Existing {
    Keep,
    KeepOrCreate,
    CutOrCreate,
    CreateOnly,
}

impl Step {
    pub(crate) fn random(random: &mut Random, open: usize) -> Self {
        let file = random.below(open);
        let (length, seed) = (random.length(), random.below(256) as u8);
        let at = random.below(MOST_BYTES - length);
        // Most writes are near the beginning, so that small files stay small.
        let at = if random.chance(60) { at % 5000 } else { at };
        match random.below(100) {
            0..14 => Self::open(random),
            number if open == 0 => Self::named(random, number),
            14..24 => Self::Close(file),
            24..29 => Self::Sync(file),
            29..41 => Self::Read { file, at, length },
            41..53 => Self::Write { file, at, length, seed },
            53..56 => Self::Append { file, length: length.min(100_000), seed },
            56..61 => Self::SetLength { file, length },
            61..64 => Self::StatOpen(file),
            64..68 => Self::DropPages(file),
            number => Self::named(random, number),
        }
    }

    fn open(random: &mut Random) -> Self {
        let access =
            random.choose(&[Access::Read, Access::Write, Access::ReadWrite, Access::ReadWrite, Access::Append]);
        let existing = match access {
            Access::Read => Existing::Keep,
            Access::Append => random.choose(&[Existing::Keep, Existing::KeepOrCreate]),
            _ => random.choose(&[
                Existing::Keep,
                Existing::KeepOrCreate,
                Existing::KeepOrCreate,
                Existing::CutOrCreate,
                Existing::CreateOnly,
            ]),
        };
        Self::Open(random.choose(FILES), access, existing)
    }

    fn named(random: &mut Random, number: usize) -> Self {
        let (file, folder) = (random.choose(FILES), random.choose(FOLDERS));
        let (other, other_folder) = (random.choose(FILES), random.choose(FOLDERS));
        let may_replace = random.chance(80);
        match number % 32 {
            0..3 => Self::Truncate(file, random.length()),
            3..9 => Self::Rename { from: file, to: other, may_replace },
            9..11 => Self::Rename { from: folder, to: other_folder, may_replace },
            11 => Self::Rename { from: file, to: folder, may_replace },
            12 => Self::Rename { from: folder, to: file, may_replace },
            13..16 => Self::Unlink(file),
            16 => Self::Unlink(folder),
            17..21 => Self::MakeFolder(folder),
            21..23 => Self::RemoveFolder(folder),
            23 => Self::RemoveFolder(file),
            24..26 => Self::List(folder),
            26 => Self::List(""),
            27..29 => Self::Stat(random.choose(&[file, folder])),
            _ => Self::ReadWhole(file),
        }
    }

    /// Does it below `root`, whose open files are `open`. Returns what the program sees.
    pub(crate) fn perform(self, root: &Path, open: &[File]) -> io::Result<Vec<u8>> {
        let nothing = |()| Vec::new();
        match self {
            Self::Open(..) | Self::Close(_) => Ok(Vec::new()),
            Self::Sync(file) => open[file].sync_all().map(nothing),
            Self::Read { file, at, length } => read(&open[file], at, length),
            Self::Write { file, at, length, seed } => {
                open[file].write_all_at(&fill(length, seed), at as u64).map(nothing)
            }
            Self::Append { file, length, seed } => {
                let end = open[file].metadata()?.len();
                // Without O_APPEND it is written at the end; with it, to wherever the kernel believes that the end is.
                if end as usize > MOST_BYTES {
                    return Ok(Vec::new());
                }
                open[file].write_all_at(&fill(length, seed), end).map(nothing)
            }
            Self::SetLength { file, length } => open[file].set_len(length as u64).map(nothing),
            Self::StatOpen(file) => Ok(describe(&open[file].metadata()?)),
            Self::DropPages(file) => {
                posix_fadvise(&open[file], 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
                Ok(Vec::new())
            }
            Self::Truncate(path, length) => Ok(nix::unistd::truncate(&root.join(path), length as i64).map(nothing)?),
            Self::Rename { from, to, may_replace } => {
                let flags = if may_replace { RenameFlags::empty() } else { RenameFlags::RENAME_NOREPLACE };
                Ok(renameat2(AT_FDCWD, &root.join(from), AT_FDCWD, &root.join(to), flags).map(nothing)?)
            }
            Self::Unlink(path) => fs::remove_file(root.join(path)).map(nothing),
            Self::MakeFolder(path) => fs::create_dir(root.join(path)).map(nothing),
            Self::RemoveFolder(path) => fs::remove_dir(root.join(path)).map(nothing),
            Self::List(path) => list(&root.join(path)),
            Self::Stat(path) => Ok(describe(&fs::metadata(root.join(path))?)),
            Self::ReadWhole(path) => fs::read(root.join(path)),
        }
    }
}

fn describe(found: &Metadata) -> Vec<u8> {
    let kind = if found.is_dir() { "folder".to_owned() } else { format!("file of {} bytes", found.len()) };
    kind.into_bytes()
}

pub(crate) fn open(root: &Path, path: &str, access: Access, existing: Existing) -> io::Result<File> {
    let mut options = File::options();
    match access {
        Access::Read => options.read(true),
        Access::Write => options.write(true),
        Access::ReadWrite => options.read(true).write(true),
        Access::Append => options.append(true),
    };
    match existing {
        Existing::Keep => &mut options,
        Existing::KeepOrCreate => options.create(true),
        Existing::CutOrCreate => options.create(true).truncate(true),
        Existing::CreateOnly => options.create_new(true),
    };
    options.open(root.join(path))
}

fn read(file: &File, at: usize, length: usize) -> io::Result<Vec<u8>> {
    let (mut bytes, mut filled) = (vec![0; length], 0);
    while filled < length {
        match file.read_at(&mut bytes[filled..], (at + filled) as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn list(folder: &Path) -> io::Result<Vec<u8>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        names.push(format!("{}{}", entry.file_name().display(), if entry.file_type()?.is_dir() { "/" } else { "" }));
    }
    names.sort();
    Ok(names.join(" ").into_bytes())
}

/// A file that somebody else may change on the server, and what they do: None to delete it.
pub(crate) fn random_change(random: &mut Random) -> (&'static str, Option<Vec<u8>>) {
    let (file, length, seed) = (random.choose(FILES), random.length(), random.below(256) as u8);
    (file, (!random.chance(20)).then(|| fill(length, seed)))
}
