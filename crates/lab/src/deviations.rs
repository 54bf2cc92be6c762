//! How a browser's loads of a recorded page differ from the recording, over all samples of a cell.

use std::collections::{BTreeMap, BTreeSet};

use page::browser::deviations::{Deviation, Kind};
use serde::{Deserialize, Serialize};

use crate::results::Sample;

/// A difference, and in how many samples it occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedDeviation {
    /// The difference.
    #[serde(flatten)]
    pub deviation: Deviation,
    /// The number of samples with it.
    pub samples: u32,
}

/// The differences of all samples, the most frequent first. A request with a random number differs in each sample: of those
/// that the same recorded request answered, one is kept.
pub(crate) fn of(samples: &[Sample]) -> Vec<CountedDeviation> {
    let mut counts: BTreeMap<(Kind, &str), (&Deviation, BTreeSet<usize>)> = BTreeMap::new();
    for (number, sample) in samples.iter().enumerate() {
        for deviation in &sample.deviations {
            let recorded = if deviation.kind == Kind::Nearest { &deviation.detail } else { &deviation.url };
            let entry = counts.entry((deviation.kind, recorded)).or_insert_with(|| (deviation, BTreeSet::new()));
            entry.1.insert(number);
        }
    }
    let mut all: Vec<CountedDeviation> = counts
        .into_values()
        .map(|(deviation, samples)| CountedDeviation { deviation: deviation.clone(), samples: samples.len() as u32 })
        .collect();
    all.sort_by_key(|counted| std::cmp::Reverse(counted.samples));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_counted_once_per_sample_and_the_most_frequent_come_first() {
        let deviation = |url: &str| Deviation { kind: Kind::NotSent, url: url.to_owned(), detail: String::new() };
        let sample =
            |urls: &[&str]| Sample { deviations: urls.iter().map(|url| deviation(url)).collect(), ..Sample::default() };
        let samples = [sample(&["a", "b", "b"]), sample(&["b"]), sample(&[])];
        let counted = |url, samples| CountedDeviation { deviation: deviation(url), samples };
        assert_eq!(of(&samples), [counted("b", 2), counted("a", 1)]);
        let near = |url: &str| Deviation { kind: Kind::Nearest, url: url.to_owned(), detail: "r=0".to_owned() };
        let near = ["r=1", "r=2"].map(|url| Sample { deviations: vec![near(url)], ..Sample::default() });
        assert_eq!(of(&near).iter().map(|counted| counted.samples).collect::<Vec<_>>(), [2]);
        let json = serde_json::to_value(counted("b", 2)).unwrap();
        assert_eq!(json, serde_json::json!({ "kind": "not-sent", "url": "b", "samples": 2 }));
    }
}
