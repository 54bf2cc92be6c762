//! Data in SYNs between real kernels, past every middlebox that has been met: no request fails, and what a way that
//! does not bear it costs is one bounded wait.
//!
//! Their harness is libtest-mimic's, because the sandbox must be entered before any thread starts.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use haul_http::{Body, Client, Pipelining, Settings, Versions, auth::Authenticator};
use http::{Method, Request};
use http_body_util::BodyExt;
use libtest_mimic::{Arguments, Failed, Trial};
use link::{
    cable::{Cable, Options},
    host::Host,
    lanes::Lanes,
    sandbox,
    spec::LinkSpec,
};
use transport::{FastOpen, fast_open::Tally, listen_fast_open};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;
type Test = fn() -> Result<(), Failed>;

/// After so long the kernel itself sends a SYN again (RFC 6298 §2.1); whoever waits for that has lost a second.
const KERNEL: Duration = Duration::from_secs(1);
const RTT: &str = "40ms";
const REQUESTS: usize = 6;

fn main() {
    let mut arguments = Arguments::from_args();
    // They wait for cables, not for processors.
    arguments.test_threads.get_or_insert(8);
    let ready = sandbox::enter().map_err(|error| error.to_string()).and_then(|sandbox| {
        let hosts = Host::new("a").and_then(|a| Ok((a, Host::new("b")?))).map_err(|error| error.to_string())?;
        let cable = Cable::connect(&hosts.0, &hosts.1, Lanes::default(), &Options::default());
        cable.map(|_| sandbox).map_err(|error| error.to_string())
    });
    if let Err(error) = &ready {
        eprintln!("SKIPPED: hosts and cables: {error}");
    }
    let tests: &[(&str, Test)] = &[
        ("second_and_later_requests_are_sent_in_the_syn", second_request_is_sent_in_the_syn),
        ("unsafe_request_is_not_sent_in_a_syn", unsafe_request_is_not_sent_in_a_syn),
        ("experimental_option_works_where_the_standard_one_is_stripped", other_option_gets_through),
        ("no_cookie_costs_nothing", no_cookie_costs_nothing),
        ("ignored_syn_data_costs_nothing", ignored_syn_data_costs_nothing),
        ("dropped_syn_costs_one_wait", dropped_syn_costs_one_wait),
        ("reset_syn_is_followed_by_a_plain_one", reset_syn_is_followed_by_a_plain_one),
        ("silent_path_costs_one_wait", silent_path_costs_one_wait),
        ("cookie_is_not_sent_in_another_network", cookie_is_not_sent_in_another_network),
    ];
    // What a busy machine does to one play it does not do to three.
    let played = |f: Test| move || f().or_else(|_| f()).or_else(|_| f());
    let trials = tests.iter().map(|&(name, f)| Trial::test(name, played(f)).with_ignored_flag(ready.is_err()));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// A client's host and a server's, with something between them.
struct World {
    client: Host,
    server: SocketAddr,
    requests: Arc<AtomicU32>,
    _cable: Cable,
}

/// How the requests fared, one after the other, each on a connection of its own.
struct Fared {
    took: Vec<Duration>,
    tally: Tally,
    /// How many the server answered.
    served: u32,
}

impl World {
    fn new(middlebox: &[&str]) -> Result<Self> {
        let spec: LinkSpec = toml::from_str(&format!("rtt = {RTT:?}\nmiddlebox = {middlebox:?}"))?;
        let (client, host) = (Host::new("client")?, Host::new("server")?);
        let cable = Cable::connect(&client, &host, spec.lanes()?, &Options::default())?;
        host.sysctl("net.ipv4.tcp_fastopen", "3")?;
        let ip = cable.addresses()[1].v4;
        let listener = host.run(move || -> io::Result<_> {
            let listener = TcpListener::bind((ip, 80))?;
            listen_fast_open(&listener)?;
            Ok(listener)
        })??;
        let requests = Arc::new(AtomicU32::new(0));
        let served = requests.clone();
        host.thread("server", move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let served = served.clone();
                std::thread::spawn(move || answer(stream, &served));
            }
        })?;
        Ok(Self { client, server: (ip, 80).into(), requests, _cable: cable })
    }

    /// Asks some times, each time on a new connection.
    fn ask(&self, fast_open: FastOpen, method: Method) -> Result<Fared> {
        self.ask_with(client(fast_open)?, method)
    }

    /// The same, with a client that may know something already.
    fn ask_with(&self, client: Client, method: Method) -> Result<Fared> {
        let before = self.requests.load(Ordering::Relaxed);
        let url = format!("http://{}/", self.server);
        let (took, tally) = self.client.run(move || -> Result<_> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut took = Vec::new();
                for _ in 0..REQUESTS {
                    let begin = Instant::now();
                    let request = Request::builder().method(&method).uri(&url).header("connection", "close");
                    let answer = client.send(request.body(Body::empty())?).await?;
                    assert_eq!(answer.into_body().collect().await?.to_bytes(), "hello");
                    took.push(begin.elapsed());
                }
                Ok((took, client.paths().tally()))
            })
        })??;
        Ok(Fared { took, tally, served: self.requests.load(Ordering::Relaxed) - before })
    }
}

fn client(fast_open: FastOpen) -> Result<Client> {
    let mut settings = Settings { versions: Versions::Http1, pipelining: Pipelining::Off, ..Settings::default() };
    settings.connect.fast_open = fast_open;
    Ok(Client::new(settings, Authenticator::default())?)
}

/// Answers one request, and ends.
fn answer(mut stream: TcpStream, served: &AtomicU32) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let (mut head, mut piece) = (Vec::new(), [0; 4096]);
    while !head.ends_with(b"\r\n\r\n") {
        let read = stream.read(&mut piece)?;
        if read == 0 {
            return Ok(());
        }
        head.extend_from_slice(&piece[..read]);
    }
    served.fetch_add(1, Ordering::Relaxed);
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
}

fn ensure(holds: bool, told: impl std::fmt::Display) -> Result<(), Failed> {
    if holds { Ok(()) } else { Err(told.to_string().into()) }
}

impl std::fmt::Display for Fared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {:?}, {} served", self.took, self.tally, self.served)
    }
}

fn second_request_is_sent_in_the_syn() -> Result<(), Failed> {
    let fared = World::new(&[])?.ask(FastOpen::On, Method::GET)?;
    let all = REQUESTS as u32;
    ensure(fared.tally == Tally { asked: 1, tried: all - 1, accepted: all - 1, ..Tally::default() }, &fared)?;
    // A cookie costs no time, and saves a round trip each time: the quickest of each tell it past any noise.
    let quickest = fared.took[1..].iter().min().copied().unwrap_or_default();
    ensure(quickest < fared.took[0] && fared.took[0] >= Duration::from_millis(79), &fared)?;
    ensure(fared.served == all, &fared)
}

fn unsafe_request_is_not_sent_in_a_syn() -> Result<(), Failed> {
    let fared = World::new(&[])?.ask(FastOpen::On, Method::DELETE)?;
    ensure(fared.tally.accepted == 0 && fared.tally.tried == REQUESTS as u32 - 1, &fared)?;
    ensure(fared.served == REQUESTS as u32 && fared.took.iter().all(|took| took.as_millis() >= 79), &fared)
}

fn other_option_gets_through() -> Result<(), Failed> {
    let fared = World::new(&["strip-option:kind=34"])?.ask(FastOpen::On, Method::GET)?;
    ensure(fared.tally.asked == 2 && fared.tally.accepted == REQUESTS as u32 - 2, &fared)
}

fn no_cookie_costs_nothing() -> Result<(), Failed> {
    let fared = World::new(&["strip-tfo"])?.ask(FastOpen::On, Method::GET)?;
    ensure(fared.tally == Tally { asked: 2, ..Tally::default() } && fared.served == REQUESTS as u32, &fared)
}

fn ignored_syn_data_costs_nothing() -> Result<(), Failed> {
    for middlebox in ["swallow-syn-data", "nat:renew=connection"] {
        let fared = World::new(&[middlebox])?.ask(FastOpen::On, Method::GET)?;
        let Tally { accepted, ignored, unanswered, swallowed, .. } = fared.tally;
        ensure((accepted, ignored, unanswered, swallowed) == (0, 2, 0, 0), &fared)?;
    }
    Ok(())
}

fn costs_one_wait(middlebox: &str, once: (u32, u32)) -> Result<(), Failed> {
    let world = World::new(&[middlebox])?;
    let plain = world.ask(FastOpen::Off, Method::GET)?.took;
    let fared = world.ask(FastOpen::On, Method::GET)?;
    let Tally { unanswered, swallowed, accepted, .. } = fared.tally;
    ensure((unanswered, swallowed) == once && accepted == 0, &fared)?;
    let longest = |took: &[Duration]| took.iter().max().copied().unwrap_or_default();
    ensure(longest(&fared.took) < longest(&plain) + KERNEL, format!("{plain:?}: {fared}"))
}

fn dropped_syn_costs_one_wait() -> Result<(), Failed> {
    costs_one_wait("drop-unknown-options", (1, 0))?;
    costs_one_wait("drop-syn-data", (1, 0))
}

fn silent_path_costs_one_wait() -> Result<(), Failed> {
    costs_one_wait("swallow-after-syn-data", (0, 1))
}

fn reset_syn_is_followed_by_a_plain_one() -> Result<(), Failed> {
    // The second connection has proved the way; the third is refused, and costs no wait.
    let fared = World::new(&["reset:syn=3"])?.ask(FastOpen::On, Method::GET)?;
    let Tally { accepted, unanswered, .. } = fared.tally;
    ensure((accepted, unanswered, fared.served) == (REQUESTS as u32 - 2, 1, REQUESTS as u32), &fared)
}

fn cookie_is_not_sent_in_another_network() -> Result<(), Failed> {
    let world = World::new(&[])?;
    let (before, after) = (client(FastOpen::Private)?, client(FastOpen::Private)?);
    let here = world.ask_with(before.clone(), Method::GET)?;
    ensure(here.tally.accepted == REQUESTS as u32 - 1, &here)?;
    // As far as anybody can see, the machine is somewhere else now: it has lost an address.
    world.client.sysctl("net.ipv6.conf.eth0.disable_ipv6", "1")?;
    after.paths().remember(before.paths().all());
    let there = world.ask_with(after, Method::GET)?;
    // Where the kernel forgets, a new cookie is asked for; where it may not, there is none.
    let Tally { asked, accepted, .. } = there.tally;
    ensure(there.took[0] >= Duration::from_millis(79), &there)?;
    ensure(accepted == 0 || (asked == 1 && accepted == REQUESTS as u32 - 1), &there)
}
