//! Every contender does every workload over every server with TLS, and uploads and downloads without it, on loopback,
//! verified. A contender that is not installed or needs root is reported as skipped. As root, the tests run in a mount
//! namespace with a `/run` of their own, as a race does; otherwise in a sandbox, in which an ordinary user may mount.

mod faults;
mod page_loads;
mod recorded_page;
mod watchdog;

use std::{
    collections::BTreeMap,
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    sync::{
        LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lab::{
    certs::Certificates,
    contenders::{self, Contender, Failure, Parameters, Pc, SampleSetup},
    deadline::Deadline,
    servers::{self, Http, Requests, Running, Server, ServerError, Setup},
    spawn::Local,
    work::{Chore, Job, Payload, Work},
};
use libtest_mimic::{Arguments, Failed, Trial};
use link::sandbox;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use units::Size;

const FILES: u32 = 4;

/// More than there are processors, since the tests mostly wait.
const TEST_THREADS: usize = 6;

type Test = fn() -> Result<(), Failed>;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(TEST_THREADS);
    let root = nix::unistd::geteuid().is_root();
    // Dropped at the end, with all that is mounted in it.
    let sandbox =
        if root { None } else { sandbox::enter().inspect_err(|why| eprintln!("skipped: mounts: {why}")).ok() };
    let rights = Rights { root: root && own_mounts().is_ok(), mounts: root || sandbox.is_some() };
    let mut tests = Tests { only_root: root && std::env::var_os(ALSO_AS_USER).is_some(), ..Tests::default() };
    for server in (0..servers::all().len()).filter(|server| !servers::all()[*server].replays()) {
        for tls in [true, false] {
            for registered in contenders::all() {
                let contender = registered.with(&Parameters::new()).unwrap();
                if contender.replays() {
                    continue;
                }
                let server_name = servers::all()[server].name();
                let name = format!("{server_name} {} {}", if tls { "https" } else { "http" }, contender.name());
                let skip = |rights| skipped(contender.as_ref(), servers::all()[server].as_ref(), tls, rights);
                let run = move || {
                    let server = &servers::all()[server];
                    every_workload(server.as_ref(), registered.with(&Parameters::new())?.as_ref(), tls)
                };
                tests.add(name, skip(rights).as_deref(), skip(Rights::USER).is_some(), run);
            }
        }
    }
    page_loads::add(&mut tests);
    let nginx = server("nginx-pages").missing().map(|missing| missing.to_string());
    let name = "nginx replays redirects, validators and other queries".to_owned();
    tests.add(name, nginx.as_deref(), false, recorded_page::nginx);
    faults(&mut tests, rights);
    for (why, count) in &tests.skipped {
        eprintln!("skipped: {why} ({count} tests)");
    }
    if tests.omitted > 0 {
        eprintln!("not run as root: {} tests that an ordinary user runs", tests.omitted);
    }
    libtest_mimic::run(&arguments, tests.trials).exit();
}

/// Set if an ordinary user, who may mount, runs the same tests; root then runs only those that need it.
const ALSO_AS_USER: &str = "LONGHAUL_TESTS_ALSO_AS_USER";

/// The tests to run.
#[derive(Default)]
struct Tests {
    only_root: bool,
    trials: Vec<Trial>,
    /// The number of tests that only an ordinary user runs.
    omitted: usize,
    /// The number of tests that are skipped for each reason.
    skipped: BTreeMap<String, usize>,
}

/// What the reason of a skipped test says if another machine or user could run it. For any other reason, the contender and
/// the server cannot work together anywhere, and there is no test.
const ELSEWHERE: [&str; 8] = [
    "not installed",
    "root",
    "needs the name of user",
    "may not mount",
    "lacks the command",
    "/dev/fuse",
    "does not support HTTP/3",
    "are needed",
];

impl Tests {
    /// Adds a test, which is skipped if there is a reason for it.
    fn add(
        &mut self,
        name: String,
        skip: Option<&str>,
        needs_root: bool,
        run: impl FnOnce() -> Result<(), Failed> + Send + 'static,
    ) {
        if self.only_root && !needs_root {
            self.omitted += 1;
            return;
        }
        if let Some(why) = skip {
            if !ELSEWHERE.iter().any(|words| why.contains(words)) {
                return;
            }
            *self.skipped.entry(why.to_owned()).or_default() += 1;
        }
        self.trials.push(Trial::test(name, run).with_ignored_flag(skip.is_some()));
    }
}

/// What we may do here.
#[derive(Clone, Copy)]
struct Rights {
    /// Run what needs root.
    root: bool,
    mounts: bool,
}

impl Rights {
    /// What an ordinary user may do.
    const USER: Self = Self { root: false, mounts: true };
}

fn faults(tests: &mut Tests, rights: Rights) {
    let curl = contenders::all()[0].with(&Parameters::new()).unwrap();
    let have = server("apache").missing().is_none() && curl.needs()[0].find().is_ok();
    let davfs2 = contenders::all().iter().filter(|registered| registered.name.contains("davfs2"));
    let can_mount = rights.root
        && Path::new("/dev/fuse").exists()
        && davfs2.map(|one| one.with(&Parameters::new()).unwrap()).all(|contender| {
            let needs = contender.needs();
            needs.iter().all(|program| program.find().is_ok())
        });
    let mount_faults: [(_, Test); 2] = [
        ("mount of a silent server is ended", faults::silent_mount),
        ("saves are confirmed one by one while programs start", faults::saves_while_programs_start),
    ];
    for (name, test) in mount_faults {
        let skip = (!can_mount).then_some("root, davfs2 and Samba are needed");
        tests.add(name.to_owned(), skip, true, test);
    }
    let faults: [(_, Test); 4] = [
        ("port in use is reported", faults::port_in_use),
        ("silent server is given up at the deadline", faults::silent_server),
        ("cancellation ends a contender", faults::cancellation),
        ("unexpected status names the request", faults::unexpected_status),
    ];
    for (name, test) in faults {
        tests.add(name.to_owned(), (!have).then_some("Apache and curl are needed"), false, test);
    }
    for name in ["haul-mount", "rclone-mount-full", "davfs2"] {
        let skip = |rights| skipped(make(name).as_ref(), server("embedded").as_ref(), false, rights);
        let test = move || watchdog::stopped_mount(name);
        let needs_root = skip(Rights::USER).is_some();
        tests.add(format!("stopped mount of {name} is torn down"), skip(rights).as_deref(), needs_root, test);
    }
}

/// Enters a new mount namespace with an empty `/run`.
fn own_mounts() -> nix::Result<()> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), Some("mode=755"))
}

/// The contender of this name, with its defaults.
fn make(name: &str) -> Box<dyn Contender> {
    let registered = contenders::all().iter().find(|registered| registered.name == name).unwrap();
    registered.with(&Parameters::new()).unwrap()
}

fn server(name: &str) -> Box<dyn Server> {
    servers::all().into_iter().find(|server| server.name() == name).unwrap()
}

/// Why no workload can run, if so.
fn skipped(contender: &dyn Contender, server: &dyn Server, tls: bool, rights: Rights) -> Option<String> {
    let obstacle = works()
        .iter()
        .map(|work| contenders::obstacle(contender, work, server, tls, rights.root))
        .min_by_key(Option::is_some)
        .flatten();
    let is_outdated = || match contender.name().as_str() {
        "haul-mount" | "samba-haul" | "samba-haul-impacket" | "samba-haul-locks" | "samba-haul-nolocks" => {
            !haul_has("mount")
        }
        "haul-mount-back" => !haul_writes_back(),
        "redirector-gateway" | "redirector-gateway-back" | "finder-gateway" | "gvfs-gateway" => !haul_has("gateway"),
        name => name.starts_with("haul") && !haul_has("cp"),
    };
    obstacle
        .or_else(|| (contender.mounts() && !rights.mounts).then(|| "you may not mount here".to_owned()))
        .or_else(|| is_outdated().then(|| OLD.to_owned()))
}

/// Why an outdated program is skipped.
const OLD: &str = "this build of haul lacks the command; run `cargo build -p haul`";

/// What the `haul` in this folder, or in the one above, prints for these arguments.
fn haul_prints(arguments: &[&str]) -> String {
    let beside = std::env::current_exe()
        .unwrap()
        .ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("haul"))
        .find(|file| file.is_file());
    let printed = beside.and_then(|haul| Command::new(haul).args(arguments).output().ok());
    printed.map_or_else(String::new, |printed| String::from_utf8_lossy(&printed.stdout).into_owned())
}

/// Whether `haul mount` has a journal.
fn haul_writes_back() -> bool {
    haul_prints(&["mount", "--help"]).contains("--write ")
}

/// Whether it has this command.
fn haul_has(command: &str) -> bool {
    static COMMANDS: LazyLock<String> = LazyLock::new(|| haul_prints(&["--help"]));
    COMMANDS.lines().any(|line| line.split_whitespace().next() == Some(command))
}

/// The number of works that are done without TLS, too; the others would behave as with TLS.
const WITHOUT_TLS: usize = 2;

/// The chores; those that read are done cold and warm.
fn chores() -> impl Iterator<Item = Work> {
    let writing = [Job::Cp, Job::TarX, Job::GitClone];
    let reading = [Job::LsLr, Job::GrepR, Job::TarC, Job::GitStatus, Job::Pread, Job::Cat];
    let cold_and_warm = reading.into_iter().flat_map(|job| [(job, false), (job, true)]);
    let size = Size::bytes(10 * 1024);
    let jobs = writing.into_iter().map(|job| (job, false)).chain(cold_and_warm);
    jobs.map(move |(job, warm)| Work::Chore(Chore { job, folders: 2, files: FILES, size, warm, command: None }))
}

fn works() -> Vec<Work> {
    let size = Size::bytes(10 * 1024);
    let works = [
        Work::Upload { files: FILES, size },
        Work::Download { files: FILES, size: vec![size, Size::bytes(300 * 1024)] },
        Work::Tree { folders: 2, files: FILES, size },
        // Long enough for the server to log the page, which Apache does well after the last byte.
        Work::Page { objects: vec![size; 6], idle: "200ms".parse().unwrap(), size },
        Work::List { entries: 30 },
        Work::LookUp { times: 3 },
        Work::Edit { times: 3, size },
    ];
    works.into_iter().chain(chores()).collect()
}

/// A folder that a server of another user can enter.
fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// A free address that no connection will take: its port is below `net.ipv4.ip_local_port_range`.
fn free_address() -> SocketAddr {
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    let ports = || 10_000 + (std::process::id() * 500 + TAKEN.fetch_add(1, Ordering::Relaxed)) % 20_000;
    std::iter::repeat_with(ports)
        .take(20_000)
        .find_map(|port| TcpListener::bind(("127.0.0.1", port as u16)).ok()?.local_addr().ok())
        .expect("some port is free")
}

fn deadline() -> Deadline {
    Deadline::for_cleanup(Duration::from_mins(4))
}

fn start(
    server: &dyn Server,
    folder: &Path,
    (http, asks): (Http, bool),
    certificates: Option<&Certificates>,
    work: Option<&Work>,
) -> Result<Running, ServerError> {
    let scratch = folder.join("server");
    let page = work.and_then(|work| if let Work::Load { page } = work { Some(page) } else { None });
    let address = free_address();
    server.start(&Setup {
        host: &Local,
        address,
        certificates,
        http,
        asks,
        quirks: serve::Quirks::default(),
        page,
        scratch: &scratch,
        deadline: deadline(),
    })
}

fn every_workload(server: &dyn Server, contender: &dyn Contender, tls: bool) -> Result<(), Failed> {
    let folder = scratch();
    let certificates = Certificates::make(folder.path(), &["127.0.0.1".parse().unwrap()], &[])?;
    let certificates = tls.then_some(&certificates);
    let mut running = start(server, folder.path(), (contender.http(tls), contender.signs_in()), certificates, None)?;
    let works = works();
    let works = if tls { &works[..] } else { &works[..WITHOUT_TLS] };
    for (number, work) in works.iter().enumerate() {
        if contenders::obstacle(contender, work, server, tls, true).is_some() {
            continue;
        }
        let requests = sample(&mut running, contender, work.clone(), folder.path(), certificates, number)
            .map_err(|failure| format!("{work}: {failure}"))?;
        println!("{} {} {work}: {requests}", server.name(), contender.name());
        let expected = expected(&contender.name(), work);
        // Apache logs some HTTP/2 requests late: half a second after the response, or at the next use of the connection.
        let late = match work {
            Work::Page { objects, .. } if server.name() == "apache" && contender.http(tls) == Http::Two => {
                objects.len()
            }
            _ => 0,
        };
        for (method, count) in &expected {
            if !(*count..=count + late as u64).contains(&requests.of(method)) {
                return Err(format!("{work}: {requests} instead of {count} {method}").into());
            }
        }
    }
    running.check()?;
    running.stop();
    Ok(())
}

fn sample(
    running: &mut Running,
    contender: &dyn Contender,
    work: Work,
    folder: &Path,
    certificates: Option<&Certificates>,
    number: usize,
) -> Result<Requests, Failure> {
    let scratch = folder.join(format!("client{number}"));
    let task = Payload::new(work, 1).task(&scratch, &format!("s{number}"))?;
    let root = running.root().to_owned();
    task.prepare_server(&root, running.owner())?;
    let sample = SampleSetup {
        client: &Local,
        pc: Some(Pc { host: &Local, share: free_address() }),
        address: running.url().split('/').nth(2).unwrap().parse().unwrap(),
        url: format!("{}{}/", running.url(), task.folder),
        certificates,
        task: &task,
        root: &root,
        scratch: &scratch,
        deadline: deadline(),
    };
    let mut prepared = contender.prepare(&sample)?;
    running.mark();
    let done = prepared.run()?;
    task.wait_done(&root, &done, &sample.deadline)?;
    prepared.finish()?;
    let requests = running.requests().unwrap_or_default();
    task.verify_requests(&requests, &done)?;
    Ok(requests)
}

/// The known requests of a contender.
fn expected(contender: &str, work: &Work) -> BTreeMap<&'static str, u64> {
    let n = u64::from(FILES);
    match (contender, work) {
        ("curl" | "curl-parallel-h1" | "curl-parallel-h2" | "haul-mount", Work::Upload { .. }) => [("PUT", n)].into(),
        ("curl" | "curl-parallel-h1" | "curl-parallel-h2" | "rclone", Work::Download { .. }) => [("GET", n)].into(),
        (name, Work::Download { .. }) if name.starts_with("idle") || name.starts_with("pipelining") => {
            [("GET", n)].into()
        }
        // The requests of the page are before the mark.
        (_, Work::Page { .. }) => [("GET", 1), ("PROPFIND", 0)].into(),
        // It also creates folders that exist.
        (name, Work::Tree { .. }) if name.starts_with("rclone") => BTreeMap::new(),
        ("haul-mount", Work::List { .. }) => [("GET", 0)].into(),
        (_, Work::Tree { folders, .. }) => [("MKCOL", u64::from(*folders))].into(),
        ("davfs2", Work::Upload { .. }) => [("LOCK", n), ("PUT", n), ("UNLOCK", n)].into(),
        ("davfs2-nolocks" | "davfs2-tuned" | "samba-davfs2-nolocks", Work::Upload { .. }) => {
            [("LOCK", 0), ("UNLOCK", 0)].into()
        }
        ("samba-haul" | "samba-haul-impacket" | "samba-haul-nolocks", Work::Upload { .. }) => {
            [("PUT", n), ("LOCK", 0), ("UNLOCK", 0)].into()
        }
        ("samba-haul-locks", Work::Upload { .. }) => [("PUT", n), ("LOCK", n), ("UNLOCK", n)].into(),
        // What else crosses the link is up to the gateway.
        ("redirector-gateway" | "redirector-gateway-back", Work::Upload { .. }) => [("LOCK", n), ("UNLOCK", n)].into(),
        // Two files for each: the second has the extended attributes.
        ("finder-gateway", Work::Upload { .. }) => [("LOCK", 2 * n), ("UNLOCK", 2 * n)].into(),
        ("finder", Work::Upload { .. }) => {
            [("PROPFIND", 4 * n), ("PUT", 4 * n), ("LOCK", 2 * n), ("UNLOCK", 2 * n)].into()
        }
        ("finder", Work::Download { .. }) => [("PROPFIND", 2 * n), ("GET", n)].into(),
        ("gvfs" | "gvfs-gateway", Work::Upload { .. }) => [("PUT", n), ("LOCK", 0)].into(),
        ("redirector-h1" | "redirector-h2" | "redirector-nginx", Work::Upload { .. }) => {
            [("PROPFIND", n), ("PUT", 2 * n), ("LOCK", n), ("PROPPATCH", 2 * n), ("HEAD", n), ("UNLOCK", n)].into()
        }
        ("webdrive", Work::Upload { .. }) => [("PROPFIND", n), ("PUT", n), ("PROPPATCH", n), ("LOCK", 0)].into(),
        ("webdrive", Work::Download { .. }) => [("PROPFIND", n), ("GET", n)].into(),
        _ => BTreeMap::new(),
    }
}
