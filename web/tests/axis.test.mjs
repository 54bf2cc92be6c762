// Labels of ticks differ at any zoom, and none is cut off or overlaps another.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

/** Loads a module of the page. @param {string} name */
const load = async (name) => (await runnerImport(fileURLToPath(new URL(`../src/${name}.ts`, import.meta.url)), { configFile: false, logLevel: "error" })).module;

/** Labels with plain spaces. @param {string[]} labels */
const plain = (labels) => labels.map((label) => label.replace(/[\u00a0\u202f]/g, " "));

/** A monospaced font. @param {string} label */
const measure = (label) => 7 * label.length;

test("time_labels_have_the_digits_of_their_step", async () => {
  const { timeLabels } = await load("axis");
  /** @type {[number[], string[]][]} */
  const cases = [
    [[1.2338, 1.234, 1.2342], ["1.2338 s", "1.2340 s", "1.2342 s"]],
    [[0, 0.2, 0.4, 1], ["0 s", "0.2 s", "0.4 s", "1.0 s"]],
    [[0, 0.1, 0.2], ["0 ms", "100 ms", "200 ms"]],
    [[0.0123, 0.01235], ["12.30 ms", "12.35 ms"]],
    [[0, 2e-6, 4e-6], ["0 µs", "2 µs", "4 µs"]],
    [[-0.5, 0, 0.5], ["−500 ms", "0 ms", "500 ms"]],
    [[0, 50, 100, 150], ["0 s", "50 s", "1 min 40 s", "2 min 30 s"]],
    [[3600, 3660, 3725], ["1 h", "1 h 01 min", "1 h 02 min 05 s"]],
    [[125.4, 125.6], ["125.4 s", "125.6 s"]],
  ];
  for (const [values, labels] of cases) assert.deepEqual(plain(timeLabels(values)), labels);
});

test("byte_and_rate_labels_have_the_digits_of_their_step", async () => {
  const { byteLabels, rateLabels } = await load("axis");
  assert.deepEqual(plain(byteLabels([0, 500, 1000])), ["0 B", "500 B", "1 000 B"]);
  assert.deepEqual(plain(byteLabels([0, 200_000, 400_000])), ["0 KB", "200 KB", "400 KB"]);
  assert.deepEqual(plain(byteLabels([50_000_000, 50_050_000])), ["50.00 MB", "50.05 MB"]);
  assert.deepEqual(plain(byteLabels([50_000_000, 50_000_200])), ["50 000 000 B", "50 000 200 B"]);
  assert.deepEqual(plain(rateLabels([0, 5e6, 10e6])), ["0 Mbit/s", "5 Mbit/s", "10 Mbit/s"]);
  assert.deepEqual(plain(rateLabels([0, 500])), ["0 bit/s", "500 bit/s"]);
});

test("time_ticks_differ_and_fit_at_any_zoom_and_width", async () => {
  const { timeTicks, placeLabels } = await load("axis");
  for (const width of [150, 320, 700, 1300]) {
    for (const start of [0, 0.0373, 1.2345, 99.7, 125.4, 4000.123]) {
      for (let length = 4000; length > 5e-6; length /= 3) {
        /** @type {import("../src/axis").Tick[]} */
        const ticks = timeTicks(start, start + length, width, measure, 8);
        const at = `${width} px from ${start} s, ${length} s`;
        assert.ok(ticks.length >= 1, `no tick: ${at}`);
        assert.equal(new Set(ticks.map(({ label }) => label)).size, ticks.length, `${ticks.map(({ label }) => label)}: ${at}`);
        const widths = ticks.map(({ label }) => measure(label));
        /** @type {(number | null)[]} */
        const places = placeLabels(ticks.map(({ value }) => 40 + ((value - start) / length) * width), widths, [2, 44 + width], 8);
        let free = 2;
        places.forEach((place, index) => {
          if (place === null) return;
          const half = (widths[index] ?? 0) / 2;
          assert.ok(place - half >= free - 0.5 && place + half <= 44 + width + 0.5, at);
          free = place + half + 8;
        });
        assert.ok(places.some((place) => place !== null), `no label: ${at}`);
      }
    }
  }
});
