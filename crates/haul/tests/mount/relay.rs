//! A link that can be cut: connections stay, and no byte passes.
//!
//! What was sent before and during a cut arrives after it, even if its sender has given up and closed the connection, as TCP
//! retransmissions do.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// How often a connection looks whether the link is cut.
const LOOK: Duration = Duration::from_millis(10);

pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    is_cut: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
}

impl Relay {
    /// A link to `target`.
    pub(crate) fn new(target: String) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (is_cut, is_over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let relay = Self { address: listener.local_addr()?, is_cut: is_cut.clone(), is_over: is_over.clone() };
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (target, is_cut) = (target.clone(), is_cut.clone());
                thread::spawn(move || {
                    let Ok(far) = TcpStream::connect(target) else { return };
                    let ends = near.try_clone().and_then(|near| Ok((near, far.try_clone()?)));
                    let Ok((back_to, back_from)) = ends else { return };
                    let cut = is_cut.clone();
                    thread::spawn(move || pass(back_from, back_to, &cut));
                    pass(near, far, &is_cut);
                });
            }
        });
        Ok(relay)
    }

    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    pub(crate) fn restore(&self) {
        self.is_cut.store(false, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.restore();
        self.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
    }
}

/// Passes bytes on until one end closes.
fn pass(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    let mut buffer = vec![0; 16 * 1024];
    let wait = || {
        while is_cut.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
    };
    let _ = from.set_nodelay(true);
    let _ = from.set_read_timeout(Some(LOOK));
    loop {
        wait();
        let length = match from.read(&mut buffer) {
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => continue,
            Ok(length) if length > 0 => length,
            _ => break,
        };
        wait();
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
