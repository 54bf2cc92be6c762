// From a trace's text to columns. A packet is some nine bytes: numbers of variable length, each the difference from
// what was to be expected; the Rust module `explain::packet_trace` says of which. 200,000 of them take some 20 ms.

import type { TraceText } from "./schema";

/** The bits of a packet's kind; the lowest are TCP's flags. */
export const FIN = 1;
export const SYN = 2;
export const RST = 4;
export const ACK = 16;
export const SERVER = 64;
export const AGAIN = 128;
export const PROBE = 256;
const BLOCKS = 512;
export const STRAY = 1024;

/** Packets, in columns. */
export interface Packets {
  count: number;
  /** The packet's number in its capture. */
  number: Uint32Array;
  /** When it passed, in seconds. */
  time: Float64Array;
  kind: Uint16Array;
  /** The first byte; its sender's first byte of data is 0. */
  seq: Float64Array;
  length: Uint32Array;
  /** The other side's byte that its sender expects next. */
  ack: Float64Array;
  /** In bytes. */
  window: Float64Array;
  /** Blocks acknowledged selectively: by the packet in which place, from which byte to which. */
  blocks: { packet: Uint32Array; from: Float64Array; to: Float64Array };
}

/** Pieces of time, one after another. */
export interface Pieces {
  count: number;
  from: Float64Array;
  to: Float64Array;
  /** Its cause's place in the list of causes. */
  cause: Uint8Array;
  /** The number of the packet that ended it. */
  number: Uint32Array;
}

class Reader {
  private at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  get done(): boolean {
    return this.at >= this.bytes.length;
  }

  next(): number {
    let byte = this.bytes[this.at++] ?? 0;
    if (byte < 128) return byte;
    let value = byte & 127;
    for (let worth = 128; byte >= 128; worth *= 128) {
      byte = this.bytes[this.at++] ?? 0;
      value += (byte & 127) * worth;
    }
    return value;
  }

  signed(): number {
    const value = this.next();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }
}

function bytesOf(base64: string): Uint8Array {
  // Several times as fast, where the browser has it.
  const { fromBase64 } = Uint8Array as { fromBase64?: (text: string) => Uint8Array };
  if (fromBase64) return fromBase64.call(Uint8Array, base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export function packetsOf(trace: TraceText): Packets {
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
    blocks: { packet: new Uint32Array(), from: new Float64Array(), to: new Float64Array() },
  };
  const blocks: [number[], number[], number[]] = [[], [], []];
  const reader = new Reader(bytesOf(trace.packets));
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
    if (kind & BLOCKS) {
      for (let left = reader.next(); left > 0; left--) {
        const from = last.ack + reader.signed();
        blocks[0].push(i);
        blocks[1].push(from);
        blocks[2].push(from + reader.next());
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
  packets.blocks = { packet: Uint32Array.from(blocks[0]), from: Float64Array.from(blocks[1]), to: Float64Array.from(blocks[2]) };
  return packets;
}

export function piecesOf(trace: TraceText): Pieces {
  const bytes = bytesOf(trace.pieces);
  const reader = new Reader(bytes);
  // A piece is three bytes at least.
  const most = Math.ceil(bytes.length / 3);
  const [from, to, cause, number] = [new Float64Array(most), new Float64Array(most), new Uint8Array(most), new Uint32Array(most)];
  let [count, micros, last] = [0, 0, 0];
  for (; !reader.done && count < most; count++) {
    from[count] = trace.begin_s + micros / 1e6;
    micros += reader.next();
    to[count] = trace.begin_s + micros / 1e6;
    cause[count] = reader.next();
    last += reader.signed();
    number[count] = last;
  }
  return { count, from, to, cause, number };
}

/** The first place from `first` on in a rising column whose value is at least `value`; `end` if none is. */
export function lowerBound(column: Float64Array | Uint32Array, value: number, end = column.length, first = 0): number {
  let low = first;
  let high = end;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((column[middle] ?? 0) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}
