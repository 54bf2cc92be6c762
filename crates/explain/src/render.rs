//! The explanation as text, as JSON, and as a page.

mod failures;
pub mod json;
mod notes;
pub mod page;
mod queue_from_the_start;
mod summary;
pub mod text;

pub use notes::notes;

use crate::{Coverage, replica::WhatIf};

/// What to predict for every transfer, besides the effect of each finding's fix.
#[derive(Debug, Clone, Default)]
pub struct PredictionRequest {
    /// Changes to every transfer.
    pub what_if: Option<WhatIf>,
    /// Another number of bytes.
    pub bytes: Option<u64>,
}

/// A capture, and how it was read.
#[derive(Debug, Clone, Default)]
pub struct ReadCapture {
    /// Its name, as the user gave it.
    pub name: String,
    /// The number of packets that were read.
    pub packets: u64,
    /// What it lacks, and what it has twice.
    pub coverage: Coverage,
    /// Why it was not read to its end, in a sentence.
    pub error: Option<String>,
}
