//! A model of the Windows WebDAV redirector (the `WebClient` service, "Map network drive"), over HTTP/1.1 and HTTP/2:
//! one connection, one request at a time.
//!
//! Its requests, and their sources:
//!
//! - **a new file**: PROPFIND (404), empty PUT, LOCK, PROPPATCH of times and attributes, HEAD, PUT, PROPPATCH,
//!   UNLOCK: a file dragged in Explorer, as logged in mar10/wsgidav#112. OpenMarshal/npm-WebDAV-Server#37 shows the
//!   same for a new file in Word, without the first PROPPATCH.
//! - **reading**: PROPFIND, GET: the source article, and the log in dgraziotin/docker-nginx-webdav-nononsense#8. An
//!   Office program locks around the GET (OpenMarshal/npm-WebDAV-Server#37); copying a file does not, and the
//!   download is a copy.
//! - **saving in place**: PROPFIND, LOCK, HEAD, PUT, PROPPATCH, UNLOCK. Inferred from the sequence of a new file, for
//!   a file that exists and is not read. Notepad holds its lock only during the save (`danmunn/redmine_dmsf#617`).
//! - **opening a folder**: PROPFIND of the folder, PROPFIND of its entries, then of desktop.ini, folder.jpg and
//!   folder.gif, which Explorer looks for.
//!
//! LOCK has `Timeout: Second-3600` and no Depth (the capture in swisspol/GCDWebServer#319). TLS is 1.2, the latest
//! version in Windows 10's Schannel by default. Whether the real client has several HTTP/2 streams in flight is
//! unknown; a program that copies files waits for each call, so the model does too.

use rustls::SupportedProtocolVersion;

use super::{Contender, Failure, Prepared, Registered, SampleSetup};
use crate::{
    deadline::Deadline,
    host_task::{HostTask, start},
    http_client::{Connection, Endpoint, Response, multistatus::names},
    servers::{Http, Server},
    spawn::Spawn,
    work::{Done, Task, Work},
};

pub(super) const HTTP1: Registered =
    Registered { name: "redirector-h1", parameters: &[], make: |_| Box::new(WindowsRedirector { http: Http::One }) };
pub(super) const HTTP2: Registered =
    Registered { name: "redirector-h2", parameters: &[], make: |_| Box::new(WindowsRedirector { http: Http::Two }) };

/// The version of TLS that it offers.
pub(super) const TLS: &[&SupportedProtocolVersion] = &[&rustls::version::TLS12];

/// The header fields of every request.
const COMMON: [(&str, &str); 4] = [
    ("Cache-Control", "no-cache"),
    ("Pragma", "no-cache"),
    ("User-Agent", "Microsoft-WebDAV-MiniRedir/10.0.17763"),
    ("translate", "f"),
];
const XML: (&str, &str) = ("Content-Type", "text/xml; charset=\"utf-8\"");
const LOCK: &str = r#"<?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner><D:href>PC\user</D:href></D:owner></D:lockinfo>"#;
const ALL_TIMES: &str = r#"<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:"><D:set><D:prop><Z:Win32CreationTime>Tue, 19 Mar 2019 09:30:00 GMT</Z:Win32CreationTime><Z:Win32LastAccessTime>Tue, 19 Mar 2019 09:30:00 GMT</Z:Win32LastAccessTime><Z:Win32LastModifiedTime>Tue, 19 Mar 2019 09:30:00 GMT</Z:Win32LastModifiedTime><Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>"#;
const LAST_TIME: &str = r#"<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:"><D:set><D:prop><Z:Win32LastModifiedTime>Tue, 19 Mar 2019 09:30:00 GMT</Z:Win32LastModifiedTime><Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>"#;

struct WindowsRedirector {
    http: Http,
}

impl Contender for WindowsRedirector {
    fn name(&self) -> String {
        match self.http {
            Http::One => HTTP1.name,
            Http::Two => HTTP2.name,
        }
        .to_owned()
    }

    fn describe(&self) -> &'static str {
        match self.http {
            Http::One => "model of the Windows redirector over HTTP/1.1: 8 requests per new file, one after another",
            Http::Two => "model of the Windows redirector over HTTP/2: 8 requests per new file, one after another",
        }
    }

    fn model(&self) -> bool {
        true
    }

    fn http(&self, _tls: bool) -> Http {
        self.http
    }

    fn unable(&self, work: &Work, server: &dyn Server, _tls: bool) -> Option<String> {
        unable(work, server)
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("TLS".to_owned(), "1.2".to_owned()), ("connections".to_owned(), "1, open before the clock".to_owned())]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let endpoint = Endpoint::new(&sample.url, sample.certificates, TLS, self.http)?;
        Ok(Box::new(prepare(sample.client, &sample.deadline, endpoint, sample.task, Mapping::Connects)?))
    }
}

/// Why the model cannot do this work with this server.
pub(super) fn unable(work: &Work, server: &dyn Server) -> Option<String> {
    if let Work::Tree { .. } = work {
        return Some("folder creation is not modelled: no capture of Windows was available".to_owned());
    }
    let writes = matches!(work, Work::Upload { .. } | Work::Edit { .. });
    (writes && !server.proppatch())
        .then(|| format!("Windows writes with PROPPATCH, which {} does not support", server.name()))
}

/// What the model does when the drive is mapped, before the clock starts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapping {
    /// It only connects.
    Connects,
    /// It also looks at the server's root, so that a program on the way has connected to the server, too.
    LooksAtRoot,
    /// Before that, it is asked for a password.
    SignsIn,
}

/// Maps the drive from `host`, for the work in the endpoint's folder.
pub(super) fn prepare(
    host: &dyn Spawn,
    deadline: &Deadline,
    endpoint: Endpoint,
    task: &Task,
    mapping: Mapping,
) -> Result<HostTask<Done>, Failure> {
    let (folder, task) = (endpoint.path().to_owned(), task.clone());
    let open = move || async move {
        let mut session = Session { connection: Connection::open(&endpoint).await? };
        if mapping == Mapping::SignsIn {
            session.request("OPTIONS", "/", &[], &[], &[401]).await?;
            session.connection.sign_in();
        }
        if mapping != Mapping::Connects {
            session.request("OPTIONS", "/", &[], &[], &[200, 204]).await?;
            session.propfind("/", "0", &[207]).await?;
        }
        Ok(session)
    };
    start(host, deadline, open, move |session| work(session, folder, task))
}

async fn work(mut session: Session, folder: String, task: Task) -> Result<Done, Failure> {
    let mut done = Done::default();
    match task.work() {
        Work::Upload { .. } | Work::Tree { .. } => {
            for (_, content, name) in task.writes() {
                session.create(&format!("{folder}{name}"), content).await?;
            }
        }
        Work::Edit { .. } => {
            for (_, content, name) in task.writes() {
                session.save(&format!("{folder}{name}"), content).await?;
            }
        }
        Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
            for name in task.names() {
                let content = session.read(&format!("{folder}{name}")).await?;
                let file = task.target.join(name);
                std::fs::write(&file, content).map_err(super::io_failure("write", &file))?;
            }
        }
        Work::List { .. } | Work::LookUp { .. } | Work::Chore(_) => done.listing = session.list(&folder).await?,
    }
    Ok(done)
}

/// The redirector's connection.
struct Session {
    connection: Connection,
}

impl Session {
    async fn create(&mut self, path: &str, content: &[u8]) -> Result<(), Failure> {
        self.propfind(path, "0", &[404]).await?;
        self.request("PUT", path, &[], &[], &[201]).await?;
        let token = self.lock(path).await?;
        self.proppatch(path, &token, ALL_TIMES).await?;
        self.write(path, &token, content).await
    }

    async fn save(&mut self, path: &str, content: &[u8]) -> Result<(), Failure> {
        self.propfind(path, "0", &[207]).await?;
        let token = self.lock(path).await?;
        self.write(path, &token, content).await
    }

    /// The requests when a written file is closed: its content, its time, and UNLOCK.
    async fn write(&mut self, path: &str, token: &str, content: &[u8]) -> Result<(), Failure> {
        self.request("HEAD", path, &[], &[], &[200]).await?;
        self.request("PUT", path, &[("If", &format!("({token})"))], content, &[200, 201, 204]).await?;
        self.proppatch(path, token, LAST_TIME).await?;
        self.request("UNLOCK", path, &[("Lock-Token", token)], &[], &[204]).await?;
        Ok(())
    }

    async fn read(&mut self, path: &str) -> Result<bytes::Bytes, Failure> {
        self.propfind(path, "0", &[207]).await?;
        Ok(self.request("GET", path, &[], &[], &[200]).await?.body)
    }

    async fn list(&mut self, folder: &str) -> Result<Option<Vec<String>>, Failure> {
        self.propfind(folder, "0", &[207]).await?;
        let answer = self.propfind(folder, "1", &[207]).await?;
        for decoration in ["desktop.ini", "folder.jpg", "folder.gif"] {
            self.propfind(&format!("{folder}{decoration}"), "0", &[404]).await?;
        }
        Ok(names(&String::from_utf8_lossy(&answer.body), folder))
    }

    async fn propfind(&mut self, path: &str, depth: &str, statuses: &[u16]) -> Result<Response, Failure> {
        self.request("PROPFIND", path, &[("Depth", depth)], &[], statuses).await
    }

    /// Locks and returns the token, in its angle brackets.
    async fn lock(&mut self, path: &str) -> Result<String, Failure> {
        let headers = [("Timeout", "Second-3600"), XML];
        let answer = self.request("LOCK", path, &headers, LOCK.as_bytes(), &[200, 201]).await?;
        Ok(answer.header("lock-token")?.to_owned())
    }

    async fn proppatch(&mut self, path: &str, token: &str, update: &'static str) -> Result<(), Failure> {
        let headers = [("If", &*format!("({token})")), XML];
        self.request("PROPPATCH", path, &headers, update.as_bytes(), &[207]).await?;
        Ok(())
    }

    async fn request(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        statuses: &[u16],
    ) -> Result<Response, Failure> {
        let headers = [&COMMON, headers].concat();
        self.connection.request(method, path, &headers, body.to_vec()).await?.expect(statuses)
    }
}
