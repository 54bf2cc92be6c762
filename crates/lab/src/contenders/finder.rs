//! A model of macOS' Finder, whose file system is webdavfs, over HTTP/1.1: one connection, one request at a time.
//!
//! Its requests, and their sources:
//!
//! - **a new file**: PROPFIND (404), empty PUT, PROPFIND of `._name` (404), LOCK: the log in owncloud/core#24753. Then PUT of
//!   the content, UNLOCK (ModeShape/modeshape#841), and a PROPFIND after the PUT (couling/WebDAV-Daemon#18).
//! - **its extended attributes**, in an AppleDouble file `._name` beside it: PUT, LOCK, PUT, PROPFIND, UNLOCK of that (the log
//!   in pydio/pydio-core#581). That they come after the file, and have 4 KiB, is assumed.
//! - **reading**: PROPFIND, PROPFIND of `._name` (404), GET: a look at both is what Finder is known for (sabre.io/dav/clients/finder);
//!   the GET is inferred.
//! - **saving in place**: PROPFIND, LOCK, PUT, PROPFIND, UNLOCK. Inferred from the sequence of a new file.
//! - **opening a folder**: PROPFIND of the folder, again for its quota, PROPFIND of its entries, PROPFIND of `._.` and `.DS_Store`
//!   (sabre.io), and of `._name` for each entry (APPLE-Finder-hints.md of dav-server).
//!
//! LOCK has `Depth: 0` and `Timeout: Second-600`, and its body is that of the captures quoted in lighttpd's mod_webdav.c. That all
//! PROPFINDs but the quota's ask for the same properties is assumed. Requests of Spotlight and the previews of pictures are left
//! out.

use super::{Contender, Failure, Prepared, Registered, SampleSetup, windows_redirector::Mapping};
use crate::{
    deadline::Deadline,
    host_task::{HostTask, start},
    http_client::{Connection, Endpoint, Response, multistatus::names},
    servers::{Http, Server},
    spawn::Spawn,
    work::{Done, Task, Work},
};

pub(super) const REGISTERED: Registered = Registered { name: "finder", parameters: &[], make: |_| Box::new(Finder) };

const COMMON: [(&str, &str); 2] =
    [("User-Agent", "WebDAVFS/3.0.0 (03008000) Darwin/19.6.0 (x86_64)"), ("Accept", "*/*")];
const XML: (&str, &str) = ("Content-Type", "text/xml; charset=\"utf-8\"");
const LOCK: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<D:lockinfo xmlns:D=\"DAV:\">\n<D:lockscope><D:exclusive/></D:lockscope>\n<D:locktype><D:write/></D:locktype>\n<D:owner>\n<D:href>http://www.apple.com/webdav_fs/</D:href>\n</D:owner>\n</D:lockinfo>\n";
const PROPERTIES: &str = r#"<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:getlastmodified/><D:getcontentlength/><D:creationdate/><D:resourcetype/></D:prop></D:propfind>"#;
const QUOTA: &str = r#"<?xml version="1.0" encoding="utf-8"?><D:propfind xmlns:D="DAV:"><D:prop><D:quota-available-bytes/><D:quota-used-bytes/></D:prop></D:propfind>"#;
/// The length of a new AppleDouble file.
const ATTRIBUTES: usize = 4096;

struct Finder;

impl Contender for Finder {
    fn name(&self) -> String {
        REGISTERED.name.to_owned()
    }

    fn describe(&self) -> &'static str {
        "model of macOS' Finder over HTTP/1.1: 12 requests per new file, one after another"
    }

    fn model(&self) -> bool {
        true
    }

    fn http(&self, _tls: bool) -> Http {
        Http::One
    }

    fn unable(&self, work: &Work, server: &dyn Server, _tls: bool) -> Option<String> {
        unable(work, server)
    }

    fn settings(&self) -> Vec<(String, String)> {
        vec![("connections".to_owned(), "1, open before the clock".to_owned())]
    }

    fn prepare<'a>(&self, sample: &'a SampleSetup<'a>) -> Result<Box<dyn Prepared + 'a>, Failure> {
        let endpoint = Endpoint::new(&sample.url, sample.certificates, rustls::DEFAULT_VERSIONS, Http::One)?;
        Ok(Box::new(prepare(sample.client, &sample.deadline, endpoint, sample.task, Mapping::Connects)?))
    }
}

/// Why the model cannot do this work with this server.
pub(super) fn unable(work: &Work, server: &dyn Server) -> Option<String> {
    if let Work::Tree { .. } = work {
        return Some("folder creation is not modelled: no capture of Finder was available".to_owned());
    }
    // As for PROPPATCH: what lacks it lacks locks, and then webdavfs mounts read-only.
    let writes = matches!(work, Work::Upload { .. } | Work::Edit { .. });
    (writes && !server.proppatch())
        .then(|| format!("Finder writes only where it can lock, and {} cannot", server.name()))
}

/// Mounts the share from `host`, for the work in the endpoint's folder.
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
        if mapping == Mapping::LooksAtRoot {
            session.request("OPTIONS", "/", &[], &[], &[200, 204]).await?;
            session.look("/", &[207]).await?;
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
                session.create(&folder, &name, content).await?;
            }
        }
        Work::Edit { .. } => {
            for (_, content, name) in task.writes() {
                let path = format!("{folder}{name}");
                session.look(&path, &[207]).await?;
                session.write(&path, content).await?;
            }
        }
        Work::Download { .. } | Work::Page { .. } | Work::Load { .. } => {
            for name in task.names() {
                let path = format!("{folder}{name}");
                session.look(&path, &[207]).await?;
                session.look(&format!("{folder}._{name}"), &[404]).await?;
                let content = session.request("GET", &path, &[], &[], &[200]).await?.body;
                let file = task.target.join(name);
                std::fs::write(&file, content).map_err(super::io_failure("write", &file))?;
            }
        }
        Work::List { .. } | Work::LookUp { .. } | Work::Chore(_) => done.listing = session.list(&folder).await?,
    }
    Ok(done)
}

/// Finder's connection.
struct Session {
    connection: Connection,
}

impl Session {
    async fn create(&mut self, folder: &str, name: &str, content: &[u8]) -> Result<(), Failure> {
        let (path, attributes) = (format!("{folder}{name}"), format!("{folder}._{name}"));
        self.look(&path, &[404]).await?;
        self.request("PUT", &path, &[], &[], &[201]).await?;
        self.look(&attributes, &[404]).await?;
        self.write(&path, content).await?;
        self.request("PUT", &attributes, &[], &[], &[201]).await?;
        self.write(&attributes, &[0; ATTRIBUTES]).await
    }

    /// The requests when a file is opened for writing, and closed.
    async fn write(&mut self, path: &str, content: &[u8]) -> Result<(), Failure> {
        let headers = [("Depth", "0"), ("Timeout", "Second-600"), XML];
        let locked = self.request("LOCK", path, &headers, LOCK.as_bytes(), &[200, 201]).await?;
        let token = locked.header("lock-token")?.to_owned();
        self.request("PUT", path, &[("If", &format!("({token})"))], content, &[200, 201, 204]).await?;
        self.look(path, &[207]).await?;
        self.request("UNLOCK", path, &[("Lock-Token", &token)], &[], &[204]).await?;
        Ok(())
    }

    async fn list(&mut self, folder: &str) -> Result<Option<Vec<String>>, Failure> {
        self.look(folder, &[207]).await?;
        self.propfind(folder, "0", QUOTA, &[207]).await?;
        let answer = self.propfind(folder, "1", PROPERTIES, &[207]).await?;
        for probe in ["._.", ".DS_Store"] {
            self.look(&format!("{folder}{probe}"), &[404]).await?;
        }
        let names = names(&String::from_utf8_lossy(&answer.body), folder);
        for name in names.iter().flatten() {
            self.look(&format!("{folder}._{name}"), &[404]).await?;
        }
        Ok(names)
    }

    async fn look(&mut self, path: &str, statuses: &[u16]) -> Result<Response, Failure> {
        self.propfind(path, "0", PROPERTIES, statuses).await
    }

    async fn propfind(&mut self, path: &str, depth: &str, body: &str, statuses: &[u16]) -> Result<Response, Failure> {
        self.request("PROPFIND", path, &[("Depth", depth), XML], body.as_bytes(), statuses).await
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
