use explain::{json, text};
fn text() {
    let mut all = Vec::new();
    let mut n = 0;
    let mut asked = json::Asked::default();
    for path in std::env::args().skip(2) {
        if let Some(w) = path.strip_prefix("--bytes=") {
            asked.bytes = Some(w.parse().unwrap());
            continue;
        }
        if let Some(w) = path.strip_prefix("--") {
            asked.what_if = Some(w.parse().unwrap());
            continue;
        }
        let (e, _) = explain::explain(&mut *capture::open(path.as_ref(), None).unwrap());
        n += e.packets;
        all.push(e);
    }
    print!("{}", text::render(&explain::match_ends(all), n, &asked, &text::Look { width: 110, colour: false, top: 5 }));
}
fn main() {
    if std::env::args().nth(1).as_deref() == Some("text") {
        return text();
    }
    let mut what: Option<explain::replica::WhatIf> = None;
    for path in std::env::args().skip(1) {
        if let Some(w) = path.strip_prefix("--") {
            what = Some(w.parse().unwrap());
            continue;
        }
        let mut source = capture::open(path.as_ref(), None).unwrap();
        let t = std::time::Instant::now();
        let (explanation, error) = explain::explain(&mut *source);
        println!("FILE {path}: {} packets {error:?} in {:?}", explanation.packets, t.elapsed());
        for c in &explanation.connections {
            println!(
                "CONN {} {} -> {} rtt {:?} mss {} rate {:?} chunk {:?} {:?}",
                c.packets,
                c.client,
                c.server,
                c.rtt,
                c.mss,
                c.rate.map(explain::rate_text),
                c.chunk,
                c.vantage
            );
            for t in &c.transfers {
                print!("T {:.6}", t.duration.as_secs_f64());
                for (cause, time) in t.times.ranked() {
                    print!(" {}={:.6}", cause.name(), time as f64 / 1e9);
                }
                println!();
                println!("  {} {} {:?} {} bytes: {:?}", t.what, t.status, t.direction, t.bytes, t.cause);
                for f in &t.findings {
                    println!("   * {:?} {:?} {:?} {}", f.cause, f.cost, f.packets, f.why);
                }
                match t.replica() {
                    Some(Ok(p)) => {
                        let w = what.as_ref().map(|w| t.what_if(w, None).unwrap().map(|d| d.duration.as_secs_f64()));
                        println!("P {:.4} {:?}", p.model_error(), w)
                    }
                    Some(Err(e)) => println!("P declined {e}"),
                    None => println!("P none"),
                }
                if std::env::var_os("MODEL").is_some() {
                    println!("{t:#?}");
                }
            }
        }
    }
}
