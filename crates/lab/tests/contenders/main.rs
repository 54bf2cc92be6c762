//! Every contender does every workload over every server with TLS, and the uploads and downloads without it, on
//! loopback, verified. What is not installed or needs root is skipped aloud. As root the tests run in a mount namespace
//! of their own with a `/run` of its own, as a race does.

mod wrongs;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    net::{SocketAddr, TcpListener},
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Command,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use lab::{
    certs::Certificates,
    contenders::{self, Contender, Failure, Parameters, Pc, Sample},
    deadline::Deadline,
    servers::{self, Http, Requests, Running, Server, ServerError, Setup},
    spawn::Local,
    work::{Page, Payload, Work},
};
use libtest_mimic::{Arguments, Failed, Trial};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use units::Size;

const FILES: u32 = 4;

/// They wait more than they work.
const AT_ONCE: usize = 6;

type Test = fn() -> Result<(), Failed>;

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_ONCE);
    let root = nix::unistd::geteuid().is_root();
    let mounts = root && own_mounts().is_ok();
    let mut trials = Vec::new();
    for server in (0..servers::all().len()).filter(|server| !servers::all()[*server].replays()) {
        for tls in [true, false] {
            for registered in contenders::all() {
                let contender = registered.with(&Parameters::new()).unwrap();
                if contender.replays() {
                    continue;
                }
                let server_name = servers::all()[server].name();
                let name = format!("{server_name} {} {}", if tls { "https" } else { "http" }, contender.name());
                let skip = skipped(contender.as_ref(), servers::all()[server].as_ref(), tls, mounts);
                if let Some(why) = &skip {
                    eprintln!("skipped: {name}: {why}");
                }
                let run = move || {
                    let server = &servers::all()[server];
                    every_workload(server.as_ref(), registered.with(&Parameters::new())?.as_ref(), tls)
                };
                trials.push(Trial::test(name, run).with_ignored_flag(skip.is_some()));
            }
        }
    }
    for registered in contenders::all().iter().filter(|one| WAYS.contains(&one.name)) {
        for page_server in
            ["pages", "nginx-pages"].into_iter().filter(|one| *one == "pages" || NGINX.contains(&registered.name))
        {
            let missing = match server(page_server) {
                one if one.missing().is_some() => one.missing().map(|missing| missing.to_string()),
                one => registered.with(&Parameters::new()).unwrap().unable(
                    &Work::Load { page: page() },
                    one.as_ref(),
                    false,
                ),
            };
            let name = format!("{page_server} {}", registered.name);
            if let Some(why) = &missing {
                eprintln!("skipped: {name}: {why}");
            }
            let run = move || load(registered.with(&Parameters::new())?.as_ref(), server(page_server).as_ref());
            trials.push(Trial::test(name, run).with_ignored_flag(missing.is_some()));
        }
    }
    let (apache, curl) = (server("apache").missing().is_none(), contenders::all()[0].with(&Parameters::new()).unwrap());
    let have = apache && curl.needs()[0].find().is_ok();
    if !have {
        eprintln!("skipped: what goes wrong: Apache and curl are needed");
    }
    let wrongs: [(_, Test); 4] = [
        ("a taken port is told in one sentence", wrongs::taken_port),
        ("a server that does not answer is given up", wrongs::silent_server),
        ("an interruption ends a contender", wrongs::interruption),
        ("an unexpected status names the request", wrongs::unexpected_status),
    ];
    let mount = contenders::all().iter().filter(|registered| registered.name.contains("davfs2"));
    let mount = mounts
        && mount
            .map(|one| one.with(&Parameters::new()).unwrap())
            .all(|one| one.needs().iter().all(|program| program.find().is_ok()) && Path::new("/dev/fuse").exists());
    if !mount {
        eprintln!(
            "skipped: a mount whose server goes silent, saves while programs start: root, davfs2 and Samba are needed"
        );
    }
    let mounted: [(_, Test); 2] = [
        ("a mount whose server goes silent is ended", wrongs::silent_mount),
        ("saves are confirmed one by one while programs start", wrongs::saves_while_programs_start),
    ];
    trials.extend(mounted.map(|(name, test)| Trial::test(name, test).with_ignored_flag(!mount)));
    trials.extend(wrongs.map(|(name, test)| Trial::test(name, test).with_ignored_flag(!have)));
    libtest_mimic::run(&arguments, trials).exit();
}

/// Ways to load a page: each version of HTTP, and each thing that goes with one.
const WAYS: [&str; 10] =
    ["h1", "h1+tfo", "h1x6+pipelining", "h1+resumed", "h1+early+tfo", "h2", "h2+tls+tfo", "h2+early", "h3", "h3+early"];

/// Those that nginx serves as well.
const NGINX: [&str; 5] = ["h1", "h1+resumed", "h2", "h2+tls+tfo", "h3"];

/// Heads and ends that are waited for, a computation, two answers to one question, something sent, and answers
/// without a body; over two hosts.
const PAGE: &str = r#"
schema = "longhaul.page/1"
title = "a page with everything"
[[request]]
id = "page"
host = "www.example.org"
path = "/?a=b|c"
connection = 0
head = 400
response = { type = "text/html", head = 300, body = 60000 }
[[request]]
id = "style"
host = "static.example.org"
path = "/style.css"
connection = 1
after = [{ head = "page", bytes = 4000 }]
response = { head = 300, body = 20000 }
[[request]]
id = "picture"
host = "static.example.org"
path = "/picture"
connection = 1
after = [{ head = "page", bytes = 4000 }]
response = { head = 300, body = 1000 }
[[request]]
id = "beacon"
method = "POST"
host = "www.example.org"
path = "/beacon"
connection = 0
after = [{ end = "style" }]
compute = "5ms"
body = 700
response = { status = 204, body = 0 }
[[request]]
id = "picture-again"
host = "static.example.org"
path = "/picture"
connection = 1
after = [{ end = "style" }]
response = { status = 304, body = 0 }
"#;

fn page() -> Page {
    Page(Arc::new(page::Spec::parse(PAGE, "page.toml".as_ref()).unwrap()))
}

/// A page is loaded twice, whole, and the server was asked for all of it each time.
fn load(way: &dyn Contender, server: &dyn Server) -> Result<(), Failed> {
    let page = page();
    let folder = scratch();
    let certificates = Certificates::make(folder.path(), &["127.0.0.1".parse()?], &page.0.hosts())?;
    let certificates = way.tls(false).then_some(&certificates);
    let work = Work::Load { page };
    let mut running = start(server, folder.path(), way.http(false), certificates, Some(&work))?;
    let requests = sample(&mut running, way, work, folder.path(), certificates, 0)?;
    // What was too early is asked again.
    if requests.of("GET") != 4 || !(1..=2).contains(&requests.of("POST")) {
        return Err(format!("{requests} instead of GET 4, POST 1").into());
    }
    let seen: BTreeSet<&str> = requests.protocols.iter().map(|protocol| protocol.http.as_str()).collect();
    let spoken = match &way.name()[..2] {
        "h1" => "HTTP/1.1",
        "h2" => "HTTP/2.0",
        _ => "HTTP/3.0",
    };
    if seen != [spoken].into() {
        return Err(format!("it came by {seen:?}").into());
    }
    running.check()?;
    running.stop();
    Ok(())
}

/// A mount namespace in which nothing we mount is seen outside, with a fresh `/run`.
fn own_mounts() -> nix::Result<()> {
    const NONE: Option<&str> = None;
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_PRIVATE, NONE)?;
    mount(Some("tmpfs"), "/run", Some("tmpfs"), MsFlags::empty(), Some("mode=755"))
}

fn server(name: &str) -> Box<dyn Server> {
    servers::all().into_iter().find(|server| server.name() == name).unwrap()
}

/// Why none of the workloads can be tried, if so.
fn skipped(contender: &dyn Contender, server: &dyn Server, tls: bool, root: bool) -> Option<String> {
    let obstacle = works()
        .iter()
        .map(|work| contenders::obstacle(contender, work, server, tls, root))
        .min_by_key(Option::is_some)
        .flatten();
    obstacle.or_else(|| (contender.name().starts_with("haul") && !copies()).then(|| OLD.to_owned()))
}

/// What is said of a program that was built before it could copy.
const OLD: &str = "the haul that is built here cannot copy; `cargo build -p haul` builds it anew";

/// Whether the program that stands beside this one, or a folder higher, can copy.
fn copies() -> bool {
    static COPIES: LazyLock<bool> = LazyLock::new(|| {
        let beside = std::env::current_exe()
            .unwrap()
            .ancestors()
            .skip(1)
            .take(2)
            .map(|folder| folder.join("haul"))
            .find(|file| file.is_file());
        beside.is_some_and(|haul| {
            Command::new(haul).args(["cp", "--help"]).output().is_ok_and(|output| output.status.success())
        })
    });
    *COPIES
}

/// How many of the works are done without TLS, too. A contender that does these does the others as with TLS.
const WITHOUT_TLS: usize = 2;

fn works() -> [Work; 7] {
    let size = Size::bytes(10 * 1024);
    [
        Work::Upload { files: FILES, size },
        Work::Download { files: FILES, size: vec![size, Size::bytes(300 * 1024)] },
        Work::Tree { folders: 2, files: FILES, size },
        // Long enough for a server to note down the page, which Apache does when its last byte is long sent.
        Work::Page { objects: vec![size; 6], idle: "200ms".parse().unwrap(), size },
        Work::List { entries: 30 },
        Work::LookUp { times: 3 },
        Work::Edit { times: 3, size },
    ]
}

/// A folder that a server running as another user can pass.
fn scratch() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

/// An address that stays free until somebody takes it: below the ports that the kernel gives to connections, of which
/// there are many at a time (`net.ipv4.ip_local_port_range`).
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
    http: Http,
    certificates: Option<&Certificates>,
    work: Option<&Work>,
) -> Result<Running, ServerError> {
    let scratch = folder.join("server");
    let page = work.and_then(|work| if let Work::Load { page } = work { Some(page) } else { None });
    let address = free_address();
    server.start(&Setup { host: &Local, address, certificates, http, page, scratch: &scratch, deadline: deadline() })
}

fn every_workload(server: &dyn Server, contender: &dyn Contender, tls: bool) -> Result<(), Failed> {
    let folder = scratch();
    let certificates = Certificates::make(folder.path(), &["127.0.0.1".parse().unwrap()], &[])?;
    let certificates = tls.then_some(&certificates);
    let mut running = start(server, folder.path(), contender.http(tls), certificates, None)?;
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
        // Apache notes some requests of HTTP/2 down late, half a second after the answer or when the connection is used
        // next.
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
    let sample = Sample {
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
    let requests = running.requests();
    task.verify_requests(&requests)?;
    Ok(requests)
}

/// The requests that a contender is known by.
fn expected(contender: &str, work: &Work) -> BTreeMap<&'static str, u64> {
    let n = u64::from(FILES);
    match (contender, work) {
        ("curl" | "curl-parallel-h1" | "curl-parallel-h2", Work::Upload { .. }) => [("PUT", n)].into(),
        ("curl" | "curl-parallel-h1" | "curl-parallel-h2" | "rclone", Work::Download { .. }) => [("GET", n)].into(),
        // Which makes each twice, and looks before.
        (name, Work::Download { .. }) if name.starts_with("idle") || name.starts_with("pipelining") => {
            [("GET", n)].into()
        }
        // The page's are before the mark.
        (_, Work::Page { .. }) => [("GET", 1), ("PROPFIND", 0)].into(),
        ("rclone", Work::Tree { .. }) => BTreeMap::new(),
        (_, Work::Tree { folders, .. }) => [("MKCOL", u64::from(*folders))].into(),
        ("davfs2", Work::Upload { .. }) => [("LOCK", n), ("PUT", n), ("UNLOCK", n)].into(),
        ("davfs2-nolocks" | "samba-davfs2-nolocks", Work::Upload { .. }) => [("LOCK", 0), ("UNLOCK", 0)].into(),
        ("redirector-h1" | "redirector-h2", Work::Upload { .. }) => {
            [("PROPFIND", n), ("PUT", 2 * n), ("LOCK", n), ("PROPPATCH", 2 * n), ("HEAD", n), ("UNLOCK", n)].into()
        }
        ("webdrive", Work::Upload { .. }) => [("PROPFIND", n), ("PUT", n), ("PROPPATCH", n), ("LOCK", 0)].into(),
        ("webdrive", Work::Download { .. }) => [("PROPFIND", n), ("GET", n)].into(),
        _ => BTreeMap::new(),
    }
}
