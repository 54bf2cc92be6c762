//! Faults around a contender: a port in use, a silent server or mount, a cancellation.

use std::{
    fs,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use lab::{
    contenders::{self, Contender, Parameters, Pc, SampleSetup},
    deadline::Deadline,
    servers::{self, Http, Setup},
    spawn::Local,
    work::{Payload, Work},
};
use libtest_mimic::Failed;
use units::Size;

use super::{deadline, free_address, haul_has, sample, scratch, server, start, works};

pub(super) fn port_in_use() -> Result<(), Failed> {
    let folder = scratch();
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?;
    for server in servers::all().iter().filter(|server| server.missing().is_none() && !server.replays()) {
        let scratch = folder.path().join(server.name());
        let (certificates, http, page) = (None, Http::One, None);
        let setup = Setup {
            host: &Local,
            address,
            certificates,
            http,
            asks: false,
            quirks: serve::Quirks::default(),
            page,
            scratch: &scratch,
            deadline: deadline(),
        };
        // Another program answers there, so only the exit of the server shows the failure.
        let error = server.start(&setup).map(drop).map_err(|error| error.to_string());
        match error {
            Err(said) if said.contains("in use") => {}
            other => return Err(format!("{}: {other:?}", server.name()).into()),
        }
    }
    Ok(())
}

/// A relay to a server, which stops relaying when `silent` becomes true.
fn relay(server: SocketAddr, silent: &Arc<AtomicBool>) -> SocketAddr {
    fn pass(mut from: TcpStream, mut to: TcpStream, silent: &AtomicBool) -> io::Result<()> {
        let mut buffer = [0; 4096];
        loop {
            let n = from.read(&mut buffer)?;
            while silent.load(Ordering::Relaxed) {
                thread::park();
            }
            if n == 0 {
                return to.shutdown(Shutdown::Write);
            }
            to.write_all(&buffer[..n])?;
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let silent = silent.clone();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(server)) else { return };
            let (Ok(from), Ok(to)) = (client.try_clone(), server.try_clone()) else { return };
            for (from, to) in [(client, server), (to, from)] {
                let silent = silent.clone();
                thread::spawn(move || pass(from, to, &silent));
            }
        }
    });
    address
}

/// A file system whose server is silent blocks its users in the kernel.
pub(super) fn silent_mount() -> Result<(), Failed> {
    for name in ["davfs2", "samba-davfs2-nolocks", "samba-haul", "haul-mount", "rclone-mount-full"] {
        let registered = contenders::all().iter().find(|registered| registered.name == name).unwrap();
        let contender = registered.with(&Parameters::new())?;
        if contender.needs().iter().any(|program| program.find().is_err())
            || (name.contains("haul") && !haul_has("mount"))
        {
            eprintln!("skipped: {name} on a silent server: it is not installed");
            continue;
        }
        let folder = scratch();
        let running = start(server("embedded").as_ref(), folder.path(), (Http::One, false), None, None)?;
        let silent = Arc::new(AtomicBool::new(false));
        let server = running.url().trim_start_matches("http://").trim_end_matches('/').parse()?;
        let (scratch, over) = (folder.path().join("client"), Arc::new(AtomicBool::new(false)));
        let task = Payload::new(works()[0].clone(), 1).task(&scratch, "s")?;
        task.prepare_server(running.root(), running.owner())?;
        let sample = SampleSetup {
            client: &Local,
            pc: Some(Pc { host: &Local, share: free_address() }),
            address: server,
            url: format!("http://{}/s/", relay(server, &silent)),
            certificates: None,
            task: &task,
            root: running.root(),
            scratch: &scratch,
            deadline: Deadline::new(Duration::from_mins(4), over.clone()),
        };
        let mut prepared = registered.with(&Parameters::new())?.prepare(&sample)?;
        silent.store(true, Ordering::Relaxed);
        thread::spawn(move || {
            thread::sleep(Duration::from_secs(3));
            over.store(true, Ordering::Relaxed);
        });
        let said = prepared.run().unwrap_err().to_string();
        if !said.contains("was interrupted") {
            return Err(format!("{name}: {said}").into());
        }
        drop(prepared);
        let mounts = fs::read_to_string("/proc/mounts")?;
        if mounts.contains(scratch.to_str().unwrap()) {
            return Err(format!("{name} left a mount:\n{mounts}").into());
        }
        // A daemon that hangs while it uploads would keep the link, and the next sample's mount point.
        let left = processes_with(&scratch)?;
        if !left.is_empty() {
            return Err(format!("{name} left running: {}", left.join(", ")).into());
        }
    }
    Ok(())
}

/// A new process keeps our files open until its exec(2), so that davfs2 sees a close(2) late.
pub(super) fn saves_while_programs_start() -> Result<(), Failed> {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let _ = Command::new("true").status();
            }
        });
        let folder = scratch();
        let contender = contenders::all().iter().find(|registered| registered.name == "davfs2-nolocks").unwrap();
        let saved = start(server("embedded").as_ref(), folder.path(), (Http::One, false), None, None)
            .map_err(Failed::from)
            .and_then(|mut running| {
                let contender = contender.with(&Parameters::new())?;
                let work = Work::Edit { times: 100, size: Size::bytes(1024) };
                Ok(sample(&mut running, contender.as_ref(), work, folder.path(), None, 0)?)
            });
        over.store(true, Ordering::Relaxed);
        saved.map(drop)
    })
}

/// A workload that a contender supports, if any.
fn supported_work(contender: &dyn Contender) -> Option<Work> {
    let embedded = server("embedded");
    works().into_iter().find(|work| contender.unable(work, embedded.as_ref(), false).is_none())
}

/// Runs a contender against a listening socket that never answers, and returns its error.
fn against_silence(contender: &dyn Contender, work: Work, deadline: Deadline) -> String {
    let folder = scratch();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let task = Payload::new(work, 1).task(folder.path(), "s").unwrap();
    let sample = SampleSetup {
        client: &Local,
        pc: Some(Pc { host: &Local, share: free_address() }),
        address: silent.local_addr().unwrap(),
        url: format!("http://{}/s/", silent.local_addr().unwrap()),
        certificates: None,
        task: &task,
        root: folder.path(),
        scratch: folder.path(),
        deadline,
    };
    let outcome = contender.prepare(&sample).and_then(|mut prepared| prepared.run());
    outcome.unwrap_err().to_string()
}

pub(super) fn silent_server() -> Result<(), Failed> {
    for registered in contenders::all() {
        let contender = registered.with(&Parameters::new())?;
        let missing = contender.needs().iter().any(|program| program.find().is_err());
        let unable = contender.needs_root() || (registered.name.starts_with("haul") && !haul_has("cp"));
        // Page loads need a recorded page, which is not set up here.
        if missing || unable || contender.replays() {
            continue;
        }
        let work = match supported_work(contender.as_ref()) {
            // A gateway has no TLS here, and gvfs gives up at once.
            None if contender.mounts() || registered.name.starts_with("gvfs") => {
                eprintln!("skipped: {} on a silent server: it cannot mount here", contender.name());
                continue;
            }
            // What the embedded server lacks makes no difference.
            work => work.unwrap_or_else(|| works()[0].clone()),
        };
        // A middle box has to start first.
        let time = Duration::from_millis(if contender.needs_pc() { 5000 } else { 500 });
        let said = against_silence(contender.as_ref(), work, Deadline::for_cleanup(time));
        if !said.contains("did not finish within") {
            return Err(format!("{}: {said}", contender.name()).into());
        }
    }
    Ok(())
}

pub(super) fn cancellation() -> Result<(), Failed> {
    for name in ["curl", "redirector-h1"] {
        let registered = contenders::all().iter().find(|registered| registered.name == name).unwrap();
        let cancel = Arc::new(AtomicBool::new(false));
        let deadline = Deadline::new(Duration::from_mins(1), cancel.clone());
        let interrupt = thread::spawn(move || {
            thread::sleep(Duration::from_millis(200));
            cancel.store(true, Ordering::Relaxed);
        });
        let contender = registered.with(&Parameters::new())?;
        let work = supported_work(contender.as_ref()).unwrap();
        let said = against_silence(contender.as_ref(), work, deadline);
        interrupt.join().unwrap();
        if !said.contains("was interrupted") {
            return Err(format!("{name}: {said}").into());
        }
    }
    Ok(())
}

pub(super) fn unexpected_status() -> Result<(), Failed> {
    let folder = scratch();
    let mut running = start(server("apache").as_ref(), folder.path(), (Http::One, false), None, None)?;
    for (name, expected) in [
        ("redirector-h1", "PUT /nowhere/file0000.bin: unexpected status 409"),
        ("curl", "curl failed (exit status: 22): curl: (22) The requested URL returned error: 409"),
    ] {
        let registered = contenders::all().iter().find(|registered| registered.name == name).unwrap();
        let task = Payload::new(works()[0].clone(), 1).task(folder.path(), "nowhere")?;
        let sample = SampleSetup {
            client: &Local,
            pc: None,
            address: free_address(),
            url: format!("{}nowhere/", running.url()),
            certificates: None,
            task: &task,
            root: running.root(),
            scratch: folder.path(),
            deadline: deadline(),
        };
        let contender = registered.with(&Parameters::new())?;
        let said = contender.prepare(&sample).and_then(|mut prepared| prepared.run()).unwrap_err().to_string();
        if said != expected {
            return Err(format!("{name}: {said}").into());
        }
    }
    running.check()?;
    Ok(())
}

/// The command lines of all processes that name this folder.
fn processes_with(folder: &Path) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    for process in fs::read_dir("/proc")?.flatten() {
        let line =
            String::from_utf8_lossy(&fs::read(process.path().join("cmdline")).unwrap_or_default()).replace('\0', " ");
        if line.contains(folder.to_str().unwrap()) {
            lines.push(line);
        }
    }
    Ok(lines)
}
