//! A link to a server, on which a box keeps a request and hands it over late.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
};

/// A link. Its threads end with their connections.
pub struct HoldingLink {
    /// Where it listens.
    pub at: SocketAddr,
    server: SocketAddr,
    held: Arc<Mutex<Held>>,
}

#[derive(Default)]
struct Held {
    /// How the next request begins that is kept.
    wanted: Option<String>,
    /// What has been kept. Nothing of it is answered.
    request: Vec<u8>,
}

impl HoldingLink {
    /// A link to a server.
    pub fn to(server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (at, held) = (listener.local_addr()?, Arc::<Mutex<Held>>::default());
        let holding = held.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(server) else { continue };
                let (Ok(back), Ok(to_client)) = (far.try_clone(), near.try_clone()) else { continue };
                let holding = holding.clone();
                thread::spawn(move || carry_up(near, far, &holding));
                thread::spawn(move || carry(back, to_client));
            }
        });
        Ok(Self { at, server, held })
    }

    /// Keeps the next request with this method for this path.
    ///
    /// # Panics
    /// If a thread of the link has panicked.
    pub fn hold(&self, method: &str, path: &str) {
        let wanted = Some(format!("{method} {path} "));
        *self.held.lock().unwrap() = Held { wanted, request: Vec::new() };
    }

    /// Hands over what was kept, and returns the status of the answer.
    ///
    /// # Panics
    /// If nothing was kept, or the server does not answer.
    pub fn let_go(&self) -> String {
        let held = std::mem::take(&mut *self.held.lock().unwrap());
        assert!(!held.request.is_empty(), "nothing was kept for {:?}", held.wanted);
        let mut server = TcpStream::connect(self.server).unwrap();
        server.write_all(&held.request).unwrap();
        let mut status = [0; 12];
        server.read_exact(&mut status).unwrap();
        String::from_utf8_lossy(&status[9..]).into_owned()
    }
}

fn carry_up(mut near: TcpStream, mut far: TcpStream, held: &Mutex<Held>) {
    let (mut chunk, mut keeps) = (vec![0; 64 * 1024], false);
    while let Ok(read @ 1..) = near.read(&mut chunk) {
        let mut held = held.lock().unwrap();
        let is_wanted = |wanted: &mut String| chunk.starts_with(wanted.as_bytes());
        keeps |= held.wanted.take_if(is_wanted).is_some();
        if keeps {
            held.request.extend_from_slice(&chunk[..read]);
            continue;
        }
        drop(held);
        if far.write_all(&chunk[..read]).is_err() {
            break;
        }
    }
    let _ = far.shutdown(std::net::Shutdown::Both);
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(std::net::Shutdown::Both);
}
