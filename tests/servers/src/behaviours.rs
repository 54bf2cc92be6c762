//! The behaviours, one per file.

mod clock_offset;
mod concurrent_processing;
mod dropped_request;
mod hidden_dotfiles;
mod honest;
mod incomplete_listing;
mod name_folding;
mod nonce_expiry;
mod refused_request;
mod repeated_response;
mod reset_after_processing;
mod swapped_responses;
mod validators;
mod wrong_content_length;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use crate::behaviour::{Behaviour, IncomingRequest};

/// Makes one from a seed.
pub type Make = fn(u64) -> Box<dyn Behaviour>;

/// A behaviour, and how tables name it.
pub struct Entry {
    /// Its name in tables.
    pub name: &'static str,
    /// Whether it depends on the seed, and may never apply.
    pub is_random: bool,
    /// The only method that it applies to, if there is one.
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

/// All behaviours but validators, under their names in tables.
pub const ALL: &[Entry] = &[
    always("honest", |_| Box::new(honest::Honest)),
    chance("answers as done", |seed| Box::new(concurrent_processing::ConcurrentProcessing::new(seed, false))),
    chance("works side by side, answers in order", |seed| {
        Box::new(concurrent_processing::ConcurrentProcessing::new(seed, true))
    }),
    of("GET", "drops a GET", |seed| Box::new(dropped_request::DroppedRequest::new("GET", false, seed))),
    of("PUT", "drops a PUT", |seed| Box::new(dropped_request::DroppedRequest::new("PUT", false, seed))),
    of("DELETE", "drops a DELETE", |seed| Box::new(dropped_request::DroppedRequest::new("DELETE", false, seed))),
    of("MKCOL", "drops a MKCOL", |seed| Box::new(dropped_request::DroppedRequest::new("MKCOL", false, seed))),
    of("PROPFIND", "drops a PROPFIND", |seed| Box::new(dropped_request::DroppedRequest::new("PROPFIND", false, seed))),
    of("GET", "drops the answer to a GET", |seed| Box::new(dropped_request::DroppedRequest::new("GET", true, seed))),
    of("PUT", "drops the answer to a PUT", |seed| Box::new(dropped_request::DroppedRequest::new("PUT", true, seed))),
    of("DELETE", "drops the answer to a DELETE", |seed| {
        Box::new(dropped_request::DroppedRequest::new("DELETE", true, seed))
    }),
    of("MKCOL", "drops the answer to a MKCOL", |seed| {
        Box::new(dropped_request::DroppedRequest::new("MKCOL", true, seed))
    }),
    of("PROPFIND", "drops the answer to a PROPFIND", |seed| {
        Box::new(dropped_request::DroppedRequest::new("PROPFIND", true, seed))
    }),
    chance("swaps two answers", |seed| Box::new(swapped_responses::SwappedResponses::new(seed))),
    chance("answers one twice", |seed| Box::new(repeated_response::RepeatedResponse::new(seed))),
    chance("refuses one, answers as done", |seed| Box::new(refused_request::RefusedRequest::new(seed))),
    chance("does one, and resets", |seed| Box::new(reset_after_processing::ResetAfterProcessing::new(seed))),
    always("nonce ends after 7 requests", |_| Box::new(nonce_expiry::NonceExpiry::default())),
    always("clock 10 min ahead", |_| Box::new(clock_offset::ClockOffset(600))),
    always("clock 10 min behind", |_| Box::new(clock_offset::ClockOffset(-600))),
    always("folds case", |_| Box::new(name_folding::Case)),
    always("composes names (NFC)", |_| Box::new(name_folding::Composed)),
    always("names a length 5 too long", |_| Box::new(wrong_content_length::WrongContentLength(5))),
    always("names a length 5 too short", |_| Box::new(wrong_content_length::WrongContentLength(-5))),
    always("cuts listings off", |_| Box::new(incomplete_listing::Truncated)),
    always("lists a part, and says so (507)", |_| Box::new(incomplete_listing::Partial)),
    always("hides dotfiles", |_| Box::new(hidden_dotfiles::HiddenDotfiles)),
];

/// Which validators a server sends, under their names in tables.
pub const VALIDATORS: &[(&str, Make)] = &[
    ("ETags", |_| Box::new(validators::Shown::All)),
    ("none", |_| Box::new(validators::Shown::None)),
    ("ETags of length and second", |_| Box::new(validators::Shown::NginxEtags)),
    ("ETags in answers", |_| Box::new(validators::Shown::EtagsInResponses)),
    ("ETags in listings", |_| Box::new(validators::Shown::EtagsInListings)),
];

/// Applies to one request of many.
struct Once {
    requests_left: u32,
}

impl Once {
    /// A random one of the first `count`.
    fn among(count: u32, seed: u64) -> Self {
        Self { requests_left: rng(seed).random_range(1..=count) }
    }

    fn applies(&mut self) -> bool {
        let hit = self.requests_left == 1;
        self.requests_left = self.requests_left.saturating_sub(1);
        hit
    }
}

fn rng(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

/// Whether a request changes something.
fn writes(asked: &IncomingRequest<'_>) -> bool {
    matches!(asked.method(), "PUT" | "DELETE" | "MKCOL" | "MOVE" | "COPY")
}
