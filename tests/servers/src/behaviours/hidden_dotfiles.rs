//! Names that begin with a dot are served but never listed, as in nginx.

use crate::behaviour::Behaviour;

pub(super) struct HiddenDotfiles;

impl Behaviour for HiddenDotfiles {
    fn is_listed(&self, name: &str) -> bool {
        !name.starts_with('.')
    }
}
