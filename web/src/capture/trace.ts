// A connection's packets and pieces of time. Each is decoded when it is first asked for: what is read first needs the
// pieces, and only the charts below it the packets.

import { ACK, AGAIN, FIN, packetsOf, piecesOf, SERVER, STRAY, SYN, type Packets } from "./decode";
import { Marks } from "./marks";
import type { Connection, TraceText } from "./schema";
import { Shares } from "./shares";

export class Trace {
  readonly begin: number;
  readonly count: number;
  private decoded: Packets | null = null;
  private shared: Shares | null = null;
  private parted: [Flow, Flow] | null = null;

  constructor(
    readonly connection: Connection,
    private readonly text: TraceText,
    private readonly causes: number,
  ) {
    [this.begin, this.count] = [text.begin_s, text.count];
  }

  /** Whether no packet of the connection is left out. */
  get whole(): boolean {
    return this.count >= this.connection.packets;
  }

  get packets(): Packets {
    return (this.decoded ??= packetsOf(this.text));
  }

  /** Its time by causes. */
  get shares(): Shares {
    return (this.shared ??= new Shares(piecesOf(this.text), this.causes));
  }

  /** What each side sent: the client's, the server's. */
  get flows(): [Flow, Flow] {
    return (this.parted ??= [flow(this.packets, 0), flow(this.packets, 1)]);
  }

  get end(): number {
    const { pieces } = this.shares;
    return Math.max(this.begin + 1e-6, this.packets.time[this.count - 1] ?? this.begin, pieces.to[pieces.count - 1] ?? this.begin);
  }
}

/** One direction: who sends it, what was sent, and what the other side said of it. */
export interface Flow {
  side: 0 | 1;
  /** Packets with data, a SYN or a FIN, from their first byte to their last: for the first time, and again. */
  sent: Placed;
  again: Placed;
  /** Up to which byte all has arrived, and up to which more may come. */
  acked: Placed;
  edge: Placed;
  /** What has arrived ahead of a gap. */
  ahead: Placed;
  bytes: number;
}

/** Marks with the places of their packets. */
interface Placed {
  packets: Uint32Array;
  marks: Marks;
}

/** Collects marks, of which nobody knows beforehand how many there will be. */
class Collected {
  private room = 256;
  private count = 0;
  private packets = new Uint32Array(this.room);
  private time = new Float64Array(this.room);
  private low = new Float64Array(this.room);
  private high = new Float64Array(this.room);

  add(packet: number, time: number, low: number, high: number): void {
    if (this.count === this.room) this.grow();
    this.packets[this.count] = packet;
    this.time[this.count] = time;
    this.low[this.count] = low;
    this.high[this.count] = high;
    this.count += 1;
  }

  private grow(): void {
    this.room *= 2;
    const more = <T extends Uint32Array | Float64Array>(column: T, larger: T): T => {
      larger.set(column);
      return larger;
    };
    this.packets = more(this.packets, new Uint32Array(this.room));
    this.time = more(this.time, new Float64Array(this.room));
    this.low = more(this.low, new Float64Array(this.room));
    this.high = more(this.high, new Float64Array(this.room));
  }

  done(): Placed {
    const { count } = this;
    return { packets: this.packets.subarray(0, count), marks: new Marks(this.time.subarray(0, count), this.low.subarray(0, count), this.high.subarray(0, count)) };
  }
}

function flow({ count, time, kind, length, seq, ack, window, blocks }: Packets, side: 0 | 1): Flow {
  const [sent, again, acked, edge, ahead] = [new Collected(), new Collected(), new Collected(), new Collected(), new Collected()];
  const own = side === 1 ? SERVER : 0;
  let [bytes, block] = [0, 0];
  for (let i = 0; i < count; i++) {
    const [is, at, size] = [kind[i] ?? 0, time[i] ?? 0, length[i] ?? 0];
    const from = seq[i] ?? 0;
    const other = (is & SERVER) !== own;
    for (; blocks.packet[block] === i; block++) if (other) ahead.add(i, at, blocks.from[block] ?? 0, blocks.to[block] ?? 0);
    if (is & STRAY) continue;
    if (other && is & ACK) {
      const [to, room] = [ack[i] ?? 0, window[i] ?? 0];
      acked.add(i, at, to, to);
      edge.add(i, at, to + room, to + room);
    } else if (!other && (size > 0 || is & (SYN | FIN))) {
      (is & AGAIN ? again : sent).add(i, at, from, from + size);
      if (!(is & AGAIN)) bytes += size;
    }
  }
  return { side, sent: sent.done(), again: again.done(), acked: acked.done(), edge: edge.done(), ahead: ahead.done(), bytes };
}
