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
  /** The operating systems of the ends, by their SYNs. */
  system: { client: string | null; server: string | null; signs: { client: Sign | null; server: Sign | null } };
  vantage: "client" | "server" | "middle" | "unknown";
  packets: number;
  /** Of the packets that the client sent, and the server. */
  counters: { up: Counters; down: Counters };
  trace: TraceText | null;
}

/** The packet that shows a system, and why. */
export interface Sign {
  packet: number;
  why: string;
}

/** Counters of the packets that one end sent, with the meanings of tcptrace. */
export interface Counters {
  packets: number;
  data_packets: number;
  data_bytes: number;
  unique_bytes: number;
  retransmitted_packets: number;
  retransmitted_bytes: number;
  out_of_order_packets: number;
  duplicate_acks: number;
  sack_packets: number;
  zero_windows: number;
  max_window: number;
  mss: number | null;
  max_segment: number;
  rtt_ms: { min: number; median: number; max: number; samples: number } | null;
  max_in_flight: number;
  median_in_flight: number;
  throughput_bits: number | null;
}

/** The phases of a transfer; they add up to its duration. */
export type Phase = "blocked" | "dns" | "connect" | "tls" | "send" | "wait" | "receive";

/** Packets and intervals of time, in the encoding of the Rust module `explain::packet_trace`. */
export interface TraceText {
  begin_s: number;
  count: number;
  packets: string;
  pieces: string;
}

export interface Transfer {
  connection: number;
  /** Its request and status, or its place in its connection. */
  name: string;
  what: string;
  status: string;
  direction: "upload" | "download";
  start_s: number;
  duration_s: number;
  bytes: number;
  time_s: Record<string, number>;
  phases_s: Record<Phase, number>;
  cause: string | null;
  findings: Finding[];
  /** Avoidable causes that took too little for a finding, in a sentence each, with the option that removes it. */
  also: string[];
  predictions: Predictions | null;
}

export interface Finding {
  cause: string;
  title: string;
  cost_s: number;
  packets: number[];
  why: string;
  /** Those for the systems of the connection first. */
  fix: Fix[];
  change: string | null;
}

/** A change. `applies` is false if it is for another system than the one seen, and null if none was seen. */
export interface Fix {
  system: string;
  how: string;
  but: string;
  applies: boolean | null;
}

export interface Predictions {
  before_s: number | null;
  model_error: number | null;
  declined: string | null;
  after: { change: string; bytes: number | null; duration_s: number }[];
}
