//! One user: uploads, downloads, lists, edits and deletes files in a folder of their own, with pauses, and knows what must
//! be there. Windows machines save files in their eight requests, under a lock.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use base64::{Engine, prelude::BASE64_STANDARD};
use haul_http::{Body, Client, Settings, auth::Authenticator};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;

use super::{Plan, Program};

const WINDOWS: &str = "Microsoft-WebDAV-MiniRedir/10.0.19045";
const LOCK: &str = r#"<?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner><D:href>PC\user</D:href></D:owner></D:lockinfo>"#;
const TIMES: &str = r#"<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:"><D:set><D:prop><Z:Win32LastModifiedTime>Tue, 19 Mar 2019 09:30:00 GMT</Z:Win32LastModifiedTime><Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>"#;
/// More files than this are deleted.
const FILES: usize = 30;

/// All kinds of tasks.
pub(super) const TASKS: [&str; 5] = ["upload", "download", "list", "edit", "delete"];

pub(super) fn name(number: usize) -> String {
    format!("u{number:02}")
}

pub(super) fn password(name: &str) -> String {
    format!("{name}'s password")
}

/// What a user has done.
#[derive(Debug, Default)]
pub(super) struct Work {
    /// What must be at the server.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// The time of each completed task, by kind.
    pub(super) times: Vec<(usize, Duration)>,
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) is_windows: bool,
    /// What went wrong, after which the user has stopped.
    pub(super) error: Option<String>,
}

/// SplitMix64: a sequence of numbers that is the same in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

pub(super) struct User {
    name: String,
    url: String,
    is_windows: bool,
    authorization: String,
    client: Client,
    numbers: Numbers,
    pause_ms: u64,
    created: u32,
    work: Work,
}

struct Answer {
    headers: HeaderMap,
    body: Vec<u8>,
}

impl User {
    pub(super) fn new(number: usize, url: &str, plan: &Plan) -> Self {
        let name = name(number);
        let is_windows = plan.server == Program::HaulServe && number.is_multiple_of(2);
        let client = Client::new(Settings::default(), Authenticator::default()).expect("the settings are good");
        Self {
            url: format!("{url}/{name}/"),
            is_windows,
            authorization: format!("Basic {}", BASE64_STANDARD.encode(format!("{name}:{}", password(&name)))),
            client,
            numbers: Numbers(number as u64),
            pause_ms: plan.pause_ms,
            created: 0,
            work: Work { is_windows, ..Work::default() },
            name,
        }
    }

    /// Works until then, or until something is wrong.
    pub(super) async fn work_until(mut self, end: Instant) -> Work {
        // Not all at the same time.
        self.pause().await;
        while Instant::now() < end {
            let kind = self.choose();
            let begun = Instant::now();
            if let Err(why) = self.task(kind).await {
                self.work.error = Some(format!("{}: {}: {why}", self.name, TASKS[kind]));
                break;
            }
            self.work.times.push((kind, begun.elapsed()));
            self.pause().await;
        }
        self.work
    }

    /// Between nothing and twice the mean.
    async fn pause(&mut self) {
        let pause = Duration::from_millis(self.numbers.below(2 * self.pause_ms + 1));
        tokio::time::sleep(pause).await;
    }

    fn choose(&mut self) -> usize {
        match (self.work.files.len(), self.numbers.below(100)) {
            (..3, _) | (_, ..25) if self.work.files.len() < FILES => 0,
            (_, ..60) => 1,
            (_, ..75) => 2,
            (_, ..92) if self.work.files.len() < FILES => 3,
            _ => 4,
        }
    }

    async fn task(&mut self, kind: usize) -> Result<(), String> {
        match kind {
            0 => {
                self.created += 1;
                // The same names in each folder.
                let (name, content) = (format!("report-{}.txt", self.created), self.content());
                self.upload(&name, content).await
            }
            1 => self.download().await,
            2 => self.list().await,
            3 => {
                let (name, content) = (self.any(), self.content());
                self.edit(&name, content).await
            }
            _ => {
                let name = self.any();
                self.ask("DELETE", &name, &[], &[], &[204]).await?;
                self.work.files.remove(&name);
                Ok(())
            }
        }
    }

    /// The name of one of the files.
    fn any(&mut self) -> String {
        let index = self.numbers.below(self.work.files.len() as u64) as usize;
        self.work.files.keys().nth(index).cloned().unwrap_or_default()
    }

    /// Mostly some KiB, now and then 1 MiB. It begins with the user's name.
    fn content(&mut self) -> Vec<u8> {
        let length = if self.numbers.below(25) == 0 { 1 << 20 } else { 1024 + self.numbers.below(48 * 1024) };
        let mut content = self.name.clone().into_bytes();
        while (content.len() as u64) < length {
            content.extend_from_slice(&self.numbers.next().to_le_bytes());
        }
        content
    }

    async fn upload(&mut self, name: &str, content: Vec<u8>) -> Result<(), String> {
        if self.is_windows {
            self.ask("PROPFIND", name, &[("depth", "0")], &[], &[404]).await?;
            self.ask("PUT", name, &[], &[], &[201]).await?;
            self.save(name, &content).await?;
        } else {
            self.ask("PUT", name, &[("if-none-match", "*")], &content, &[201]).await?;
        }
        self.work.files.insert(name.to_owned(), content);
        Ok(())
    }

    async fn edit(&mut self, name: &str, content: Vec<u8>) -> Result<(), String> {
        if self.is_windows {
            self.ask("PROPFIND", name, &[("depth", "0")], &[], &[207]).await?;
            self.save(name, &content).await?;
        } else {
            self.ask("PUT", name, &[], &content, &[204]).await?;
        }
        self.work.files.insert(name.to_owned(), content);
        Ok(())
    }

    /// Writes a file as Windows does, which locks it meanwhile.
    async fn save(&mut self, name: &str, content: &[u8]) -> Result<(), String> {
        let xml = ("content-type", "text/xml; charset=\"utf-8\"");
        let locked = self.ask("LOCK", name, &[("timeout", "Second-3600"), xml], LOCK.as_bytes(), &[200, 201]).await?;
        let token = locked.headers.get("lock-token").and_then(|token| token.to_str().ok()).ok_or("no lock token")?;
        let held = format!("({token})");
        self.ask("PROPPATCH", name, &[("if", &held), xml], TIMES.as_bytes(), &[207]).await?;
        self.ask("HEAD", name, &[], &[], &[200]).await?;
        self.ask("PUT", name, &[("if", &held)], content, &[200, 201, 204]).await?;
        self.ask("PROPPATCH", name, &[("if", &held), xml], TIMES.as_bytes(), &[207]).await?;
        self.ask("UNLOCK", name, &[("lock-token", token)], &[], &[204]).await?;
        Ok(())
    }

    async fn download(&mut self) -> Result<(), String> {
        let name = self.any();
        let answer = self.ask("GET", &name, &[], &[], &[200]).await?;
        if self.work.files.get(&name) == Some(&answer.body) {
            return Ok(());
        }
        let begins = String::from_utf8_lossy(&answer.body[..answer.body.len().min(3)]).into_owned();
        Err(format!("{name} has other content: {} bytes that begin with {begins:?}", answer.body.len()))
    }

    async fn list(&mut self) -> Result<(), String> {
        let answer = self.ask("PROPFIND", "", &[("depth", "1")], &[], &[207]).await?;
        let text = String::from_utf8_lossy(&answer.body);
        let folder = format!("/{}/", self.name);
        let names = text.split("href>").filter_map(|part| part.split('<').next()?.strip_prefix(&folder));
        let mut names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        let wanted: Vec<&str> = self.work.files.keys().map(String::as_str).collect();
        if names == wanted { Ok(()) } else { Err(format!("listed {names:?}, and not {wanted:?}")) }
    }

    async fn ask(
        &mut self,
        method: &str,
        name: &str,
        fields: &[(&str, &str)],
        body: &[u8],
        wanted: &[u16],
    ) -> Result<Answer, String> {
        let mut request = Request::builder().method(method).uri(format!("{}{name}", self.url));
        request = request.header("authorization", &self.authorization);
        if self.is_windows {
            request = request.header("user-agent", WINDOWS).header("translate", "f");
        }
        for (field, value) in fields {
            request = request.header(*field, *value);
        }
        let request = request.body(Body::from(body.to_vec())).map_err(|error| error.to_string())?;
        let answer = self.client.exchange(request).await.map_err(|error| error.to_string())?;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let read = answer.into_body().collect().await.map_err(|error| format!("{method} {name}: {error}"))?;
        self.work.requests += 1;
        let answered = read.to_bytes().to_vec();
        self.work.bytes += (body.len() + answered.len()) as u64;
        if !wanted.contains(&status) {
            return Err(format!("{method} {name}: status {status}: {}", String::from_utf8_lossy(&answered)));
        }
        Ok(Answer { headers, body: answered })
    }
}

/// The line of the gateway's metrics with the acknowledged requests that have failed.
pub(super) async fn acknowledged_failures(url: &str) -> Result<String, String> {
    let client = Client::new(Settings::default(), Authenticator::default()).map_err(|error| error.to_string())?;
    let request = Request::get(url).body(Body::from(Vec::new())).map_err(|error| error.to_string())?;
    let answer = client.exchange(request).await.map_err(|error| error.to_string())?;
    let body = answer.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    let text = String::from_utf8_lossy(&body);
    let line = text.lines().find(|line| line.starts_with("longhaul_gateway_acknowledged_failures_total "));
    line.map(str::to_owned).ok_or_else(|| format!("no such metric in {text}"))
}
