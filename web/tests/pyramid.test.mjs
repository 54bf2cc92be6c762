// What charts ask of very many marks and pieces of time, against walking through all of them.

import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { runnerImport } from "vite";

/** Two numbers, the lesser first. @param {number} a @param {number} b @returns {[number, number]} */
const rising = (a, b) => (a < b ? [a, b] : [b, a]);

/** A module of the page's. @param {string} name */
const load = async (name) => (await runnerImport(fileURLToPath(new URL(`../src/capture/${name}.ts`, import.meta.url)), { configFile: false, logLevel: "error" })).module;

/** Numbers that look random and are the same every time. */
function draws(seed = 7) {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

test("a pyramid's reach is that of all its marks", async () => {
  const { Marks } = await load("marks");
  const draw = draws();
  for (const count of [0, 1, 15, 16, 17, 256, 257, 5000]) {
    const low = Float64Array.from({ length: count }, () => Math.floor(1000 * draw()));
    const high = low.map((value) => value + Math.floor(100 * draw()));
    const marks = new Marks(Float64Array.from({ length: count }, (_, at) => at), low, high);
    for (let round = 0; round < 50; round++) {
      const [from, to] = rising(Math.floor(draw() * (count + 1)), Math.floor(draw() * (count + 1)));
      assert.deepEqual(marks.reach(from, to), [Math.min(...low.slice(from, to)), Math.max(...high.slice(from, to))], `${from} to ${to} of ${count}`);
    }
  }
});

test("the largest share of a stretch of time is that of all its pieces", async () => {
  const { Shares } = await load("shares");
  const draw = draws();
  const CAUSES = 5;
  for (const count of [0, 1, 16, 33, 1000]) {
    let end = 0;
    const to = Float64Array.from({ length: count }, () => (end += draw() + 0.001));
    const from = to.map((_, at) => to[at - 1] ?? 0);
    const cause = Uint8Array.from({ length: count }, () => CAUSES * draw());
    const shares = new Shares({ count, from, to, cause, number: new Uint32Array(count) }, CAUSES);
    for (let round = 0; round < 50; round++) {
      const [begin, stop] = rising(draw() * (end + 1), draw() * (end + 1));
      const sums = Array.from({ length: CAUSES }, (_, each) => to.reduce((sum, until, at) => sum + (cause[at] === each ? Math.max(0, Math.min(stop, until) - Math.max(begin, from[at] ?? 0)) : 0), 0));
      const found = shares.largest(begin, stop);
      const most = Math.max(...sums);
      if (most < 1e-9) assert.equal(found, -1);
      else assert.ok(Math.abs((sums[found] ?? 0) - most) < 1e-6, `${begin} to ${stop}: ${found} of ${sums}`);
    }
  }
});
