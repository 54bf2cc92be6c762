//! Names that the client distinguishes and the server does not.

use unicode_normalization::UnicodeNormalization;

use crate::behaviour::Behaviour;

/// Case-insensitive and case-preserving, as on Windows and macOS.
pub(super) struct Case;

impl Behaviour for Case {
    fn name_key(&self, name: String) -> String {
        name.to_lowercase()
    }
}

/// Names are stored composed (NFC).
pub(super) struct Composed;

impl Behaviour for Composed {
    fn stored_name(&self, name: String) -> String {
        name.nfc().collect()
    }
}
