//! A link in a test: the time of a TCP handshake over an RTT of 40 ms.
//!
//! Run it with `cargo run -p longhaul-link --example link_in_a_test`. It needs no root.

use std::{
    error::Error,
    net::{TcpListener, TcpStream},
    time::Instant,
};

use link::{
    cable::{Cable, Options},
    host::Host,
    sandbox,
    spec::LinkSpec,
};

fn main() -> Result<(), Box<dyn Error>> {
    // Before the first thread starts; the kernel removes the hosts when the process ends.
    let _sandbox = sandbox::enter()?;
    let (client, server) = (Host::new("client")?, Host::new("server")?);
    let spec = LinkSpec { rtt: "40ms".parse()?, rate: Some("20mbit".parse()?), ..LinkSpec::default() };
    let cable = Cable::connect(&client, &server, spec.lanes()?, &Options::default())?;

    let server_ip = cable.addresses()[1].v4;
    let listener = server.run(move || TcpListener::bind((server_ip, 0)))??;
    let address = listener.local_addr()?;
    let handshake = client.run(move || {
        let start = Instant::now();
        TcpStream::connect(address).map(|_| start.elapsed())
    })??;

    let [up, down] = cable.disconnect()?;
    println!("{spec}: handshake in {handshake:?}, {} packets up, {} down", up.packets_out, down.packets_out);
    assert!(handshake >= spec.rtt.total(), "a handshake takes one round trip");
    Ok(())
}
