//! Explains a capture: the time of each transfer by cause, the findings, and their predicted effect.
//!
//! ```sh
//! cargo run -p longhaul-explain --example explain_capture -- docs/src/traces/browser-upload.snoop.txt
//! ```

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
    time::Duration,
};

fn main() -> Result<(), Box<dyn Error>> {
    let path: PathBuf = env::args_os().nth(1).ok_or("usage: explain_capture FILE")?.into();
    explain_file(&path).map(drop)
}

fn explain_file(path: &Path) -> Result<explain::Explanation, Box<dyn Error>> {
    let mut source = capture::open(path, None)?;
    let (explanation, error) = explain::explain(&mut *source);
    println!("{} packets, {} connections", explanation.packets, explanation.connections.len());
    for connection in &explanation.connections {
        println!("\n{} (RTT {})", connection.ends(), explain::time_text(connection.rtt));
        for transfer in &connection.transfers {
            let request = if transfer.request.is_empty() { transfer.direction.name() } else { &transfer.request };
            println!("  {request}: {}", explain::time_text(transfer.duration));
            for (cause, nanos) in transfer.times.ranked() {
                println!("    {:<24} {:>8}", cause.name(), explain::time_text(Duration::from_nanos(nanos)));
            }
            for finding in &transfer.findings {
                println!("    - {}", finding.why);
                let change =
                    finding.what_if.as_ref().and_then(|change| Some((change, transfer.what_if(change, None)?)));
                if let Some((change, Ok(predicted))) = change {
                    println!("      With {change}, it would take {}.", explain::time_text(predicted.duration));
                }
            }
        }
    }
    // A capture that breaks off is explained up to there.
    error.map_or(Ok(explanation), |error| Err(error.into()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn example_explains_the_slow_upload() {
        let trace = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces/ie.snoop.txt");
        let explanation = super::explain_file(&trace).unwrap();
        assert_eq!(explanation.connections[0].transfers[0].cause, Some(explain::Cause::DelayedAck));
    }
}
