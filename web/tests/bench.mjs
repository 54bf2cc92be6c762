// Measures the time from the request for a report to its first paint in Chromium: the median of several page loads.

import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Browser, program } from "./browser.mjs";
import { haul, isBuilt, race, report, thousand } from "./haul.mjs";

const ROUNDS = 9;

if (!program || !isBuilt) {
  console.log(`SKIPPED: the reports' first paint: ${program ? `${haul} is not built` : "Chromium is not installed"}`);
  process.exit(0);
}
const folder = mkdtempSync(join(tmpdir(), "longhaul-bench-"));
const browser = await Browser.start();
try {
  console.log("first paint of reports in Chromium, from the request on");
  const files = { "a race of 24 cells": report(folder, "race", race()), "a run of 1000 cells": report(folder, "thousand", thousand()) };
  for (const [name, file] of Object.entries(files)) {
    const paints = [];
    for (let time = 0; time < ROUNDS; time += 1) {
      const { page } = await browser.open(file);
      await page.waitForFunction(() => performance.getEntriesByType("paint").length > 0);
      paints.push(await page.evaluate(() => performance.getEntriesByType("paint")[0]?.startTime ?? Number.NaN));
      await page.close();
    }
    const sorted = paints.toSorted((a, b) => a - b);
    const formatted = [sorted[Math.floor(ROUNDS / 2)], sorted[0], sorted[ROUNDS - 1]].map((paint) => `${Math.round(paint ?? Number.NaN)} ms`);
    console.log(`  ${name.padEnd(22)} ${formatted[0]?.padStart(8)}   (${formatted[1]} to ${formatted[2]} of ${ROUNDS} openings; the file is ${(statSync(file).size / 1e6).toFixed(2)} MB)`);
  }
} finally {
  await browser.stop();
  rmSync(folder, { recursive: true, force: true });
}
