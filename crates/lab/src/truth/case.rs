//! Cases: which knob, over which network, with which programs; and the folder in which a measured one is kept.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{
    draw::Draw,
    facts::Facts,
    knobs::{KNOBS, Knob},
    measure::MeasureError,
    programs::Installed,
    scenario::Scenario,
};

/// A case: the knob turned, and turned back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Its number in the run, from 0.
    pub index: u32,
    /// The name of its knob.
    pub knob: String,
    /// The scenario with the knob turned.
    pub turned: Scenario,
    /// The scenario with the knob turned back.
    pub back: Scenario,
}

/// A case and what was measured, as `case.json` has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredCase {
    /// The case.
    pub case: Case,
    /// The run with the knob turned.
    pub turned: Facts,
    /// The run with the knob turned back.
    pub back: Facts,
}

impl Case {
    /// The case `index` of the run with this seed; an error says why this machine cannot run it.
    ///
    /// Every knob comes once before any comes again.
    pub fn draw(seed: u64, index: u32, knobs: &[&'static Knob], installed: &Installed) -> Result<Self, String> {
        let count = knobs.len().max(1);
        let mut order: Vec<&Knob> = knobs.to_vec();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_word_pos(u128::from(index) / count as u128 * 1_000_000);
        order.shuffle(&mut rng);
        let knob = order.get(index as usize % count).ok_or("there is no knob")?;
        let mut draw = Draw::new(seed, index.into(), installed);
        match (knob.draw)(&mut draw) {
            Some([turned, back]) => Ok(Self { index, knob: knob.name.to_owned(), turned, back }),
            None => Err(format!("{}: the programs for it are not installed", knob.name)),
        }
    }

    /// The name of its folder.
    pub fn folder(&self) -> String {
        format!("{:03}-{}", self.index, self.knob)
    }

    /// The knob.
    pub fn kind(&self) -> Option<&'static Knob> {
        Knob::named(&self.knob)
    }
}

/// The knobs with these names; all of them for no name. An error has the name of the unknown one.
pub fn knobs(names: &[String]) -> Result<Vec<&'static Knob>, String> {
    if names.is_empty() {
        return Ok(KNOBS.iter().collect());
    }
    names.iter().map(|name| Knob::named(name).ok_or_else(|| name.clone())).collect()
}

impl MeasuredCase {
    /// The file in a case's folder.
    fn file(folder: &Path) -> PathBuf {
        folder.join("case.json")
    }

    /// The stored case in a folder, if it is this one.
    pub(crate) fn read(folder: &Path, case: &Case) -> Option<Self> {
        let text = fs::read_to_string(Self::file(folder)).ok()?;
        let stored: Self = serde_json::from_str(&text).ok()?;
        (stored.case == *case).then_some(stored)
    }

    /// Stores it. The file is complete or not there.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), MeasureError> {
        let path = Self::file(folder);
        let text = serde_json::to_vec_pretty(self).map_err(|error| MeasureError::Files(io::Error::other(error)))?;
        output::replace(&path, 0o666, &text).map_err(|source| MeasureError::File { path, source })
    }

    /// What the knob cost, in seconds: the difference of the durations.
    pub fn cost_s(&self) -> f64 {
        self.turned.duration_s - self.back.duration_s
    }
}
