//! Calibration: measures the emulator's accuracy on this machine.
//!
//! Probes are UDP packets with their send time. Both ends read the same clock, so each probe measures a one-way delay.
//! Its error is the excess over the nominal delay: two kernels, the relay's wake-up, everything. The rate is measured
//! with back-to-back packets through a rate stage, the capacity with a flood.

use std::{
    io,
    net::UdpSocket,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use nix::sys::{
    prctl,
    socket::{setsockopt, sockopt},
};
use units::{Percent, Rate};

use crate::{
    cable::{Cable, CableError, Options, Traffic},
    host::{Host, HostError},
    lanes::Lanes,
    lateness::Lateness,
    stage::{Direction, Stage},
    stages::{Delay, Discipline, Effect, Loss, Queue, RateLimit, Rng},
};

/// One-way delay of the probes' cable: half of the 18 ms of the WebDAV race.
const DELAY: Duration = Duration::from_millis(9);

/// Rates of the delay probes, in packets per second.
const PROBE_RATES: [u32; 3] = [100, 1_000, 10_000];

/// Rate of the rate stage, in bits per second.
const RATE: u64 = 100_000_000;

/// Length of the UDP and IP headers, in bytes.
const UDP_AND_IP: u64 = 28;

/// After all probes are sent, the receiver ends when none arrives for this long.
const SILENCE: Duration = Duration::from_millis(300);

/// Maximum time until the first probe arrives, even on a busy machine.
const FIRST_PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the calibration failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// A host could not be created.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A cable could not be created, or failed.
    #[error(transparent)]
    Cable(#[from] CableError),
    /// The probes could not be sent or received.
    #[error("cannot send probes over the cable: {0}")]
    Probe(#[from] io::Error),
}

/// The result of a calibration.
#[derive(Debug, Clone)]
pub struct Calibration {
    /// The error of a one-way delay of 9 ms at several packet rates.
    pub delay: Vec<DelayError>,
    /// Relative error of the rate of a 100 Mbit/s stage, as a fraction; positive means too fast.
    pub rate_error: f64,
    /// Packets of 100 bytes per second that a cable with rate, delay and loss carried in one direction.
    pub packets_per_second: f64,
    /// Whether the relays had real-time priority; see [`Traffic::real_time`].
    pub real_time: bool,
}

/// The error of the delay at one packet rate.
#[derive(Debug, Clone)]
pub struct DelayError {
    /// Packets sent per second.
    pub packets_per_second: u32,
    /// Packets sent that did not arrive.
    pub lost: u64,
    /// How much longer than the nominal delay the packets took.
    pub error: Lateness,
}

/// Calibrates, in less than four seconds.
pub fn calibrate() -> Result<Calibration, CalibrateError> {
    let delay = PROBE_RATES.map(probe_delay).into_iter().collect::<Result<_, _>>()?;
    let rate_error = probe_rate()?;
    let (packets_per_second, real_time) = probe_capacity()?;
    Ok(Calibration { delay, rate_error, packets_per_second, real_time })
}

/// The arrival of a probe: its number, and when it was sent and arrived, since the start.
struct Arrival {
    number: u64,
    sent: Duration,
    arrived: Duration,
}

fn probe_delay(rate: u32) -> Result<DelayError, CalibrateError> {
    let delay = || -> Vec<Box<dyn Stage>> { vec![Box::new(Delay::new(DELAY))] };
    let interval = Duration::from_secs(1) / rate;
    let count = (rate / 2).clamp(100, 1_000);
    let (arrivals, _) = probe(Lanes { up: delay().into(), down: delay().into() }, move |start, send| {
        for index in 0..count {
            let due = interval * index;
            std::thread::sleep(due.saturating_sub(start.elapsed()));
            send(&mut [0; 72])?;
        }
        Ok(())
    })?;
    let mut error = Lateness::default();
    for arrival in &arrivals {
        error.record(arrival.arrived.saturating_sub(arrival.sent).saturating_sub(DELAY));
    }
    Ok(DelayError { packets_per_second: rate, lost: u64::from(count) - error.count(), error })
}

/// Back-to-back packets leave a rate stage at equal intervals. The lateness of a packet is its arrival minus that ideal
/// time. The minimum of each half is free of the machine's hiccups; with an exact rate both minima are equal.
fn probe_rate() -> Result<f64, CalibrateError> {
    const PAYLOAD: usize = 1472;
    const PACKETS: usize = 1_000;
    let stage = RateLimit::new(Rate::bits_per_second(RATE), Queue::new(Discipline::Infinite));
    let lanes = Lanes { up: vec![Box::new(stage) as Box<dyn Stage>].into(), ..Lanes::default() };
    let (arrivals, _) = probe(lanes, |_, send| (0..PACKETS).try_for_each(|_| send(&mut [0; PAYLOAD])))?;
    let each = Rate::bits_per_second(RATE).time_for(PAYLOAD as u64 + UDP_AND_IP).as_secs_f64();
    let late: Vec<f64> =
        arrivals.iter().map(|arrival| arrival.arrived.as_secs_f64() - each * arrival.number as f64).collect();
    let (first, second) = late.split_at(late.len() / 2);
    let least = |half: &[f64]| half.iter().copied().reduce(f64::min).ok_or_else(no_arrival);
    Ok((least(first)? - least(second)?) / (each * first.len() as f64))
}

/// A flood through the stages of most races, packet by packet: a rate (very high), a delay and a loss (of 0 %). Also
/// returns whether the relays had real-time priority.
fn probe_capacity() -> Result<(f64, bool), CalibrateError> {
    let never = Rng::new(1, Effect::Loss, Direction::Up);
    let stages: Vec<Box<dyn Stage>> = vec![
        Box::new(RateLimit::new(Rate::bits_per_second(100_000_000_000), Queue::new(Discipline::Infinite))),
        Box::new(Delay::new(DELAY)),
        Box::new(Loss::new(Percent::default(), never)),
    ];
    let (arrivals, traffic) = probe(Lanes { up: stages.into(), ..Lanes::default() }, |start, send| {
        while start.elapsed() < Duration::from_millis(100) {
            (0..64).try_for_each(|_| send(&mut [0; 72]))?;
        }
        Ok(())
    })?;
    // The receiver may have missed some; the times of the first and the last are enough.
    let [first, .., last] = arrivals.as_slice() else { return Err(no_arrival().into()) };
    let packets_per_second = traffic.packets_out as f64 / last.arrived.saturating_sub(first.arrived).as_secs_f64();
    Ok((packets_per_second, traffic.real_time))
}

fn no_arrival() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no probe arrived")
}

type Send<'a> = dyn FnMut(&mut [u8]) -> io::Result<()> + 'a;

/// Sends probes over a cable with these lanes; returns their arrivals, and the cable's counters.
fn probe(
    lanes: Lanes,
    sender: impl FnOnce(Instant, &mut Send<'_>) -> io::Result<()> + std::marker::Send + 'static,
) -> Result<(Vec<Arrival>, Traffic), CalibrateError> {
    let (a, b) = (Host::new("a")?, Host::new("b")?);
    let cable = Cable::connect(&a, &b, lanes, &Options::default())?;
    let target = cable.addresses()[1].v4;
    let receiver = b.run(move || UdpSocket::bind((target, 0)))??;
    receiver.set_read_timeout(Some(SILENCE))?;
    setsockopt(&receiver, sockopt::RcvBuf, &(4 << 20)).map_err(io::Error::from)?;
    let address = receiver.local_addr()?;
    let start = Instant::now();
    let all_sent = Arc::new(AtomicBool::new(false));
    let is_over = all_sent.clone();
    let receive = b.thread("probe receiver", move || {
        let mut arrivals = Vec::new();
        let mut buffer = [0; 2048];
        loop {
            // Only after that, silence means the end.
            let last =
                is_over.load(Ordering::Acquire) && (!arrivals.is_empty() || start.elapsed() > FIRST_PROBE_TIMEOUT);
            let outcome = receiver.recv(&mut buffer);
            let arrived = start.elapsed();
            match outcome {
                Ok(_) => {}
                Err(_) if last => break,
                Err(_) => continue,
            }
            let word = |at: usize| u64::from_ne_bytes(buffer[at..at + 8].try_into().unwrap_or_default());
            arrivals.push(Arrival { number: word(8), sent: Duration::from_nanos(word(0)), arrived });
        }
        arrivals
    })?;
    let sent = a.run(move || {
        let _ = prctl::set_timerslack(1);
        let socket = UdpSocket::bind("0.0.0.0:0")?;
        socket.connect(address)?;
        let mut numbers = 0u64..;
        sender(start, &mut |bytes| {
            let now = u64::try_from(start.elapsed().as_nanos()).unwrap_or_default();
            bytes[..8].copy_from_slice(&now.to_ne_bytes());
            bytes[8..16].copy_from_slice(&numbers.next().unwrap_or_default().to_ne_bytes());
            socket.send(bytes).map(drop)
        })
    });
    all_sent.store(true, Ordering::Release);
    let sent = sent?;
    let arrivals = receive.join().map_err(|_| no_arrival())?;
    sent?;
    let [traffic, _] = cable.disconnect()?;
    Ok((arrivals, traffic))
}
