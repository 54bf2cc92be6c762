//! HTTP proxies: a tunnel by CONNECT (RFC 9110 §9.3.6).
//!
//! Connections to `http` origins are tunnelled as well, although a proxy could also forward their requests: a tunnelled
//! connection belongs to one origin, with its own window and pipeline, and no proxy rewrites its requests. The price:
//! many proxies allow tunnels to port 443 only, and respond 403 to others.

mod environment;
mod exceptions;

use std::fmt;

use http::{HeaderValue, StatusCode};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

pub use self::environment::Proxies;
use crate::{error::Cause, io::Io, origin::Origin, tcp_info::TcpInfo};

/// The maximum size of the response to CONNECT, interim responses (1xx) included.
const HEAD: u64 = 16 * 1024;

/// The maximum number of header fields in the response to CONNECT.
const FIELDS: usize = 128;

/// One proxy, and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Proxy {
    /// Where it is.
    pub(crate) at: Origin,
    /// `Basic` credentials, marked as sensitive.
    authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Opens a tunnel on a connection to the proxy.
    pub(crate) async fn tunnel(&self, mut io: Box<dyn Io>, to: &Origin) -> Result<Box<dyn Io>, Cause> {
        let target = target(to);
        let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
        if let Some(authorization) = &self.authorization {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(authorization.as_bytes());
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        io.write_all(&request).await.map_err(|error| self.cause(error))?;
        io.flush().await.map_err(|error| self.cause(error))?;

        let mut reader = BufReader::new(io);
        let status = read_response(&mut reader).await.map_err(|why| self.cause(why))?;
        if !status.is_success() {
            return Err(self.cause(self.refusal(&target, status)));
        }
        // A server that speaks first may have sent bytes right behind the response.
        Ok(if reader.buffer().is_empty() { reader.into_inner() } else { Box::new(reader) })
    }

    /// An error of the proxy, with the proxy's name.
    pub(crate) fn cause(&self, what: impl fmt::Display) -> Cause {
        Cause::Proxy(format!("the proxy {}: {what}", self.at))
    }

    fn refusal(&self, target: &str, status: StatusCode) -> String {
        match (status, &self.authorization) {
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, None) => {
                format!("it requires authentication ({status}); set its URL to http://USER:PASSWORD@HOST:PORT")
            }
            (StatusCode::PROXY_AUTHENTICATION_REQUIRED, Some(_)) => {
                format!("it rejected the user and password in its URL ({status})")
            }
            _ if target.ends_with(":443") => format!("it refused a tunnel to {target} ({status})"),
            _ => format!("it refused a tunnel to {target} ({status}); many proxies allow only port 443"),
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Io for BufReader<Box<dyn Io>> {
    fn tcp_info(&self) -> Option<TcpInfo> {
        self.get_ref().tcp_info()
    }

    fn abort(&self) {
        self.get_ref().abort();
    }
}

/// The target of CONNECT: always with its port (RFC 9112 §3.2.3).
fn target(to: &Origin) -> String {
    let (host, port) = (to.host(), to.port());
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// The status of the final response. Reads nothing after its header from `reader`.
async fn read_response(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<StatusCode, String> {
    let mut reader = reader.take(HEAD);
    loop {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
            if reader.read_until(b'\n', &mut head).await.map_err(|error| error.to_string())? == 0 {
                return Err(if reader.limit() == 0 {
                    format!("its response header exceeds {HEAD} bytes")
                } else {
                    "it closed the connection before its response was complete".into()
                });
            }
        }
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let status = match response.parse(&head) {
            Ok(httparse::Status::Complete(_)) => response.code.and_then(|code| StatusCode::from_u16(code).ok()),
            _ => None,
        };
        match status {
            None => return Err("its response is not HTTP".into()),
            Some(interim) if interim.is_informational() => {}
            Some(status) => return Ok(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(text: &[u8]) -> (Result<StatusCode, String>, Vec<u8>) {
        let mut reader = text;
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let status = runtime.block_on(read_response(&mut reader));
        (status, reader.to_vec())
    }

    #[test]
    fn bytes_after_the_response_belong_to_the_tunnel() {
        let text = b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let (status, rest) = run(text);
        assert_eq!((status, rest.as_slice()), (Ok(StatusCode::OK), &b"hello"[..]));
    }

    #[test]
    fn malformed_or_endless_response_is_an_error() {
        for (text, wrong) in [
            (b"".to_vec(), "closed"),
            (b"HTTP/1.1 200 OK\r\n".to_vec(), "closed"),
            (b"\n\n".to_vec(), "not HTTP"),
            (b"SSH-2.0-x\r\n\r\n".to_vec(), "not HTTP"),
            (b"HTTP/1.1 099 OK\r\n\r\n".to_vec(), "not HTTP"),
            ([&b"HTTP/1.1 200 OK\r\n"[..], &b"a: b\r\n".repeat(10_000)].concat(), "16384"),
            (b"HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000), "16384"),
            (b"a".repeat(1_000_000), "16384"),
        ] {
            let told = run(&text).0.unwrap_err();
            assert!(told.contains(wrong), "{told}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_without_panic(text in prop::collection::vec(any::<u8>(), 0..2000)) {
            let (status, rest) = run(&text);
            prop_assert!(text.ends_with(&rest));
            prop_assert!(status.is_err() || text.starts_with(b"HTTP/1."));
        }
    }

    #[test]
    fn target_has_port_and_brackets() {
        let of = |url: &str| target(&Origin::of(&url.parse().unwrap()).unwrap());
        assert_eq!(of("https://example.org/"), "example.org:443");
        assert_eq!(of("http://[::1]/"), "[::1]:80");
    }
}
