// RTT, bytes in flight, throughput and phases of packets and transfers that are known exactly.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

/** Loads a module of the page. @param {string} name */
const load = async (name) => (await runnerImport(fileURLToPath(new URL(`../src/capture/${name}.ts`, import.meta.url)), { configFile: false, logLevel: "error" })).module;

const [SYN, ACK, SERVER, RETRANSMISSION] = [2, 16, 64, 128];

/** Packets in columns. @param {{ at: number, kind: number, seq?: number, length?: number, ack?: number, window?: number }[]} packets */
function columns(packets) {
  /** @param {(packet: (typeof packets)[number]) => number} value */
  const column = (value) => Float64Array.from(packets, value);
  return { count: packets.length, time: column(({ at }) => at), kind: column(({ kind }) => kind), seq: column(({ seq = 0 }) => seq), length: column(({ length = 0 }) => length), ack: column(({ ack = 0 }) => ack), window: column(({ window = 0 }) => window) };
}

/** @param {{ time: Float64Array, count: number, high: (index: number) => number }} marks */
const pairs = (marks) => Array.from({ length: marks.count }, (_, index) => [marks.time[index], Math.round(1e6 * marks.high(index)) / 1e6]);

/** The third segment is retransmitted, so that its acknowledgement is no sample. */
const UPLOAD = columns([
  { at: 0, kind: SYN, seq: -1 },
  { at: 0.02, kind: SYN | ACK | SERVER, seq: -1, ack: 0, window: 5000 },
  { at: 0.03, kind: ACK, seq: 0, length: 1000 },
  { at: 0.03, kind: ACK, seq: 1000, length: 1000 },
  { at: 0.04, kind: ACK, seq: 2000, length: 1000 },
  { at: 0.05, kind: ACK | SERVER, ack: 1000, window: 6000 },
  { at: 0.055, kind: ACK | SERVER, ack: 2000, window: 4000 },
  { at: 0.3, kind: ACK | RETRANSMISSION, seq: 2000, length: 1000 },
  { at: 0.32, kind: ACK | SERVER, ack: 3000, window: 6000 },
]);

test("rtt_has_no_samples_of_retransmitted_data", async () => {
  const { pathSeries } = await load("path-series");
  assert.deepEqual(pairs(pathSeries(UPLOAD, 0).rtt), [[0.02, 0.02], [0.05, 0.02], [0.055, 0.025]]);
});

test("bytes_in_flight_and_window_follow_acknowledgements", async () => {
  const { pathSeries } = await load("path-series");
  const { flight, window } = pathSeries(UPLOAD, 0);
  assert.deepEqual(pairs(flight).slice(2), [[0.03, 2000], [0.04, 3000], [0.05, 2000], [0.055, 1000], [0.3, 1000], [0.32, 0]]);
  assert.deepEqual(pairs(window), [[0.02, 5000], [0.05, 6000], [0.055, 4000], [0.32, 6000]]);
});

test("throughput_of_all_bins_adds_up_to_the_bytes", async () => {
  const { binLength, pathSeries, throughput } = await load("path-series");
  const { sent } = pathSeries(UPLOAD, 0);
  for (const wanted of [1, 3, 10, 100]) {
    const bin = binLength(0.32, wanted);
    const rates = throughput(sent, 0, bin, Math.ceil(0.33 / bin) + 1);
    const bytes = rates.reduce((/** @type {number} */ sum, /** @type {number} */ each) => sum + (each * bin) / 8, 0);
    assert.ok(Math.abs(bytes - 4000) < 1e-6, `${bytes} bytes in bins of ${bin}`);
  }
  assert.deepEqual([0.1, 0.3, 7, 1e-5].map((visible) => binLength(visible, 10)), [0.01, 0.05, 1, 0.001]);
});

test("phases_are_in_order_of_time_and_fill_the_transfer", async () => {
  const { phasesOf } = await load("phases");
  const transfer = { start_s: 1, duration_s: 10, phases_s: { blocked: 3, dns: 1, connect: 1, tls: 1, send: 0, wait: 2, receive: 2 } };
  /** @param {{ phase: string, from: number, to: number }[]} phases */
  const text = (phases) => phases.map(({ phase, from, to }) => `${phase} ${from}–${to}`).join(", ");
  assert.equal(text(phasesOf(transfer)), "dns 1–2, connect 2–3, tls 3–4, blocked 4–7, wait 7–9, receive 9–11");
  // The client paused for two seconds between lookup and connect, and for one after the handshakes.
  const intervals = [
    { from: 1, to: 2, cause: "name_lookup" },
    { from: 2, to: 4, cause: "client_think" },
    { from: 4, to: 5, cause: "connect" },
    { from: 5, to: 6, cause: "tls" },
    { from: 6, to: 11, cause: "constructor" },
  ];
  assert.equal(text(phasesOf(transfer, intervals)), "dns 1–2, blocked 2–4, connect 4–5, tls 5–6, blocked 6–7, wait 7–9, receive 9–11");
});
