//! The names of a run's captures: `WORKLOAD-NETWORK-CONTENDER.pcapng`, each only once.
//!
//! Names of cells may contain blanks and slashes, which file names should not, and hyphens, which join them. So
//! different cells may come to the same name, such as the networks `a b` and `a-b`. Then the later one in the run's
//! order gets a number.

use std::collections::{BTreeMap, BTreeSet};

/// The suffix of the name of the slowest sample's capture.
pub(crate) const SLOWEST: &str = "-slowest";

/// The suffix of the name of a round's capture, before the number.
const ROUND: &str = "-round";

/// The workload, the network and the contender of a cell.
pub(crate) type CellName = [String; 3];

/// The names of the captures of a run's cells, without suffix and extension.
#[derive(Debug, Clone, Default)]
pub(crate) struct CaptureNames(BTreeMap<CellName, String>);

impl CaptureNames {
    /// The names for all cells of a run, in its order.
    pub(crate) fn new(cells: impl IntoIterator<Item = CellName>) -> Self {
        let mut taken = BTreeSet::new();
        let mut names = BTreeMap::new();
        for cell in cells {
            let plain = plain(&cell);
            let numbered = (2..).map(|number| format!("{plain}-{number}"));
            let free = std::iter::once(plain.clone())
                .chain(numbered)
                .find(|name| taken.insert(without_suffix(name).to_owned()));
            names.insert(cell, free.unwrap_or(plain));
        }
        Self(names)
    }

    /// The name of a cell's capture with a suffix.
    pub(crate) fn file(&self, cell: &CellName, suffix: &str) -> String {
        let name = self.0.get(cell).cloned().unwrap_or_else(|| plain(cell));
        format!("{name}{suffix}.pcapng")
    }
}

/// The suffix of the capture of a round.
pub(crate) fn round(round: u32) -> String {
    format!("{ROUND}{round}")
}

fn plain(cell: &CellName) -> String {
    cell.join("-").replace([' ', '/'], "-")
}

/// A name without what looks like a suffix, so that no cell's name is that of another one's suffixed capture.
fn without_suffix(name: &str) -> &str {
    let short = name.strip_suffix(SLOWEST).or_else(|| {
        let (before, digits) = name.rsplit_once(ROUND)?;
        (!digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())).then_some(before)
    });
    short.map_or(name, without_suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_every_cell_has_a_name_of_its_own() {
        let cells = [
            ["up", "a b", "curl"],
            ["up", "a-b", "curl"],
            ["up", "a/b", "curl"],
            ["up-a", "b", "curl"],
            ["up", "a-b", "curl-2"],
            ["up", "a-b", "curl-slowest"],
            ["up", "a-b", "curl-round3"],
            ["up", "a-b", "curl-round3-slowest"],
            ["up", "lan", "rclone transfers=16"],
        ]
        .map(|names| names.map(str::to_owned));
        let names = CaptureNames::new(cells.clone());
        let mut files = BTreeSet::new();
        for cell in &cells {
            for suffix in ["", SLOWEST, &round(3), &round(30)] {
                assert!(files.insert(names.file(cell, suffix)), "{} twice", names.file(cell, suffix));
            }
        }
        assert_eq!(names.file(&cells[0], ""), "up-a-b-curl.pcapng");
        assert_eq!(names.file(&cells[1], SLOWEST), "up-a-b-curl-2-slowest.pcapng");
        assert_eq!(names.file(&cells[8], ""), "up-lan-rclone-transfers=16.pcapng");
    }
}
