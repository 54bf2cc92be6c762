// Which connections share a link, and in which direction.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

const { sharedLinks } = (await runnerImport(fileURLToPath(new URL("../src/capture/shared-link.ts", import.meta.url)), { configFile: false, logLevel: "error" })).module;

const SERVER = 64;

/**
 * A connection with a request of 100 bytes and a response.
 * @param {string} client @param {string} server @param {number} begin @param {number} end @param {number} bytes
 */
function trace(client, server, begin, end, bytes) {
  const packets = { count: 3, time: Float64Array.of(begin, (begin + end) / 2, end), kind: Uint16Array.of(16, 16 | SERVER, 16), length: Uint32Array.of(100, bytes, 0) };
  return { begin, count: 3, packets, connection: { client, server, vantage: "client", rate_bits: 1e6 } };
}

/** @param {ReturnType<typeof trace>[]} traces */
const capture = (...traces) => ({ data: { connections: traces.map((each) => each.connection) }, trace: (/** @type {number} */ index) => traces[index] });

test("connections_of_two_hosts_share_a_link_when_they_overlap", () => {
  const [a, b, later] = [trace("10.0.0.1:1", "10.0.0.2:80", 0, 2, 5000), trace("10.0.0.1:2", "10.0.0.2:443", 1, 3, 9000), trace("10.0.0.1:3", "10.0.0.2:80", 7, 8, 4000)];
  const elsewhere = trace("10.0.0.1:4", "10.0.0.3:80", 0, 9, 9000);
  const links = sharedLinks(capture(a, b, later, elsewhere));
  // The requests are less than a tenth of the bytes.
  assert.deepEqual(links.map((/** @type {any} */ { name }) => name), ["10.0.0.2 → 10.0.0.1"]);
  assert.deepEqual(links[0].shares.map((/** @type {any} */ { name, bytes }) => [name, bytes]), [["client port 2", 9000], ["client port 1", 5000], ["client port 3", 4000]]);
  assert.equal(links[0].isBeforeBottleneck, false);
  assert.deepEqual(sharedLinks(capture(a, later, elsewhere)), [], "one after another they share nothing");
});

test("both_directions_are_listed_when_both_carry_data", () => {
  const [a, b] = [trace("[::1]:1", "[::2]:80", 0, 2, 150), trace("[::1]:2", "[::2]:80", 1, 3, 100)];
  assert.deepEqual(sharedLinks(capture(a, b)).map((/** @type {any} */ { name }) => name), ["[::2] → [::1]", "[::1] → [::2]"]);
});
