// Decodes a trace into columns. A packet takes about nine bytes: differences as numbers of variable length (LEB128), as
// the Rust module `explain::packet_trace` describes. Decoding 200,000 packets takes about 20 ms.

import type { TraceText } from "./schema";

/** The bits of a packet's kind; the lowest are the TCP flags. */
export const FIN = 1;
export const SYN = 2;
export const RST = 4;
export const ACK = 16;
export const SERVER = 64;
export const RETRANSMISSION = 128;
export const PROBE = 256;
const HAS_SACK = 512;
export const OUT_OF_WINDOW = 1024;

/** Packets, in columns. */
export interface Packets {
  count: number;
  /** The packet's number in its capture. */
  number: Uint32Array;
  /** Its time, in seconds. */
  time: Float64Array;
  kind: Uint16Array;
  /** The relative sequence number: its sender's first byte of data is 0. */
  seq: Float64Array;
  length: Uint32Array;
  /** The relative acknowledgement number. */
  ack: Float64Array;
  /** In bytes. */
  window: Float64Array;
  /** SACK blocks: the packet's index, the first byte, and the byte after the last. */
  sack: { packet: Uint32Array; from: Float64Array; to: Float64Array };
}

/** Intervals of time, one after another. */
export interface Intervals {
  count: number;
  from: Float64Array;
  to: Float64Array;
  /** The index of its cause. */
  cause: Uint8Array;
  /** The number of the packet that ended it. */
  number: Uint32Array;
}

class VarintReader {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  get done(): boolean {
    return this.at >= this.bytes.length;
  }

  next(): number {
    let byte = this.bytes[this.at++] ?? 0;
    if (byte < 128) return byte;
    let value = byte & 127;
    for (let factor = 128; byte >= 128; factor *= 128) {
      byte = this.bytes[this.at++] ?? 0;
      value += (byte & 127) * factor;
    }
    return value;
  }

  signed(): number {
    const value = this.next();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
}

function decodeBase64(base64: string): Uint8Array {
  // Several times as fast, if the browser has it.
  const { fromBase64 } = Uint8Array as { fromBase64?: (text: string) => Uint8Array };
  if (fromBase64) return fromBase64.call(Uint8Array, base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export function decodePackets(trace: TraceText): Packets {
  const { count, begin_s: begin } = trace;
  const packets: Packets = {
    count,
    number: new Uint32Array(count),
    time: new Float64Array(count),
    kind: new Uint16Array(count),
    seq: new Float64Array(count),
    length: new Uint32Array(count),
    ack: new Float64Array(count),
    window: new Float64Array(count),
    sack: { packet: new Uint32Array(), from: new Float64Array(), to: new Float64Array() },
  };
  const sack: [number[], number[], number[]] = [[], [], []];
  const reader = new VarintReader(decodeBase64(trace.packets));
  const side = () => ({ end: 0, ack: 0, window: 0 });
  const sides = [side(), side()] as const;
  let number = 0;
  let micros = 0;
  for (let i = 0; i < count; i++) {
    number += reader.next();
    micros += reader.next();
    const kind = reader.next();
    const last = sides[kind & SERVER ? 1 : 0];
    const seq = last.end + reader.signed();
    const length = reader.next();
    if (kind & ACK) last.ack += reader.signed();
    last.window += reader.signed();
    if (kind & HAS_SACK) {
      for (let left = reader.next(); left > 0; left--) {
        const from = last.ack + reader.signed();
        sack[0].push(i);
        sack[1].push(from);
        sack[2].push(from + reader.next());
      }
    }
    last.end = seq + length + (kind & SYN ? 1 : 0) + (kind & FIN ? 1 : 0);
    packets.number[i] = number;
    packets.time[i] = begin + micros / 1e6;
    packets.kind[i] = kind;
    packets.seq[i] = seq;
    packets.length[i] = length;
    packets.ack[i] = last.ack;
    packets.window[i] = last.window;
  }
  packets.sack = { packet: Uint32Array.from(sack[0]), from: Float64Array.from(sack[1]), to: Float64Array.from(sack[2]) };
  return packets;
}

export function decodeIntervals(trace: TraceText): Intervals {
  const bytes = decodeBase64(trace.pieces);
  const reader = new VarintReader(bytes);
  // An interval takes at least three bytes.
  const capacity = Math.ceil(bytes.length / 3);
  const [from, to, cause, number] = [new Float64Array(capacity), new Float64Array(capacity), new Uint8Array(capacity), new Uint32Array(capacity)];
  let [count, micros, last] = [0, 0, 0];
  for (; !reader.done && count < capacity; count++) {
    from[count] = trace.begin_s + micros / 1e6;
    micros += reader.next();
    to[count] = trace.begin_s + micros / 1e6;
    cause[count] = reader.next();
    last += reader.signed();
    number[count] = last;
  }
  return { count, from, to, cause, number };
}

/** The first index from `first` on in an ascending column with at least `value`; `end` if there is none. */
export function lowerBound(column: Float64Array | Uint32Array, value: number, end = column.length, first = 0): number {
  let [low, high] = [first, end];
  if (first > 0) {
    // From a given index on, the value is mostly near: ever longer steps find the range.
    let step = 1;
    while (low + step < end && (column[low + step - 1] ?? 0) < value) {
      low += step;
      step *= 2;
    }
    high = Math.min(end, low + step);
  }
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((column[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
