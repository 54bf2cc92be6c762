// A connection's packets and intervals of time, decoded on first use: the top of the page needs only the intervals, the
// charts below also the packets.

import { ACK, RETRANSMISSION, FIN, decodePackets, decodeIntervals, SERVER, OUT_OF_WINDOW, SYN, type Packets } from "./decode";
import { MarkPyramid } from "./mark-pyramid";
import type { Connection, TraceText } from "./schema";
import { CauseSums } from "./cause-sums";

export class Trace {
  readonly begin: number;
  readonly count: number;
  private decoded: Packets | null = null;
  private sums: CauseSums | null = null;
  private split: [Flow, Flow] | null = null;

  constructor(
    readonly connection: Connection,
    private readonly text: TraceText,
    private readonly causes: number,
  ) {
    [this.begin, this.count] = [text.begin_s, text.count];
  }

  /** Whether it has all packets of the connection. */
  get isComplete(): boolean {
    return this.count >= this.connection.packets;
  }

  get packets(): Packets {
    return (this.decoded ??= decodePackets(this.text));
  }

  /** Its time by cause. */
  get causeSums(): CauseSums {
    return (this.sums ??= new CauseSums(decodeIntervals(this.text), this.causes));
  }

  /** The data of each direction: the client's, the server's. */
  get flows(): [Flow, Flow] {
    return (this.split ??= [flow(this.packets, 0), flow(this.packets, 1)]);
  }

  get end(): number {
    const { intervals } = this.causeSums;
    return Math.max(this.begin + 1e-6, this.packets.time[this.count - 1] ?? this.begin, intervals.to[intervals.count - 1] ?? this.begin);
  }
}

/** One direction: the sender's segments, and the receiver's acknowledgements. */
export interface Flow {
  side: 0 | 1;
  /** Packets with data, a SYN or a FIN, from their first byte to their last: first transmissions, retransmissions. */
  sent: PacketMarks;
  retransmitted: PacketMarks;
  /** The acknowledgement numbers, and the right edges of the window. */
  acked: PacketMarks;
  windowEdge: PacketMarks;
  /** The SACK blocks. */
  sacked: PacketMarks;
  bytes: number;
}

/** Marks with the indexes of their packets. */
interface PacketMarks {
  packets: Uint32Array;
  marks: MarkPyramid;
}

/** Collects an unknown number of marks. */
class MarkBuilder {
  private capacity = 256;
  private count = 0;
  private packets = new Uint32Array(this.capacity);
  private time = new Float64Array(this.capacity);
  private low = new Float64Array(this.capacity);
  private high = new Float64Array(this.capacity);

  add(packet: number, time: number, low: number, high: number): void {
    if (this.count === this.capacity) this.grow();
    this.packets[this.count] = packet;
    this.time[this.count] = time;
    this.low[this.count] = low;
    this.high[this.count] = high;
    this.count += 1;
  }

  private grow(): void {
    this.capacity *= 2;
    const more = <T extends Uint32Array | Float64Array>(column: T, larger: T): T => {
      larger.set(column);
      return larger;
    };
    this.packets = more(this.packets, new Uint32Array(this.capacity));
    this.time = more(this.time, new Float64Array(this.capacity));
    this.low = more(this.low, new Float64Array(this.capacity));
    this.high = more(this.high, new Float64Array(this.capacity));
  }

  build(): PacketMarks {
    const { count } = this;
    return { packets: this.packets.subarray(0, count), marks: new MarkPyramid(this.time.subarray(0, count), this.low.subarray(0, count), this.high.subarray(0, count)) };
  }
}

function flow({ count, time, kind, length, seq, ack, window, sack }: Packets, side: 0 | 1): Flow {
  const [sent, retransmitted, acked, windowEdge, sacked] = [new MarkBuilder(), new MarkBuilder(), new MarkBuilder(), new MarkBuilder(), new MarkBuilder()];
  const senderBit = side === 1 ? SERVER : 0;
  let [bytes, nextBlock] = [0, 0];
  for (let i = 0; i < count; i++) {
    const [bits, when, size] = [kind[i] ?? 0, time[i] ?? 0, length[i] ?? 0];
    const from = seq[i] ?? 0;
    const isReceiver = (bits & SERVER) !== senderBit;
    for (; sack.packet[nextBlock] === i; nextBlock++) if (isReceiver) sacked.add(i, when, sack.from[nextBlock] ?? 0, sack.to[nextBlock] ?? 0);
    if (bits & OUT_OF_WINDOW) continue;
    if (isReceiver && bits & ACK) {
      const [to, windowSize] = [ack[i] ?? 0, window[i] ?? 0];
      acked.add(i, when, to, to);
      windowEdge.add(i, when, to + windowSize, to + windowSize);
    } else if (!isReceiver && (size > 0 || bits & (SYN | FIN))) {
      (bits & RETRANSMISSION ? retransmitted : sent).add(i, when, from, from + size);
      if (!(bits & RETRANSMISSION)) bytes += size;
    }
  }
  return { side, sent: sent.build(), retransmitted: retransmitted.build(), acked: acked.build(), windowEdge: windowEdge.build(), sacked: sacked.build(), bytes };
}
