//! A server at the other end of a long link.

use std::{
    error::Error,
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::mpsc,
    time::Duration,
};

use dav::{Dav, LockPolicy, RemotePath};
use haul_http::{Client, Origin, Settings, auth::Authenticator};
use libtest_mimic::Failed;
use link::{
    cable::{self, Cable},
    host::Host,
    spec::LinkSpec,
};
use mount::{Mount, Options, Write};
use tokio::runtime::{Builder, Runtime};
use units::Span;

use crate::{
    DoubleTest,
    world::{FRESH, noise},
};

pub(crate) const TESTS: &[(&str, DoubleTest)] =
    &[("a_far_file_is_read_over_several_connections", a_far_file_is_read_over_several_connections)];

/// More than the 50 ms from which a path is long.
const RTT: Duration = Duration::from_millis(80);
const PORT: u16 = 8080;

/// Two hosts, and the link between them.
fn hosts() -> Result<(Host, Host, Cable), Box<dyn Error>> {
    let (here, there) = (Host::new("here")?, Host::new("there")?);
    let spec = LinkSpec { rtt: Span(RTT).into(), ..LinkSpec::default() };
    let cable = Cable::connect(&here, &there, spec.lanes()?, &cable::Options::default())?;
    Ok((here, there, cable))
}

fn runtime() -> Result<Runtime, String> {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(|error| error.to_string())
}

/// Serves a folder until `end`. The runtime's threads are on the host of this thread.
fn serve(root: PathBuf, address: SocketAddr, ready: &mpsc::Sender<()>, end: &mpsc::Receiver<()>) -> Result<(), String> {
    let runtime = runtime()?;
    let config = serve::Config { root, listen: vec![address], ..serve::Config::default() };
    let server = runtime.block_on(async { serve::Server::bind(config) }).map_err(|error| error.to_string())?;
    runtime.spawn(server.run(std::future::pending()));
    let _ = ready.send(());
    let _ = end.recv();
    runtime.shutdown_timeout(Duration::from_secs(5));
    Ok(())
}

/// The number of this host's connections to the server.
fn connections() -> std::io::Result<usize> {
    let (port, established) = (format!(":{PORT:04X}"), "01");
    let is_ours = |line: &&str| {
        let mut words = line.split_whitespace().skip(2);
        words.next().is_some_and(|remote| remote.ends_with(&port)) && words.next() == Some(established)
    };
    Ok(fs::read_to_string("/proc/thread-self/net/tcp")?.lines().filter(is_ours).count())
}

/// Mounts the share, and reads a file. Returns its content, and how many connections there are then.
fn read(folder: &Path, cache: PathBuf, address: SocketAddr) -> Result<(Vec<u8>, usize), String> {
    let runtime = runtime()?;
    let read = || -> Result<_, Box<dyn Error>> {
        let origin = Origin::of(&format!("http://{address}").parse()?)?;
        let _entered = runtime.enter();
        let dav = Dav::new(Client::new(Settings::default(), Authenticator::default())?, origin);
        let options = Options {
            source: format!("http://{address}/"),
            identity: None,
            account: String::new(),
            write: Write::Through,
            fresh: FRESH,
            cache,
            cache_size: 64 << 20,
            read_only: true,
            attributes: true,
            properties: false,
            allow_other: false,
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
            umask: 0o022,
            lock: LockPolicy::Never,
            lock_owner: "tester".into(),
        };
        let mount = runtime.block_on(Mount::new(dav, RemotePath::root(), folder.to_owned(), options))?;
        let content = fs::read(folder.join("film"));
        let connections = connections();
        runtime.block_on(mount.unmount())?;
        Ok((content?, connections?))
    };
    let read = read().map_err(|error| error.to_string());
    runtime.shutdown_timeout(Duration::from_secs(5));
    read
}

fn a_far_file_is_read_over_several_connections() -> Result<(), Failed> {
    let (here, there, cable) = match hosts() {
        Ok(hosts) => hosts,
        Err(error) => {
            eprintln!("SKIPPED: a long link: {error}");
            return Ok(());
        }
    };
    let scratch = tempfile::Builder::new().prefix("haul-mount").tempdir()?;
    let [folder, cache, root] = ["here", "cache", "there"].map(|name| scratch.path().join(name));
    fs::create_dir(&folder)?;
    fs::create_dir(&root)?;
    let content = noise(12_000_000);
    fs::write(root.join("film"), &*content)?;
    let address = SocketAddr::new(cable.addresses()[1].v4.into(), PORT);
    let ((ready, is_ready), (end, ends)) = (mpsc::channel(), mpsc::channel());
    let server = there.thread("server", move || serve(root, address, &ready, &ends))?;
    is_ready.recv()?;
    let read = here.run(move || read(&folder, cache, address))?;
    drop(end);
    server.join().map_err(|_| "the server panicked")??;
    let (read, connections) = read?;
    assert!(read == *content, "{} bytes that differ", read.len());
    assert!(connections > 1, "{connections} connections");
    println!("{connections} connections");
    Ok(())
}
