// What holds of every page: it is open to everybody, fits its window, complains of nothing, and asks for nothing.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

/** @typedef {import("playwright-core").Page} Page */

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** No rule of axe's is broken, or only this one is asked; of blocks, which are all alike, the first is looked at. @param {Page} page @param {string} what @param {string} [rule] */
export async function accessible(page, what, rule) {
  await page.evaluate(AXE);
  const violations = await page.evaluate(async (rule) => {
    const only = rule ? { runOnly: { type: "rule", values: [rule] } } : {};
    // @ts-expect-error axe has put itself there
    const { violations } = await window.axe.run({ exclude: ["section.block ~ section.block"] }, { resultTypes: ["violations"], ...only });
    return violations.map((/** @type {any} */ { id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((/** @type {any} */ { html }) => html.slice(0, 160)).join(" | ")}`);
  }, rule);
  assert.deepEqual(violations, [], what);
}

/** A page is as wide as the window. @param {Page} page @param {string} what */
export async function fits(page, what) {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok((content ?? 0) <= (window ?? 0), `${what}: ${content} px in a window of ${window} px`);
}

/** Nothing was complained of, and nothing asked for but the page. @param {import("./browser.mjs").Opened} opened @param {string} what */
export function quiet({ complaints, requests }, what) {
  assert.deepEqual(complaints, [], what);
  assert.deepEqual(requests.filter((url) => !url.startsWith("data:")).length, 1, `${what}: ${requests.join(" ")}`);
}
