// The schema `longhaul.view/1`: what `explain::render::page` writes. Times are in seconds from the first cause of the first
// connection on.

export interface CaptureView {
  schema: "longhaul.view/1";
  /** The files it was read from. */
  captures: string[];
  /** What there is to say, in a sentence. */
  answer: string;
  /** How many packets were read, and of how many stand in a trace. */
  packets: number;
  packets_kept: number;
  /** How many transfers there were; those that lost most are listed. */
  transfers_seen: number;
  /** A piece of a trace names a cause by its place here. */
  causes: CauseName[];
  connections: Connection[];
  /** Those that lost most first. */
  transfers: Transfer[];
  /** What a client did over several connections. */
  pages: Page[];
}

export interface Page {
  client: string;
  duration_s: number;
  transfers: number;
  /** Along the critical path. */
  time_s: Record<string, number>;
  /** The transfers that waited for one another, in order: places in `transfers`. */
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

/** Packets and pieces of time, coded as the Rust module `explain::packet_trace` says. */
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
