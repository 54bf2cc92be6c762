//! The explanation as text, as JSON, and as a page.

mod failures;
pub mod json;
mod notes;
pub mod page;
mod summary;
pub mod text;

pub use notes::notes;

use crate::replica::WhatIf;

/// What to predict for every transfer, besides the effect of each finding's fix.
#[derive(Debug, Clone, Default)]
pub struct PredictionRequest {
    /// Changes to every transfer.
    pub what_if: Option<WhatIf>,
    /// Another number of bytes.
    pub bytes: Option<u64>,
}
