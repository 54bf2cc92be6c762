//! Prints the TCP connections of a capture of any format.
//!
//! Run it with `cargo run -p longhaul-capture --example connections -- FILE`.

use std::{
    env,
    error::Error,
    path::{Path, PathBuf},
};

use capture::Summary;

fn main() -> Result<(), Box<dyn Error>> {
    let file: PathBuf = env::args_os().nth(1).ok_or("usage: connections FILE")?.into();
    let summary = connections(&file)?;
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

fn connections(file: &Path) -> Result<Summary, capture::Error> {
    Summary::of(&mut capture::open(file, None)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_finds_the_connection_of_a_printed_capture() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let printed = "1 0.00000 client -> server TCP D=80 S=4000 Syn Seq=1 Len=0 Win=64240\n";
        std::fs::write(file.path(), printed).unwrap();
        assert_eq!(connections(file.path()).unwrap().connections.len(), 1);
    }
}
