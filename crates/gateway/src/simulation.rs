//! The gateway against a model server in simulated time.
//!
//! Accounts, journal, HTTP engine and all decisions are the real ones; the network and the server are models (the crate
//! `simulation`), and so are the clients: two users whose Windows saves, reads, deletes and renames files of the same names.
//! Requests are late, lost and cut, other clients write, disks fill, passwords change, and the gateway is killed and started on
//! the same state. When all faults have ended, the gateway must come to rest. Then each name has the last version for which a
//! client was told 2xx, or another client's with it beside; no file is a conflict with nobody; no lock is left; and no request has
//! waited without an end.
//!
//! A change under no lock names neither lock nor version. If it got no answer, it may be carried out at any time
//! (docs/src/semantics.md, "Late requests"): for its name, what it does is allowed from then on.
//!
//! A failing run names its seed. `SIMULATION_SEED=<N>` repeats that seed alone and shows what happened;
//! `SIMULATION_SEEDS=<COUNT>` runs so many, from `SIMULATION_FROM=<N>` on.

mod clients;
mod waiting;

use std::{
    collections::HashMap,
    env,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ::simulation::{Author, Change, Network, Oracle, Profile, Random, Rates, Server, Spell, Weather, original};
use dav::RemotePath;
use haul_http::{Client, Origin, auth::Authenticator};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use tokio::{runtime, time};

use crate::{
    account::{Account, Shared, WriteBack},
    head::Upstream,
    journal::{Journal, pending},
    metrics::Metrics,
    passing::{Passing, Received},
};

/// The seeds of a usual run.
const SEEDS: u64 = 300;
/// No request takes longer: a few timeouts of a server that does not answer.
const ENDLESS: Duration = Duration::from_hours(1);
/// After the faults. The longest locks have expired by then.
const REST: Duration = Duration::from_hours(3);
const FOLDER: &str = "/files";

/// An answer of the gateway, whole.
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

/// What is left of a gateway when it is killed, and what the clients were told.
struct World {
    network: Network,
    oracle: Mutex<Oracle>,
    /// What changes under no lock, without an answer, may do to a path at any time.
    doubtful: Mutex<HashMap<String, Vec<Option<bytes::Bytes>>>>,
    /// How often the passwords have changed.
    epoch: Mutex<usize>,
    wrong: Mutex<Vec<String>>,
    /// Whether a request that was answered may be carried out once more.
    repeats: bool,
    has_been_full: AtomicBool,
}

/// A gateway until it is killed.
struct Life {
    world: Arc<World>,
    upstream: Arc<Upstream>,
    shared: Shared,
    metrics: Arc<Metrics>,
    journal: Option<Arc<Journal>>,
    accounts: Mutex<HashMap<String, Arc<Account>>>,
}

impl World {
    fn new(network: Network, repeats: bool) -> Arc<Self> {
        network.server().add_folder(FOLDER);
        let (oracle, doubtful, epoch, wrong, has_been_full) = Default::default();
        let world = Arc::new(Self { network, oracle, doubtful, epoch, wrong, repeats, has_been_full });
        world.set_passwords(0);
        world
    }

    fn authorization(user: &str, epoch: usize) -> String {
        let encoded = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("{user}:{epoch}"));
        format!("Basic {encoded}")
    }

    fn set_passwords(&self, epoch: usize) {
        *self.epoch.lock().unwrap() = epoch;
        let all = clients::USERS.map(|user| Self::authorization(user, epoch));
        self.network.server().credentials = Some(all.into());
    }

    /// A change under no lock may be carried out at any time.
    fn doubt(&self, path: &str, content: Option<bytes::Bytes>) {
        self.doubtful.lock().unwrap().entry(path.to_owned()).or_default().push(content);
    }

    /// A change has been answered: this copy of it will not be carried out any more.
    fn undoubt(&self, path: &str, content: Option<&bytes::Bytes>) {
        let mut doubtful = self.doubtful.lock().unwrap();
        if let Some(effects) = doubtful.get_mut(path)
            && let Some(at) = effects.iter().position(|effect| effect.as_ref() == content)
        {
            effects.remove(at);
        }
        doubtful.retain(|_, effects| !effects.is_empty());
    }

    /// Whether a client has taken the place of somebody else's version by a request that names neither lock nor version, as it
    /// would have done without a gateway: a DELETE, a MOVE, or the empty PUT before the LOCK.
    fn is_own_risk(said: &str, server: &Server) -> bool {
        let is_empty = |change: &Change| change.after.is_some_and(|after| server.versions[after].content.is_empty());
        let is_it = |change: &Change| {
            change.by == Author::Ours
                && said.starts_with(&format!("{} {} at {:.3} ", change.method, change.path, change.at.as_secs_f64()))
        };
        let changes = || server.changes.iter().filter(|change| is_it(change));
        !changes().any(|change| change.method == "PUT" && !is_empty(change))
    }

    fn say(&self, what: String) {
        self.network.note(&what);
        self.wrong.lock().unwrap().push(what);
    }
}

impl Life {
    fn new(world: &Arc<World>, state: Option<&Path>) -> Self {
        let origin = Origin::of(&"http://127.0.0.1/".parse().unwrap()).unwrap();
        let upstream = Arc::new(Upstream { origin, base: format!("{FOLDER}/") });
        let open =
            |state| Arc::new(Journal::open(state, "http://127.0.0.1/files/", 1 << 20).expect("it can be opened"));
        let (shared, journal) = (Shared::default(), state.map(open));
        Self { world: world.clone(), upstream, shared, metrics: Arc::default(), journal, accounts: Mutex::default() }
    }

    fn account(&self, user: &str, authorization: &str) -> Arc<Account> {
        let new = || {
            let dialer = self.world.network.dialer();
            let client = Client::with_dialer(haul_http::Settings::default(), Authenticator::default(), dialer);
            let back = self.journal.clone().map(|journal| WriteBack::new(journal, user.to_owned()));
            let (upstream, metrics) = (self.upstream.clone(), self.metrics.clone());
            let fresh = Duration::from_secs(5);
            Arc::new(Account::new(client, upstream, metrics, self.shared.clone(), fresh, (None, back)))
        };
        self.accounts.lock().unwrap().entry(authorization.to_owned()).or_insert_with(new).clone()
    }

    /// A request of a client. None if it has not been answered.
    async fn ask(&self, user: &str, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Option<Answer> {
        let authorization = World::authorization(user, *self.world.epoch.lock().unwrap());
        let account = self.account(user, &authorization);
        let mut headers = HeaderMap::new();
        let own = [("authorization", &*authorization), ("user-agent", "Microsoft-WebDAV-MiniRedir/10.0.19045")];
        for (name, value) in own.iter().chain(fields) {
            headers.insert(name.parse::<http::HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
        }
        let place = |path: &str| RemotePath::from_url_path(path).unwrap();
        let to = fields.iter().find(|(name, _)| *name == "destination").map(|(_, to)| place(to));
        if let Some(to) = &to {
            headers.insert("destination", HeaderValue::from_str(&format!("http://127.0.0.1{}", to.target())).unwrap());
        }
        let url = format!("http://127.0.0.1{path}").parse().unwrap();
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let request = Passing::new(method.clone(), url, headers, (place(path), to));
        let request = request.with_body(Received::Whole(body.to_vec().into()));
        let answering = async {
            account.adopt(&request).await;
            let answer = account.answer(request).await.ok()?;
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.ok()?.to_bytes().to_vec();
            Some(Answer { status: parts.status, headers: parts.headers, body })
        };
        let answer = time::timeout(ENDLESS, answering).await.unwrap_or_else(|_| {
            self.world.say(format!("{method} {path} of {user} has waited for {ENDLESS:?}"));
            None
        });
        let status = answer.as_ref().map_or(0, |answer| answer.status.as_u16());
        self.world.network.note(&format!("{user}: {method} {path} -> {status}"));
        answer
    }
}

fn paused_runtime() -> runtime::Runtime {
    runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// What is wrong with the run of a seed, and what has happened in it.
fn run(seed: u64, has_trace: bool) -> (Vec<String>, String) {
    let mut random = Random::for_part(seed, "gateway");
    let has_journal = random.chance(60);
    let profile = random.choose(&[Profile::Strong, Profile::Apache]);
    let (mut rates, weather) = {
        let mut drawn = Random::for_part(seed, "network");
        (Rates::draw(&mut drawn), Weather::draw(&mut drawn))
    };
    let is_full = |second| weather.at(Duration::from_secs(second)) == Some(Spell::FullDisk);
    let fills = (0..1000).any(is_full);
    // A copy of what was answered: nobody can know of it, and a client names no version.
    rates.twice = 0;
    let repeats = rates.cut_late > 0;
    let network = Network::with(seed, profile, rates, weather);
    if has_trace {
        network.keep_trace();
        network.note(&format!("{profile:?}, journal: {has_journal}, {:?}", network.rates()));
    }
    let world = World::new(network.clone(), repeats);
    let folder = tempfile::tempdir().unwrap();
    let state = has_journal.then(|| folder.path());
    let lives = 1 + random.below(3);
    for number in 0..=lives {
        let is_last = number == lives;
        let runtime = paused_runtime();
        let journal = runtime.block_on(async {
            network.resume();
            network.note(&format!("gateway {number}"));
            let life = Arc::new(Life::new(&world, state));
            if is_last {
                network.end_faults();
                network.server().is_full = false;
                for user in clients::USERS {
                    life.ask(user, "PROPFIND", FOLDER, &[("depth", "1")], b"").await;
                }
                time::sleep(REST).await;
                let left = pending(folder.path()).map_or(0, |left| left.len());
                if left > 0 {
                    world.say(format!("{left} files have not come to rest"));
                }
            } else {
                let longest = Duration::from_secs(random.choose(&[20, 200, 2000]));
                let lasts = random.time(longest) + Duration::from_secs(5);
                let _ = time::timeout(lasts, clients::live(&life, seed, number)).await;
            }
            network.suspend();
            life.journal.clone()
        });
        // As a kill does.
        drop(runtime);
        if let Some(journal) = journal {
            journal.close();
        }
    }
    let mut server = network.server();
    let locks = server.locks();
    let has_been_full = fills || world.has_been_full.load(Ordering::Relaxed);
    let mut oracle = world.oracle.lock().unwrap().clone();
    let doubtful = world.doubtful.lock().unwrap();
    for (path, effects) in &*doubtful {
        for effect in effects {
            oracle.unconfirmed(path, effect.clone());
        }
    }
    let mut wrong = oracle.judge(&server, &[]);
    // Whether what is at a path was saved into the journal: the server has not had it before.
    let was_waiting = |path: &str| {
        let is_it = |change: &&Change| {
            change.method == "PUT" && change.after.map(|after| &server.versions[after].content) == server.content(path)
        };
        has_journal && server.content(path).is_some() && server.changes.iter().filter(is_it).count() == 1
    };
    // Whether a client of ours has changed what is at the path of a conflict since.
    let is_passed = |beside: &str| {
        let possible = original(beside).map(|path| oracle.possible(&path).to_vec()).unwrap_or_default();
        possible.len() > 1 || !possible.iter().any(|possible| possible.as_ref() == server.content(beside))
    };
    wrong.retain(|said| {
        let path = said.split(' ').next().unwrap_or_default();
        let is_conflict = || said.ends_with("is a conflict with nobody");
        let is_own_risk = || said.ends_with("of another client") && World::is_own_risk(said, &server);
        let is_there = || oracle.possible(path).iter().flatten().any(|content| is_there(&server, content));
        let is_beside = || {
            let mut beside = server.files().filter(|(path, _)| original(path).is_some());
            beside.any(|(_, content)| oracle.possible(path).iter().flatten().any(|possible| possible == content))
        };
        let excuses = [
            // The conflict of what somebody's change under no lock has made of the file.
            is_conflict() && doubtful.keys().any(|path| said.starts_with(&**path)),
            // What is uploaded when its lock has ended takes the place of what was deleted meanwhile.
            was_waiting(path) && oracle.possible(path).contains(&None),
            // A weak tag does not show that the file is the same as before: it goes beside.
            profile == Profile::Apache && is_beside(),
            // The server has refused a saved file, and somebody has changed or moved what is at its path since.
            has_been_full && if is_conflict() { is_passed(path) } else { is_there() },
            is_own_risk(),
        ];
        !excuses.contains(&true)
    });
    wrong.extend(world.wrong.lock().unwrap().iter().cloned());
    wrong.extend(locks.iter().filter(|(_, lock)| lock.by == Author::Ours).map(|(path, _)| format!("{path} is locked")));
    drop(server);
    (wrong, network.trace())
}

/// Whether somebody finds a content, under another name.
fn is_there(server: &Server, content: &bytes::Bytes) -> bool {
    server.files().any(|(_, found)| found == content)
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

#[test]
fn nothing_confirmed_is_lost_in_simulated_time() {
    if let Some(seed) = number("SIMULATION_SEED") {
        let (wrong, trace) = run(seed, true);
        println!("{trace}");
        assert!(wrong.is_empty(), "seed {seed}: {}", wrong.join("\n"));
        return;
    }
    let (from, count) = (number("SIMULATION_FROM").unwrap_or(0), number("SIMULATION_SEEDS").unwrap_or(SEEDS));
    let mut failed = Vec::new();
    for seed in from..from + count {
        let (wrong, _) = run(seed, false);
        if !wrong.is_empty() {
            println!("SIMULATION_SEED={seed}: {}", wrong.join("; "));
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "{} of {count} seeds have failed: {failed:?}", failed.len());
}
