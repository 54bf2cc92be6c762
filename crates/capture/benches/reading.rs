//! The speed of reading captures of each format from disk.
//!
//! `cargo bench -p longhaul-capture` writes a capture of 2 GB (or `LONGHAUL_BENCH_BYTES`) to a temporary folder, and reads it in each
//! format: in one thread, with read-ahead as in [`capture::open`], and also finding the IP packets and reassembling
//! fragments.

use std::{
    error::Error,
    fs::File,
    io::{BufWriter, Write},
    path::Path,
    time::{Duration, Instant},
};

use capture::{Direction, Fragments, LinkType, Source, pcapng};
use etherparse::PacketBuilder;
use flate2::write::GzEncoder;

/// The default size of the capture, in bytes.
const BYTES: u64 = 2_000_000_000;

/// Reads a capture and returns the number of its packets.
type ReadAll = fn(&Path) -> Result<u64, capture::Error>;

fn main() -> Result<(), Box<dyn Error>> {
    let bytes = std::env::var("LONGHAUL_BENCH_BYTES").map_or(Ok(BYTES), |bytes| bytes.parse())?;
    let folder = tempfile::tempdir()?;
    let file = |name: &str| folder.path().join(name);
    let packets = write_pcapng(&file("capture.pcapng"), bytes)?;
    write_pcap(&file("capture.pcap"), packets)?;
    compress(&file("capture.pcapng"), &file("capture.gz"), &file("capture.zst"))?;
    println!("{packets} packets, {bytes} bytes");
    for name in ["capture.pcapng", "capture.pcap", "capture.gz", "capture.zst"] {
        let methods: [(_, ReadAll); 3] =
            [("one thread", one_thread), ("reading ahead", read_ahead), ("with IP and fragments", reassembled)];
        for (method, read) in methods {
            // The first run warms the system's cache of the file.
            let mut best = Duration::MAX;
            for _ in 0..3 {
                let begun = Instant::now();
                assert_eq!(read(&file(name))?, packets, "{name}");
                best = best.min(begun.elapsed());
            }
            let rate = packets as f64 / best.as_secs_f64() / 1e6;
            println!("{name:<16} {method:<22} {:>6.2} s {rate:>6.2} million packets/s", best.as_secs_f64());
        }
    }
    Ok(())
}

fn one_thread(path: &Path) -> Result<u64, capture::Error> {
    let file = File::open(path).map_err(|source| capture::Error::Open { file: path.to_owned(), source })?;
    count(&mut capture::read(file, path, None)?)
}

fn read_ahead(path: &Path) -> Result<u64, capture::Error> {
    count(&mut capture::open(path, None)?)
}

fn count(source: &mut dyn Source) -> Result<u64, capture::Error> {
    let mut count = 0;
    while source.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

fn reassembled(path: &Path) -> Result<u64, capture::Error> {
    let mut source = capture::open(path, None)?;
    let mut fragments = Fragments::default();
    let mut count = 0;
    while let Some(packet) = source.next()? {
        count += u64::from(fragments.reassemble(packet).is_some_and(|packet| packet.network().is_some()));
    }
    Ok(count)
}

/// A full segment, and the acknowledgment of every second one.
fn packets() -> (Vec<u8>, Vec<u8>) {
    let (mut segment, mut ack) = (Vec::new(), Vec::new());
    let builder = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64).tcp(40_000, 80, 7, 65_000);
    builder.write(&mut segment, &[b'x'; 1460]).expect("memory takes all");
    let builder = PacketBuilder::ipv4([10, 0, 0, 2], [10, 0, 0, 1], 64).tcp(80, 40_000, 7, 65_000).ack(8);
    builder.write(&mut ack, &[]).expect("memory takes all");
    (segment, ack)
}

fn write_pcapng(file: &Path, bytes: u64) -> Result<u64, Box<dyn Error>> {
    let (segment, ack) = packets();
    let mut writer = pcapng::Writer::new(BufWriter::with_capacity(1 << 20, File::create(file)?))?;
    let end = writer.interface("client", LinkType::RAW, None)?;
    let (mut count, mut written) = (0, 0);
    while written < bytes {
        let (packet, direction) = match count % 3 {
            2 => (&ack, Direction::Inbound),
            _ => (&segment, Direction::Outbound),
        };
        writer.packet(end, Duration::from_micros(100 * count), Some(direction), packet)?;
        written += packet.len() as u64;
        count += 1;
    }
    writer.into_output().flush()?;
    Ok(count)
}

fn write_pcap(file: &Path, count: u64) -> Result<(), Box<dyn Error>> {
    let (segment, ack) = packets();
    let mut output = BufWriter::with_capacity(1 << 20, File::create(file)?);
    for word in [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, 101u32] {
        output.write_all(&word.to_le_bytes())?;
    }
    for number in 0..count {
        let packet = if number % 3 == 2 { &ack } else { &segment };
        let (time, len) = (Duration::from_micros(100 * number), packet.len() as u32);
        for word in [time.as_secs() as u32, time.subsec_micros(), len, len] {
            output.write_all(&word.to_le_bytes())?;
        }
        output.write_all(packet)?;
    }
    output.flush()?;
    Ok(())
}

fn compress(plain: &Path, gzip: &Path, zstd: &Path) -> Result<(), Box<dyn Error>> {
    let mut encoder = GzEncoder::new(File::create(gzip)?, flate2::Compression::fast());
    std::io::copy(&mut File::open(plain)?, &mut encoder)?;
    encoder.finish()?;
    zstd::stream::copy_encode(File::open(plain)?, File::create(zstd)?, 1)?;
    Ok(())
}
