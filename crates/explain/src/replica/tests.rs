//! What a replay must be, whatever the model; and the printed traces of an upload that was seven times too slow.

use std::time::Duration;

use super::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn quick_look() {
    for congestion in [Congestion::Reno, Congestion::Cubic, Congestion::Bbr] {
        let mut model = Model::new(Bytes(18_000_000), ms(20));
        model.path.rate = Some(Rate(100_000_000));
        model.path.queue = Some(Bytes(250_000));
        model.sender.congestion = congestion;
        let start = std::time::Instant::now();
        let replay = replay(&model).unwrap();
        println!("{congestion:?} {replay:?} {:?}", start.elapsed());
    }
}
