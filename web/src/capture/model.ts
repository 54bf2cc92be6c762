// What the views ask of a capture. A connection's trace is decoded when it is first looked at.

import { ACK, AGAIN, FIN, lowerBound, packetsOf, piecesOf, SERVER, STRAY, SYN, type Packets, type Pieces } from "./decode";
import type { CaptureView, Connection, Finding, Transfer } from "./schema";

/** A piece of time and its cause. */
export interface Band {
  from: number;
  to: number;
  cause: string;
  /** The number of the packet that ended it, where one did. */
  packet?: number;
}

export interface Trace {
  connection: Connection;
  packets: Packets;
  pieces: Pieces;
  begin: number;
  end: number;
  /** What each side sent: the client's, the server's. */
  flows: [Flow, Flow];
}

/** One direction: who sends it, what was sent, and what was said of it. */
export interface Flow {
  side: 0 | 1;
  /** Places of packets with data, a SYN or a FIN; and of the other side's acknowledgements. */
  data: Uint32Array;
  acks: Uint32Array;
  dataTime: Float64Array;
  acksTime: Float64Array;
  bytes: number;
  again: number;
}

export class Capture {
  private readonly traces = new Map<number, Trace | null>();
  constructor(readonly data: CaptureView) {}

  /** A connection's trace; null if its packets are not in the page. */
  trace(connection: number): Trace | null {
    let trace = this.traces.get(connection);
    if (trace === undefined) {
      const one = this.data.connections[connection];
      trace = one?.trace ? read(one) : null;
      this.traces.set(connection, trace);
    }
    return trace;
  }

  connection(transfer: Transfer): Connection {
    const one = this.data.connections[transfer.connection];
    if (!one) throw new Error("a transfer names a connection that is not there");
    return one;
  }

  cause(place: number): string {
    return this.data.causes[place]?.name ?? "unknown";
  }

  /** What the time from one moment to another was spent on, in order, neighbours of the same cause joined. */
  bands(trace: Trace, from: number, to: number): Band[] {
    const { pieces } = trace;
    const bands: Band[] = [];
    // A piece that is shorter than a page's times are exact belongs to its neighbours.
    for (let i = firstAfter(pieces, from); i < pieces.count && (pieces.from[i] ?? 0) < to; i++) {
      const cause = this.cause(pieces.cause[i] ?? 0);
      const [begin, end] = [Math.max(from, pieces.from[i] ?? 0), Math.min(to, pieces.to[i] ?? 0)];
      if (end <= begin) continue;
      const last = bands[bands.length - 1];
      const packet = pieces.number[i] ?? 0;
      if (last?.cause === cause) Object.assign(last, { to: end, packet });
      else bands.push({ from: begin, to: end, cause, packet });
    }
    return bands;
  }

  /** A transfer's time in order; null if the page has only the sums. */
  order(transfer: Transfer): Band[] | null {
    const trace = this.trace(transfer.connection);
    const end = transfer.start_s + transfer.duration_s;
    if (!trace || trace.pieces.count === 0) return null;
    const [first, last] = [trace.pieces.from[0] ?? 0, trace.pieces.to[trace.pieces.count - 1] ?? 0];
    if (transfer.start_s < first - 2e-6 || end > last + 2e-6) return null;
    return this.bands(trace, transfer.start_s, end);
  }

  /** What the time between a packet and the one before it was spent on; when all was over, nobody waited. */
  gap(trace: Trace, packet: number): Band[] {
    const { time } = trace.packets;
    const before = packet === 0 ? trace.begin : (time[packet - 1] ?? 0);
    const now = time[packet] ?? 0;
    const bands = this.bands(trace, before, now);
    const over = bands[bands.length - 1]?.to ?? before;
    if (now - over > 2e-6) bands.push({ from: over, to: now, cause: "idle" });
    return bands;
  }

  /** Which transfer of a connection a moment belongs to. */
  transferAt(connection: number, time: number): Transfer | undefined {
    return this.data.transfers.find((one) => one.connection === connection && one.start_s <= time + 1e-6 && time <= one.start_s + one.duration_s + 1e-6);
  }

  /** The finding that a packet is evidence of, or whose cause the wait before it had. */
  finding(trace: Trace, packet: number): { transfer: Transfer; finding: Finding; evidence: boolean } | null {
    const place = this.data.connections.indexOf(trace.connection);
    const transfer = this.transferAt(place, trace.packets.time[packet] ?? 0);
    if (!transfer) return null;
    const shown = transfer.findings.find((one) => one.packets.includes(trace.packets.number[packet] ?? -1));
    if (shown) return { transfer, finding: shown, evidence: true };
    const longest = this.gap(trace, packet).sort((a, b) => b.to - b.from - (a.to - a.from))[0];
    const finding = transfer.findings.find((one) => one.cause === longest?.cause);
    return finding ? { transfer, finding, evidence: false } : null;
  }

  /** The place of the packet with a number in its capture; null if it is not in the trace. */
  place(trace: Trace, number: number): number | null {
    const place = lowerBound(trace.packets.number, number);
    if (trace.packets.number[place] === number) return place;
    // Printed captures may number their packets out of order.
    const found = trace.packets.number.indexOf(number);
    return found >= 0 ? found : null;
  }
}

/** The first piece that ends after a moment. */
export function firstAfter(pieces: Pieces, moment: number): number {
  let place = lowerBound(pieces.to, moment, pieces.count);
  while (place < pieces.count && (pieces.to[place] ?? 0) <= moment) place += 1;
  return place;
}

function read(connection: Connection): Trace | null {
  if (!connection.trace) return null;
  const packets = packetsOf(connection.trace);
  const pieces = piecesOf(connection.trace);
  const begin = connection.trace.begin_s;
  const end = Math.max(begin + 1e-6, packets.time[packets.count - 1] ?? begin, pieces.to[pieces.count - 1] ?? begin);
  return { connection, packets, pieces, begin, end, flows: [flow(packets, 0), flow(packets, 1)] };
}

function flow(packets: Packets, side: 0 | 1): Flow {
  const { count, time, kind: kinds, length: lengths } = packets;
  const [data, acks] = [new Uint32Array(count), new Uint32Array(count)];
  const [dataTime, acksTime] = [new Float64Array(count), new Float64Array(count)];
  const own = side === 1 ? SERVER : 0;
  let [sent, acked, bytes, again] = [0, 0, 0, 0];
  for (let i = 0; i < count; i++) {
    const kind = kinds[i] ?? 0;
    const length = lengths[i] ?? 0;
    if (kind & STRAY) continue;
    if ((kind & SERVER) !== own) {
      if (!(kind & ACK)) continue;
      acks[acked] = i;
      acksTime[acked++] = time[i] ?? 0;
    } else if (length > 0 || kind & (SYN | FIN)) {
      data[sent] = i;
      dataTime[sent++] = time[i] ?? 0;
      if (kind & AGAIN) again += 1;
      else bytes += length;
    }
  }
  return {
    side,
    data: data.subarray(0, sent),
    acks: acks.subarray(0, acked),
    dataTime: dataTime.subarray(0, sent),
    acksTime: acksTime.subarray(0, acked),
    bytes,
    again,
  };
}

/** What a transfer is called. */
export function nameOf(transfer: Transfer): string {
  if (transfer.what === "") return transfer.bytes === 0 ? "connect" : transfer.direction;
  return transfer.status === "" ? transfer.what : `${transfer.what} → ${transfer.status}`;
}
