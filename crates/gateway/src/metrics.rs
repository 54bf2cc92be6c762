//! What a gateway has done and holds, for monitoring.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serve::{Metric, Watched};

use crate::{Gateway, account::Account};

/// Counters of one gateway.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// Requests of clients.
    pub(crate) requests: Counter,
    /// Answers from listings.
    pub(crate) listings: Counter,
    /// Files from memory.
    pub(crate) contents: Counter,
    /// Large files from disk.
    pub(crate) large: Counter,
    /// Answers to the redirector before the server's, or in place of them.
    pub(crate) redirector: Counter,
    /// Requests without an answer of the server.
    pub(crate) failures: Counter,
    /// Acknowledged requests that have failed.
    pub(crate) broken: Counter,
    /// Saved files that somebody else has changed meanwhile.
    pub(crate) conflicts: Counter,
    /// Whether the last request to the server had no answer.
    pub(crate) is_away: AtomicBool,
}

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Metrics {
    fn counters(&self) -> [Metric; 8] {
        let metric = |name, help, Counter(count): &Counter| Metric { name, help, value: count.load(Ordering::Relaxed) };
        [
            metric("longhaul_gateway_requests_total", "Requests of clients.", &self.requests),
            metric(
                "longhaul_gateway_listing_answers_total",
                "Answers from listings, without a request to the server.",
                &self.listings,
            ),
            metric(
                "longhaul_gateway_content_answers_total",
                "Files from memory, as a fresh listing shows them.",
                &self.contents,
            ),
            metric(
                "longhaul_gateway_disk_answers_total",
                "Large files from the disk cache, confirmed by the server.",
                &self.large,
            ),
            metric(
                "longhaul_gateway_redirector_answers_total",
                "Answers to the Windows redirector before the server's.",
                &self.redirector,
            ),
            metric("longhaul_gateway_failures_total", "Requests that the server did not answer.", &self.failures),
            metric(
                "longhaul_gateway_conflicts_total",
                "Saved files that somebody else had changed meanwhile; both versions are kept.",
                &self.conflicts,
            ),
            metric(
                "longhaul_gateway_acknowledged_failures_total",
                "Acknowledged requests that failed at the server.",
                &self.broken,
            ),
        ]
    }
}

impl Watched for Gateway {
    fn metrics(&self) -> Vec<Metric> {
        let server = self.server();
        let mut metrics = server.metrics.counters().to_vec();
        let mut gauge = |name, help, value| metrics.push(Metric { name, help, value });
        let accounts = self.accounts().all();
        let pending: usize = accounts.iter().map(Account::pending).sum();
        gauge("longhaul_gateway_credentials", "Credentials for which something is kept.", accounts.len() as u64);
        gauge(
            "longhaul_gateway_acknowledged_pending",
            "Files with acknowledged requests that are not at the server yet.",
            pending as u64,
        );
        let shared = &server.shared;
        let listings = shared.listings.bytes() as u64;
        gauge("longhaul_gateway_listing_bytes", "Size of the listings in memory.", listings);
        gauge("longhaul_gateway_content_bytes", "Size of the small files in memory.", shared.contents.bytes());
        if let Some(large) = &shared.large_contents {
            let help = "Size of the large files in the disk cache.";
            gauge("longhaul_gateway_disk_cache_bytes", help, large.bytes());
        }
        if let Some(journal) = &server.journal {
            let totals = journal.totals();
            let help = "Saved files that the server does not have yet.";
            gauge("longhaul_gateway_journal_files", help, totals.files as u64);
            let help = "Size of the saved files that the server does not have yet.";
            gauge("longhaul_gateway_journal_bytes", help, totals.bytes);
            gauge("longhaul_gateway_journal_oldest_seconds", "Age of the oldest of them.", totals.oldest);
            let help = "Those that wait for their user to sign in.";
            gauge("longhaul_gateway_journal_signed_out", help, totals.signed_out as u64);
            gauge("longhaul_gateway_journal_refused", "Those that the server has refused.", totals.refused as u64);
        }
        metrics
    }

    fn problem(&self) -> Option<&'static str> {
        let is_away = self.server().metrics.is_away.load(Ordering::Relaxed);
        is_away.then_some("the server has not answered the last request")
    }
}
