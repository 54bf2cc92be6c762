// Titles and colours of causes. A cause of a newer `explain` that is unknown here keeps its name and is grey.
//
// Nobody can distinguish twenty colours. So the hue (of Okabe and Ito's eight) shows the kind of a cause, the lightness the
// cause within its kind, and every bar has names next to it.

interface CauseStyle {
  title: string;
  /** Hue and lightness, as classes in theme.css. */
  kind: Kind;
  step: 1 | 2 | 3 | 4 | 5;
}

export type Kind = "distance" | "path" | "loss" | "window" | "ack" | "program" | "nothing";

const CAUSES: Record<string, CauseStyle> = {
  propagation: { title: "round trips", kind: "distance", step: 1 },
  connect: { title: "TCP handshakes", kind: "distance", step: 2 },
  tls: { title: "TLS handshakes", kind: "distance", step: 3 },
  quic: { title: "QUIC handshakes", kind: "distance", step: 3 },
  name_lookup: { title: "name lookups", kind: "distance", step: 4 },
  connect_retry: { title: "connection retries", kind: "loss", step: 3 },
  queueing: { title: "queues on the path", kind: "path", step: 2 },
  path_rate: { title: "link saturated", kind: "path", step: 1 },
  shared_link: { title: "link shared", kind: "path", step: 3 },
  retransmission_timeout: { title: "retransmission timeouts", kind: "loss", step: 1 },
  fast_recovery: { title: "fast recovery", kind: "loss", step: 2 },
  slow_start: { title: "slow start", kind: "window", step: 1 },
  congestion_window: { title: "congestion window full", kind: "window", step: 2 },
  receive_window: { title: "receive window full", kind: "window", step: 3 },
  http_flow_control: { title: "HTTP/2 window full", kind: "window", step: 4 },
  receiver_stalled: { title: "receiver not reading", kind: "window", step: 5 },
  delayed_ack: { title: "delayed ACKs", kind: "ack", step: 1 },
  nagle: { title: "Nagle's algorithm", kind: "ack", step: 2 },
  send_buffer: { title: "send buffer full", kind: "ack", step: 3 },
  pacing: { title: "sender pacing", kind: "ack", step: 4 },
  server_think: { title: "server at work", kind: "program", step: 1 },
  client_think: { title: "client at work", kind: "program", step: 2 },
  sender_idle: { title: "sender idle", kind: "program", step: 3 },
  expect_continue: { title: "waiting for 100 Continue", kind: "program", step: 4 },
  machine: { title: "machine busy", kind: "nothing", step: 2 },
  idle: { title: "link idle", kind: "nothing", step: 1 },
};

/** By name; a map, so that a cause with the name `constructor` is unknown. */
const KNOWN = new Map(Object.entries(CAUSES));

/** A cause's title. */
export function title(cause: string): string {
  return KNOWN.get(cause)?.title ?? cause.replace(/_/g, " ");
}

/** The classes with its colour, for HTML (`background: var(--cause)`) and SVG (`fill: var(--cause)`). */
export function classes(cause: string): string {
  const { kind, step } = KNOWN.get(cause) ?? { kind: "nothing", step: 2 };
  return `cause ${kind} step${step}`;
}

/** Causes in the order of every bar: that of the list above, then unknown ones. */
export function ordered(causes: Iterable<string>): string[] {
  const names = [...KNOWN.keys()];
  const rank = (cause: string) => (names.includes(cause) ? names.indexOf(cause) : names.length);
  return [...causes].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
}
