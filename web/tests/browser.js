// Reports in Debian's Chromium, opened from disk as anybody opens them. Whatever a page should never do is noted while it
// is open: say something on the console, fail, ask anything of anybody.

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const CHROMIUM = "/usr/bin/chromium";
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Why no browser can be started; null if one can. */
export const missing = existsSync(CHROMIUM) ? null : "chromium is not installed (sudo apt-get install chromium)";

export function launch() {
  const quiet = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu", ...quiet] });
}

/**
 * Opens a report. `wrong` fills up with what must not happen.
 * @param {import("playwright-core").Browser} browser
 * @param {string} file
 * @param {import("playwright-core").BrowserContextOptions} [options]
 */
export async function open(browser, file, options = {}) {
  const page = await browser.newPage(options);
  /** @type {string[]} */
  const wrong = [];
  const address = pathToFileURL(file).href;
  page.on("console", (message) => wrong.push(`console: ${message.text()}`));
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("dialog", (dialog) => {
    wrong.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    if (request.url() !== address && !request.url().startsWith("data:")) wrong.push(`request: ${request.url()}`);
  });
  await page.goto(address);
  return { page, wrong };
}

/**
 * What axe finds wrong with a page.
 * @param {import("playwright-core").Page} page
 */
export async function inaccessible(page) {
  // The page's policy forbids a script of anybody's; the debugger's own way is not asked.
  const context = await page.context().newCDPSession(page);
  await context.send("Runtime.evaluate", { expression: AXE });
  const { result } = await context.send("Runtime.evaluate", {
    expression: "axe.run().then(({ violations }) => JSON.stringify(violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(' ')}`)))",
    awaitPromise: true,
  });
  await context.detach();
  return /** @type {string[]} */ (JSON.parse(result.value));
}
