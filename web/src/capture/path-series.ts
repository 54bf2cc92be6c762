// What the packets show of the path over time, for the data of one side: RTT, bytes in flight, the receive window, and the
// bytes that passed. The definitions are those of the Rust module `explain::counters`.

import { ACK, FIN, lowerBound, OUT_OF_WINDOW, RETRANSMISSION, SERVER, SYN, type Packets } from "./decode";
import { MarkPyramid } from "./mark-pyramid";

export interface PathSeries {
  /** RTT samples in seconds, each at the time of its acknowledgement. */
  rtt: MarkPyramid;
  /** The bytes in flight after each packet, and the window that the receiver offered. */
  flight: MarkPyramid;
  window: MarkPyramid;
  /** When data passed, and the bytes until then; retransmissions count. */
  sent: { time: Float64Array; bytes: Float64Array };
}

/** A column of values over time that grows. */
class Column {
  private readonly time: number[] = [];
  private readonly value: number[] = [];

  add(time: number, value: number): void {
    const last = this.time.length - 1;
    if (this.time[last] === time) this.value[last] = value;
    else {
      this.time.push(time);
      this.value.push(value);
    }
  }

  /** Adds a value, even if there is another at the same time. */
  append(time: number, value: number): void {
    this.time.push(time);
    this.value.push(value);
  }

  get times(): Float64Array {
    return Float64Array.from(this.time);
  }

  get values(): Float64Array {
    return Float64Array.from(this.value);
  }

  build(): MarkPyramid {
    const values = this.values;
    return new MarkPyramid(this.times, values, values);
  }
}

/** The series of the data that one side sent. */
export function pathSeries({ count, time, kind, length, seq, ack, window }: Packets, side: 0 | 1): PathSeries {
  const [rtt, flight, windows, sent] = [new Column(), new Column(), new Column(), new Column()];
  const senderBit = side === 1 ? SERVER : 0;
  /** Data that is not acknowledged: its end, and when it was sent. */
  const unacked: { end: number; at: number }[] = [];
  let oldest = 0;
  let [next, acked, ambiguousUntil, total] = [0, -Infinity, -Infinity, 0];
  let hasData = false;
  for (let i = 0; i < count; i++) {
    const [bits, at, size] = [kind[i] ?? 0, time[i] ?? 0, length[i] ?? 0];
    if (bits & OUT_OF_WINDOW) continue;
    if ((bits & SERVER) === senderBit) {
      if (size === 0 && !(bits & (SYN | FIN))) continue;
      const end = (seq[i] ?? 0) + size + (bits & SYN ? 1 : 0) + (bits & FIN ? 1 : 0);
      if (bits & RETRANSMISSION || (hasData && end <= next)) ambiguousUntil = Math.max(next, end);
      else unacked.push({ end, at });
      next = hasData ? Math.max(next, end) : end;
      hasData = true;
      if (acked === -Infinity) acked = seq[i] ?? 0;
      if (size > 0) {
        total += size;
        sent.append(at, total);
      }
      flight.add(at, Math.max(0, next - acked));
    } else if (bits & ACK) {
      const upTo = ack[i] ?? 0;
      windows.add(at, window[i] ?? 0);
      if (upTo <= acked || !hasData) continue;
      acked = upTo;
      let newest: { end: number; at: number } | undefined;
      for (; (unacked[oldest]?.end ?? Infinity) <= upTo; oldest++) newest = unacked[oldest];
      if (newest && newest.end > ambiguousUntil) rtt.add(at, at - newest.at);
      flight.add(at, Math.max(0, next - acked));
    }
  }
  return { rtt: rtt.build(), flight: flight.build(), window: windows.build(), sent: { time: sent.times, bytes: sent.values } };
}

/** The bytes that passed before a time. */
function bytesBefore({ time, bytes }: PathSeries["sent"], at: number): number {
  return bytes[lowerBound(time, at) - 1] ?? 0;
}

/** Bits per second in `count` bins from a time on. */
export function throughput(sent: PathSeries["sent"], from: number, bin: number, count: number): Float64Array {
  const rates = new Float64Array(count);
  let before = bytesBefore(sent, from);
  for (let n = 0; n < count; n++) {
    const after = bytesBefore(sent, from + (n + 1) * bin);
    rates[n] = (8 * (after - before)) / bin;
    before = after;
  }
  return rates;
}

/** The shortest bin of a throughput graph, in seconds: packets are no rate. */
const MIN_BIN = 0.001;

/** The length of a bin, in seconds, if about `wanted` of them are visible: 1, 2 or 5 times a power of ten. */
export function binLength(visible: number, wanted: number): number {
  const min = Math.max(MIN_BIN, visible / Math.max(1, wanted));
  const power = 10 ** Math.floor(Math.log10(min) + 1e-9);
  return ([1, 2, 5, 10].find((step) => step * power >= min * 0.999) ?? 10) * power;
}
