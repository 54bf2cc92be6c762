//! Prints the TCP connections of a capture of any format.
//!
//! Run it with `cargo run -p capture --example connections -- FILE`.

use std::{env, error::Error, path::PathBuf};

use capture::Summary;

fn main() -> Result<(), Box<dyn Error>> {
    let file: PathBuf = env::args_os().nth(1).ok_or("usage: connections FILE")?.into();
    let summary = Summary::of(&mut capture::open(&file, None)?)?;
    for connection in &summary.connections {
        println!(
            "{} > {}: {} bytes to the server, {} to the client, {} SYN retransmissions",
            connection.client,
            connection.server,
            connection.to_server.bytes,
            connection.to_client.bytes,
            connection.syn_retransmissions,
        );
    }
    println!("{} connections", summary.connections.len());
    Ok(())
}
