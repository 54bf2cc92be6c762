//! The flags that describe a link.

use std::{fmt::Write as _, path::PathBuf};

use link::{
    middleboxes::{self, Middlebox, MiddleboxError, Parameter},
    spec::{JitterSpec, LinkSpec, LossSpec, MtuSpec, QueueSpec, RateSpec, ReorderSpec},
    units::{Percent, Span},
};

/// What the cable is like.
#[derive(clap::Args)]
#[command(next_help_heading = "The link")]
pub(crate) struct Network {
    /// Round-trip time, half of it each way: 18ms
    #[arg(long, value_name = "TIME", default_value = "0ms")]
    rtt: Span,

    /// Random delay each way: 2ms (uniform), "2ms normal", "2ms reorder"
    #[arg(long, value_name = "TIME")]
    jitter: Option<JitterSpec>,

    /// Rate of each direction, or up/down: 100mbit, 20mbit/100mbit
    #[arg(long, value_name = "RATE")]
    rate: Option<RateSpec>,

    /// Mahimahi trace in place of the rate, from the client on
    #[arg(long, value_name = "FILE")]
    trace_up: Option<PathBuf>,

    /// Mahimahi trace in place of the rate, to the client
    #[arg(long, value_name = "FILE")]
    trace_down: Option<PathBuf>,

    /// Queue before the rate: bdp (what one RTT holds; the default), 100p (packets), 64KiB, codel, infinite
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueSpec>,

    /// Loss each way: 0.1%, or in bursts (Gilbert–Elliott): ge:p=1%,r=20%
    #[arg(long, value_name = "LOSS")]
    loss: Option<LossSpec>,

    /// Packets that others overtake: 1%, or "1% 5ms" with how late they come
    #[arg(long, value_name = "SHARE")]
    reorder: Option<ReorderSpec>,

    /// Packets that arrive twice: 0.1%
    #[arg(long, value_name = "SHARE")]
    duplicate: Option<Percent>,

    /// Packets in which a bit is flipped: 0.1%
    #[arg(long, value_name = "SHARE")]
    corrupt: Option<Percent>,

    /// Largest packet that passes, below the hosts' 1500: 1400, or "1400 black-hole"
    #[arg(long, value_name = "BYTES")]
    mtu: Option<MtuSpec>,

    /// What stands in the way: NAME or NAME:KEY=VALUE,…; may be repeated
    #[arg(long, value_name = "BOX", value_parser = middlebox)]
    middlebox: Vec<Middlebox>,

    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Network {
    pub(crate) fn spec(&self) -> LinkSpec {
        let this = self;
        LinkSpec {
            rtt: this.rtt,
            jitter: this.jitter,
            rate: this.rate,
            trace_up: this.trace_up.clone(),
            trace_down: this.trace_down.clone(),
            queue: this.queue,
            loss: this.loss,
            reorder: this.reorder,
            duplicate: this.duplicate,
            corrupt: this.corrupt,
            mtu: this.mtu,
            middlebox: this.middlebox.clone(),
            seed: this.seed,
        }
    }
}

/// Reads a middlebox; where the name is not one, all that are stand in the error.
pub(crate) fn middlebox(text: &str) -> Result<Middlebox, String> {
    text.parse().map_err(|error| match error {
        MiddleboxError::UnknownName { .. } => {
            let names: Vec<&str> = middleboxes::ALL.iter().map(|kind| kind.name).collect();
            format!("{error}; there are {}", names.join(", "))
        }
        error => error.to_string(),
    })
}

/// The list of middleboxes at the end of the help.
pub(crate) fn middlebox_help() -> String {
    let mut text = String::from("Middleboxes, each with at=client or at=server:\n");
    for kind in middleboxes::ALL {
        let _ = writeln!(text, "  {}\n      {}", kind.name, kind.help);
        for Parameter { name, form, help, default } in kind.parameters {
            let default = if default.is_empty() { String::new() } else { format!(" [{default}]") };
            let _ = writeln!(text, "      {name}={form}  {help}{default}");
        }
    }
    text
}
