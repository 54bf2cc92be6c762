//! Names that are two here and one on the server.

use unicode_normalization::UnicodeNormalization;

use crate::behaviour::Behaviour;

/// Upper and lower case are one, and the first name stays, as on Windows and macOS.
pub(super) struct Case;

impl Behaviour for Case {
    fn folded(&self, name: String) -> String {
        name.to_lowercase()
    }
}

/// Names are kept composed (NFC), however they come.
pub(super) struct Composed;

impl Behaviour for Composed {
    fn kept(&self, name: String) -> String {
        name.nfc().collect()
    }
}
