//! The receiver's ACK rule, from what its acknowledgements cover.

use explain::{AckPolicy, replica::AckRule};
use units::Size;

use crate::connection_script::{
    Captured,
    End::{Client, Server},
    MSS, ScriptedConnection,
};

/// The inferred ACK policy of an upload in writes of packets of these sizes. The receiver acknowledges when `is_due`, and
/// the rest after 40 ms.
fn policy(
    writes: &[Vec<u64>],
    quick: u32,
    is_due: impl Fn(u32, u64) -> bool,
    end: crate::connection_script::End,
) -> Option<AckPolicy> {
    let mut script = ScriptedConnection::new(40_000, 20.0);
    let mut now = script.open(0.0) + 1.0;
    let mut quick = quick;
    for write in writes {
        let (mut packets, mut bytes, mut arrived) = (0, 0, now);
        for size in write {
            arrived = script.bulk(Client, now, *size).max(arrived);
            (packets, bytes, now) = (packets + 1, bytes + size, now + 0.5);
            if quick > 0 || is_due(packets, bytes) {
                script.ack(Server, arrived);
                (packets, bytes) = (0, 0);
                quick = quick.saturating_sub(1);
            }
        }
        if packets > 0 {
            arrived += 40.0;
            script.ack(Server, arrived);
        }
        now = arrived + 11.0;
    }
    Captured::at(&[script], end, 0.0).explained().connections[0].acks
}

/// The write of the captured browser: 8217 bytes.
fn chunk() -> Vec<u64> {
    [vec![MSS; 7], vec![97]].concat()
}

#[test]
fn each_ack_rule_is_recognised() {
    let odd = vec![chunk(); 6];
    let (small, all) = (vec![vec![300, 300, MSS, MSS, 200, 100, MSS]; 6], vec![vec![MSS; 40]; 3]);
    for end in [Client, Server] {
        let result = |writes: &[Vec<u64>], is_due: fn(u32, u64) -> bool| {
            policy(writes, 0, is_due, end).map(|policy| policy.rule)
        };
        assert_eq!(result(&odd, |_, bytes| bytes >= 2 * MSS), Some(AckRule::Segments(2)), "{end:?}");
        assert_eq!(result(&small, |packets, _| packets >= 2), Some(AckRule::Packets(2)), "{end:?}");
        assert_eq!(result(&odd, |_, bytes| bytes > MSS), Some(AckRule::MoreThanSegment), "{end:?}");
        assert_eq!(result(&all, |packets, _| packets >= 1), Some(AckRule::Packets(1)), "{end:?}");
        assert_eq!(result(&all, |_, bytes| bytes >= 8 * MSS), Some(AckRule::Bytes(Size(8 * MSS))), "{end:?}");
    }
}

#[test]
fn quick_acks_at_the_start_are_counted() {
    let policy =
        policy(&[vec![MSS; 30], chunk(), chunk(), chunk()], 6, |_, bytes| bytes >= 2 * MSS, Client).expect("a rule");
    assert_eq!((policy.rule, policy.quick), (AckRule::Segments(2), 6));
    let timer = policy.timer.expect("a timer").as_secs_f64();
    assert!((0.035..0.042).contains(&timer), "{timer} s");
    assert!(policy.to_string().starts_with("every second full segment, otherwise after"), "{policy}");
}
