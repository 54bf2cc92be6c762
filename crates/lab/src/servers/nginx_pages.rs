//! nginx in place of the replay server, to compare the two.
//!
//! Each response of the page is a file. A `map` finds it by method, host, path with query, and the header field that
//! distinguishes otherwise equal requests; another one by the path alone, for requests that were not recorded. More maps
//! add the recorded header fields. The padding is shorter by nginx's own fields, so that over HTTP/1.1 the heads of both
//! servers have the recorded size.
//!
//! It is tuned for pages: TLS 1.3, TCP Fast Open, `sendfile`, `open_file_cache`, and two workers, since the replay
//! server has two threads. TLS records are short, as nginx's manual advises for fast first bytes: on a new connection,
//! a browser cannot read a record of 16 KiB, the default, before the second round trip. Over HTTP/2 it then loads
//! Wikipedia 6 % later.

use std::{collections::BTreeMap, fmt::Write as _, fs};

use http::{HeaderMap, Response, StatusCode, header};
use page::{
    PAD, Request,
    replay::{WHICH, answers},
};

use super::{
    Folder, Http, Running, Server, ServerError, Setup,
    nginx::{NGINX, Tls, run},
};
use crate::process::Missing;

const NAME: &str = "nginx-pages";

/// The maximum length of a word; nginx reads its configuration 4096 bytes at a time, and fails for longer words.
const WORD: usize = 3000;

/// The largest TLS record.
const RECORD: &str = "4k";

/// The length of the fields that nginx adds by itself.
const OWN: usize = "server: nginx\r\nconnection: keep-alive\r\n".len();

pub(super) struct NginxPages;

impl Server for NginxPages {
    fn name(&self) -> &'static str {
        NAME
    }

    fn describe(&self) -> &'static str {
        "nginx, serving all hosts of a recorded page from files"
    }

    fn missing(&self) -> Option<Missing> {
        NGINX.find().err()
    }

    fn replays(&self) -> bool {
        true
    }

    fn http3(&self) -> bool {
        NGINX.says("-V").contains("--with-http_v3_module")
    }

    fn settings(&self) -> Vec<(String, String)> {
        [
            ("version", NGINX.version().as_str()),
            ("ssl_protocols", "TLSv1.3"),
            ("ssl_buffer_size", RECORD),
            ("worker_processes", "2"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    fn start(&self, setup: &Setup) -> Result<Running, ServerError> {
        let page = setup.page.ok_or(ServerError::Unable { server: NAME, why: "there is no recorded page" })?;
        let folder = Folder::new(NAME, setup.scratch)?;
        let root = folder.folder("root")?;
        let bodies = folder.folder("root/answers")?;
        let configuration = PageConfiguration::of(&page.0).map_err(|why| ServerError::Unable { server: NAME, why })?;
        for (name, body) in &configuration.bodies {
            let path = bodies.join(name);
            fs::write(&path, body).map_err(|source| folder.error(&path, source))?;
            folder.give(&path)?;
        }
        let tls = Tls::of(setup, &folder, "TLSv1.3")?;
        let http2 = if setup.http == Http::Two { " http2" } else { "" };
        let quic = if setup.certificates.is_some() && self.http3() {
            format!(
                "        listen {} quic;\n        add_header alt-svc 'h3=\":{}\"; ma=86400' always;\n",
                setup.address,
                setup.address.port()
            )
        } else {
            String::new()
        };
        let http = format!(
            r#"    default_type "";
    absolute_redirect off;
    server_tokens off;
    sendfile on;
    tcp_nopush on;
    ssl_buffer_size {RECORD};
    open_file_cache max=400;
    open_file_cache_valid 1h;
    large_client_header_buffers 8 64k;
{configuration}    server {{
        listen {address}{ssl}{http2} fastopen=256;
{quic}{tls}        root "{root}";
        etag off;
        max_ranges 0;
        if_modified_since off;
{fields}        location / {{
{statuses}            error_page 405 =200 /answers/$answer;
            try_files /answers/$answer =404;
        }}
        location /answers/ {{
            internal;
        }}
    }}
"#,
            configuration = configuration.maps,
            address = setup.address,
            ssl = tls.listen,
            tls = tls.lines,
            root = root.display(),
            fields = configuration.fields,
            statuses = configuration.statuses,
        );
        run(NAME, setup, &folder, root, "", &http)
    }
}

/// A page as nginx configuration.
#[derive(Debug, Default)]
struct PageConfiguration {
    /// The names and contents of its response files.
    bodies: Vec<(String, bytes::Bytes)>,
    /// Maps from requests to responses, and from responses to type, status and fields.
    maps: String,
    /// The lines that add the fields.
    fields: String,
    /// The lines for statuses other than 200.
    statuses: String,
}

impl PageConfiguration {
    fn of(page: &page::Spec) -> Result<Self, &'static str> {
        let mut configuration = Self::default();
        let (mut keys, mut paths) = (BTreeMap::new(), BTreeMap::new());
        let mut locations = BTreeMap::new();
        let mut types = BTreeMap::new();
        let mut statuses = BTreeMap::new();
        // By name, and by its index among the fields of that name.
        let mut fields: BTreeMap<(String, usize), Vec<(String, String)>> = BTreeMap::new();
        for (index, (request, response)) in answers(page).enumerate() {
            let kind = field(response.headers(), &header::CONTENT_TYPE).to_owned();
            let count = types.len();
            let kind: &usize = types.entry(kind).or_insert(count);
            let file = format!("{index}.type{kind}");
            let is_redirect = is_redirect(response.status());
            for key in [map_key(request), format!("{}{index}", map_key(request))] {
                if key.len() > WORD {
                    return Err("a URL of the page is longer than nginx accepts");
                }
                insert(&mut keys, key, &file, is_redirect);
            }
            let (line, _) = request.path.split_once('?').unwrap_or((&request.path, ""));
            insert(&mut paths, format!("{} {}{line}", request.method, host(request)), &file, is_redirect);
            if is_redirect {
                let to = field(response.headers(), &header::LOCATION);
                locations.insert(file.clone(), Some(to).filter(|to| to.len() <= WORD).unwrap_or_default().to_owned());
            }
            if response.status() != StatusCode::OK {
                statuses.insert(file.clone(), response.status().as_u16());
            }
            let mut before: BTreeMap<String, usize> = BTreeMap::new();
            for (name, value) in added_fields(&response) {
                let nth = before.entry(name.clone()).or_default();
                fields.entry((name, *nth)).or_default().push((file.clone(), value));
                *nth += 1;
            }
            configuration.bodies.push((file, response.into_body()));
        }
        let longest = keys.keys().map(String::len).max().unwrap_or(0);
        let bucket = (longest + 64).next_power_of_two();
        let _ = writeln!(configuration.maps, "    map_hash_bucket_size {bucket};\n    map_hash_max_size 65536;");
        let _ = writeln!(configuration.maps, "    types_hash_max_size 65536;\n    types {{");
        for (kind, number) in types.iter().filter(|(kind, _)| !kind.is_empty()) {
            let _ = writeln!(configuration.maps, "        {} type{number};", quoted(kind));
        }
        // A dollar sign begins a variable and cannot be escaped.
        configuration.maps += "    }\n    geo $dollar {\n        default \"$\";\n    }\n";
        let which = WHICH.as_str().replace('-', "_");
        let key = format!("\"$request_method $host$request_uri $http_{which}\"");
        configuration.map(&key, "same", "none", keys.into_values().map(|known| (known.key, known.file)));
        // Without such a request, one with another query.
        configuration.maps +=
            "    map $request_uri $path_of_request {\n        \"~^(?<path_only>[^?]*)\" $path_only;\n    }\n";
        let key = "\"$request_method $host$path_of_request\"";
        configuration.map(key, "near", "none", paths.into_values().map(|known| (known.key, known.file)));
        configuration.maps += "    map $same $answer {\n        default $same;\n        none $near;\n    }\n";
        configuration.map("$answer", "location_of_answer", "", locations.into_iter());
        let different: std::collections::BTreeSet<u16> = statuses.values().copied().collect();
        let said = statuses.into_iter().map(|(file, status)| (file, status.to_string()));
        configuration.map("$answer", "status_of_answer", "200", said);
        for status in different {
            // Without a target, nginx sends an empty Location.
            let is_redirect = StatusCode::from_u16(status).is_ok_and(is_redirect);
            let to = if is_redirect { " $location_of_answer" } else { "" };
            let _ = writeln!(
                configuration.statuses,
                "            if ($status_of_answer = {status}) {{ return {status}{to}; }}"
            );
            // These two have no body.
            if !matches!(status, 204 | 304) {
                let _ = writeln!(configuration.statuses, "            error_page {status} /answers/$answer;");
            }
        }
        for (number, ((name, _), values)) in fields.into_iter().enumerate() {
            let variable = format!("field{number}");
            configuration.map("$answer", &variable, "", values.into_iter());
            let _ = writeln!(configuration.fields, "        add_header {name} ${variable} always;");
        }
        Ok(configuration)
    }

    fn map(&mut self, from: &str, to: &str, otherwise: &str, pairs: impl Iterator<Item = (String, String)>) {
        let _ = writeln!(self.maps, "    map {from} ${to} {{\n        default {};", quoted(otherwise));
        for (from, to) in pairs {
            let _ = writeln!(self.maps, "        {} {};", quoted(&from), quoted(&to).replace('$', "${dollar}"));
        }
        self.maps += "    }\n";
    }
}

/// A request as the key of the map, without the field that distinguishes equal requests.
fn map_key(request: &Request) -> String {
    format!("{} {}{} ", request.method, host(request), request.path)
}

/// The host of a request as nginx's `$host`.
fn host(request: &Request) -> String {
    let host = match request.host.rsplit_once(':') {
        Some((name, _port)) if !request.host.ends_with(']') => name,
        _ => &request.host,
    };
    host.to_ascii_lowercase()
}

/// An entry of a map.
struct Known {
    key: String,
    file: String,
    is_redirect: bool,
}

/// Adds an entry. nginx's maps ignore case. Of several responses to equal requests, the first is used that is no redirect,
/// since that may lead to the same URL by `https`.
fn insert(map: &mut BTreeMap<String, Known>, key: String, file: &str, is_redirect: bool) {
    let place = key.to_ascii_lowercase();
    if map.get(&place).is_none_or(|known| known.is_redirect && !is_redirect) {
        map.insert(place, Known { key, file: file.to_owned(), is_redirect });
    }
}

/// Whether nginx writes `Location` for this status.
fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

/// The fields for nginx to add, so that the head has the recorded length, if possible.
fn added_fields<T>(response: &Response<T>) -> Vec<(String, String)> {
    let fields = response.headers();
    let line = |name: &str, value: &str| name.len() + value.len() + ": \r\n".len();
    let mut room = line(PAD.as_str(), field(fields, &PAD));
    let mut added = Vec::new();
    for (name, value) in fields.iter().filter(|(name, _)| **name != PAD) {
        let name = name.as_str();
        let text = value.to_str().unwrap_or_default();
        match name {
            // nginx's own fields have the length of the recorded ones.
            "content-type" | "content-length" | "date" => {}
            "location" if is_redirect(response.status()) => {}
            "server" | "connection" | "keep-alive" | "accept-ranges" | "transfer-encoding" => {
                room += name.len() + value.len() + ": \r\n".len();
            }
            _ if text.is_empty() || text.len() > WORD => room += name.len() + value.len() + ": \r\n".len(),
            _ => added.push((name.to_owned(), text.to_owned())),
        }
    }
    room = room.saturating_sub(OWN);
    let name = line(PAD.as_str(), "");
    let letters = field(fields, &PAD).as_bytes();
    while room > name {
        let length = (room - name).min(WORD);
        let value: Vec<u8> = letters.iter().copied().cycle().take(length).collect();
        let value = String::from_utf8(value).unwrap_or_default();
        if value.is_empty() {
            break;
        }
        room -= line(PAD.as_str(), &value);
        added.push((PAD.as_str().to_owned(), value));
    }
    added
}

fn field<'a>(fields: &'a HeaderMap, name: &header::HeaderName) -> &'a str {
    fields.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// A word of nginx's configuration.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
