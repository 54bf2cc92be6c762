//! Counts requests and their protocols in a server's access log: lines in the Common Log Format, followed by TLS
//! version and cipher suite if Apache or nginx uses TLS. The server's log is the best source, since a capture shows no
//! requests under TLS.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    io::{Read, Seek, SeekFrom},
    path::PathBuf,
    thread,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::deadline::Deadline;

/// The protocol of a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Protocol {
    /// The version of HTTP: `HTTP/1.1`, `HTTP/2.0`.
    pub http: String,
    /// The version of TLS, `TLSv1.3`; none without TLS, or if the server does not log it.
    pub tls: Option<String>,
    /// TLS's cipher suite, as OpenSSL calls it; none likewise.
    pub cipher: Option<String>,
}

/// The requests that a server received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requests {
    /// How many, by method.
    pub methods: BTreeMap<String, u64>,
    /// The protocols of all of them.
    pub protocols: BTreeSet<Protocol>,
}

impl Requests {
    /// The total number.
    pub fn total(&self) -> u64 {
        self.methods.values().sum()
    }

    /// The number of requests with one method.
    pub fn of(&self, method: &str) -> u64 {
        self.methods.get(method).copied().unwrap_or(0)
    }

    fn parse(log: &str) -> Self {
        let mut requests = Self::default();
        for line in log.lines() {
            // The request line is in quotes: "PUT /a HTTP/1.1". Status and length follow, then TLS.
            let Some((request, rest)) = line.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"')) else {
                continue;
            };
            let (method, http) = (request.split(' ').next().unwrap_or_default(), request.rsplit(' ').next());
            *requests.methods.entry(method.to_owned()).or_default() += 1;
            // In their place `haul serve` logs numbers.
            let mut words = rest.split_whitespace().skip(2).map(str::to_owned);
            let tls = words.next().filter(|word| word.starts_with("TLSv"));
            let cipher = words.next().filter(|word| tls.is_some() && word != "-");
            requests.protocols.insert(Protocol { http: http.unwrap_or_default().to_owned(), tls, cipher });
        }
        requests
    }
}

/// `PROPFIND 2, PUT 200`.
impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (method, count)) in self.methods.iter().enumerate() {
            write!(f, "{}{method} {count}", if index == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

/// An access log, and the offset from which requests are counted.
#[derive(Debug)]
pub(super) struct RequestLog {
    path: PathBuf,
    mark: u64,
}

impl RequestLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, mark: 0 }
    }

    pub(super) fn mark(&mut self) {
        self.settle();
        self.mark = self.len();
    }

    pub(super) fn since_mark(&self) -> Requests {
        self.settle();
        let mut text = String::new();
        let read = fs::File::open(&self.path).and_then(|mut file| {
            file.seek(SeekFrom::Start(self.mark))?;
            file.read_to_string(&mut text)
        });
        // Without requests, a server may not have created its log.
        if read.is_ok() { Requests::parse(&text) } else { Requests::default() }
    }

    /// Waits until the log stops growing: a request is logged after its response, by a thread that may have to wait for
    /// a processor.
    fn settle(&self) {
        const STILL: Duration = Duration::from_millis(200);
        let deadline = Deadline::for_cleanup(Duration::from_secs(2));
        let mut before = self.len();
        while deadline.check().is_ok() {
            thread::sleep(STILL);
            let now = self.len();
            if now == before {
                return;
            }
            before = now;
        }
    }

    fn len(&self) -> u64 {
        fs::metadata(&self.path).map_or(0, |file| file.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_after_the_mark_are_counted_by_method() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let mut log = RequestLog::new(path.clone());
        assert_eq!(log.since_mark().total(), 0, "no log yet");
        let line = |request: &str| format!("10.0.0.2 - - [21/Nov/2026:20:00:00 +0000] \"{request}\" 200 0\n");
        let before = line("OPTIONS / HTTP/1.1");
        fs::write(&path, &before).unwrap();
        log.mark();
        let after = ["PUT /a HTTP/1.1", "LOCK /a HTTP/1.1", "PUT /b HTTP/2.0"].map(line).concat();
        fs::write(&path, before + &after).unwrap();
        let requests = log.since_mark();
        assert_eq!((requests.total(), requests.of("PUT"), requests.of("GET")), (3, 2, 0));
        assert_eq!(requests.to_string(), "LOCK 1, PUT 2");
        let versions: Vec<&str> = requests.protocols.iter().map(|protocol| protocol.http.as_str()).collect();
        assert_eq!(versions, ["HTTP/1.1", "HTTP/2.0"]);
    }

    #[test]
    fn tls_version_and_cipher_are_parsed() {
        let line = |end: &str| format!("10.0.0.2 - - [21/Nov/2026:20:00:00 +0000] \"PUT /a HTTP/2.0\" 201 99{end}\n");
        let protocols = |end| Requests::parse(&line(end)).protocols.into_iter().collect::<Vec<_>>();
        let [protocol] = &protocols(" TLSv1.3 TLS_AES_256_GCM_SHA384")[..] else { panic!("one") };
        assert_eq!((protocol.http.as_str(), protocol.tls.as_deref()), ("HTTP/2.0", Some("TLSv1.3")));
        assert_eq!(protocol.cipher.as_deref(), Some("TLS_AES_256_GCM_SHA384"));
        // The last: as `haul serve` logs bytes received, microseconds and connection.
        for end in ["", " - -", " 10240 19451 3"] {
            assert!(protocols(end).iter().all(|protocol| protocol.tls.is_none() && protocol.cipher.is_none()));
        }
    }
}
