//! A connection whose faults a script decides, request by request.

use std::{
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use bytes::{Buf, BytesMut};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::sleep,
};

use crate::{
    double::{Fault, State},
    message::{Request, Response, parse_head},
};

pub(crate) async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    // As if killed: closing resets the connection.
    let _ = stream.set_zero_linger();
    let _ = serve_requests(&mut stream, &state).await;
}

async fn serve_requests(stream: &mut TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let mut buffer = BytesMut::new();
    let mut swapped: Option<Vec<u8>> = None;
    loop {
        let Some(request) = read_head(stream, &mut buffer, swapped.is_some()).await? else {
            // No request followed the one whose response was to be second.
            match swapped.take() {
                Some(response) => stream.write_all(&response).await?,
                None => return close(stream).await,
            }
            continue;
        };
        let fault = state.lock().unwrap().receive(&request, 1 + waiting(&buffer, request.length));
        if let Some(Fault::RespondEarly(status)) = fault {
            stream.write_all(&Response::new(status).with("connection", "close").bytes()).await?;
            // The kernel resets the connection if unread bytes arrive.
            sleep(Duration::from_millis(20)).await;
            return close(stream).await;
        }
        if let Some(Fault::Delay(time)) = fault {
            sleep(time).await;
        }
        while buffer.len() < request.length {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let body = buffer.split_to(request.length);
        let response = match fault {
            Some(Fault::Respond(status, headers)) => Response { headers: headers.into(), ..Response::new(status) },
            Some(Fault::RespondWithBody(status, body)) => Response { body: body.into(), ..Response::new(status) },
            Some(Fault::Reset) => return Ok(()),
            Some(Fault::OverwrittenByOther(path)) => {
                let mut state = state.lock().unwrap();
                state.locks.remove(path);
                state.put(path, &[b'T'; 1000], Duration::ZERO);
                return Ok(());
            }
            Some(Fault::Silence) => {
                // Until the client gives up.
                while stream.read_buf(&mut buffer).await? > 0 {}
                return Ok(());
            }
            _ => state.lock().unwrap().answer(&request, &body),
        };
        match fault {
            Some(Fault::ResetAfterProcessing) => return Ok(()),
            Some(Fault::OmitResponse) => continue,
            Some(Fault::SwapResponses) if swapped.is_none() => {
                swapped = Some(response.bytes());
                continue;
            }
            None => stream.write_all(&response.bytes()).await?,
            Some(fault) => {
                if !send_with_fault(stream, response, &fault).await? {
                    return close(stream).await;
                }
            }
        }
        if let Some(first) = swapped.take() {
            stream.write_all(&first).await?;
        }
    }
}

/// Sends a response with a fault in it, if the fault is there. Returns whether the connection continues.
async fn send_with_fault(stream: &mut TcpStream, mut response: Response, fault: &Fault) -> io::Result<bool> {
    match fault {
        Fault::TruncateResponse => {
            let bytes = response.bytes();
            stream.write_all(&bytes[..bytes.len() - response.body.len().div_ceil(2).max(1)]).await?;
            return Ok(false);
        }
        Fault::TruncateWithoutLength => {
            stream.write_all(format!("{}connection: close\r\n\r\n", response.start()).as_bytes()).await?;
            stream.write_all(&response.body[..response.body.len() / 2]).await?;
            return Ok(false);
        }
        Fault::WrongDigest => {
            // Not Content-MD5 alone: for a part of a file it has no meaning.
            response = response.with("content-md5", "Q2hlY2sgSW50ZWdyaXR5IQ==");
            response = response.with("content-digest", "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:");
            stream.write_all(&response.bytes()).await?;
        }
        Fault::LengthTooLong => {
            let head = response.head(response.body.len() + 5);
            stream.write_all(&[&head[..], &response.body].concat()).await?;
        }
        Fault::EndlessHeader => {
            stream.write_all(response.start().as_bytes()).await?;
            for line in 0_u64.. {
                stream.write_all(format!("x-{line}: {}\r\n", "x".repeat(2000)).as_bytes()).await?;
            }
        }
        Fault::EndlessBody => {
            stream.write_all(format!("{}transfer-encoding: chunked\r\n\r\n", response.start()).as_bytes()).await?;
            loop {
                stream.write_all(format!("4000\r\n{}\r\n", " ".repeat(0x4000)).as_bytes()).await?;
            }
        }
        Fault::TricklingHeader => {
            stream.write_all(response.start().as_bytes()).await?;
            trickle(stream).await?;
        }
        Fault::TricklingBody => {
            stream.write_all(&response.head(1_000_000)).await?;
            trickle(stream).await?;
        }
        _ => stream.write_all(&response.bytes()).await?,
    }
    Ok(true)
}

async fn trickle(stream: &mut TcpStream) -> io::Result<()> {
    loop {
        stream.write_all(b"x").await?;
        sleep(Duration::from_millis(20)).await;
    }
}

/// Closes a connection with a FIN.
pub(crate) async fn close(stream: &mut TcpStream) -> io::Result<()> {
    socket2::SockRef::from(&*stream).set_linger(None)?;
    stream.shutdown().await
}

/// Roughly the number of pipelined requests in `buffer` behind the current one.
fn waiting(buffer: &BytesMut, length: usize) -> usize {
    let behind = buffer.get(length..).unwrap_or_default();
    behind.windows(11).filter(|window| window == b" HTTP/1.1\r\n").count()
}

/// The next request header; none at the end of input, or, if `hurry`, after 100 ms without one.
async fn read_head(stream: &mut TcpStream, buffer: &mut BytesMut, hurry: bool) -> io::Result<Option<Request>> {
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at;
        }
        tokio::select! {
            read = stream.read_buf(buffer) => if read? == 0 { return Ok(None) },
            () = sleep(Duration::from_millis(100)), if hurry => return Ok(None),
        }
    };
    let request = parse_head(&buffer[..end]);
    buffer.advance(end + 4);
    Ok(Some(request))
}
