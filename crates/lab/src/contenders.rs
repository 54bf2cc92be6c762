//! The contenders: programs that do a workload, run as people run them, and models, which replay the request sequences
//! of clients that cannot run here. One small file each, registered in [`all`].
//!
//! A contender is prepared outside the measured time (mount a file system, start a daemon), runs inside it, and is
//! cleaned up in any case: [`Prepared`] owns everything that `prepare` created, and dropping it cleans up in bounded
//! time.
//!
//! Whatever exists before a user begins is prepared: the mount of davfs2, haul or rclone, the SMB session, the first connection of a
//! mapped drive. A program that the user starts for the work (curl, rclone) starts and connects within the measured
//! time. So the models and the mounts, whose files are copied by a thread of ours, start no process in that time; this saves
//! them a millisecond or two for the whole work, in which `cp -r` would start once.

mod chromium;
mod chunked_upload;
mod connection_per_file;
mod curl;
mod curl_parallel;
pub(crate) mod custom;
mod custom_mount;
mod davfs2;
mod failure;
mod finder;
mod foreground_mount;
mod gvfs;
mod haul;
mod haul_mount;
mod http_engine;
mod impacket;
mod kdig;
mod middle_box;
mod mounted;
mod page_load;
mod rclone;
mod rclone_mount;
mod samba;
mod unmount;
mod webdrive;
mod windows_redirector;

pub use failure::Failure;
pub(crate) use failure::io_failure;

use std::{collections::BTreeMap, net::SocketAddr, path::Path, sync::LazyLock};

use crate::{
    certs::Certificates,
    deadline::Deadline,
    experiment::KnownContender,
    host_task::HostTask,
    process::Program,
    servers::{Http, Server},
    spawn::Spawn,
    work::{Done, Job, Task, Visit, Work},
};

/// A desktop computer that reaches the server through the middle box, which is then the client host.
#[derive(Clone, Copy)]
pub struct Pc<'a> {
    /// Its host.
    pub host: &'a dyn Spawn,
    /// The address on their LAN at which the middle box serves it.
    pub share: SocketAddr,
}

/// The input of a contender for one sample.
pub struct SampleSetup<'a> {
    /// The client's host.
    pub client: &'a dyn Spawn,
    /// The third host, if the contender needs one.
    pub pc: Option<Pc<'a>>,
    /// The server's address.
    pub address: SocketAddr,
    /// The URL of the task's folder on the server, with a slash at the end.
    pub url: String,
    /// The certificates to trust, if the URL is https.
    pub certificates: Option<&'a Certificates>,
    /// What to do.
    pub task: &'a Task,
    /// The server's document root. Only for clients that get no confirmation of an upload and must wait for it; no work
    /// may be done here.
    pub root: &'a Path,
    /// A folder for all that the contender writes.
    pub scratch: &'a Path,
    /// The deadline of preparation and work together.
    pub deadline: Deadline,
}

impl SampleSetup<'_> {
    /// The URL of the server's root, with a slash at the end.
    pub(crate) fn server(&self) -> &str {
        self.url.strip_suffix(&format!("{}/", self.task.folder)).unwrap_or(&self.url)
    }
}

/// A contender.
pub trait Contender: Send + Sync {
    /// Its name, with the parameters that differ from their defaults: `rclone transfers=32`.
    fn name(&self) -> String;

    /// One line on what it runs, and what takes its time.
    fn describe(&self) -> &str;

    /// Whether it is a model of a client that cannot run here.
    fn model(&self) -> bool {
        false
    }

    /// The contender that sends the same requests, if this one sends them through a program on the way. What differs
    /// between both is that program, so that they can be compared although both are models.
    fn requests_of(&self) -> Option<&'static str> {
        None
    }

    /// Whether only root can run it.
    fn needs_root(&self) -> bool {
        false
    }

    /// Whether it needs a third host behind the client host.
    fn needs_pc(&self) -> bool {
        false
    }

    /// The programs it runs.
    fn needs(&self) -> &[Program] {
        &[]
    }

    /// The version of HTTP that it uses, with or without TLS; the server is started with it.
    fn http(&self, tls: bool) -> Http;

    /// Why it cannot do this work with this server, if so.
    fn unable(&self, work: &Work, server: &dyn Server, tls: bool) -> Option<String>;

    /// Whether it keeps idle connections between two page loads.
    fn loads_pages(&self) -> bool {
        false
    }

    /// The server it prescribes instead of the experiment's, for comparing servers.
    fn server(&self) -> Option<&'static str> {
        None
    }

    /// Whether it only loads recorded pages.
    fn replays(&self) -> bool {
        false
    }

    /// Whether it is a program of the user's own.
    fn is_custom(&self) -> bool {
        false
    }

    /// Whether it signs in: its server asks for a password.
    fn signs_in(&self) -> bool {
        false
    }

    /// Whether it uses TLS, given whether the experiment does.
    fn tls(&self, experiment: bool) -> bool {
        experiment
    }

    /// Whether it mounts the server's folder, so that programs can work in it.
    fn mounts(&self) -> bool {
        false
    }

    /// Whether it only looks up names by DNS.
    fn resolves(&self) -> bool {
        false
    }

    /// Its options and other facts for the record, besides the versions of the programs in [`needs`](Self::needs).
    fn settings(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Prepares it, before the clock starts.
    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure>;
}

/// A contender ready to run; dropping it cleans up the preparation.
pub trait Prepared {
    /// Does the work; the clock runs.
    fn run(&mut self) -> Result<Done, Failure>;

    /// Cleans up and reports errors of the cleanup.
    fn finish(self: Box<Self>) -> Result<(), Failure> {
        Ok(())
    }
}

/// A contender that needs no preparation.
struct Ready<F>(F);

impl<F: FnMut() -> Result<Done, Failure>> Prepared for Ready<F> {
    fn run(&mut self) -> Result<Done, Failure> {
        (self.0)()
    }
}

impl Prepared for HostTask<Done> {
    fn run(&mut self) -> Result<Done, Failure> {
        HostTask::run(self)
    }
}

/// The values of a contender's parameters that differ from their defaults.
pub type Parameters = BTreeMap<String, u32>;

/// A contender as it is registered.
pub struct Registered {
    /// The name it is chosen by.
    pub name: &'static str,
    /// The names of the parameters that may be set or swept, with their defaults.
    pub parameters: &'static [(&'static str, u32)],
    make: fn(&Values) -> Box<dyn Contender>,
}

impl Registered {
    /// The contender with these parameters; an error names one that it does not have.
    pub fn with(&self, parameters: &Parameters) -> Result<Box<dyn Contender>, UnknownParameter> {
        let known = |name: &str| self.parameters.iter().any(|(known, _)| *known == name);
        match parameters.keys().find(|name| !known(name)) {
            Some(name) => Err(UnknownParameter {
                contender: self.name,
                parameter: name.clone(),
                known: self.parameters.iter().map(|(name, _)| *name).collect(),
            }),
            None => Ok((self.make)(&Values { registered: self, set: parameters })),
        }
    }
}

/// A parameter that a contender does not have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{contender} has no parameter `{parameter}`; it has {}", if known.is_empty() { "none".to_owned() } else { known.join(", ") })]
pub struct UnknownParameter {
    contender: &'static str,
    parameter: String,
    known: Vec<&'static str>,
}

/// A contender's parameters, set or default.
struct Values<'a> {
    registered: &'a Registered,
    set: &'a Parameters,
}

impl Values<'_> {
    fn get(&self, name: &str) -> u32 {
        let default = || self.registered.parameters.iter().find(|(known, _)| *known == name).map_or(0, |(_, v)| *v);
        self.set.get(name).copied().unwrap_or_else(default).max(1)
    }

    /// The contender's name with what differs from the defaults.
    fn name(&self) -> String {
        let differing = |(name, default): &(&str, u32)| {
            let value = self.get(name);
            (value != *default).then(|| format!(" {name}={value}"))
        };
        let differences: String = self.registered.parameters.iter().filter_map(differing).collect();
        format!("{}{differences}", self.registered.name)
    }
}

/// All contenders.
pub fn all() -> &'static [Registered] {
    static ALL: LazyLock<Vec<Registered>> = LazyLock::new(|| {
        let mut all = programs_and_models();
        all.extend(chromium::REGISTERED);
        all.extend(page_load::registered());
        all
    });
    &ALL
}

/// Those whose names are known before the program runs.
fn programs_and_models() -> Vec<Registered> {
    vec![
        curl::REGISTERED,
        curl_parallel::HTTP1,
        curl_parallel::HTTP2,
        curl_parallel::TUNED,
        rclone::REGISTERED,
        rclone::NEWEST,
        rclone::TUNED,
        davfs2::LOCKS,
        davfs2::NO_LOCKS,
        davfs2::TUNED,
        samba::LOCKS,
        samba::NO_LOCKS,
        samba::HAUL,
        samba::HAUL_LOCKS,
        samba::HAUL_NO_LOCKS,
        samba::LOCKS_IMPACKET,
        samba::HAUL_IMPACKET,
        windows_redirector::HTTP1,
        windows_redirector::HTTP2,
        middle_box::GATEWAY,
        middle_box::GATEWAY_BACK,
        middle_box::NGINX,
        finder::REGISTERED,
        middle_box::FINDER,
        gvfs::STRAIGHT,
        gvfs::GATEWAY,
        webdrive::REGISTERED,
        haul::DEFAULT,
        haul::NO_PIPELINING,
        haul::HTTP2,
        haul::HTTP3,
        haul::LOCKS,
        haul_mount::REGISTERED,
        haul_mount::BACK,
        rclone_mount::WRITES,
        rclone_mount::FULL,
        rclone_mount::TUNED,
        http_engine::OLDEST,
        http_engine::NEWEST,
        http_engine::LARGEST,
        http_engine::FADING,
        http_engine::OFF,
        http_engine::SAFE,
        http_engine::AGGRESSIVE,
        http_engine::HTTP2,
        chunked_upload::REGISTERED,
        connection_per_file::CURL_TCP,
        connection_per_file::CURL_TFO,
        connection_per_file::ENGINE,
        connection_per_file::ENGINE_TFO,
        connection_per_file::ENGINE_AHEAD,
        connection_per_file::ENGINE_TFO_AHEAD,
        kdig::UDP,
        kdig::TCP,
        kdig::TFO,
    ]
}

/// The contenders that experiments may name.
pub fn known() -> Vec<KnownContender<'static>> {
    let known = |one: &'static Registered| {
        let contender = one.with(&Parameters::new()).ok();
        KnownContender {
            name: one.name,
            model: contender.as_ref().is_some_and(|contender| contender.model()),
            requests_of: contender.and_then(|contender| contender.requests_of()),
            settings: one.parameters.iter().map(|(name, _)| *name).collect(),
        }
    };
    all().iter().map(known).collect()
}

/// Why a cell must be skipped, with advice; `None` if it can run.
pub fn obstacle(contender: &dyn Contender, work: &Work, server: &dyn Server, tls: bool, root: bool) -> Option<String> {
    let mut programs = contender.needs().iter().copied().chain(work.program());
    let missing = programs.find_map(|program| program.find().err());
    missing
        .or_else(|| server.missing())
        .or_else(|| work.chore()?.command.as_ref()?.missing())
        .map(|missing| missing.to_string())
        .or_else(|| (contender.needs_root() && !root).then(|| "needs root; run the race with sudo".to_owned()))
        .or_else(|| {
            let impossible = work.chore().is_some() && !contender.mounts();
            impossible.then(|| "programs need a mounted folder for it".to_owned())
        })
        .or_else(|| {
            let needs_hidden = work.chore().is_some_and(|chore| chore.job == Job::GitStatus);
            let odd = needs_hidden && !server.lists_hidden();
            odd.then(|| format!("{} lists no names that begin with a dot, and git needs .git", server.name()))
        })
        .or_else(|| {
            let page = matches!(work, Work::Page { .. }) && !contender.loads_pages();
            page.then(|| "it keeps no connections between two page loads".to_owned())
        })
        .or_else(|| match (matches!(work, Work::Load { .. }), contender.replays(), server.replays()) {
            (false, false, _) | (true, true, true) => None,
            (true, true, false) => Some("only the servers `pages` and `nginx-pages` serve recorded pages".to_owned()),
            (true, false, _) => Some("it cannot load recorded pages".to_owned()),
            (false, true, _) => Some("it only loads recorded pages".to_owned()),
        })
        .or_else(|| {
            let Work::Load { page } = work else { return None };
            let name = server.name();
            let thinks = page.0.requests.iter().any(|request| !request.response.think.is_zero());
            match page.1 {
                _ if server.thinks_and_validates() => None,
                Visit::Repeat(_) => Some(format!("{name} does not validate what a cache has of a recorded page")),
                Visit::First if thinks => {
                    Some(format!("{name} cannot wait for the page's think times; remove each `think` of its spec"))
                }
                Visit::First => None,
            }
        })
        .or_else(|| {
            let wanted = matches!(work, Work::LookUp { .. });
            let odd = [contender.resolves(), server.resolves()] != [wanted; 2];
            odd.then(|| "DNS lookups need a DNS client and a DNS server, which do no other work".to_owned())
        })
        .or_else(|| contender.unable(work, server, tls))
}

/// Why HTTP/3 is skipped with this server.
fn without_http3(server: &dyn Server) -> String {
    let version = server.settings().into_iter().find(|(name, _)| name == "version");
    let version = version.map_or_else(String::new, |(_, version)| format!(" ({version})"));
    format!("the server {}{version} does not support HTTP/3", server.name())
}

#[cfg(test)]
mod tests;
