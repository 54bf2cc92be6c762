//! A run: the mount from its start to its end, with the kills in between.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use dav::{Dav, LockPolicy, RemotePath};
use haul_http::{Client, Origin, Settings, auth::Authenticator};
use simulation::{Author, Network, Profile, Random};
use tokio::{
    runtime::Builder,
    task::JoinHandle,
    time::{sleep, timeout},
};
use writeback::clock;

use super::{Panics, kernel::Kernel, programs::Programs};
use crate::{Options, Write, panics::restarted, share::Share, tree::Tree};

/// When the simulated time begins, since 1970: at the first of 2026, as at the model server.
const BEGIN: Duration = Duration::from_hours(490_896);
/// How long the mount may try to start, and how long what was late may take.
const PATIENCE: Duration = Duration::from_hours(1);
/// How long after all faults the server may lack something.
const UPLOADS: Duration = Duration::from_mins(30);
/// How long after the last late request a lock may stay.
const UNLOCKS: Duration = Duration::from_mins(2);
/// The same after a kill: nobody remembers a LOCK that was late then, and its lock expires.
const EXPIRY: Duration = Duration::from_mins(11);

/// How a run is set up.
#[derive(Debug, Clone)]
struct Setup {
    profile: Profile,
    lock: LockPolicy,
    write: Write,
    fresh: Duration,
    cache_size: u64,
    patience: Duration,
    signals: usize,
    others: usize,
    steps: usize,
    /// How many steps in a hundred are kills or restarts.
    kills: usize,
}

impl Setup {
    fn draw(random: &mut Random) -> Self {
        let seconds = Duration::from_secs;
        let write = if random.chance(50) { Write::Through } else { Write::Back { journal_size: 1 << 20 } };
        Self {
            profile: random.choose(&[Profile::Strong, Profile::Apache]),
            lock: random.choose(&[LockPolicy::Never, LockPolicy::OnEdit, LockPolicy::Always]),
            write,
            fresh: random.choose(&[Duration::ZERO, seconds(1), seconds(10), seconds(60)]),
            cache_size: random.choose(&[3, 1 << 20]),
            patience: random.choose(&[seconds(10), seconds(60)]),
            signals: random.choose(&[0, 0, 5]),
            others: random.choose(&[0, 0, 10, 30]),
            steps: 10 + random.below(30),
            kills: random.choose(&[0, 0, 3, 10]),
        }
    }
}

/// What became of a run.
pub(super) struct Run {
    pub(super) wrong: Vec<String>,
    pub(super) trace: String,
}

/// What outlives the mount.
struct World {
    setup: Setup,
    network: Network,
    programs: Programs,
    random: Random,
    hangs: Arc<Mutex<Vec<String>>>,
    cache: PathBuf,
    seed: u64,
    steps: usize,
    lives: u64,
}

/// A mount without a kernel.
struct Mounted {
    kernel: Kernel,
    tasks: Vec<JoinHandle<()>>,
}

/// A folder in memory, if there is one.
fn scratch() -> io::Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("haul-simulation");
    if memory.is_dir() { builder.tempdir_in(memory) } else { builder.tempdir() }
}

impl Run {
    /// The run of this seed.
    pub(super) fn of(seed: u64) -> Self {
        let panics = Panics::default();
        panics.watch();
        let folder = scratch().expect("there is room for temporary files");
        let mut random = Random::for_part(seed, "mount");
        let setup = Setup::draw(&mut random);
        let network = Network::new(seed, setup.profile);
        network.keep_trace();
        let programs = Programs::new(network.clone(), Random::for_part(seed, "programs"), setup.others);
        let (hangs, cache) = (Arc::default(), folder.path().join("0"));
        let mut world = World { setup, network, programs, random, hangs, cache, seed, steps: 0, lives: 0 };
        world.network.note(&format!("{:?} {:?}", world.setup, world.network.rates()));
        world.programs.begin();
        loop {
            let watched = panics.clone();
            let mut builder = Builder::new_current_thread();
            builder.enable_time().start_paused(true).max_blocking_threads(1).on_thread_start(move || watched.watch());
            let runtime = builder.build().expect("a runtime");
            let is_over = runtime.block_on(world.live());
            drop(runtime);
            if is_over {
                break;
            }
        }
        let mut wrong = world.programs.wrong.clone();
        wrong.extend(world.hangs.lock().unwrap().clone());
        wrong.extend(panics.all());
        wrong.extend(world.programs.oracle.judge(&world.network.server(), &kept(folder.path())));
        Panics::unwatch();
        Self { wrong, trace: world.network.trace() }
    }
}

impl World {
    /// One life of the mount. Returns whether the run is over.
    async fn live(&mut self) -> bool {
        self.network.resume();
        clock::simulate(SystemTime::UNIX_EPOCH + BEGIN + self.network.server().now());
        let Some(Mounted { mut kernel, tasks }) = self.mount().await else { return true };
        while self.steps < self.setup.steps {
            self.steps += 1;
            if self.random.chance(self.setup.kills) {
                if self.random.chance(30) {
                    self.programs.close(&mut kernel).await;
                    self.unmount(kernel, tasks).await;
                } else {
                    let moment = self.random.time(Duration::from_secs(20));
                    let _ = timeout(moment, self.programs.step(&mut kernel)).await;
                    self.kill();
                }
                self.network.suspend();
                return false;
            }
            self.programs.step(&mut kernel).await;
        }
        self.programs.close(&mut kernel).await;
        self.settle(&mut kernel).await;
        self.unmount(kernel, tasks).await;
        self.check_locks("after the end");
        true
    }

    async fn mount(&mut self) -> Option<Mounted> {
        let began = tokio::time::Instant::now();
        loop {
            match self.try_to_mount().await {
                Ok(mounted) => return Some(mounted),
                Err(error) if began.elapsed() < PATIENCE => {
                    self.network.note(&format!("mount: {error}"));
                    sleep(Duration::from_secs(5)).await;
                }
                Err(error) => {
                    self.programs.wrong.push(format!("cannot mount: {error}"));
                    return None;
                }
            }
        }
    }

    async fn try_to_mount(&mut self) -> Result<Mounted, crate::Error> {
        let mut settings = Settings::default();
        settings.timeouts.first_byte = self.setup.patience;
        settings.patience = Some(self.setup.patience);
        let client = Client::with_dialer(settings, Authenticator::default(), self.network.dialer());
        let origin = Origin::of(&"http://model/".parse().expect("a URL")).expect("an origin");
        let dav = Dav::new(client, origin).with_seed(self.seed);
        let share = Share::new(dav, RemotePath::root(), self.options())?;
        share.check().await?;
        share.adopt_journal();
        let share = Arc::new(share);
        let (locks, uploads) = (share.clone(), share.clone());
        let tasks = vec![
            tokio::spawn(restarted(move || locks.clone().keep_locks())),
            tokio::spawn(restarted(move || uploads.clone().upload_queue())),
        ];
        let random = Random::for_part(self.seed, &format!("kernel {}", self.lives));
        self.network.note("mounted");
        Ok(Mounted { kernel: Kernel::new(share, random, self.setup.signals, self.hangs.clone()), tasks })
    }

    fn options(&self) -> Options {
        let Setup { lock, write, fresh, cache_size, .. } = self.setup;
        Options {
            source: "http://model/".into(),
            identity: Some(1),
            account: String::new(),
            write,
            fresh,
            cache: self.cache.clone(),
            cache_size,
            read_only: false,
            attributes: false,
            properties: false,
            allow_other: false,
            uid: 0,
            gid: 0,
            umask: 0,
            lock,
            lock_owner: "simulation".into(),
        }
    }

    /// The process is killed: what it would still do to its files is done to a copy that nobody looks at.
    fn kill(&mut self) {
        self.network.note("killed");
        self.programs.are_killed();
        self.lives += 1;
        let next = self.cache.with_file_name(self.lives.to_string());
        copy(&self.cache, &next).expect("there is room for temporary files");
        self.cache = next;
    }

    /// All faults end, and what was late is carried out. Then all must come to rest.
    async fn settle(&mut self, kernel: &mut Kernel) {
        self.network.note("the faults end");
        self.network.end_faults();
        kernel.end_signals();
        let late = async {
            while self.network.pending() > 0 {
                sleep(Duration::from_secs(5)).await;
            }
        };
        let _ = timeout(PATIENCE, late).await;
        self.network.note("nothing is late any more");
        let share = kernel.share.clone();
        let uploaded = async {
            while share.flush_folder(Tree::ROOT).await.is_err() {
                sleep(Duration::from_secs(1)).await;
            }
        };
        if timeout(UPLOADS, uploaded).await.is_err() {
            self.programs.wrong.push("the journal does not become empty".into());
        }
        sleep(if self.lives == 0 { UNLOCKS } else { EXPIRY }).await;
        self.check_locks("at rest");
        sleep(self.setup.fresh).await;
        self.programs.compare(kernel).await;
    }

    fn check_locks(&mut self, when: &str) {
        let locks = self.network.server().locks();
        for (path, _) in locks.iter().filter(|(_, lock)| lock.by == Author::Ours) {
            self.programs.wrong.push(format!("{path} is locked {when}"));
        }
    }

    /// As [`crate::Mount::unmount`].
    async fn unmount(&mut self, kernel: Kernel, tasks: Vec<JoinHandle<()>>) {
        self.network.note("unmount");
        let share = kernel.share.clone();
        share.begin_to_end();
        share.upload_all().await;
        share.settle().await;
        share.upload_all().await;
        share.unlock_all().await;
        share.end_cache(Duration::from_secs(10)).await;
        for task in tasks {
            task.abort();
            let _ = task.await;
        }
        share.keep_all_unsaved();
        self.network.note("unmounted");
    }
}

/// What was put aside for people, in all lives.
fn kept(folder: &Path) -> Vec<Bytes> {
    let lives = fs::read_dir(folder).into_iter().flatten().flatten();
    let kept = lives.flat_map(|life| fs::read_dir(life.path().join("unsaved")).into_iter().flatten().flatten());
    kept.filter_map(|file| fs::read(file.path()).ok()).map(Bytes::from).collect()
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let mode = fs::metadata(from)?.permissions().mode();
    fs::DirBuilder::new().mode(mode).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            copy(&from, &to)?;
        } else {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}
