//! A mount whose program hangs: the sample fails with a sentence in bounded time, and nothing is left of it.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use lab::{
    contenders::{Prepared, SampleSetup},
    deadline::Deadline,
    servers::{Http, Running},
    spawn::Local,
    work::{Chore, Job, Payload, Task, Work},
};
use libtest_mimic::Failed;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use units::Size;

use super::{make, scratch, server, start};

/// How long the work may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Stops the mount's program with SIGSTOP before the work and after it. A stopped program answers nothing, and ends by no
/// signal but SIGKILL.
pub(super) fn stopped_mount(name: &str) -> Result<(), Failed> {
    let size = Size::bytes(1024);
    // Our own threads, programs that ask, and programs that write.
    let works = [
        Work::Upload { files: 3, size },
        Work::Chore(Chore { job: Job::LsLr, folders: 2, files: 4, size, warm: false, command: None }),
        Work::Chore(Chore { job: Job::TarX, folders: 2, files: 4, size, warm: false, command: None }),
    ];
    for work in works {
        let stage = Stage::new(&work)?;
        let mut prepared = stage.prepare(name, PATIENCE)?;
        stop_programs(&stage.scratch)?;
        let began = Instant::now();
        let failure = prepared.run().map(drop).unwrap_err().to_string();
        if !failure.contains("did not finish within 2s") {
            return Err(format!("{name}, {work}: {failure}").into());
        }
        drop(prepared);
        stage.check_nothing_left(name, began)?;
    }
    let stage = Stage::new(&Work::List { entries: 3 })?;
    let mut prepared = stage.prepare(name, Duration::from_mins(1))?;
    prepared.run()?;
    stop_programs(&stage.scratch)?;
    let began = Instant::now();
    let _ = prepared.finish();
    stage.check_nothing_left(name, began)
}

/// A server, and a client's folder.
struct Stage {
    running: Running,
    task: Task,
    scratch: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl Stage {
    fn new(work: &Work) -> Result<Self, Failed> {
        let folder = scratch();
        let running = start(server("embedded").as_ref(), folder.path(), (Http::One, false), None, None)?;
        let scratch = folder.path().join("client");
        let task = Payload::new(work.clone(), 1).task(&scratch, "s")?;
        task.prepare_server(running.root(), running.owner())?;
        Ok(Self { running, task, scratch, _folder: folder })
    }

    fn prepare(&self, name: &str, patience: Duration) -> Result<Box<dyn Prepared + '_>, Failed> {
        let sample = SampleSetup {
            client: &Local,
            pc: None,
            address: self.running.url().split('/').nth(2).unwrap().parse()?,
            url: format!("{}s/", self.running.url()),
            certificates: None,
            task: &self.task,
            root: self.running.root(),
            scratch: &self.scratch,
            deadline: Deadline::for_cleanup(patience),
        };
        // It lives as long as the test.
        Ok(make(name).prepare(Box::leak(Box::new(sample)))?)
    }

    /// Nothing is mounted, and no program of the client is left, a minute after `began` at the latest.
    fn check_nothing_left(&self, name: &str, began: Instant) -> Result<(), Failed> {
        if began.elapsed() > Duration::from_mins(1) {
            return Err(format!("{name}: it took {:.0?}", began.elapsed()).into());
        }
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        if mounts.contains(self.scratch.to_str().unwrap()) {
            return Err(format!("{name} left a mount:\n{mounts}").into());
        }
        let left = programs(&self.scratch);
        let lines = left.iter().map(|id| {
            let of = |what| fs::read_to_string(format!("/proc/{id}/{what}")).unwrap_or_default().replace('\0', " ");
            format!("{id}: {} ({})", of("cmdline"), of("stat"))
        });
        if left.is_empty() { Ok(()) } else { Err(lines.collect::<Vec<_>>().join("; ").into()) }
    }
}

fn stop_programs(scratch: &Path) -> Result<(), Failed> {
    let programs = programs(scratch);
    if programs.is_empty() {
        return Err("no program has mounted anything".into());
    }
    programs.into_iter().try_for_each(|program| kill(program, Signal::SIGSTOP))?;
    Ok(())
}

/// The programs whose command line names a file below this folder.
fn programs(scratch: &Path) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    let names = |id: &i32| {
        let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(scratch.to_str().unwrap())
    };
    ids.filter(names).map(Pid::from_raw).collect()
}
