// The mark pyramid and the cause sums agree with a walk over all marks and intervals.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

/** Two numbers in ascending order. @param {number} a @param {number} b @returns {[number, number]} */
const ascending = (a, b) => (a < b ? [a, b] : [b, a]);

/** Loads a module of the page. @param {string} name */
const load = async (name) => (await runnerImport(fileURLToPath(new URL(`../src/capture/${name}.ts`, import.meta.url)), { configFile: false, logLevel: "error" })).module;

/** A linear congruential generator: the same numbers in every run. */
function random(seed = 7) {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

test("pyramid_extent_is_minimum_and_maximum_of_all_marks", async () => {
  const { MarkPyramid } = await load("mark-pyramid");
  const draw = random();
  for (const count of [0, 1, 15, 16, 17, 256, 257, 5000]) {
    const low = Float64Array.from({ length: count }, () => Math.floor(1000 * draw()));
    const high = low.map((value) => value + Math.floor(100 * draw()));
    const marks = new MarkPyramid(Float64Array.from({ length: count }, (_, at) => at), low, high);
    for (let round = 0; round < 50; round++) {
      const [from, to] = ascending(Math.floor(draw() * (count + 1)), Math.floor(draw() * (count + 1)));
      assert.deepEqual(marks.extent(from, to), [Math.min(...low.slice(from, to)), Math.max(...high.slice(from, to))], `${from} to ${to} of ${count}`);
    }
  }
});

test("largest_cause_is_that_of_all_intervals", async () => {
  const { CauseSums } = await load("cause-sums");
  const draw = random();
  const CAUSES = 5;
  for (const count of [0, 1, 16, 33, 1000]) {
    let end = 0;
    const to = Float64Array.from({ length: count }, () => (end += draw() + 0.001));
    const from = to.map((_, at) => to[at - 1] ?? 0);
    const cause = Uint8Array.from({ length: count }, () => CAUSES * draw());
    const causeSums = new CauseSums({ count, from, to, cause, number: new Uint32Array(count) }, CAUSES);
    for (let round = 0; round < 50; round++) {
      const [begin, stop] = ascending(draw() * (end + 1), draw() * (end + 1));
      const sums = Array.from({ length: CAUSES }, (_, each) => to.reduce((sum, until, at) => sum + (cause[at] === each ? Math.max(0, Math.min(stop, until) - Math.max(begin, from[at] ?? 0)) : 0), 0));
      const found = causeSums.largestCause(begin, stop);
      const longest = Math.max(...sums);
      if (longest < 1e-9) assert.equal(found, -1);
      else assert.ok(Math.abs((sums[found] ?? 0) - longest) < 1e-6, `${begin} to ${stop}: ${found} of ${sums}`);
    }
  }
});
