// The captured data, as the views query it.

import { lowerBound } from "./decode";
import type { CaptureView, Connection, Finding, Transfer } from "./schema";
import { Trace } from "./trace";

/** An interval of time and its cause. */
export interface CauseInterval {
  from: number;
  to: number;
  cause: string;
  /** The number of the packet that ended it, if one did. */
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
    if (!one) throw new Error("a transfer has an unknown connection");
    return one;
  }

  causeName(index: number): string {
    return this.data.causes[index]?.name ?? "unknown";
  }

  /** The intervals between two times; neighbours with the same cause are merged. */
  intervals(trace: Trace, from: number, to: number): CauseInterval[] {
    const { intervals: traced } = trace.causeSums;
    const intervals: CauseInterval[] = [];
    // Intervals that are shorter than the precision of the times are skipped.
    for (let i = trace.causeSums.firstEndingAfter(from); i < traced.count && (traced.from[i] ?? 0) < to; i++) {
      const cause = this.causeName(traced.cause[i] ?? 0);
      const [begin, end] = [Math.max(from, traced.from[i] ?? 0), Math.min(to, traced.to[i] ?? 0)];
      if (end <= begin) continue;
      const last = intervals[intervals.length - 1];
      const packet = traced.number[i] ?? 0;
      if (last?.cause === cause) Object.assign(last, { to: end, packet });
      else intervals.push({ from: begin, to: end, cause, packet });
    }
    return intervals;
  }

  /** The trace with all intervals of a transfer; null if the page has only the sums. */
  completeTrace(transfer: Transfer): Trace | null {
    const trace = this.trace(transfer.connection);
    const traced = trace?.causeSums.intervals;
    if (!trace || !traced || traced.count === 0) return null;
    const [first, last] = [traced.from[0] ?? 0, traced.to[traced.count - 1] ?? 0];
    const { start_s: start, duration_s: duration } = transfer;
    return start < first - 2e-6 || start + duration > last + 2e-6 ? null : trace;
  }

  /** A transfer's intervals; null if the page has only the sums. */
  intervalsOf(transfer: Transfer): CauseInterval[] | null {
    const trace = this.completeTrace(transfer);
    return trace && this.intervals(trace, transfer.start_s, transfer.start_s + transfer.duration_s);
  }

  /** At most `max` intervals of a transfer; if it has more, equal intervals with the largest cause of each. */
  outline(transfer: Transfer, max: number): { intervals: CauseInterval[]; exact: boolean } | null {
    const trace = this.completeTrace(transfer);
    if (!trace) return null;
    const { causeSums } = trace;
    const { start_s: start, duration_s: duration } = transfer;
    if (causeSums.firstEndingAfter(start + duration) - causeSums.firstEndingAfter(start) <= max) return { intervals: this.intervals(trace, start, start + duration), exact: true };
    const merged: CauseInterval[] = [];
    for (let n = 0; n < max; n++) {
      const [from, to] = [start + (n * duration) / max, start + ((n + 1) * duration) / max];
      const largest = causeSums.largestCause(from, to);
      const [cause, last] = [this.causeName(largest), merged[merged.length - 1]];
      if (largest >= 0 && last?.cause === cause && last.to === from) last.to = to;
      else if (largest >= 0) merged.push({ from, to, cause });
    }
    return { intervals: merged, exact: false };
  }

  /** The intervals between a packet and the one before it; time after the last transfer is idle. */
  waitBefore(trace: Trace, packet: number): CauseInterval[] {
    const { time } = trace.packets;
    const before = packet === 0 ? trace.begin : (time[packet - 1] ?? 0);
    const now = time[packet] ?? 0;
    const intervals = this.intervals(trace, before, now);
    const end = intervals[intervals.length - 1]?.to ?? before;
    if (now - end > 2e-6) intervals.push({ from: end, to: now, cause: "idle" });
    return intervals;
  }

  /** The transfer of a connection at a time. */
  transferAt(connection: number, time: number): Transfer | undefined {
    return this.data.transfers.find((one) => one.connection === connection && one.start_s <= time + 1e-6 && time <= one.start_s + one.duration_s + 1e-6);
  }

  /** The finding with this packet as evidence, or else the one with the largest cause of the wait before it. */
  findingAt(trace: Trace, packet: number): { transfer: Transfer; finding: Finding; evidence: boolean } | null {
    const connection = this.data.connections.indexOf(trace.connection);
    const transfer = this.transferAt(connection, trace.packets.time[packet] ?? 0);
    if (!transfer) return null;
    const shown = transfer.findings.find((one) => one.packets.includes(trace.packets.number[packet] ?? -1));
    if (shown) return { transfer, finding: shown, evidence: true };
    const longest = this.waitBefore(trace, packet).sort((a, b) => b.to - b.from - (a.to - a.from))[0];
    const finding = transfer.findings.find((one) => one.cause === longest?.cause);
    return finding ? { transfer, finding, evidence: false } : null;
  }

  /** The index of the packet with this number in the capture; null if it is not in the trace. */
  packetIndex(trace: Trace, number: number): number | null {
    const index = lowerBound(trace.packets.number, number);
    if (trace.packets.number[index] === number) return index;
    // Printed captures may number their packets out of order.
    const outOfOrder = trace.packets.number.indexOf(number);
    return outOfOrder >= 0 ? outOfOrder : null;
  }
}

/** A transfer's name. */
export function transferName(transfer: Transfer): string {
  return transfer.name;
}
