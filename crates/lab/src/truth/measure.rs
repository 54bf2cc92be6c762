//! Running one scenario.

use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    CLIENT,
    facts::{Counted, Facts, facts},
    programs,
    scenario::{ClientProgram, Scenario},
    testbed::Testbed,
};
use crate::{
    certs::{CertError, Certificates},
    deadline::{Deadline, Stop},
    process::{self, ProcessError},
    testbed::TestbedError,
};

/// The captured bytes of each packet.
pub(super) const SNAPLEN: u32 = 256;

/// The files of the server's certificate and key.
pub(super) const CERTIFICATE: &str = "certificate.pem";
pub(super) const KEY: &str = "key.pem";

/// Time for the last packets to arrive after the client has ended.
const LINGER: Duration = Duration::from_millis(150);

/// Why a scenario could not be measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// The hosts or the links could not be created, or failed.
    #[error(transparent)]
    Testbed(#[from] TestbedError),
    /// A capture cannot be read.
    #[error(transparent)]
    Capture(#[from] capture::Error),
    /// A program failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// A server does not listen.
    #[error("the server on port {port} {stop}")]
    NotReady {
        /// Its port.
        port: u16,
        /// How the wait ended.
        stop: Stop,
    },
    /// The run was stopped.
    #[error("the run {stop}")]
    Stopped {
        /// Why.
        stop: Stop,
    },
    /// The certificates could not be made.
    #[error(transparent)]
    Certificates(#[from] CertError),
    /// A file could not be written.
    #[error("cannot write {}: {source}; check the free space", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The files of a run cannot be created.
    #[error("cannot prepare the run: {0}")]
    Files(io::Error),
    /// The captures have no transfer.
    #[error("the client sent nothing to the server")]
    Nothing,
}

/// Runs a scenario. The captures go to `captures`, everything else to `scratch`, which is removed.
pub(crate) fn measure(
    scenario: &Scenario,
    captures: &Path,
    scratch: &Path,
    deadline: &Deadline,
) -> Result<Facts, MeasureError> {
    fs::create_dir_all(captures).map_err(MeasureError::Files)?;
    let folder = scratch.join("run");
    let result = prepare(scenario, &folder).and_then(|root| run(scenario, captures, &root, &folder, deadline));
    let _ = fs::remove_dir_all(&folder);
    result
}

/// Creates the files to transfer, readable by servers that drop their privileges.
fn prepare(scenario: &Scenario, folder: &Path) -> Result<PathBuf, MeasureError> {
    use std::os::unix::fs::PermissionsExt;
    let root = folder.join("root");
    fs::create_dir_all(&root).map_err(MeasureError::Files)?;
    for path in [folder, &root] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(MeasureError::Files)?;
    }
    let mut bytes = vec![0; scenario.file.0 as usize];
    ChaCha8Rng::seed_from_u64(1).fill_bytes(&mut bytes);
    let paths = if scenario.is_upload { Vec::new() } else { scenario.paths() };
    for path in paths.iter().map(|path| root.join(path.trim_start_matches('/'))).chain([folder.join("body")]) {
        fs::write(&path, &bytes).map_err(|source| MeasureError::File { path: path.clone(), source })?;
    }
    Ok(root)
}

fn run(
    scenario: &Scenario,
    captures: &Path,
    root: &Path,
    folder: &Path,
    deadline: &Deadline,
) -> Result<Facts, MeasureError> {
    let testbed = Testbed::create(scenario, captures)?;
    let is_complete = transfer(scenario, &testbed, root, folder, deadline)?;
    testbed.check()?;
    let emulator_drops = testbed.end()?;
    let capture = captures.join(CLIENT).with_extension("pcapng");
    let facts = facts(&capture, scenario.counted())?.ok_or(MeasureError::Nothing)?;
    Ok(Facts { is_complete, emulator_drops, ..facts })
}

/// Runs the programs. Returns whether the client reported success.
fn transfer(
    scenario: &Scenario,
    testbed: &Testbed,
    root: &Path,
    folder: &Path,
    deadline: &Deadline,
) -> Result<bool, MeasureError> {
    if scenario.is_tls {
        let certificates = Certificates::make(folder, &[testbed.address().into()], &[])?;
        for (name, text) in [(CERTIFICATE, &certificates.server_pem), (KEY, &certificates.key_pem)] {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|source| MeasureError::File { path, source })?;
        }
    }
    for (host, shaper) in [(&testbed.client, scenario.client.shaper), (&testbed.server, scenario.server.shaper)] {
        if let Some(shaper) = shaper {
            process::run(host, &mut programs::shape(shaper, folder)?, deadline)?;
        }
    }
    let server = programs::start(scenario, &testbed.server, root, folder, deadline)?;
    let competitors = scenario.competitor.map(|competitor| {
        let other = if competitor.is_behind_router { &testbed.router } else { &testbed.client };
        let hosts = [other, &testbed.server];
        let folder = folder.join("competitor");
        fs::create_dir_all(&folder).map_err(MeasureError::Files)?;
        programs::competitor(competitor, hosts, testbed.address(), &folder, deadline)
    });
    let competitors = competitors.transpose()?;
    let mut command = programs::client(scenario, testbed.address(), &folder.join("body"), folder)?;
    let done = match process::run(&testbed.client, &mut command, deadline) {
        Ok(_) => true,
        // A transfer that is reset fails, and shall.
        Err(ProcessError::Failed { .. }) if scenario.can_fail() => false,
        Err(error) => return Err(error.into()),
    };
    for mut program in competitors.into_iter().flatten() {
        // An endless download has nothing to finish.
        program.kill();
    }
    thread::sleep(LINGER);
    drop(server);
    Ok(done)
}

impl Scenario {
    /// Whether a failure of the client is what the scenario is about.
    fn can_fail(&self) -> bool {
        self.links.iter().any(|link| !link.middlebox.is_empty())
    }

    /// Which of its connections are measured: of iperf3's only the transfer.
    pub(super) fn counted(&self) -> Counted {
        if self.client.program == ClientProgram::Iperf3 { Counted::Largest } else { Counted::All }
    }
}
