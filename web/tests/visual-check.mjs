// A coarse visual check: compares the average grey of 16 × 20 fields of a screenshot with stored values. Other fonts or
// browser versions do not change it; a missing column, a bar without colour, or dark text on dark do. UPDATE_LOOKS=1 stores
// new values: look at the page first.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";

const [COLUMNS, ROWS] = [16, 20];
/** Maximum average difference of the fields, of 255. */
const MAX_DIFFERENCE = 14;

/** @param {import("playwright-core").Page} page @param {string} name */
export async function assertLooksLike(page, name) {
  const picture = (await page.screenshot()).toString("base64");
  const fields = await page.evaluate(async ([base64, columns, rows]) => {
    const image = new Image();
    image.src = `data:image/png;base64,${base64}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.width, image.height];
    const context = canvas.getContext("2d");
    if (!context) return [];
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const sums = Array.from({ length: columns * rows }, () => [0, 0]);
    for (let pixel = 0; pixel < data.length / 4; pixel += 1) {
      const [x, y] = [pixel % image.width, Math.floor(pixel / image.width)];
      const sum = sums[Math.floor((y * rows) / image.height) * columns + Math.floor((x * columns) / image.width)];
      if (!sum) continue;
      sum[0] = (sum[0] ?? 0) + (data[4 * pixel] ?? 0) * 0.3 + (data[4 * pixel + 1] ?? 0) * 0.6 + (data[4 * pixel + 2] ?? 0) * 0.1;
      sum[1] = (sum[1] ?? 0) + 1;
    }
    return sums.map(([all = 0, count = 1]) => Math.round(all / count));
  }, /** @type {[string, number, number]} */ ([picture, COLUMNS, ROWS]));
  const file = new URL(`looks/${name}.json`, import.meta.url);
  if (process.env.UPDATE_LOOKS) {
    const lines = Array.from({ length: ROWS }, (_, row) => `  ${fields.slice(row * COLUMNS, (row + 1) * COLUMNS).join(", ")}`);
    writeFileSync(file, `[\n${lines.join(",\n")}\n]\n`);
    return;
  }
  /** @type {number[]} */
  const stored = JSON.parse(readFileSync(file, "utf8"));
  const difference = fields.reduce((sum, field, index) => sum + Math.abs(field - (stored[index] ?? 0)), 0) / fields.length;
  assert.ok(difference < MAX_DIFFERENCE, `${name} differs from the stored picture by ${difference.toFixed(1)} of 255 on average; if that is intended, set UPDATE_LOOKS=1`);
}
