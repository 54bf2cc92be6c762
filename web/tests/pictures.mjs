// Renders the book's pictures of reports: node tests/pictures.mjs FOLDER

import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Browser } from "./browser.mjs";
import { haul, report } from "./haul.mjs";

const target = process.argv[2];
if (!target) throw new Error("usage: node tests/pictures.mjs FOLDER");
mkdirSync(target, { recursive: true });
/** The files of a page, in thousands of bytes. */
const FILES = { "style.css": 30, "app.js": 160, "fonts.woff2": 70, "hero.jpg": 420, "map.png": 90, "icons.svg": 18, "team.jpg": 210, "video.jpg": 340, "news.json": 8 };

/** Captures a page load by curl over an emulated link, at the server. @param {string} folder */
function captured(folder) {
  const site = join(folder, "site");
  mkdirSync(site);
  for (const [name, size] of Object.entries({ ...FILES, "index.html": 12 })) writeFileSync(join(site, name), randomBytes(1000 * size));
  const script = join(folder, "load.sh");
  const urls = Object.keys(FILES).map((name) => `$u/${name}`).join(" ");
  writeFileSync(script, `u=http://$HAUL_SERVER_IP:8080; cd "$1"\nuntil curl -s -o index.html $u/index.html; do sleep 0.2; done\ncurl -sZ --parallel-immediate --parallel-max 6 --remote-name-all ${urls}\n`);
  const got = join(folder, "got");
  mkdirSync(got);
  execFileSync(haul, ["link", "--rtt", "80ms", "--rate", "20mbit", "--capture", folder, "--server", `'${haul}' serve --listen 0.0.0.0:8080 --read-only '${site}'`, "--", "sh", script, got], { stdio: "ignore" });
  return join(folder, "server.pcapng");
}

const folder = mkdtempSync(join(tmpdir(), "longhaul-pictures-"));
const browser = await Browser.start();
try {
  const kept = new URL("../../docs/src/results/runs/webdav-race-quick.json", import.meta.url);
  const html = report(folder, "race", JSON.parse(readFileSync(kept, "utf8")));
  const whole = await browser.open(html, { width: 1180, height: 1120 });
  const matrix = await whole.page.locator(".matrix").boundingBox();
  await whole.page.screenshot({ path: join(target, "race.png"), fullPage: true, clip: { x: 0, y: 0, width: 1180, height: matrix ? matrix.y + matrix.height + 24 : 1120 } });

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

  const load = join(folder, "load.html");
  execFileSync(haul, ["explain", captured(folder), "--html", load], { stdio: "ignore" });
  const page = await browser.open(load, { width: 1180, height: 1300 });
  await page.page.locator("select:has(option[value=causes])").selectOption("causes");
  await page.page.waitForTimeout(500);
  await page.page.locator("figure:has(.waterfall)").screenshot({ path: join(target, "waterfall.png") });
} finally {
  await browser.stop();
  rmSync(folder, { recursive: true, force: true });
}
