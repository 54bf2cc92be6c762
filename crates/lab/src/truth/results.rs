//! The results of a run: schema `longhaul.truth/1`.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    case::MeasuredCase,
    judge::{Judgement, is_judged},
};

/// The results of a run.
#[derive(Debug, Clone, Serialize)]
pub struct TruthResult {
    /// `longhaul.truth/1`.
    pub schema: &'static str,
    /// The seed.
    pub seed: u64,
    /// What the seed's cases are for.
    pub split: Split,
    /// The kernel.
    pub kernel: String,
    /// The programs and their versions.
    pub programs: BTreeMap<String, String>,
    /// What could not be drawn or measured, and why.
    pub skipped: Vec<String>,
    /// The cases.
    pub cases: Vec<CaseResult>,
    /// The bars of each place and kind of capture.
    pub bars: Vec<Bars>,
}

/// What a run's cases are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// Even seeds: to look at while `explain` is changed.
    Develop,
    /// Odd seeds: to report.
    Report,
}

/// A case, measured and judged.
#[derive(Debug, Clone, Serialize)]
pub struct CaseResult {
    /// The case and its measurements.
    #[serde(flatten)]
    pub measured: MeasuredCase,
    /// What its knob turns, for people.
    pub turns: &'static str,
    /// The causes that are right.
    pub expected: Vec<&'static str>,
    /// What the knob cost, in seconds.
    pub cost_s: f64,
    /// Whether that is enough to be judged.
    pub is_judged: bool,
    /// Whether the first line confidently names a right cause in the capture without the knob, too.
    pub is_still_blamed: bool,
    /// The judgements of its captures.
    pub judgements: Vec<Judgement>,
}

/// How good the explanations of one kind of capture are, over all judged cases.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Bars {
    /// Where the captures were taken.
    pub vantage: &'static str,
    /// How they were derived.
    pub variant: &'static str,
    /// How many were judged.
    pub judged: usize,
    /// How many say the knob.
    pub right: usize,
    /// How many say where the capture was taken.
    pub place_right: usize,
    /// How many confidently blame somebody else.
    pub wrong_party: usize,
    /// The median of |the causes' time − the knob's cost| ÷ the knob's cost.
    pub cost_error: Option<f64>,
    /// How many have a prediction.
    pub predicted: usize,
    /// The median of |the predicted time − the time without the knob| ÷ the latter.
    pub prediction_error: Option<f64>,
    /// How many predictions have an interval, and how many of those hold the time without the knob.
    pub ranged: usize,
    /// See `ranged`.
    pub held: usize,
    /// How many captures were explained, judged or not.
    pub explained: usize,
    /// How many of those have causes that add up.
    pub conserved: usize,
    /// How many captures have all bytes.
    pub countable: usize,
    /// How many of those were counted exactly.
    pub byte_exact: usize,
}

impl Split {
    /// The use of a seed.
    pub fn of(seed: u64) -> Self {
        if seed.is_multiple_of(2) { Self::Develop } else { Self::Report }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Develop => "develop",
            Self::Report => "report",
        }
    }
}

impl CaseResult {
    /// A judged case.
    pub fn new(measured: MeasuredCase, judgements: Vec<Judgement>, is_still_blamed: bool) -> Self {
        let knob = measured.case.kind();
        let expected = knob.map(|knob| knob.expected.to_vec()).unwrap_or_default();
        Self {
            cost_s: measured.cost_s(),
            is_judged: is_judged(&measured),
            turns: knob.map(|knob| knob.turns).unwrap_or_default(),
            expected,
            measured,
            is_still_blamed,
            judgements,
        }
    }

    /// The judgement of one kind of capture.
    pub fn judgement(&self, vantage: &str, variant: &str) -> Option<&Judgement> {
        self.judgements.iter().find(|one| (one.vantage, one.variant) == (vantage, variant))
    }

    /// Whether the times of the transfers with the knob and without can be compared.
    fn has_cost(&self) -> bool {
        self.measured.case.kind().is_some_and(|knob| !knob.is_event)
    }
}

/// The bars of all kinds of captures, in the order of the first case.
pub fn bars(cases: &[CaseResult]) -> Vec<Bars> {
    let kinds = cases.first().map(|case| case.judgements.iter().map(|one| (one.vantage, one.variant)));
    kinds.into_iter().flatten().map(|(vantage, variant)| bars_of(cases, vantage, variant)).collect()
}

fn bars_of(cases: &[CaseResult], vantage: &'static str, variant: &'static str) -> Bars {
    let all: Vec<(&CaseResult, &Judgement)> =
        cases.iter().filter_map(|case| Some((case, case.judgement(vantage, variant)?))).collect();
    let judged: Vec<_> = all.iter().filter(|(_, one)| one.is_judged).collect();
    let comparable = judged.iter().filter(|(case, _)| case.has_cost());
    let cost_errors = comparable.clone().map(|(case, one)| relative(one.cost_s, case.cost_s)).collect();
    let ranges: Vec<bool> = comparable
        .clone()
        .filter_map(|(case, one)| {
            let [from, to] = one.range_s?;
            Some((from..=to).contains(&case.measured.back.duration_s))
        })
        .collect();
    let prediction_errors: Vec<f64> =
        comparable.filter_map(|(case, one)| Some(relative(one.predicted_s?, case.measured.back.duration_s))).collect();
    let exact: Vec<bool> = all.iter().filter_map(|(_, one)| one.is_byte_exact).collect();
    Bars {
        vantage,
        variant,
        judged: judged.len(),
        right: judged.iter().filter(|(_, one)| one.is_right).count(),
        place_right: judged.iter().filter(|(_, one)| one.said_vantage == Some(vantage)).count(),
        wrong_party: judged.iter().filter(|(_, one)| one.blames_wrong_party).count(),
        cost_error: median(cost_errors),
        predicted: prediction_errors.len(),
        prediction_error: median(prediction_errors),
        ranged: ranges.len(),
        held: ranges.iter().filter(|is_held| **is_held).count(),
        explained: all.len(),
        conserved: all.iter().filter(|(_, one)| one.is_conserved).count(),
        countable: exact.len(),
        byte_exact: exact.iter().filter(|is_exact| **is_exact).count(),
    }
}

fn relative(said: f64, truth: f64) -> f64 {
    (said - truth).abs() / truth.abs().max(1e-9)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values.get((values.len() - 1) / 2)?;
    Some(f64::midpoint(*lower, *upper))
}
