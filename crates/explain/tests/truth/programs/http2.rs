//! HTTP/2 over TCP or TLS, for its flow control (RFC 9113 §5.2).

use std::{
    io,
    net::TcpStream,
    time::{Duration, Instant},
};

use bytes::Bytes;
use h2::{RecvStream, SendStream, client, server};
use http::{Request, Response};
use tokio::time::{sleep, timeout};
use units::Size;

use super::{TIMEOUT, tls::TlsConfigs};
use crate::scenario::{End, Scenario, Writes};

/// The initial windows (RFC 9113 §6.9.2).
const INITIAL_WINDOW: u32 = 65_535;

/// Runs the client; returns the time of each exchange.
pub(super) fn run_client(stream: TcpStream, tls: &TlsConfigs, scenario: &Scenario) -> io::Result<Vec<Duration>> {
    run(async {
        let stream = tls.client(to_async(stream)?).await?;
        let mut builder = client::Builder::new();
        let [stream_window, connection_window] = windows(&scenario.client);
        builder.initial_window_size(stream_window).initial_connection_window_size(connection_window);
        let (mut sender, connection) = builder.handshake::<_, Bytes>(stream).await.map_err(io::Error::other)?;
        let connection = tokio::spawn(connection);
        let (mut took, mut since) = (Vec::new(), Instant::now());
        for exchange in &scenario.exchange {
            sleep(exchange.client_think.0).await;
            let uri = "http://server.test/file";
            let method = if exchange.request.as_bytes() == 0 { "GET" } else { "PUT" };
            let request = Request::builder().method(method).uri(uri).body(()).map_err(io::Error::other)?;
            sender = sender.ready().await.map_err(io::Error::other)?;
            let ends = exchange.request.as_bytes() == 0;
            let (response, mut body) = sender.send_request(request, ends).map_err(io::Error::other)?;
            if !ends {
                send(&mut body, exchange.request.as_bytes(), scenario.client.writes).await?;
            }
            receive(response.await.map_err(io::Error::other)?.into_body()).await?;
            took.push(since.elapsed());
            since = Instant::now();
        }
        drop(sender);
        // It still acknowledges and sends GOAWAY.
        connection.await.map_err(io::Error::other)?.map_err(io::Error::other)?;
        Ok(took)
    })
}

/// Runs the server.
pub(super) fn run_server(stream: TcpStream, tls: &TlsConfigs, scenario: &Scenario) -> io::Result<()> {
    run(async {
        let stream = tls.server(to_async(stream)?).await?;
        let mut builder = server::Builder::new();
        let [stream_window, connection_window] = windows(&scenario.server);
        builder.initial_window_size(stream_window).initial_connection_window_size(connection_window);
        let mut connection = builder.handshake::<_, Bytes>(stream).await.map_err(io::Error::other)?;
        let mut exchanges = scenario.exchange.iter().copied();
        let mut answers = Vec::new();
        while let Some(accepted) = connection.accept().await {
            let (request, mut respond) = accepted.map_err(io::Error::other)?;
            let exchange = exchanges.next().ok_or_else(|| io::Error::other("one request too many"))?;
            let writes = scenario.server.writes;
            // In a task of its own, because the connection progresses only while it is polled.
            answers.push(tokio::spawn(async move {
                receive(request.into_body()).await?;
                sleep(exchange.server_think.0).await;
                let mut body = respond.send_response(Response::new(()), false).map_err(io::Error::other)?;
                send(&mut body, exchange.response.as_bytes(), writes).await
            }));
        }
        for answer in answers {
            answer.await.map_err(io::Error::other)??;
        }
        Ok(())
    })
}

fn run<T>(talk: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async { timeout(TIMEOUT, talk).await? })
}

fn to_async(stream: TcpStream) -> io::Result<tokio::net::TcpStream> {
    stream.set_nonblocking(true)?;
    tokio::net::TcpStream::from_std(stream)
}

fn windows(end: &End) -> [u32; 2] {
    [end.stream_window, end.connection_window]
        .map(|window| window.map_or(INITIAL_WINDOW, |size| size.as_bytes() as u32))
}

async fn send(body: &mut SendStream<Bytes>, length: u64, writes: Writes) -> io::Result<()> {
    let most = writes.chunk.map_or(16 << 10, Size::as_bytes) as usize;
    let mut left = length as usize;
    while left > 0 {
        body.reserve_capacity(left.min(most));
        let room = std::future::poll_fn(|context| body.poll_capacity(context)).await;
        let room = room.ok_or(io::ErrorKind::BrokenPipe)?.map_err(io::Error::other)?;
        let now = room.min(left);
        left -= now;
        body.send_data(Bytes::from(vec![b'.'; now]), left == 0).map_err(io::Error::other)?;
    }
    if length == 0 {
        body.send_data(Bytes::new(), true).map_err(io::Error::other)?;
    }
    Ok(())
}

async fn receive(mut body: RecvStream) -> io::Result<()> {
    while let Some(data) = body.data().await {
        let data = data.map_err(io::Error::other)?;
        body.flow_control().release_capacity(data.len()).map_err(io::Error::other)?;
    }
    Ok(())
}
