//! Two users, each with a Windows client, another client of the server, and an administrator.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use ::simulation::{Random, fill};
use bytes::Bytes;
use http::StatusCode;
use tokio::time;

use super::{Answer, FOLDER, Life};

pub(super) const USERS: [&str; 2] = ["ann", "bob"];
/// Few, so that they meet.
const NAMES: [&str; 4] = ["a", "b", "c.txt", "d"];
pub(super) const LOCK: &[u8] = br#"<?xml version="1.0" encoding="utf-8"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype><D:owner>them</D:owner></D:lockinfo>"#;
pub(super) const TIMES: &[u8] = br#"<?xml version="1.0" encoding="utf-8"?><D:propertyupdate xmlns:D="DAV:" xmlns:Z="urn:schemas-microsoft-com:"><D:set><D:prop><Z:Win32FileAttributes>00000020</Z:Win32FileAttributes></D:prop></D:set></D:propertyupdate>"#;

/// Lets all do what they do until they are done.
pub(super) async fn live(life: &Arc<Life>, seed: u64, number: usize) {
    let people = USERS.map(|user| {
        let (life, random) = (life.clone(), Random::for_part(seed, &format!("{user} {number}")));
        tokio::spawn(async move { Person { life, user, random }.live().await })
    });
    let (other, random) = (life.clone(), Random::for_part(seed, &format!("other {number}")));
    let other = tokio::spawn(async move { change(&other, random).await });
    for task in people.into_iter().chain([other]) {
        if let Err(error) = task.await
            && error.is_panic()
        {
            life.world.say(format!("a client has panicked: {error}"));
        }
    }
}

/// Another client writes without the gateway, the disk fills, and passwords change.
async fn change(life: &Life, mut random: Random) {
    for _ in 0..random.below(6) {
        time::sleep(random.time(Duration::from_mins(5))).await;
        let path = format!("{FOLDER}/{}", random.choose(&NAMES));
        let world = &life.world;
        match random.below(10) {
            0..4 => {
                let content = Bytes::from(format!("theirs {}", random.below(1 << 40)));
                let stored = world.network.server().store_by_other(&path, content);
                world.network.note(&format!("another client stores {path}: {stored}"));
            }
            4..6 => {
                let removed = world.network.server().remove_by_other(&path);
                world.network.note(&format!("another client removes {path}: {removed}"));
            }
            6..8 => {
                let is_full = random.chance(50);
                world.network.server().is_full = is_full;
                world.has_been_full.fetch_or(is_full, Ordering::Relaxed);
                world.network.note(&format!("the disk is full: {is_full}"));
            }
            _ => {
                let epoch = *world.epoch.lock().unwrap() + 1;
                world.set_passwords(epoch);
                world.network.note("the passwords have changed");
            }
        }
    }
}

struct Person {
    life: Arc<Life>,
    user: &'static str,
    random: Random,
}

impl Person {
    async fn live(mut self) {
        for _ in 0..self.random.below(14) {
            let name = format!("{FOLDER}/{}", self.random.choose(&NAMES));
            match self.random.below(12) {
                0..8 => self.save(&name).await,
                8 => self.read(&name).await,
                9 => drop(self.ask("PROPFIND", FOLDER, &[("depth", "1")], b"").await),
                10 => self.delete(&name).await,
                _ => {
                    let to = format!("{FOLDER}/{}", self.random.choose(&NAMES));
                    if to != name {
                        self.rename(&name, &to).await;
                    }
                }
            }
            let longest = self.random.choose(&[1, 10, 100]);
            time::sleep(self.random.time(Duration::from_secs(longest))).await;
        }
    }

    async fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Option<Answer> {
        self.life.ask(self.user, method, path, fields, body).await
    }

    async fn is_done(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> bool {
        self.ask(method, path, fields, body).await.is_some_and(|answer| answer.status.is_success())
    }

    /// A change under no lock, which has this effect. Returns whether it was confirmed.
    async fn change(
        &self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        effects: &[(&str, Option<Bytes>)],
    ) -> bool {
        let world = self.life.world.clone();
        for (path, effect) in effects {
            world.oracle.lock().unwrap().unconfirmed(path, effect.clone());
            // The gateway may be killed meanwhile.
            world.doubt(path, effect.clone());
        }
        let answer = self.ask(method, path, fields, b"").await;
        let is_done = answer.as_ref().is_some_and(|answer| answer.status.is_success());
        for (path, effect) in effects {
            if is_done {
                world.oracle.lock().unwrap().confirmed(path, effect.clone());
            }
            if self.is_over(answer.as_ref()) {
                world.undoubt(path, effect.as_ref());
            }
        }
        is_done
    }

    /// Whether no copy of a change will be carried out after this answer.
    fn is_over(&self, answer: Option<&Answer>) -> bool {
        let is_final =
            |status: StatusCode| status.is_success() || matches!(status.as_u16(), 401 | 404 | 409 | 412 | 423 | 507);
        !self.life.world.repeats && answer.is_some_and(|answer| is_final(answer.status))
    }

    /// As the redirector does it; perhaps several times under one lock.
    async fn save(&mut self, path: &str) {
        let empty = || Some(Bytes::new());
        let Some(found) = self.ask("PROPFIND", path, &[("depth", "0")], b"").await else { return };
        let length = match found.status.as_u16() {
            207 => listed_length(&found),
            404 => {
                if !self.change("PUT", path, &[], &[(path, empty())]).await {
                    return;
                }
                Some(0)
            }
            _ => return,
        };
        // If its answer is lost, it may create the file when that was deleted.
        self.life.world.doubt(path, empty());
        let timeout = [("timeout", "Second-3600")];
        let Some(locked) = self.ask("LOCK", path, &timeout, LOCK).await.filter(|answer| answer.status.is_success())
        else {
            return;
        };
        self.life.world.undoubt(path, empty().as_ref());
        let Some(token) = locked.headers.get("lock-token").map(|token| token.to_str().unwrap().to_owned()) else {
            return;
        };
        if locked.status.as_u16() == 201 {
            self.life.world.oracle.lock().unwrap().confirmed(path, empty());
        }
        let held = format!("({token})");
        let under = [("if", &*held)];
        let rounds = 1 + self.random.below(3);
        for round in 0..rounds {
            self.ask("PROPPATCH", path, &under, TIMES).await;
            // Somebody may have changed it before it was locked.
            if round == 0 && self.length(path).await != length {
                break;
            }
            let content = self.content();
            let world = self.life.world.clone();
            {
                let mut oracle = world.oracle.lock().unwrap();
                oracle.writes(&content, None);
                oracle.unconfirmed(path, Some(content.clone()));
            }
            if self.is_done("PUT", path, &under, &content).await {
                world.oracle.lock().unwrap().confirmed(path, Some(content));
            } else if self.random.chance(30) {
                break;
            }
            time::sleep(self.random.time(Duration::from_mins(2))).await;
        }
        self.ask("PROPPATCH", path, &under, TIMES).await;
        self.ask("UNLOCK", path, &[("lock-token", &token)], b"").await;
    }

    /// How long a file is; none if that is not told.
    async fn length(&self, path: &str) -> Option<usize> {
        let answer = self.ask("HEAD", path, &[], b"").await.filter(|answer| answer.status == StatusCode::OK)?;
        answer.headers.get("content-length")?.to_str().ok()?.parse().ok()
    }

    fn content(&mut self) -> Bytes {
        let (length, number) = (self.random.choose(&[0, 0, 0, 3000, 300_000]), self.random.below(1 << 40));
        let mut content = format!("{} {number} ", self.user).into_bytes();
        content.extend(fill(self.random.below(length + 1), number as u8));
        content.into()
    }

    async fn read(&mut self, path: &str) {
        let Some(read) = self.ask("GET", path, &[], b"").await.filter(|answer| answer.status.as_u16() == 200) else {
            return;
        };
        let world = &self.life.world;
        let is_known = world.oracle.lock().unwrap().knows(&read.body.into(), &world.network.server());
        if !is_known {
            world.say(format!("{} reads from {path} what nobody has written", self.user));
        }
    }

    async fn delete(&mut self, path: &str) {
        self.change("DELETE", path, &[], &[(path, None)]).await;
    }

    /// Without knowing what it moves, so that anything may be at both names from then on.
    async fn rename(&mut self, from: &str, to: &str) {
        let world = self.life.world.clone();
        let renaming = self.life.world.oracle.lock().unwrap().begin_rename(from, to, &self.life.world.network.server());
        let moved = self.life.world.oracle.lock().unwrap().possible(from).to_vec();
        world.doubt(from, None);
        for content in &moved {
            world.doubt(to, content.clone());
        }
        let answer = self.ask("MOVE", from, &[("destination", to), ("overwrite", "T")], b"").await;
        let is_done = answer.as_ref().is_some_and(|answer| answer.status.is_success());
        if is_done {
            let mut oracle = self.life.world.oracle.lock().unwrap();
            // The other user may have saved it meanwhile.
            let moved = oracle.possible(from).to_vec();
            oracle.renamed(renaming, &self.life.world.network.server());
            for content in moved.into_iter().flatten() {
                oracle.unconfirmed(to, Some(content));
            }
        }
        if self.is_over(answer.as_ref()) {
            world.undoubt(from, None);
            for content in &moved {
                world.undoubt(to, content.as_ref());
            }
        }
    }
}

/// The length of the file that a multistatus shows.
fn listed_length(answer: &Answer) -> Option<usize> {
    let body = String::from_utf8_lossy(&answer.body);
    let (_, rest) = body.split_once("getcontentlength>")?;
    rest.split_once('<')?.0.parse().ok()
}
