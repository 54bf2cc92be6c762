// Renders the book's pictures of reports: node tests/pictures.mjs FOLDER

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Browser } from "./browser.mjs";
import { haul, race, report } from "./haul.mjs";

const target = process.argv[2];
if (!target) throw new Error("usage: node tests/pictures.mjs FOLDER");
mkdirSync(target, { recursive: true });
const folder = mkdtempSync(join(tmpdir(), "longhaul-pictures-"));
const browser = await Browser.start();
try {
  const html = report(folder, "race", race());
  const whole = await browser.open(html, { width: 1180, height: 1120 });
  await whole.page.screenshot({ path: join(target, "race.png") });

  const cell = await browser.open(html, { width: 1180, height: 900, scheme: "dark" });
  const block = cell.page.locator("section.block").first();
  await block.locator("button.opens").last().click();
  await block.scrollIntoViewIfNeeded();
  const box = await block.boundingBox();
  if (box) await cell.page.screenshot({ path: join(target, "cell.png"), fullPage: true, clip: { x: 0, y: box.y + (await cell.page.evaluate(() => scrollY)), width: 1180, height: box.height } });

  const traces = fileURLToPath(new URL("../../docs/src/traces", import.meta.url));
  const upload = join(folder, "upload.html");
  execFileSync(haul, ["explain", "--format", "snoop", "browser-upload.snoop.txt", "--bytes", "18MB", "--html", upload], { stdio: "ignore", cwd: traces });
  const capture = await browser.open(upload, { width: 1180, height: 1300 });
  await capture.page.waitForTimeout(500);
  await capture.page.screenshot({ path: join(target, "upload.png") });
} finally {
  await browser.stop();
  rmSync(folder, { recursive: true, force: true });
}
