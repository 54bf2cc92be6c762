// Checks of every page: it is accessible, fits into its window, logs no errors and requests nothing.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

/** @typedef {import("playwright-core").Page} Page */

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Checks all rules of axe, or one. Of a run's blocks, which are alike, only the first is checked. @param {Page} page @param {string} what @param {string} [rule] */
export async function assertAccessible(page, what, rule) {
  await page.evaluate(AXE);
  const violations = await page.evaluate(async (rule) => {
    const only = rule ? { runOnly: { type: "rule", values: [rule] } } : {};
    // @ts-expect-error defined by axe's script
    const { violations } = await window.axe.run({ exclude: ["section.block ~ section.block"] }, { resultTypes: ["violations"], ...only });
    return violations.map((/** @type {any} */ { id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((/** @type {any} */ { html }) => html.slice(0, 160)).join(" | ")}`);
  }, rule);
  assert.deepEqual(violations, [], what);
}

/** Checks that the page is no wider than the window. @param {Page} page @param {string} what */
export async function assertFits(page, what) {
  const [content, window] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
  assert.ok((content ?? 0) <= (window ?? 0), `${what}: ${content} px in a window of ${window} px`);
}

/** Checks that the page logged no errors and requested nothing. @param {import("./browser.mjs").Opened} opened @param {string} what */
export function assertQuiet({ errors, requests }, what) {
  assert.deepEqual(errors, [], what);
  assert.deepEqual(requests.filter((url) => !url.startsWith("data:")).length, 1, `${what}: ${requests.join(" ")}`);
}
