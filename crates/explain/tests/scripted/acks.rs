//! The receiver's ACK rule, from what its acknowledgements cover.

use explain::{AckPolicy, replica::AckRule};
use units::Size;

use crate::line::{
    Captured,
    End::{Client, Server},
    Line, MSS,
};

/// An upload in writes of packets of these sizes, of which a receiver acknowledges what is due, and the rest 40 ms
/// later.
fn habit(
    writes: &[Vec<u64>],
    quick: u32,
    is_due: impl Fn(u32, u64) -> bool,
    end: crate::line::End,
) -> Option<AckPolicy> {
    let mut line = Line::new(40_000, 20.0);
    let mut now = line.open(0.0) + 1.0;
    let mut quick = quick;
    for write in writes {
        let (mut packets, mut bytes, mut came) = (0, 0, now);
        for size in write {
            came = line.much(Client, now, *size).max(came);
            (packets, bytes, now) = (packets + 1, bytes + size, now + 0.5);
            if quick > 0 || is_due(packets, bytes) {
                line.ack(Server, came);
                (packets, bytes) = (0, 0);
                quick = quick.saturating_sub(1);
            }
        }
        if packets > 0 {
            came += 40.0;
            line.ack(Server, came);
        }
        now = came + 11.0;
    }
    Captured::at(&[line], end, 0.0).explained().connections[0].acks
}

/// The browser's: 8217 bytes.
fn chunk() -> Vec<u64> {
    [vec![MSS; 7], vec![97]].concat()
}

#[test]
fn each_rule_is_told_from_the_others() {
    let odd = vec![chunk(); 6];
    let (small, all) = (vec![vec![300, 300, MSS, MSS, 200, 100, MSS]; 6], vec![vec![MSS; 40]; 3]);
    for end in [Client, Server] {
        let told =
            |writes: &[Vec<u64>], is_due: fn(u32, u64) -> bool| habit(writes, 0, is_due, end).map(|habit| habit.rule);
        assert_eq!(told(&odd, |_, bytes| bytes >= 2 * MSS), Some(AckRule::Segments(2)), "{end:?}");
        assert_eq!(told(&small, |packets, _| packets >= 2), Some(AckRule::Packets(2)), "{end:?}");
        assert_eq!(told(&odd, |_, bytes| bytes > MSS), Some(AckRule::MoreThanSegment), "{end:?}");
        assert_eq!(told(&all, |packets, _| packets >= 1), Some(AckRule::Packets(1)), "{end:?}");
        assert_eq!(told(&all, |_, bytes| bytes >= 8 * MSS), Some(AckRule::Bytes(Size(8 * MSS))), "{end:?}");
    }
}

#[test]
fn what_is_acknowledged_at_once_at_the_start_is_counted() {
    let habit =
        habit(&[vec![MSS; 30], chunk(), chunk(), chunk()], 6, |_, bytes| bytes >= 2 * MSS, Client).expect("a rule");
    assert_eq!((habit.rule, habit.quick), (AckRule::Segments(2), 6));
    let timer = habit.timer.expect("it holds").as_secs_f64();
    assert!((0.035..0.042).contains(&timer), "{timer} s");
    assert!(habit.to_string().starts_with("every second full segment, otherwise after"), "{habit}");
}
