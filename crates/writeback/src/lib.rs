//! Files that are confirmed here and uploaded later.
//!
//! `mount` returns from close(2), and `gateway` answers a PUT, when a file is safe on the local disk; its upload follows. From
//! that moment on nobody else may have the file, so it must survive a crash of the program and of the machine, a full disk and
//! damage, and it must go to the server once, in its order, over nothing that somebody else has written. What both need for
//! that is here:
//!
//! - [`Entries`] decides, without I/O: which version of a file is uploaded when, what replaces what, how long to wait after a
//!   failure, and which versions may have reached the server before a restart.
//! - [`Journal`] writes it down. [`Report`] reads it, for people, whether the program runs or not.
//! - [`names_beside`] names a version whose place another version has.
//!
//! A program adds its own [`Details`] to each entry: `gateway` whose it is and under which lock it was saved, `mount` its node.
//!
//! # The journal on disk
//! ```text
//! journal/<name of the share>/
//!     share      the URL of the server's folder
//!     records    the first line names the format, and each further one has a change
//!     data/<n>   the content of entry n, which nobody changes any more
//!     read       the number of the last message that somebody has read
//!     found/     contents whose records were lost
//!     lock       locked (flock(2)) by the program that uploads from here
//!     reserve    room for the records that give room back
//! ```
//!
//! A line of `records` is the CRC-32C of its JSON in eight hexadecimal digits, a space, the JSON, and a line feed. A line
//! whose checksum is wrong does not count; those behind it do. The first line is `{"format":"longhaul.journal/1"}`. Every
//! version of the format begins with such a line, and a program refuses a version that it does not know. Journals of release
//! 0.1 have no first line, and are read.
//!
//! Each record is an object with one member. Replayed in their order, they give what the server lacks:
//!
//! | record | means |
//! |---|---|
//! | `closed` | entry `id` goes to `path` (percent-encoded) over the version `base`; those in `replaced` are done with |
//! | `renamed` | it goes to another path, over another version |
//! | `modified`, `changed` | a program has set its time; what its program knows of it has changed |
//! | `uploaded` | the server has it as `version`, which later entries at the same path replace |
//! | `removed` | the entries `ids` are done with |
//! | `failed` | an upload has failed, for the reason `why` |
//! | `told` | a message for people |
//!
//! A content and its name in `data` are synchronised before the record that names it, and a record before anybody is told that
//! a file is safe, or its content is deleted. Programs that wait at the same time share one fdatasync(2). So after a power cut
//! a content without a record is one that nobody was told of, and is deleted, unless records were damaged: then it goes to
//! `found`. At the next start, the records are written anew without those that have no effect any more.

mod beside;
pub mod clock;
mod entries;
mod journal;
mod record;
mod report;
mod spared;
mod version;

pub use self::{
    beside::names_beside,
    entries::{Entries, Entry, Failed, Failure, Message},
    journal::{Journal, JournalError},
    record::{Details, Id},
    report::{Owner, Pending, Report},
    spared::{is_spared, spare},
    version::{Base, Facts},
};
