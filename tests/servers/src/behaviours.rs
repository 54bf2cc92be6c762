//! The behaviours, one to a file.

mod clock;
mod completion;
mod drops;
mod etags;
mod folds;
mod hides;
mod honest;
mod length;
mod listings;
mod nonce;
mod refuses;
mod repeats;
mod resets;
mod swaps;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::behaviour::{Asked, Behaviour};

/// Makes one from a seed.
pub type Make = fn(u64) -> Box<dyn Behaviour>;

/// A behaviour, and how tables name it.
pub struct Entry {
    /// Its name in tables.
    pub name: &'static str,
    /// Whether it differs from seed to seed, and may not come to bear.
    pub is_random: bool,
    /// The only method that it bears on, if it is one.
    pub method: Option<&'static str>,
    /// Makes one from a seed.
    pub make: Make,
}

const fn always(name: &'static str, make: Make) -> Entry {
    Entry { name, is_random: false, method: None, make }
}

const fn chance(name: &'static str, make: Make) -> Entry {
    Entry { name, is_random: true, method: None, make }
}

const fn of(method: &'static str, name: &'static str, make: Make) -> Entry {
    Entry { name, is_random: true, method: Some(method), make }
}

/// All that happen to requests, or are of a server's nature, as tables name them.
pub const ALL: &[Entry] = &[
    always("honest", |_| Box::new(honest::Honest)),
    chance("answers as done", |seed| Box::new(completion::SideBySide::new(seed, false))),
    chance("works side by side, answers in order", |seed| Box::new(completion::SideBySide::new(seed, true))),
    of("GET", "drops a GET", |seed| Box::new(drops::Drops::new("GET", false, seed))),
    of("PUT", "drops a PUT", |seed| Box::new(drops::Drops::new("PUT", false, seed))),
    of("DELETE", "drops a DELETE", |seed| Box::new(drops::Drops::new("DELETE", false, seed))),
    of("MKCOL", "drops a MKCOL", |seed| Box::new(drops::Drops::new("MKCOL", false, seed))),
    of("PROPFIND", "drops a PROPFIND", |seed| Box::new(drops::Drops::new("PROPFIND", false, seed))),
    of("GET", "drops the answer to a GET", |seed| Box::new(drops::Drops::new("GET", true, seed))),
    of("PUT", "drops the answer to a PUT", |seed| Box::new(drops::Drops::new("PUT", true, seed))),
    of("DELETE", "drops the answer to a DELETE", |seed| Box::new(drops::Drops::new("DELETE", true, seed))),
    of("MKCOL", "drops the answer to a MKCOL", |seed| Box::new(drops::Drops::new("MKCOL", true, seed))),
    of("PROPFIND", "drops the answer to a PROPFIND", |seed| Box::new(drops::Drops::new("PROPFIND", true, seed))),
    chance("swaps two answers", |seed| Box::new(swaps::Swaps::new(seed))),
    chance("answers one twice", |seed| Box::new(repeats::Repeats::new(seed))),
    chance("refuses one, answers as done", |seed| Box::new(refuses::Refuses::new(seed))),
    chance("does one, and resets", |seed| Box::new(resets::Resets::new(seed))),
    always("nonce ends after 7 requests", |_| Box::new(nonce::Nonce::default())),
    always("clock 10 min ahead", |_| Box::new(clock::Clock(600))),
    always("clock 10 min behind", |_| Box::new(clock::Clock(-600))),
    always("folds case", |_| Box::new(folds::Case)),
    always("composes names (NFC)", |_| Box::new(folds::Composed)),
    always("names a length 5 too long", |_| Box::new(length::Length(5))),
    always("names a length 5 too short", |_| Box::new(length::Length(-5))),
    always("cuts listings off", |_| Box::new(listings::CutOff)),
    always("lists a part, and says so (507)", |_| Box::new(listings::InPart)),
    always("hides dotfiles", |_| Box::new(hides::Dotfiles)),
];

/// What a server shows of its files' states, as tables name it.
pub const VALIDATORS: &[(&str, Make)] = &[
    ("ETags", |_| Box::new(etags::Of::Versions)),
    ("none", |_| Box::new(etags::Of::Nothing)),
    ("ETags of length and second", |_| Box::new(etags::Of::LengthAndSecond)),
    ("ETags in answers", |_| Box::new(etags::Of::Answers)),
    ("ETags in listings", |_| Box::new(etags::Of::Listings)),
];

/// Hits one request of many.
struct Once {
    left: u32,
}

impl Once {
    /// Within the first so many.
    fn among(count: u32, seed: u64) -> Self {
        Self { left: dice(seed).random_range(1..=count) }
    }

    fn hits(&mut self) -> bool {
        let hit = self.left == 1;
        self.left = self.left.saturating_sub(1);
        hit
    }
}

fn dice(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Whether a request changes something.
fn writes(asked: &Asked<'_>) -> bool {
    matches!(asked.method(), "PUT" | "DELETE" | "MKCOL" | "MOVE" | "COPY")
}
