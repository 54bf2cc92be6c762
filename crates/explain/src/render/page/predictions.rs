//! Before and after: how long a transfer would take with each finding's change, and with all of them.

use serde::Serialize;
use units::Size;

use crate::{
    Connection, Transfer,
    render::{PredictionRequest, summary::declined},
    replica::WhatIf,
};

/// The predictions for a transfer.
#[derive(Debug, Serialize)]
pub(super) struct Predictions {
    /// How long the replica takes without changes; null if nothing is predicted.
    before_s: Option<f64>,
    /// How much longer that is than the captured time, as a share of it.
    model_error: Option<f64>,
    /// Why nothing is predicted, or nothing else.
    declined: Option<String>,
    after: Vec<After>,
}

/// How long a transfer would take.
#[derive(Debug, Serialize)]
struct After {
    /// As written in `--what-if`; empty if only the number of bytes changes.
    change: String,
    /// The number of bytes, if another one was requested.
    bytes: Option<u64>,
    duration_s: f64,
}

impl Predictions {
    /// The predictions for a transfer; none if it carried no data or there is nothing to predict.
    pub(super) fn of(connection: &Connection, transfer: &Transfer, request: &PredictionRequest) -> Option<Self> {
        if transfer.findings.is_empty() && request.what_if.is_none() && request.bytes.is_none() {
            return None;
        }
        let Ok(unchanged) = transfer.what_if(&WhatIf::default(), None)? else {
            let after = transfer.findings.iter().filter_map(|finding| {
                let (change, after) = (finding.what_if.as_ref()?, transfer.without(finding)?);
                Some(After { change: change.to_string(), bytes: None, duration_s: after.duration.as_secs_f64() })
            });
            let declined = declined(connection, transfer);
            return Some(Self { before_s: None, model_error: None, declined, after: after.collect() });
        };
        let mut changes: Vec<WhatIf> = Vec::new();
        for change in transfer.findings.iter().filter_map(|finding| finding.what_if.clone()) {
            if !changes.contains(&change) {
                changes.push(change);
            }
        }
        if changes.len() > 1 {
            let all: Vec<String> = changes.iter().map(ToString::to_string).collect();
            changes.extend(all.join(",").parse());
        }
        changes.extend(request.what_if.clone());
        let as_seen = changes.iter().cloned().map(|change| (change, None));
        let scaled = request.bytes.into_iter().flat_map(|bytes| {
            let all = [WhatIf::default()].into_iter().chain(changes.clone());
            all.map(move |change| (change, Some(bytes)))
        });
        let after = as_seen.chain(scaled).filter_map(|(change, bytes)| {
            let predicted = transfer.what_if(&change, bytes.map(Size))?.ok()?;
            Some(After { change: change.to_string(), bytes, duration_s: predicted.duration.as_secs_f64() })
        });
        Some(Self {
            before_s: Some(unchanged.duration.as_secs_f64()),
            model_error: unchanged.model_error,
            declined: None,
            after: after.collect(),
        })
    }
}
