fn main() {
    for path in std::env::args().skip(1) {
        let mut source = capture::open(path.as_ref(), None).unwrap();
        let t = std::time::Instant::now();
        let (explanation, error) = explain::explain(&mut *source);
        println!("{path}: {} packets {error:?} in {:?}", explanation.packets, t.elapsed());
        for c in &explanation.connections {
            println!("{} -> {} rtt {:?} mss {} rate {:?} chunk {:?} {:?}", c.client, c.server, c.rtt, c.mss, c.rate.map(explain::rate_text), c.chunk, c.vantage);
            for t in &c.transfers {
                println!("  {} {} {:?} {} bytes in {:?}: {:?}", t.what, t.status, t.direction, t.bytes, t.duration, t.cause);
                for (cause, time) in t.times.ranked() { print!(" {}={:.1}ms", cause.name(), time as f64/1e6); }
                println!();
                for f in &t.findings { println!("   * {:?} {:?} {:?} {}", f.cause, f.cost, f.packets, f.why); }
            }
        }
    }
}
