//! Downloads twenty files over one connection, with all requests in flight at once (HTTP/1.1 pipelining).
//!
//! HTTP/1.1 responses carry no identification, so the client must know something that tells them apart: here their
//! entity tags, as a directory listing would have returned them. Without that, it would send one request at a time.
//!
//! `cargo run -p longhaul-http --example pipelined_download` starts a server on loopback and downloads from it.

use std::{convert::Infallible, error::Error, net::SocketAddr, time::Duration};

use bytes::Bytes;
use futures_util::future::try_join_all;
use haul_http::{Body, Client, Expected, Options, Pipelining, ResponseInfo, Settings, auth::Authenticator};
use http::{Request, Response, header::ETAG};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

const FILES: u32 = 20;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = serve().await?;
    // One connection, without the test that `Pipelining::Safe` gives an unknown server.
    let settings = Settings { connections: 1, pipelining: Pipelining::Aggressive, ..Settings::default() };
    let client = Client::new(settings, Authenticator::default())?;
    let mut deepest = 0;
    for (file, content, info) in try_join_all((0..FILES).map(|file| download(&client, server, file))).await? {
        println!("file {file}: {content:?}, connection {}, {} requests ahead", info.connection, info.behind);
        deepest = deepest.max(info.behind);
    }
    assert!(deepest > 0, "the requests were not pipelined");
    Ok(())
}

async fn download(
    client: &Client,
    server: SocketAddr,
    file: u32,
) -> Result<(u32, Bytes, ResponseInfo), Box<dyn Error>> {
    let expected = Expected { etag: Some(etag(file)), ..Expected::default() };
    let request = Request::get(format!("http://{server}/{file}"))
        .extension(Options { expected, ..Options::default() })
        .body(Body::empty())?;
    let response = client.send(request).await?;
    let info = *response.extensions().get::<ResponseInfo>().ok_or("every response has one")?;
    Ok((file, response.into_body().collect().await?.to_bytes(), info))
}

fn etag(file: u32) -> String {
    format!("\"{file}\"")
}

/// A server on loopback that ends with the runtime.
async fn serve() -> Result<SocketAddr, Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(respond)));
        }
    });
    Ok(address)
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    // As a server that works on each request; otherwise a response may arrive before the next request is sent.
    tokio::time::sleep(Duration::from_millis(20)).await;
    let file = request.uri().path().trim_start_matches('/');
    let mut response = Response::new(Full::from(format!("content of {file}")));
    if let Ok(etag) = format!("\"{file}\"").try_into() {
        response.headers_mut().insert(ETAG, etag);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    #[test]
    fn example_runs() {
        super::main().unwrap();
    }
}
