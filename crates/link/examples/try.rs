use link::{cable::*, host::Host, sandbox, stages::Delay};
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    time::{Duration, Instant},
};
fn main() {
    let _sb = sandbox::enter().unwrap();
    let ms: f64 = std::env::args().nth(1).unwrap().parse().unwrap();
    let a = Host::new("client").unwrap();
    let b = Host::new("server").unwrap();
    for h in [&a, &b] {
        for s in ["tcp_rmem", "tcp_wmem"] {
            h.sysctl(&format!("net.ipv4.{s}"), "4096 131072 134217728").unwrap();
        }
        if let Some(cc) = std::env::args().nth(4) {
            h.sysctl("net.ipv4.tcp_congestion_control", &cc).unwrap();
        }
    }
    let d = || Box::new(Delay::new(Duration::from_secs_f64(ms / 2000.0))) as Box<dyn link::stage::Stage>;
    let tap = std::env::args()
        .any(|a| a == "tap")
        .then(|| std::sync::Arc::new(link::tap::Tap::create(std::path::Path::new("/dev/null"), "a", None).unwrap()));
    let cable = Cable::lay(
        &a,
        &b,
        Stages { up: vec![d()], down: vec![d()], up_to_down: vec![1], down_to_up: vec![1] },
        Options { taps: [tap, None], ..Options::default() },
    )
    .unwrap();
    println!("whole {:?}", cable.passes_segments_whole());
    let mut c = std::process::Command::new("ping");
    c.args(["-q", "-c", std::env::args().nth(3).as_deref().unwrap_or("200"), "-i", "0.01", "100.64.0.2"]);
    a.place(&mut c);
    c.status().unwrap();
    let secs: u64 = std::env::args().nth(2).unwrap().parse().unwrap();
    let l = b.run(|| TcpListener::bind("0.0.0.0:5001").unwrap()).unwrap();
    let srv = b
        .thread("srv", move || {
            let (mut s, _) = l.accept().unwrap();
            let mut buf = vec![0; 1 << 20];
            let mut n = 0u64;
            let mut mid = None;
            let t = Instant::now();
            loop {
                let k = s.read(&mut buf).unwrap();
                if k == 0 {
                    break;
                }
                n += k as u64;
                if mid.is_none() && t.elapsed() > Duration::from_secs(1) {
                    mid = Some((n, Instant::now()));
                }
            }
            let (m, t) = mid.unwrap();
            (n - m) as f64 * 8.0 / t.elapsed().as_secs_f64() / 1e9
        })
        .unwrap();
    let cl = a
        .thread("cl", move || {
            let mut s = TcpStream::connect("100.64.0.2:5001").unwrap();
            let buf = vec![0; 1 << 18];
            let t = Instant::now();
            while t.elapsed() < Duration::from_secs(secs) {
                s.write_all(&buf).unwrap();
            }
        })
        .unwrap();
    cl.join().unwrap();
    println!("{:.2} Gbit/s", srv.join().unwrap());
    println!("{:#?}", cable.pull().unwrap());
}
