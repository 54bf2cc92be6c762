//! A model of a WebDrive-like client: no locks, several connections, fewer parallel uploads.
//!
//! From the source article: up to four connections, two parallel uploads, locks off by default, no HTTP/2, no TLS 1.3.
//! A download is PROPFIND and GET; an upload is PROPFIND, PUT and PROPPATCH. The article does not give the order of the
//! last two, but a property needs an existing resource. No capture was found, so the model assumes that reads use all
//! connections and that a save is an upload.

use std::{collections::VecDeque, sync::Arc};

use tokio::{sync::Mutex, task::JoinSet};

use super::{Contender, Failure, Prepared, Registered, SampleSetup};
use crate::{
    host_task::start,
    http_client::{Connection, Endpoint, multistatus::names},
    servers::{Http, Server},
    work::{Done, Task, Work},
};

pub(super) const REGISTERED: Registered = Registered {
    name: "webdrive",
    parameters: &[("connections", 4), ("uploads", 2)],
    make: |values| {
        let (connections, uploads) = (values.get("connections"), values.get("uploads"));
        Box::new(WebDrive { name: values.name(), connections, uploads })
    },
};

const TIME: &str = r#"<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:"><D:set><D:prop><Z:Win32LastModifiedTime>Tue, 19 Mar 2019 09:30:00 GMT</Z:Win32LastModifiedTime></D:prop></D:set></D:propertyupdate>"#;

struct WebDrive {
    name: String,
    connections: u32,
    uploads: u32,
}

impl Contender for WebDrive {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn describe(&self) -> &'static str {
        "model of a WebDrive-like client over HTTP/1.1: PROPFIND, PUT and PROPPATCH for each file, two uploads at once, no locks"
    }

    fn model(&self) -> bool {
        true
    }

    fn http(&self, _tls: bool) -> Http {
        Http::One
    }

    fn unable(&self, work: &Work, server: &dyn Server, _tls: bool) -> Option<String> {
        if let Work::Tree { .. } = work {
            return Some("folder creation is not modelled: no capture of WebDrive was available".to_owned());
        }
        let writes = matches!(work, Work::Upload { .. } | Work::Edit { .. });
        (writes && !server.proppatch())
            .then(|| format!("an upload ends with PROPPATCH, which {} does not support", server.name()))
    }

    fn settings(&self) -> Vec<(String, String)> {
        [
            ("TLS", "1.2".to_owned()),
            ("connections", format!("{}, the first open before the clock", self.connections)),
            ("uploads", self.uploads.to_string()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let endpoint = Endpoint::new(&sample.url, sample.certificates, &[&rustls::version::TLS12], Http::One)?;
        let workers = match sample.task.work() {
            Work::Upload { .. } | Work::Tree { .. } => self.uploads.min(self.connections),
            Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => self.connections,
            // One file or one folder: nothing to do in parallel.
            Work::List { .. } | Work::LookUp { .. } | Work::Edit { .. } | Work::Chore(_) => 1,
        };
        let task = Arc::new(sample.task.clone());
        let first = endpoint.clone();
        let open = move || async move { Connection::open(&first).await };
        let work = move |first| work(first, endpoint, task, workers);
        Ok(Box::new(start(sample.client, &sample.deadline, open, work)?))
    }
}

/// One request for one file, or for the folder.
enum Job {
    Write { path: String, content: Vec<u8> },
    Read { path: String, name: String },
    List { folder: String },
}

async fn work(first: Connection, endpoint: Endpoint, task: Arc<Task>, workers: u32) -> Result<Done, Failure> {
    let folder = endpoint.path();
    let path = |name: &str| format!("{folder}{name}");
    let jobs: VecDeque<Job> = match task.work() {
        Work::Upload { .. } | Work::Tree { .. } | Work::Edit { .. } => task
            .writes()
            .map(|(_, content, name)| Job::Write { path: path(&name), content: content.to_vec() })
            .collect(),
        Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
            task.names().into_iter().map(|name| Job::Read { path: path(&name), name }).collect()
        }
        Work::List { .. } | Work::LookUp { .. } | Work::Chore(_) => [Job::List { folder: folder.to_owned() }].into(),
    };
    let jobs = Arc::new(Mutex::new(jobs));
    let mut running = JoinSet::new();
    running.spawn(worker(first, task.clone(), jobs.clone()));
    for _ in 1..workers {
        let (endpoint, task, jobs) = (endpoint.clone(), task.clone(), jobs.clone());
        running.spawn(async move { worker(Connection::open(&endpoint).await?, task, jobs).await });
    }
    let mut done = Done::default();
    while let Some(ended) = running.join_next().await {
        let listing = ended.map_err(|error| Failure::Thread(std::io::Error::other(error)))??;
        done.listing = done.listing.or(listing);
    }
    Ok(done)
}

/// Works on one connection until no job is left.
async fn worker(
    mut connection: Connection,
    task: Arc<Task>,
    jobs: Arc<Mutex<VecDeque<Job>>>,
) -> Result<Option<Vec<String>>, Failure> {
    let mut listing = None;
    loop {
        let Some(job) = jobs.lock().await.pop_front() else { return Ok(listing) };
        match job {
            Job::Write { path, content } => {
                connection.request("PROPFIND", &path, &[("Depth", "0")], "").await?.expect(&[207, 404])?;
                connection.request("PUT", &path, &[], content).await?.expect(&[200, 201, 204])?;
                connection.request("PROPPATCH", &path, &[], TIME).await?.expect(&[207])?;
            }
            Job::Read { path, name } => {
                connection.request("PROPFIND", &path, &[("Depth", "0")], "").await?.expect(&[207])?;
                let content = connection.request("GET", &path, &[], "").await?.expect(&[200])?.body;
                let file = task.target.join(name);
                std::fs::write(&file, content).map_err(super::io_failure("write", &file))?;
            }
            Job::List { folder } => {
                let answer = connection.request("PROPFIND", &folder, &[("Depth", "1")], "").await?.expect(&[207])?;
                listing = names(&String::from_utf8_lossy(&answer.body), &folder);
            }
        }
    }
}
