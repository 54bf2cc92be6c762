//! TCP Fast Open between real kernels, through middleboxes as they exist on the Internet: no request fails, and a path
//! that does not support it costs one limited wait.
//!
//! The harness is libtest-mimic, because the sandbox must be entered before any thread starts.

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
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use transport::{ConnectSettings, Connected, Connector, FastOpen, Offer, Origin, fast_open::Tally, listen_fast_open};

type Error = Box<dyn std::error::Error + Send + Sync>;
type Result<T, E = Error> = std::result::Result<T, E>;
type Test = fn() -> Result<(), Failed>;

/// The kernel's initial retransmission timeout (RFC 6298 §2.1).
const INITIAL_RTO: Duration = Duration::from_secs(1);
const RTT: &str = "40ms";
const REQUESTS: usize = 6;

fn main() {
    let mut arguments = Arguments::from_args();
    // They wait for cables, not for processors, so more may run at once.
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
        ("connection_made_before_a_failure_sends_a_plain_syn_after_it", earlier_connection_learns_of_a_failure),
        ("cookie_is_not_sent_in_another_network", cookie_is_not_sent_in_another_network),
    ];
    // Up to three attempts, because a busy machine can delay one.
    let retried = |f: Test| move || f().or_else(|_| f()).or_else(|_| f());
    let trials = tests.iter().map(|&(name, f)| Trial::test(name, retried(f)).with_ignored_flag(ready.is_err()));
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

/// Two hosts, and a cable with middleboxes between them.
struct Testbed {
    client: Host,
    server: SocketAddr,
    requests: Arc<AtomicU32>,
    _cable: Cable,
}

/// The outcome of several requests, each on a new connection.
struct Outcome {
    took: Vec<Duration>,
    tally: Tally,
    /// The number of requests that the server received.
    served: u32,
}

impl Testbed {
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

    /// Sends some requests, each on a new connection.
    fn request(&self, fast_open: FastOpen, method: Method) -> Result<Outcome> {
        self.request_with(client(fast_open)?, method)
    }

    /// The same, with a client that may have a history of the path.
    fn request_with(&self, client: Client, method: Method) -> Result<Outcome> {
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
        Ok(Outcome { took, tally, served: self.requests.load(Ordering::Relaxed) - before })
    }
}

fn client(fast_open: FastOpen) -> Result<Client> {
    let mut settings = Settings { versions: Versions::Http1, pipelining: Pipelining::Off, ..Settings::default() };
    settings.connect.fast_open = fast_open;
    Ok(Client::new(settings, Authenticator::default())?)
}

/// Answers one request, and closes.
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

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}, {:?}, {} served", self.took, self.tally, self.served)
    }
}

fn second_request_is_sent_in_the_syn() -> Result<(), Failed> {
    let outcome = Testbed::new(&[])?.request(FastOpen::On, Method::GET)?;
    let all = REQUESTS as u32;
    ensure(outcome.tally == Tally { asked: 1, tried: all - 1, accepted: all - 1, ..Tally::default() }, &outcome)?;
    // The first request has no cookie. Each later one saves a round trip; the minimum excludes noise.
    let quickest = outcome.took[1..].iter().min().copied().unwrap_or_default();
    ensure(quickest < outcome.took[0] && outcome.took[0] >= Duration::from_millis(79), &outcome)?;
    ensure(outcome.served == all, &outcome)
}

fn unsafe_request_is_not_sent_in_a_syn() -> Result<(), Failed> {
    let outcome = Testbed::new(&[])?.request(FastOpen::On, Method::DELETE)?;
    ensure(outcome.tally.accepted == 0 && outcome.tally.tried == REQUESTS as u32 - 1, &outcome)?;
    ensure(outcome.served == REQUESTS as u32 && outcome.took.iter().all(|took| took.as_millis() >= 79), &outcome)
}

fn other_option_gets_through() -> Result<(), Failed> {
    let outcome = Testbed::new(&["strip-option:kind=34"])?.request(FastOpen::On, Method::GET)?;
    ensure(outcome.tally.asked == 2 && outcome.tally.accepted == REQUESTS as u32 - 2, &outcome)
}

fn no_cookie_costs_nothing() -> Result<(), Failed> {
    let outcome = Testbed::new(&["strip-tfo"])?.request(FastOpen::On, Method::GET)?;
    ensure(outcome.tally == Tally { asked: 2, ..Tally::default() } && outcome.served == REQUESTS as u32, &outcome)
}

fn ignored_syn_data_costs_nothing() -> Result<(), Failed> {
    for middlebox in ["swallow-syn-data", "nat:renew=connection"] {
        let outcome = Testbed::new(&[middlebox])?.request(FastOpen::On, Method::GET)?;
        let Tally { accepted, ignored, unanswered, swallowed, .. } = outcome.tally;
        ensure((accepted, ignored, unanswered, swallowed) == (0, 2, 0, 0), &outcome)?;
    }
    Ok(())
}

fn costs_one_wait(middlebox: &str, once: (u32, u32)) -> Result<(), Failed> {
    let testbed = Testbed::new(&[middlebox])?;
    let plain = testbed.request(FastOpen::Off, Method::GET)?.took;
    let outcome = testbed.request(FastOpen::On, Method::GET)?;
    let Tally { unanswered, swallowed, accepted, .. } = outcome.tally;
    ensure((unanswered, swallowed) == once && accepted == 0, &outcome)?;
    let longest = |took: &[Duration]| took.iter().max().copied().unwrap_or_default();
    ensure(longest(&outcome.took) < longest(&plain) + INITIAL_RTO, format!("{plain:?}: {outcome}"))
}

fn dropped_syn_costs_one_wait() -> Result<(), Failed> {
    costs_one_wait("drop-unknown-options", (1, 0))?;
    costs_one_wait("drop-syn-data", (1, 0))
}

fn silent_path_costs_one_wait() -> Result<(), Failed> {
    costs_one_wait("swallow-after-syn-data", (0, 1))
}

fn earlier_connection_learns_of_a_failure() -> Result<(), Failed> {
    for middlebox in ["drop-syn-data", "swallow-after-syn-data"] {
        let testbed = Testbed::new(&[middlebox])?;
        let url = format!("http://{}/", testbed.server);
        let tally = testbed.client.run(move || -> Result<_> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let connector =
                    Connector::new(ConnectSettings { fast_open: FastOpen::On, ..ConnectSettings::default() })?;
                let origin = Origin::of(&url.parse()?)?;
                let connect = || connector.connect(&origin, Offer::Http1, Duration::from_secs(20));
                exchange(connect().await?).await?;
                // None of them sends anything before its first write.
                let waiting = [connect().await?, connect().await?, connect().await?];
                for connected in waiting {
                    exchange(connected).await?;
                }
                Ok(connector.paths().tally())
            })
        })??;
        ensure(tally.tried == 3 && tally.unanswered + tally.swallowed == 1, format!("{middlebox}: {tally:?}"))?;
    }
    Ok(())
}

/// Sends a request on a connection, and reads the response to its end.
async fn exchange(mut connected: Connected) -> Result<()> {
    let mut response = Vec::new();
    connected.io.repeatable(true);
    connected.io.write_all(b"GET / HTTP/1.1\r\nhost: server\r\n\r\n").await?;
    connected.io.read_to_end(&mut response).await?;
    assert!(response.ends_with(b"hello"));
    Ok(())
}

fn reset_syn_is_followed_by_a_plain_one() -> Result<(), Failed> {
    // The second connection has proved the path; the third is reset, which costs no wait.
    let outcome = Testbed::new(&["reset:syn=3"])?.request(FastOpen::On, Method::GET)?;
    let Tally { accepted, unanswered, .. } = outcome.tally;
    ensure((accepted, unanswered, outcome.served) == (REQUESTS as u32 - 2, 1, REQUESTS as u32), &outcome)
}

fn cookie_is_not_sent_in_another_network() -> Result<(), Failed> {
    let testbed = Testbed::new(&[])?;
    let (before, after) = (client(FastOpen::Private)?, client(FastOpen::Private)?);
    let here = testbed.request_with(before.clone(), Method::GET)?;
    ensure(here.tally.accepted == REQUESTS as u32 - 1, &here)?;
    // Without this address the machine seems to be in another network.
    testbed.client.sysctl("net.ipv6.conf.eth0.disable_ipv6", "1")?;
    after.paths().remember(before.paths().all());
    let there = testbed.request_with(after, Method::GET)?;
    // A new cookie is requested if the kernel's could be deleted; otherwise Fast Open is not used.
    let Tally { asked, accepted, .. } = there.tally;
    ensure(there.took[0] >= Duration::from_millis(79), &there)?;
    ensure(accepted == 0 || (asked == 1 && accepted == REQUESTS as u32 - 1), &there)
}
