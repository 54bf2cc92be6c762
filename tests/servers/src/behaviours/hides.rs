//! Names that begin with a dot are served and never listed, as by nginx.

use crate::behaviour::Behaviour;

pub(super) struct Dotfiles;

impl Behaviour for Dotfiles {
    fn lists(&self, name: &str) -> bool {
        !name.starts_with('.')
    }
}
