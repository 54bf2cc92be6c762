// What the views ask of a capture.

import { lowerBound } from "./decode";
import type { CaptureView, Connection, Finding, Transfer } from "./schema";
import { Trace } from "./trace";

/** A piece of time and its cause. */
export interface Band {
  from: number;
  to: number;
  cause: string;
  /** The number of the packet that ended it, where one did. */
  packet?: number;
}

export class Capture {
  private readonly traces = new Map<number, Trace | null>();
  constructor(readonly data: CaptureView) {}

  /** A connection's trace; null if its packets are not in the page. */
  trace(connection: number): Trace | null {
    let trace = this.traces.get(connection);
    if (trace === undefined) {
      const one = this.data.connections[connection];
      trace = one?.trace ? new Trace(one, one.trace, this.data.causes.length) : null;
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
    const { pieces } = trace.shares;
    const bands: Band[] = [];
    // A piece that is shorter than a page's times are exact belongs to its neighbours.
    for (let i = trace.shares.after(from); i < pieces.count && (pieces.from[i] ?? 0) < to; i++) {
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

  /** The trace that has all of a transfer's time in order; null if the page has only the sums. */
  ordered(transfer: Transfer): Trace | null {
    const trace = this.trace(transfer.connection);
    const pieces = trace?.shares.pieces;
    if (!trace || !pieces || pieces.count === 0) return null;
    const [first, last] = [pieces.from[0] ?? 0, pieces.to[pieces.count - 1] ?? 0];
    const { start_s: start, duration_s: whole } = transfer;
    return start < first - 2e-6 || start + whole > last + 2e-6 ? null : trace;
  }

  /** A transfer's time in order; null if the page has only the sums. */
  order(transfer: Transfer): Band[] | null {
    const trace = this.ordered(transfer);
    return trace && this.bands(trace, transfer.start_s, transfer.start_s + transfer.duration_s);
  }

  /** The same in at most so many pieces; if there are more, of each stretch only what most of it was spent on. */
  outline(transfer: Transfer, most: number): { bands: Band[]; exact: boolean } | null {
    const trace = this.ordered(transfer);
    if (!trace) return null;
    const { shares } = trace;
    const { start_s: start, duration_s: whole } = transfer;
    if (shares.after(start + whole) - shares.after(start) <= most) return { bands: this.bands(trace, start, start + whole), exact: true };
    const drawn: Band[] = [];
    for (let n = 0; n < most; n++) {
      const [from, to] = [start + (n * whole) / most, start + ((n + 1) * whole) / most];
      const found = shares.largest(from, to);
      const [cause, last] = [this.cause(found), drawn[drawn.length - 1]];
      if (found >= 0 && last?.cause === cause && last.to === from) last.to = to;
      else if (found >= 0) drawn.push({ from, to, cause });
    }
    return { bands: drawn, exact: false };
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

/** What a transfer is called. */
export function nameOf(transfer: Transfer): string {
  if (transfer.what === "") return transfer.bytes === 0 ? "connect" : transfer.direction;
  return transfer.status === "" ? transfer.what : `${transfer.what} → ${transfer.status}`;
}
