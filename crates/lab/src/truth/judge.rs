//! The judge: is the cause that an explanation says the knob that was turned?
//!
//! The truth is what was turned, and its size is the difference of two measured durations. Nothing here knows how
//! `explain` finds a cause.
//!
//! A case in which the knob cost less than [`MIN_SHARE`] of the time is not judged: BBR hardly notices a loss, and a
//! small buffer hardly matters to a few packets. Another cause is then rightly the largest.

use serde::Serialize;

use super::{
    account::Account,
    case::{Case, MeasuredCase},
    facts::Facts,
    knobs::{Party, party},
    scenario::ClientProgram,
    variants::BEGUN_LATE,
};

/// The smallest share of the knob's cost in the duration for which the knob must be the dominant cause: whatever else
/// there is then took less.
pub const MIN_SHARE: f64 = 0.5;

/// The smallest part of a transfer's time that a capture must contain to be judged.
const MIN_CAPTURED: f64 = 0.6;

/// How many packets the emulator may lose in a run: one or two do not reach a link that is set up or taken down.
const MAX_DROPS: u64 = 2;

/// The smallest share of a transfer's time at which a headline counts as confident.
const CONFIDENT: f64 = 0.3;

/// The smallest share of the time that makes a cause dominant, beside round trips and handshakes.
const DOMINANT: f64 = 0.1;

/// The causes of a transfer in which nothing is wrong.
const BASELINE: [&str; 3] = ["propagation", "connect", "tls"];

/// What is said where an explanation has no transfer.
pub const NOTHING: &str = "nothing";

/// The judgement of one capture.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each answers a question of its own, and is a field of the JSON")]
pub struct Judgement {
    /// Where the capture was taken: `client`, `middle`, `server`, or `both` for those at client and server together.
    pub vantage: &'static str,
    /// How it was derived: `full`, or the name of a variant.
    pub variant: &'static str,
    /// The capture, or the two joined by a space, relative to the folder of the run.
    pub capture: String,
    /// Whether the knob must be the dominant cause of this capture. One that begins after most of the transfer's time need
    /// not show it.
    pub is_judged: bool,
    /// Where `explain` says that it was taken; none if it says nothing.
    pub said_vantage: Option<&'static str>,
    /// The cause that took most of the time, apart from round trips and handshakes.
    pub said: String,
    /// Its share of the time.
    pub share: f64,
    /// The cause of the first line, if it names one.
    pub headline: Option<String>,
    /// Whether `said` is the knob; for an event, whether any finding is.
    pub is_right: bool,
    /// Whether the headline confidently blames somebody who did not do it.
    pub blames_wrong_party: bool,
    /// The time of the expected causes, in seconds.
    pub cost_s: f64,
    /// The predicted time without them.
    pub predicted_s: Option<f64>,
    /// Where nine in ten measured times should be, if it says so.
    pub range_s: Option<[f64; 2]>,
    /// Whether the causes of each transfer add up to its duration.
    pub is_conserved: bool,
    /// Whether the bytes are those on the wire; none for captures that lack some, and where some are no part of a transfer
    /// (a TLS handshake, control).
    pub is_byte_exact: Option<bool>,
}

/// Whether the knob cost enough to be the dominant cause.
pub fn is_judged(case: &MeasuredCase) -> bool {
    let Some(knob) = case.case.kind() else { return false };
    let share = case.cost_s() / case.turned.duration_s.max(1e-9);
    let is_sound = [case.turned, case.back].iter().all(|run| run.emulator_drops <= MAX_DROPS);
    is_sound && (knob.is_event || share >= MIN_SHARE)
}

/// The dominant cause of an account, and its share.
pub fn dominant(account: &Account) -> (String, f64) {
    let total = account.total_s().max(1e-9);
    let largest = |is_wanted: &dyn Fn(&str) -> bool| {
        let wanted = account.seconds.iter().filter(|(cause, _)| is_wanted(cause));
        wanted.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(cause, seconds)| (cause.clone(), seconds / total))
    };
    let avoidable = largest(&|cause| !BASELINE.contains(&cause)).filter(|(_, share)| *share >= DOMINANT);
    avoidable.or_else(|| largest(&|_| true)).unwrap_or((NOTHING.to_owned(), 0.0))
}

/// A capture to judge.
#[derive(Debug, Clone, PartialEq)]
pub struct Captured {
    /// Where it was taken.
    pub vantage: &'static str,
    /// How it was derived.
    pub variant: &'static str,
    /// Its path, relative to the folder of the run.
    pub path: String,
    /// The seconds from its first SYN or packet with data to its last.
    pub duration_s: f64,
}

/// Judges what an explanation says of a case's capture.
pub fn judge(case: &MeasuredCase, account: &Account, captured: Captured) -> Judgement {
    let Captured { vantage, variant, path: capture, duration_s } = captured;
    let knob = case.case.kind();
    let expected = knob.map(|knob| knob.expected).unwrap_or_default();
    let is_found =
        knob.is_some_and(|knob| knob.is_event) && expected.iter().any(|cause| account.findings.contains(*cause));
    let is_upload = case.case.turned.is_upload;
    let (said, share) = dominant(account);
    let guilty: Vec<Party> = expected.iter().map(|cause| party(cause, is_upload)).collect();
    let blamed = confident(account).map(|cause| party(cause, is_upload));
    Judgement {
        vantage,
        variant,
        capture,
        is_judged: is_judged(case) && duration_s >= MIN_CAPTURED * case.turned.duration_s,
        said_vantage: account.vantage,
        is_right: is_found || expected.contains(&said.as_str()),
        said,
        share,
        headline: account.headline.as_ref().map(|(cause, _)| cause.clone()),
        blames_wrong_party: blamed.is_some_and(|party| party != Party::Nobody && !guilty.contains(&party)),
        cost_s: expected.iter().filter_map(|cause| account.seconds.get(*cause)).fold(0.0, |sum, seconds| sum + seconds),
        predicted_s: account.predicted_s,
        range_s: account.range_s,
        is_conserved: account.is_conserved,
        is_byte_exact: is_exact(variant, account, &case.turned).filter(|_| is_countable(&case.case)),
    }
}

/// The cause of the first line, if that is confident.
fn confident(account: &Account) -> Option<&str> {
    account.headline.as_ref().filter(|(_, share)| *share >= CONFIDENT).map(|(cause, _)| cause.as_str())
}

/// Whether the first line confidently names one of these causes.
pub(super) fn blames(account: &Account, causes: &[&str]) -> bool {
    confident(account).is_some_and(|cause| causes.contains(&cause))
}

/// Whether all bytes of the connections belong to transfers, not to a TLS handshake, HTTP/2's frames, control or an interim
/// response (`100 Continue`); and whether all arrived, which those before a reset need not.
fn is_countable(case: &Case) -> bool {
    let scenario = &case.turned;
    let has_other_bytes = scenario.is_tls
        || scenario.client.program == ClientProgram::Iperf3
        || scenario.client.program == ClientProgram::Curl && scenario.is_upload;
    !has_other_bytes && !["http2-window", "reset"].contains(&case.knob.as_str())
}

/// Whether the bytes are those that the capture at the client has; a variant without some packets is not asked.
fn is_exact(variant: &str, account: &Account, facts: &Facts) -> Option<bool> {
    let has_all = !matches!(variant, BEGUN_LATE | "one-direction");
    has_all.then_some(account.bytes == facts.bytes)
}
