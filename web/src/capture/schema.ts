// The schema `longhaul.view/1`, which `explain::render::page` writes. Times are in seconds since the first trigger of the
// first connection.

export interface CaptureView {
  schema: "longhaul.view/1";
  /** The files. */
  captures: string[];
  /** The conclusion, in a sentence or two. */
  answer: string;
  /** The number of packets that were read, and of those in a trace. */
  packets: number;
  packets_kept: number;
  /** The number of transfers; those with the largest losses are listed. */
  transfers_seen: number;
  /** The causes; an interval of a trace has an index into them. */
  causes: CauseName[];
  connections: Connection[];
  /** Largest loss first. */
  transfers: Transfer[];
  /** Page loads: transfers of a client over several connections. */
  pages: Page[];
}

export interface Page {
  client: string;
  duration_s: number;
  transfers: number;
  /** Along the critical path. */
  time_s: Record<string, number>;
  /** The transfers on the critical path, in order: indexes of `transfers`. */
  path: number[];
}

export interface CauseName {
  name: string;
  title: string;
  avoidable: boolean;
}

export interface Connection {
  client: string;
  server: string;
  capture: number;
  also: number[];
  rtt_s: number;
  mss: number;
  rate_bits: number | null;
  chunk: number | null;
  vantage: "client" | "server" | "middle" | "unknown";
  packets: number;
  trace: TraceText | null;
}

/** Packets and intervals of time, in the encoding of the Rust module `explain::packet_trace`. */
export interface TraceText {
  begin_s: number;
  count: number;
  packets: string;
  pieces: string;
}

export interface Transfer {
  connection: number;
  what: string;
  status: string;
  direction: "upload" | "download";
  start_s: number;
  duration_s: number;
  bytes: number;
  time_s: Record<string, number>;
  cause: string | null;
  findings: Finding[];
  predictions: Predictions | null;
}

export interface Finding {
  cause: string;
  title: string;
  cost_s: number;
  packets: number[];
  why: string;
  fix: { system: string; how: string; but: string }[];
  change: string | null;
}

export interface Predictions {
  before_s: number | null;
  model_error: number | null;
  declined: string | null;
  after: { change: string; bytes: number | null; duration_s: number }[];
}
