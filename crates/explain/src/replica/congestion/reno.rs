//! RFC 5681: slow start, then one packet more per round trip; half after a loss.

use super::{AckEvent, CongestionControl, Cwnd};

#[derive(Debug, Default)]
pub(super) struct Reno {
    /// Packets acknowledged since the window last grew (Linux: `snd_cwnd_cnt`).
    cwnd_cnt: u32,
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, ack: &AckEvent, window: &mut Cwnd) {
        if !ack.is_cwnd_limited {
            return;
        }
        let acked = if window.in_slow_start() { window.slow_start(ack.acked) } else { ack.acked };
        if acked > 0 {
            self.cwnd_cnt += acked;
            window.cwnd += self.cwnd_cnt / window.cwnd;
            self.cwnd_cnt %= window.cwnd;
        }
    }

    fn on_loss(&mut self, window: Cwnd) -> u32 {
        self.cwnd_cnt = 0;
        (window.cwnd / 2).max(2)
    }
}
