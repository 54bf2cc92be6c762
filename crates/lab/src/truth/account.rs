//! What an explanation says of the measured connections, in the terms of the judge.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use explain::{PairedConnection, Transfer};

use super::{BOTH, facts::Counted, programs::PORT};

/// What an explanation says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Account {
    /// The seconds of all transfers by cause.
    pub seconds: BTreeMap<String, f64>,
    /// The first finding of the transfer that lost most, and its share of that transfer: the first line of
    /// `haul explain`.
    pub headline: Option<(String, f64)>,
    /// The causes of all findings, and how connections failed.
    pub findings: BTreeSet<String>,
    /// How long all transfers together would take without the expected cause; none if that is not predicted.
    pub predicted_s: Option<f64>,
    /// The interval of that prediction, if it has one.
    pub range_s: Option<[f64; 2]>,
    /// The bytes of data in both directions.
    pub bytes: u64,
    /// Whether the causes of each transfer add up to its duration.
    pub is_conserved: bool,
    /// Where it says that the connection with most packets was captured.
    pub vantage: Option<&'static str>,
}

impl Account {
    /// What an explanation says of the connections to the measured port, or of those that are `counted`. `expected` are the
    /// causes whose removal is predicted.
    pub fn of(connections: &[PairedConnection], expected: &[&str], counted: Counted) -> Self {
        let is_measured = |paired: &&PairedConnection| {
            [paired.connection.client, paired.connection.server].iter().any(|end| end.port() == PORT)
        };
        let mut measured: Vec<&PairedConnection> = connections.iter().filter(is_measured).collect();
        measured.sort_by_key(|paired| std::cmp::Reverse(paired.connection.packets));
        if counted == Counted::Largest {
            measured.truncate(1);
        }
        let vantage = measured.first().map(|paired| match paired.one_way {
            Some(_) => BOTH,
            None => paired.connection.vantage.name(),
        });
        let transfers: Vec<&Transfer> = measured.iter().flat_map(|paired| &paired.connection.transfers).collect();
        let mut account = Self { is_conserved: true, vantage, ..Self::default() };
        for transfer in &transfers {
            for (cause, time) in transfer.times.ranked() {
                *account.seconds.entry(cause.name().to_owned()).or_default() +=
                    Duration::from_nanos(time).as_secs_f64();
            }
            account.findings.extend(transfer.findings.iter().map(|finding| finding.cause.name().to_owned()));
            account.bytes += transfer.bytes;
            account.is_conserved &= u128::from(transfer.times.sum()) == transfer.duration.as_nanos();
        }
        let worst = transfers.iter().max_by_key(|transfer| (transfer.avoidable(), transfer.duration));
        account.headline = worst.and_then(|worst| {
            let finding = worst.findings.first()?;
            let share = finding.cost.as_secs_f64() / worst.duration.as_secs_f64().max(1e-9);
            Some((finding.cause.name().to_owned(), share))
        });
        account.findings.extend(
            measured.iter().filter_map(|paired| Some(paired.connection.ending.as_ref()?.failure.name().to_owned())),
        );
        (account.predicted_s, account.range_s) = predicted(&transfers, expected);
        account
    }

    /// The duration of all transfers together.
    pub fn total_s(&self) -> f64 {
        self.seconds.values().sum()
    }
}

/// The predicted time of all transfers without the expected causes, in seconds, and its interval; none if no transfer has a
/// prediction, or one of them is declined.
fn predicted(transfers: &[&Transfer], expected: &[&str]) -> (Option<f64>, Option<[f64; 2]>) {
    let (mut is_predicted, mut has_range) = (false, true);
    let (mut sum, mut range) = (0.0, [0.0, 0.0]);
    for transfer in transfers {
        let finding = transfer.findings.iter().find(|finding| expected.contains(&finding.cause.name()));
        let Some(finding) = finding.filter(|finding| finding.what_if.is_some()) else {
            let rest = transfer.duration.as_secs_f64();
            (sum, range) = (sum + rest, range.map(|end| end + rest));
            continue;
        };
        let Some(predicted) = transfer.without(finding) else { return (None, None) };
        is_predicted = true;
        has_range &= predicted.range.is_some();
        let [from, to] = predicted.range.unwrap_or_default().map(|end| end.as_secs_f64());
        (sum, range) = (sum + predicted.duration.as_secs_f64(), [range[0] + from, range[1] + to]);
    }
    (is_predicted.then_some(sum), (is_predicted && has_range).then_some(range))
}
