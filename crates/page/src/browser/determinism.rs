//! `Date` and `Math.random` that give the same values in the recording and in every replay.
//!
//! Scripts write the time and random numbers into URLs, so that nothing on the way answers from a cache. In a replay such a
//! URL is another one than in the recording. Web Page Replay replaces both functions before any script of the page runs,
//! and so does this. The clock begins at the time of the recording, and each reading of it is a millisecond later: it
//! depends on the script alone, and a loop that waits for a time still ends. Every ten real seconds it advances by ten
//! seconds, for scripts that wait for longer. The random numbers depend on the document's URL, without its scheme.
//!
//! `performance.now`, timers and `crypto` remain the browser's own: keys must stay secret, and times must be measured.

/// The script, with a clock that begins `start` milliseconds after 1970. `worker` is the URL of a worker, which a paused
/// one does not know: Chromium 156 crashes if it is asked.
pub(super) fn script(start: i64, worker: Option<&str>) -> String {
    let function = include_str!("determinism.js").trim_end().trim_end_matches(';');
    let url = serde_json::Value::from(worker);
    format!("({function})({start}, {url});")
}
