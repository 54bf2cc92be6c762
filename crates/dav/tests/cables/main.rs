//! Transfers to and from real servers over cables with loss, resets and silence, between real kernels.
//!
//! The harness is libtest-mimic, because the sandbox must be entered before any thread starts.

#[path = "../common/mod.rs"]
mod common;
mod servers;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, SystemTime},
};

use dav::{
    Error, LockPolicy,
    transfer::{Event, Options, Summary, Watch},
};
use haul_http::Timeouts;
use libtest_mimic::{Arguments, Failed, Trial};
use link::{
    cable::{self, Cable},
    host::Host,
    lanes::Lanes,
    sandbox,
    spec::LinkSpec,
};
use nix::mount::{MsFlags, mount, umount};
use servers::{Kind, Server};

use common::{Tree, check, client, deaf, down_watched, lay_out_with, mirror, noise, read, rest, up_watched, write};

pub(crate) type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

type Test = fn(Kind) -> Result<(), Failed>;

fn main() {
    let mut arguments = Arguments::from_args();
    // The tests mostly wait for links and servers.
    arguments.test_threads.get_or_insert(7);
    let ready = sandbox::enter().map_err(|error| error.to_string()).and_then(|sandbox| {
        let hosts = Host::new("a").and_then(|a| Ok((a, Host::new("b")?))).map_err(|error| error.to_string())?;
        let cable = Cable::connect(&hosts.0, &hosts.1, Lanes::default(), &cable::Options::default());
        cable.map(|_| sandbox).map_err(|error| error.to_string())
    });
    if let Err(error) = &ready {
        eprintln!("SKIPPED: hosts and cables: {error}");
    }
    let tests: [(&str, Test); 8] = [
        ("lossy_link_loses_no_file", lossy_link_loses_no_file),
        ("resets_lose_no_file", resets_lose_no_file),
        ("large_files_survive_resets", large_files_survive_resets),
        ("ten_seconds_of_silence_are_survived", ten_seconds_of_silence_are_survived),
        ("silent_link_fails_with_its_reason", silent_link_fails_with_its_reason),
        ("upload_completes_after_the_server_was_killed", upload_completes_after_the_server_was_killed),
        ("locks_survive_resets", locks_survive_resets),
        ("full_disk_is_reported_and_left_clean", full_disk_is_reported_and_left_clean),
    ];
    let mut trials = Vec::new();
    let (name, missing) = ("Apache::upload_resumes_from_parts", Kind::Apache.missing());
    let skipped = ready.is_err() || missing.is_some();
    trials.push(Trial::test(name, apache_upload_resumes_from_parts).with_ignored_flag(skipped));
    for kind in [Kind::Embedded, Kind::Apache] {
        let missing = kind.missing();
        if let Some(missing) = &missing {
            eprintln!("SKIPPED: {kind:?}: {missing}");
        }
        let skipped = ready.is_err() || missing.is_some();
        trials.extend(tests.iter().map(|&(name, test)| {
            Trial::test(format!("{kind:?}::{name}"), move || test(kind)).with_ignored_flag(skipped)
        }));
    }
    libtest_mimic::run(&arguments, trials).exit();
}

/// The hosts of client and server, and the cable between them.
struct World {
    a: Host,
    cable: Cable,
    server: Server,
    wanted: Tree,
    here: PathBuf,
    /// The target of downloads.
    back: PathBuf,
    // Dropped last.
    _scratch: tempfile::TempDir,
}

const CLEAN: &str = "rtt = \"20ms\"\nrate = \"100mbit\"\n";

fn lanes(spec: &str) -> Result<Lanes> {
    let clean = match (spec.contains("rtt"), spec.contains("rate")) {
        (true, _) => "",
        (false, true) => "rtt = \"20ms\"\n",
        (false, false) => CLEAN,
    };
    let spec: LinkSpec = toml::from_str(&format!("{clean}{spec}"))?;
    Ok(spec.lanes()?)
}

/// More than a connection carries before its reset, and more than the small disk holds.
const LARGEST: usize = 3_500_000;
/// Large enough to be uploaded to Apache in parts.
const FOR_RANGES: usize = 9_000_000;

impl World {
    fn new(kind: Kind, spec: &str) -> Result<Self> {
        Self::with(kind, spec, LARGEST)
    }

    fn with(kind: Kind, spec: &str, largest: usize) -> Result<Self> {
        let scratch = tempfile::tempdir()?;
        let (a, b) = (Host::new("a")?, Host::new("b")?);
        let cable = Cable::connect(&a, &b, lanes(spec)?, &cable::Options::default())?;
        // Apache does not run as root, and must be able to enter it.
        std::fs::set_permissions(scratch.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
        let server = Server::start(kind, &b, cable.addresses()[1].v4.into(), &scratch.path().join("server"))?;
        let [here, back] = ["here/tree", "back/tree"].map(|folder| scratch.path().join(folder));
        for folder in [&here, &back] {
            std::fs::create_dir_all(folder)?;
        }
        let wanted = lay_out_with(&here, largest);
        Ok(Self { a, cable, server, wanted, here, back, _scratch: scratch })
    }

    /// The files on the server.
    fn there(&self) -> Tree {
        let mut tree = read(&self.server.root.join("up"));
        // Without the servers' own files: unfinished uploads, and Apache's lock database.
        let own = |name: &str| {
            let name = format!("/{name}");
            ["/.davfs.tmp", "/.DAV/", "/.haul-upload-"].iter().any(|own| name.contains(own))
        };
        tree.retain(|name, _| !own(name));
        tree
    }

    fn moves(&self, upwards: bool, options: &Options, timeouts: Option<Timeouts>, watch: Watch) -> Moving {
        let place = if upwards { &self.here } else { &self.back };
        self.moves_from(place, upwards, options, timeouts, watch)
    }

    fn moves_from(
        &self,
        place: &Path,
        upwards: bool,
        options: &Options,
        timeouts: Option<Timeouts>,
        watch: Watch,
    ) -> Moving {
        let (address, options, place) = (self.server.address, options.clone(), place.to_owned());
        let thread = self.a.thread("client", move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let dav = client(address, |settings| settings.timeouts = timeouts.unwrap_or(settings.timeouts));
                if upwards {
                    up_watched(&dav, &place, &options, &watch).await
                } else {
                    down_watched(&dav, &place, &options, &watch).await
                }
            })
        });
        Moving(thread.expect("a thread on the host"))
    }

    /// The upload after the fault, which must complete the tree.
    fn completes(&self, options: &Options) -> Result<()> {
        let second = self.moves(true, &rest(options), None, deaf()).end()?;
        assert!(second.failed.is_empty(), "{:?}", second.failed);
        assert!(self.there() == self.wanted, "the second run does not complete it");
        Ok(())
    }

    /// The same for downloads.
    fn comes_back(&self) -> Result<()> {
        let second = self.moves(false, &rest(&mirror()), None, deaf()).end()?;
        assert!(second.failed.is_empty(), "{:?}", second.failed);
        assert!(read(&self.back) == self.wanted, "the second run does not complete it");
        Ok(())
    }
}

struct Moving(thread::JoinHandle<Result<Summary, Error>>);

impl Moving {
    fn end(self) -> Result<Summary, Error> {
        self.0.join().expect("the transfer panicked")
    }
}

/// A watch, and a channel that is notified after so many bytes.
fn moved(bytes: u64) -> (Watch, mpsc::Receiver<()>) {
    let (tell, told) = mpsc::channel();
    let count = std::sync::atomic::AtomicU64::new(0);
    let watch = move |event: Event<'_>| {
        if let Event::Moved { bytes: more } = event
            && count.fetch_add(more, std::sync::atomic::Ordering::Relaxed) + more >= bytes
        {
            let _ = tell.send(());
        }
    };
    (Arc::new(watch), told)
}

/// The default timeouts of a user.
const PATIENT: Option<Timeouts> = Some(Timeouts {
    connect: Duration::from_secs(20),
    first_byte: Duration::from_mins(1),
    pipelined: Duration::from_secs(10),
    stall: Duration::from_secs(30),
    idle: Duration::from_mins(1),
});

fn lossy_link_loses_no_file(kind: Kind) -> Result<(), Failed> {
    let world = World::new(kind, "loss = \"2%\"")?;
    let up = world.moves(true, &mirror(), PATIENT, deaf()).end();
    assert!(check(&world.wanted, &Tree::new(), &world.there(), &up).is_empty());
    let down = world.moves(false, &mirror(), PATIENT, deaf()).end();
    assert!(check(&world.wanted, &Tree::new(), &read(&world.back), &down).is_empty());
    world.completes(&mirror())?;
    world.comes_back()?;
    Ok(())
}

fn resets_lose_no_file(kind: Kind) -> Result<(), Failed> {
    // Temporary files make no difference to a download.
    for (options, downloads) in [(mirror(), true), (Options { temporary: true, ..mirror() }, false)] {
        // A download succeeds only in ranges.
        let world = World::with(kind, "middlebox = [\"reset:bytes=700KB\"]", FOR_RANGES)?;
        let up = world.moves(true, &options, None, deaf()).end();
        let failed = check(&world.wanted, &Tree::new(), &world.there(), &up);
        // A file that exceeds what any connection carries cannot be uploaded.
        assert_eq!(failed.keys().collect::<Vec<_>>(), ["c/large"], "{failed:?}");
        assert!(failed["c/large"].contains("reset") || failed["c/large"].contains("pipe"), "{failed:?}");
        world.cable.change(lanes("")?)?;
        world.completes(&options)?;
        if !downloads {
            continue;
        }
        world.cable.change(lanes("middlebox = [\"reset:bytes=700KB\"]")?)?;
        // A download resumes only with a strong entity tag, which Apache does not send for a new file.
        let down = world.moves(false, &options, None, deaf()).end();
        let failed = check(&world.wanted, &Tree::new(), &read(&world.back), &down);
        assert!(failed.is_empty() || kind == Kind::Apache && failed.keys().eq(["c/large"]), "{failed:?}");
        world.cable.change(lanes("")?)?;
        world.comes_back()?;
    }
    Ok(())
}

/// In ranges over many connections on a long path, in one resumed response on a short one.
fn large_files_survive_resets(kind: Kind) -> Result<(), Failed> {
    for rtt in ["20ms", "80ms"] {
        let spec = format!("rtt = {rtt:?}\nrate = \"400mbit\"\n");
        let mut world = World::new(kind, &spec)?;
        world.wanted = Tree::from([("large".to_owned(), noise(7, 9 << 20))]);
        let there = world.server.root.join("up");
        std::fs::create_dir_all(&there)?;
        write(&there, &world.wanted);
        // A file that was just changed has no strong entity tag yet.
        let file = std::fs::File::options().write(true).open(there.join("large"))?;
        file.set_modified(SystemTime::now() - Duration::from_mins(1))?;
        world.cable.change(lanes(&format!("{spec}middlebox = [\"reset:bytes=2500KB\"]"))?)?;
        let down = world.moves(false, &mirror(), None, deaf()).end();
        assert!(check(&world.wanted, &Tree::new(), &read(&world.back), &down).is_empty(), "{down:?}");
    }
    Ok(())
}

fn ten_seconds_of_silence_are_survived(kind: Kind) -> Result<(), Failed> {
    let world = World::new(kind, "")?;
    for upwards in [true, false] {
        let (watch, told) = moved(2_000_000);
        let moving = world.moves(upwards, &mirror(), PATIENT, watch);
        told.recv()?;
        world.cable.change(lanes("middlebox = [\"silent\"]")?)?;
        thread::sleep(Duration::from_secs(10));
        world.cable.change(lanes("")?)?;
        let outcome = moving.end();
        let there = if upwards { world.there() } else { read(&world.back) };
        let failed = check(&world.wanted, &Tree::new(), &there, &outcome);
        assert!(failed.is_empty(), "{failed:?}");
    }
    world.completes(&mirror())?;
    world.comes_back()?;
    Ok(())
}

fn silent_link_fails_with_its_reason(kind: Kind) -> Result<(), Failed> {
    let world = World::new(kind, "")?;
    for upwards in [true, false] {
        let (watch, told) = moved(2_000_000);
        let moving = world.moves(upwards, &mirror(), None, watch);
        told.recv()?;
        world.cable.change(lanes("middlebox = [\"silent\"]")?)?;
        let outcome = moving.end();
        world.cable.change(lanes("")?)?;
        let there = if upwards { world.there() } else { read(&world.back) };
        let failed = check(&world.wanted, &Tree::new(), &there, &outcome);
        assert!(!failed.is_empty() && failed.values().all(|why| why.contains(" s")), "{failed:?}");
        if upwards {
            // Nothing of the first run arrives now: its connections are closed, with their send buffers.
            world.completes(&mirror())?;
        } else {
            world.comes_back()?;
        }
    }
    Ok(())
}

fn upload_completes_after_the_server_was_killed(kind: Kind) -> Result<(), Failed> {
    for (options, largest, at) in
        [(mirror(), LARGEST, 500_000), (Options { temporary: true, ..mirror() }, FOR_RANGES, 3_000_000)]
    {
        let mut world = World::with(kind, "", largest)?;
        let (watch, told) = moved(at);
        let moving = world.moves(true, &options, None, watch);
        told.recv()?;
        world.server.kill();
        let outcome = moving.end();
        world.server.restart()?;
        let there = world.there();
        // The client could not delete temporary files while the server was down.
        let left: Vec<&String> =
            there.keys().filter(|name| Path::new(name).extension() == Some("part".as_ref())).collect();
        assert!(options.temporary || left.is_empty(), "{left:?}");
        for name in &left {
            std::fs::remove_file(world.server.root.join("up").join(name))?;
        }
        check(&world.wanted, &Tree::new(), &world.there(), &outcome);
        world.completes(&options)?;
    }
    Ok(())
}

/// Apache's partial PUTs: after it was killed during them, no part is visible, and only parts that are not trusted are
/// sent again.
fn apache_upload_resumes_from_parts() -> Result<(), Failed> {
    const PART: usize = 4 * 1024 * 1024;
    let mut world = World::new(Kind::Apache, "")?;
    world.cable.change(lanes("rate = \"200mbit\"")?)?;
    let content: Vec<u8> = (0..14).map(|part| vec![part * 3 + 1; PART]).collect::<Vec<_>>().concat();
    std::fs::remove_dir_all(&world.here)?;
    std::fs::create_dir(&world.here)?;
    world.wanted = Tree::from([("tall".to_owned(), content)]);
    write(&world.here, &world.wanted);
    let options = Options { resume: true, ..mirror() };
    let (watch, told) = moved(12 * PART as u64);
    let moving = world.moves(true, &options, None, watch);
    told.recv()?;
    world.server.kill();
    let outcome = moving.end();
    world.server.restart()?;
    let mut there = world.there();
    let (part, has) = there.pop_first().ok_or("nothing is left")?;
    assert!(there.is_empty() && part.starts_with(".tall.") && has.len() > 8 * PART, "{part}: {} bytes", has.len());
    assert!(check(&world.wanted, &Tree::new(), &there, &outcome).contains_key("tall"));

    // A mark in a trusted part stays, because it is not sent again.
    let place = world.server.root.join("up").join(&part);
    let mut marked = has.clone();
    marked[1000] ^= 1;
    std::fs::write(&place, &marked)?;
    let second = world.moves(true, &options, None, deaf()).end()?;
    assert!(second.failed.is_empty(), "{:?}", second.failed);
    let mut there = world.there();
    let got = there.remove("tall").ok_or("it is not there")?;
    let wanted = &world.wanted["tall"];
    assert!(
        there.is_empty() && got[1000] == marked[1000] && got[1001..] == wanted[1001..] && got.len() == wanted.len()
    );
    Ok(())
}

fn locks_survive_resets(kind: Kind) -> Result<(), Failed> {
    let world = World::new(kind, "middlebox = [\"reset:bytes=500KB\"]")?;
    let options = Options { lock: LockPolicy::Always, ..mirror() };
    let outcome = world.moves(true, &options, None, deaf()).end();
    check(&world.wanted, &Tree::new(), &world.there(), &outcome);
    world.cable.change(lanes("")?)?;
    // This fails if any lock is left.
    world.completes(&options)?;
    let all = world.moves(true, &mirror(), None, deaf()).end()?;
    assert!(all.failed.is_empty(), "{:?}", all.failed);
    Ok(())
}

fn full_disk_is_reported_and_left_clean(kind: Kind) -> Result<(), Failed> {
    let world = World::new(kind, "")?;
    let up = world.moves(true, &mirror(), None, deaf()).end()?;
    assert!(up.failed.is_empty(), "{:?}", up.failed);
    let disk = |flags, size: &str| mount(Some("tmpfs"), &world.back, Some("tmpfs"), flags, Some(size));
    disk(MsFlags::empty(), "size=1m")?;
    let _unmount = Unmount(&world.back);
    let down = world.moves(false, &mirror(), None, deaf()).end();
    let failed = check(&world.wanted, &Tree::new(), &read(&world.back), &down);
    assert!(failed.contains_key("c/large"), "{failed:?}");
    assert!(failed.values().all(|why| why.contains("No space left")), "{failed:?}");
    disk(MsFlags::MS_REMOUNT, "size=100m")?;
    world.comes_back()?;
    Ok(())
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = umount(self.0);
    }
}
