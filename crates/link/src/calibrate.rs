//! How true the emulator is on this machine, now.
//!
//! Probes are UDP packets that carry their time of sending; both ends read the same clock, so each
//! gives a one-way delay, and its error is what exceeds the nominal one: the way through two kernels,
//! the relay's waking up, everything. The rate is measured on packets sent back to back through a rate
//! stage, the capacity by a flood through a cable without stages.

use std::{
    io,
    net::UdpSocket,
    time::{Duration, Instant},
};

use nix::sys::prctl;

use crate::{
    cable::{Cable, CableError, Options, Stages},
    host::{Host, HostError},
    lateness::Lateness,
    stage::Stage,
    stages::{Delay, Discipline, Queue, RateLimit},
    units::Rate,
};

/// The one-way delay of the probes' cable: half of the 18 ms of the WebDAV race.
const DELAY: Duration = Duration::from_millis(9);

/// The rates at which the delay is probed, packets per second.
const PROBE_RATES: [u32; 3] = [100, 1_000, 10_000];

/// The nominal rate of the rate stage.
const RATE: u64 = 100_000_000;

/// How long nothing may arrive before the receiver takes the probes for over.
const SILENCE: Duration = Duration::from_millis(300);

/// Why the calibration failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// A host could not be made.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A cable could not be laid.
    #[error(transparent)]
    Cable(#[from] CableError),
    /// The probes could not be sent or received.
    #[error("cannot send probes over the cable: {0}")]
    Probe(#[from] io::Error),
}

/// What the calibration found.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// The error of a one-way delay of 9 ms at several packet rates.
    pub delay: Vec<DelayError>,
    /// How far the rate of a 100 Mbit/s stage was off, as a fraction; positive is too fast.
    pub rate_error: f64,
    /// Packets of 100 bytes per second that a cable without stages carried one way.
    pub packets_per_second: f64,
}

/// The error of the delay at one packet rate.
#[derive(Debug, Clone)]
pub struct DelayError {
    /// Packets sent per second.
    pub packets_per_second: u32,
    /// Packets sent that did not arrive.
    pub lost: u64,
    /// How much longer than nominal the packets took.
    pub error: Lateness,
}

/// Calibrates, in about three seconds.
pub fn calibrate() -> Result<Calibration, CalibrateError> {
    Ok(Calibration {
        delay: PROBE_RATES.map(probe_delay).into_iter().collect::<Result<_, _>>()?,
        rate_error: probe_rate()?,
        packets_per_second: probe_capacity()?,
    })
}

/// A packet's arrival: when it was sent, when it came, its length at IP.
struct Arrival {
    sent: Duration,
    came: Duration,
    length: usize,
}

fn probe_delay(rate: u32) -> Result<DelayError, CalibrateError> {
    let delay = || -> Vec<Box<dyn Stage>> { vec![Box::new(Delay::new(DELAY))] };
    let interval = Duration::from_secs(1) / rate;
    let count = (rate / 2).clamp(100, 5_000);
    let arrivals = probe(Stages { up: delay(), down: delay(), ..Stages::default() }, move |start, send| {
        for index in 0..count {
            let due = interval * index;
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            send(&mut [0; 72])?;
        }
        Ok(())
    })?;
    let mut error = Lateness::default();
    for arrival in &arrivals {
        error.record((arrival.came - arrival.sent).saturating_sub(DELAY));
    }
    Ok(DelayError { packets_per_second: rate, lost: u64::from(count) - error.count(), error })
}

fn probe_rate() -> Result<f64, CalibrateError> {
    const PAYLOAD: usize = 1472;
    const PACKETS: usize = 5_000;
    let rate = RateLimit::new(Rate::bits_per_second(RATE), Queue::new(Discipline::Infinite));
    let arrivals = probe(Stages { up: vec![Box::new(rate)], ..Stages::default() }, |_, send| {
        (0..PACKETS).try_for_each(|_| send(&mut [0; PAYLOAD]))
    })?;
    let [first, .., last] = arrivals.as_slice() else { return Err(nothing_came().into()) };
    let bits: usize = arrivals[1..].iter().map(|arrival| arrival.length * 8).sum();
    Ok(bits as f64 / (last.came - first.came).as_secs_f64() / RATE as f64 - 1.0)
}

fn probe_capacity() -> Result<f64, CalibrateError> {
    let arrivals = probe(Stages::default(), |start, send| {
        while start.elapsed() < Duration::from_millis(500) {
            (0..64).try_for_each(|_| send(&mut [0; 72]))?;
        }
        Ok(())
    })?;
    let [first, .., last] = arrivals.as_slice() else { return Err(nothing_came().into()) };
    Ok((arrivals.len() - 1) as f64 / (last.came - first.came).as_secs_f64())
}

fn nothing_came() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no probe arrived")
}

type Send<'a> = dyn FnMut(&mut [u8]) -> io::Result<()> + 'a;

/// Sends probes over a cable of these stages and returns their arrivals.
fn probe(
    stages: Stages,
    sender: impl FnOnce(Instant, &mut Send<'_>) -> io::Result<()> + std::marker::Send + 'static,
) -> Result<Vec<Arrival>, CalibrateError> {
    let (a, b) = (Host::new("a")?, Host::new("b")?);
    let cable = Cable::lay(&a, &b, stages, Options::default())?;
    let target = cable.addresses()[1].v4;
    let receiver = b.run(move || UdpSocket::bind((target, 0)))??;
    receiver.set_read_timeout(Some(SILENCE))?;
    let address = receiver.local_addr()?;
    let start = Instant::now();
    let receive = b.thread("probe receiver", move || {
        let mut arrivals = Vec::new();
        let mut buffer = [0; 2048];
        while let Ok(length) = receiver.recv(&mut buffer) {
            let came = start.elapsed();
            let sent = u64::from_ne_bytes(buffer[..8].try_into().unwrap_or_default());
            arrivals.push(Arrival { sent: Duration::from_nanos(sent), came, length: length + 28 });
        }
        arrivals
    })?;
    let sent = a.run(move || {
        let _ = prctl::set_timerslack(1);
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(address)?;
        sender(start, &mut |bytes| {
            let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or_default();
            bytes[..8].copy_from_slice(&now.to_ne_bytes());
            socket.send(bytes).map(drop)
        })
    })?;
    let arrivals = receive.join().map_err(|_| nothing_came())?;
    sent?;
    cable.pull()?;
    Ok(arrivals)
}
