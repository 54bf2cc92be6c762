//! The kinds of work, and what is known of each in advance.

use std::{borrow::Cow, fmt, sync::Arc, time::Duration};

use page::{RepeatView, Spec, SpecError, replay::over_tls};
use serde::{Serialize, Serializer};
use units::{Size, Span};

use super::chore::Chore;
use crate::process::Program;

/// The work of a workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Work {
    /// Upload new files.
    Upload {
        /// The number.
        files: u32,
        /// The size of each.
        size: Size,
    },
    /// Upload new folders with files.
    Tree {
        /// The number of folders, side by side.
        folders: u32,
        /// The number of files in all folders together.
        files: u32,
        /// The size of each file.
        size: Size,
    },
    /// Download files into an empty folder.
    Download {
        /// The number.
        files: u32,
        /// The sizes, which the files take in turn; at least one.
        size: Vec<Size>,
    },
    /// Load a page's objects in parallel, each over its own connection; wait; then download one more object, which
    /// alone is timed.
    Page {
        /// The sizes of the page's objects; at least one.
        objects: Vec<Size>,
        /// How long all connections are idle in between.
        idle: Span,
        /// The size of the timed object.
        size: Size,
    },
    /// Load a recorded page from a server that answers for all its hosts. It has been loaded once before, and all
    /// connections have been closed since; whether the cache has been emptied too is the page's [`Visit`].
    Load {
        /// The page.
        page: Page,
    },
    /// List a folder, with size and time of each entry.
    List {
        /// The number of entries.
        entries: u32,
    },
    /// Look up names by DNS, one after another.
    LookUp {
        /// The number.
        times: u32,
    },
    /// Save a file in place several times; each save begins when the last one is confirmed.
    Edit {
        /// The number of saves.
        times: u32,
        /// The size of the file.
        size: Size,
    },
    /// Run a program in a mounted folder.
    Chore(Chore),
}

/// The kinds of work that a program of the user's own can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// Uploads files, with their folders if they are in some.
    Upload,
    /// Downloads files.
    Download,
    /// Lists a folder.
    List,
    /// Saves a file in place.
    Edit,
}

impl WorkKind {
    /// Its name, as in an experiment.
    pub fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::Download => "download",
            Self::List => "list",
            Self::Edit => "edit",
        }
    }
}

/// A recorded page, and the visit that counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Page(pub Arc<Spec>, pub Visit);

/// A visit to a page.
#[derive(Debug, Clone, PartialEq)]
pub enum Visit {
    /// With an empty cache.
    First,
    /// With the cache that a first visit left.
    Repeat(Arc<RepeatView>),
}

// A spec contains no NaN.
impl Eq for Page {}

impl Page {
    /// A shipped page by its name, or one from a file.
    pub fn find(name: &str) -> Result<Self, SpecError> {
        Spec::find(name).map(|spec| Self(Arc::new(spec), Visit::First))
    }

    /// A second visit to the page with a warm cache; none if it sends no request.
    pub fn again(&self) -> Option<Self> {
        self.0.repeat_view().map(|view| Self(self.0.clone(), Visit::Repeat(Arc::new(view))))
    }

    /// The page as a server has it; with `tls`, nothing of it is over plain HTTP.
    pub(crate) fn over(&self, tls: bool) -> Cow<'_, Spec> {
        if tls { over_tls(&self.0) } else { Cow::Borrowed(&self.0) }
    }

    /// The requests of the visit.
    pub fn sent(&self) -> &Spec {
        match &self.1 {
            Visit::First => &self.0,
            Visit::Repeat(view) => &view.spec,
        }
    }
}

impl Serialize for Page {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.name)
    }
}

impl Work {
    /// The number of steps: files, listings, saves.
    pub fn steps(&self) -> u32 {
        match self {
            Self::Upload { files, .. } | Self::Tree { files, .. } | Self::Download { files, .. } => *files,
            Self::List { .. } | Self::Page { .. } => 1,
            Self::Load { page } => page.sent().requests.len() as u32,
            Self::Edit { times, .. } | Self::LookUp { times } => *times,
            Self::Chore(chore) => chore.files,
        }
    }

    /// Its kind, if a program of the user's own can do it.
    pub fn kind(&self) -> Option<WorkKind> {
        match self {
            Self::Upload { .. } | Self::Tree { .. } => Some(WorkKind::Upload),
            Self::Download { .. } => Some(WorkKind::Download),
            Self::List { .. } => Some(WorkKind::List),
            Self::Edit { .. } => Some(WorkKind::Edit),
            Self::Page { .. } | Self::Load { .. } | Self::LookUp { .. } | Self::Chore(_) => None,
        }
    }

    /// The chore, if it is one.
    pub fn chore(&self) -> Option<&Chore> {
        if let Self::Chore(chore) = self { Some(chore) } else { None }
    }

    /// The program that does the work for every contender, if one does.
    pub fn program(&self) -> Option<Program> {
        self.chore().and_then(|chore| chore.job.program())
    }

    /// Whether it has been done once before the clock starts.
    pub fn is_warm(&self) -> bool {
        self.chore().is_some_and(|chore| chore.warm)
    }

    /// Whether it uploads files.
    pub fn writes(&self) -> bool {
        match self {
            Self::Chore(chore) => chore.job.writes(),
            _ => matches!(self, Self::Upload { .. } | Self::Tree { .. } | Self::Edit { .. }),
        }
    }

    /// The word for a step.
    pub fn step(&self) -> &'static str {
        match self {
            Self::Upload { .. } | Self::Tree { .. } | Self::Download { .. } | Self::Chore(_) => "file",
            Self::Page { .. } => "object",
            Self::Load { .. } => "request",
            Self::List { .. } => "listing",
            Self::LookUp { .. } => "name",
            Self::Edit { .. } => "save",
        }
    }

    /// Whether it downloads files.
    pub fn reads(&self) -> bool {
        match self {
            Self::Chore(chore) => !chore.job.writes(),
            _ => matches!(self, Self::Download { .. } | Self::Page { .. } | Self::Load { .. }),
        }
    }

    /// The bytes of the files that cross the link while the clock runs; a listing has none.
    pub fn payload(&self) -> u64 {
        match self {
            Self::Page { size, .. } => size.as_bytes(),
            Self::List { .. } | Self::LookUp { .. } => 0,
            Self::Load { page } => page.sent().response_bytes(),
            Self::Chore(chore) => chore.payload(),
            _ => self.repeated_sizes().total(),
        }
    }

    /// The sizes of all files in order, including the saved versions of an edit, the objects of a page and the one
    /// after it.
    pub fn sizes(&self) -> impl Iterator<Item = Size> {
        let after = if let Self::Page { size, .. } = self { Some(*size) } else { None };
        let RepeatedSizes { list, count } = self.repeated_sizes();
        list.iter().copied().cycle().take(count as usize).chain(after)
    }

    fn repeated_sizes(&self) -> RepeatedSizes<'_> {
        let (list, count) = match self {
            Self::Upload { files, size } | Self::Tree { files, size, .. } => (std::slice::from_ref(size), *files),
            Self::Chore(chore) => (std::slice::from_ref(&chore.size), chore.files),
            Self::Download { files, size } => (size.as_slice(), *files),
            Self::Page { objects, .. } => (objects.as_slice(), objects.len() as u32),
            // The replay server has its own bodies.
            Self::Load { .. } => (&[EMPTY][..], 0),
            Self::List { entries: count } | Self::LookUp { times: count } => (&[EMPTY][..], *count),
            Self::Edit { times, size } => (std::slice::from_ref(size), *times),
        };
        RepeatedSizes { list, count }
    }

    /// Whether it is a recorded page's load.
    pub fn is_load(&self) -> bool {
        matches!(self, Self::Load { .. })
    }

    /// The deliberate wait before the clock starts.
    pub fn idle_time(&self) -> Duration {
        if let Self::Page { idle, .. } = self { idle.0 } else { Duration::ZERO }
    }
}

/// This many sizes: those of the list, over and over.
struct RepeatedSizes<'a> {
    list: &'a [Size],
    count: u32,
}

impl RepeatedSizes<'_> {
    /// The sum in bytes, without a step for each of what may be billions of files.
    fn total(&self) -> u64 {
        let sum = |sizes: &[Size]| sizes.iter().copied().map(Size::as_bytes).fold(0, u64::saturating_add);
        let length = (self.list.len() as u32).max(1);
        let rest = &self.list[..(self.count % length) as usize];
        sum(self.list).saturating_mul(u64::from(self.count / length)).saturating_add(sum(rest))
    }
}

/// The size of a listing's entries.
const EMPTY: Size = Size::bytes(0);

/// `2KiB`; `9 × 2KiB, 1MiB`.
fn in_turn(f: &mut fmt::Formatter<'_>, sizes: &[Size]) -> fmt::Result {
    for (index, run) in sizes.chunk_by(|a, b| a == b).enumerate() {
        let comma = if index == 0 { "" } else { ", " };
        match run.len() {
            count if count > 1 && sizes.len() > count => write!(f, "{comma}{count} × {}", run[0])?,
            _ => write!(f, "{comma}{}", run[0])?,
        }
    }
    Ok(())
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = |n: u32| if n == 1 { "file" } else { "files" };
        match self {
            Self::Upload { files: n, size } => write!(f, "upload {n} {} of {size}", files(*n)),
            Self::Tree { folders, files: n, size } => {
                let folders_word = if *folders == 1 { "folder" } else { "folders" };
                write!(f, "upload {n} {} of {size} in {folders} {folders_word}", files(*n))
            }
            Self::Download { files: n, size } => {
                write!(f, "download {n} {} of ", files(*n))?;
                in_turn(f, size)
            }
            Self::Page { objects, idle, size } => {
                write!(f, "an object of {size}, {idle} after a page with objects of ")?;
                in_turn(f, objects)
            }
            Self::Load { page } => write!(f, "load {}", page.sent().title),
            Self::List { entries } => write!(f, "list a folder of {entries} entries"),
            Self::LookUp { times } => write!(f, "look up {times} names, one after another"),
            Self::Edit { times, size } => write!(f, "save a file of {size} in place {times} times"),
            Self::Chore(chore) => chore.fmt(f),
        }
    }
}
