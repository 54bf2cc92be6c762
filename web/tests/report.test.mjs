// Reports in a browser: every view is opened, its numbers are held against run.json, and no page may ask for anything,
// complain of anything, or be closed to anybody.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { createServer, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Browser, program } from "./browser.mjs";
import { HOSTILE, compared, empty, haul, hostile, isBuilt, race, report, thousand } from "./haul.mjs";
import { looksAs } from "./look.mjs";
import { accessible, fits, quiet } from "./rules.mjs";

/** @typedef {import("playwright-core").Page} Page */

const missing = !program ? "Chromium is not installed (sudo apt-get install chromium)" : !isBuilt ? `${haul} is not built (cargo build --package haul)` : null;
if (missing) console.log(`SKIPPED: reports in a browser: ${missing}`);
const options = { skip: missing ?? false, timeout: 120_000 };

const EXPERIMENT = fileURLToPath(new URL("runs/watched.toml", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "longhaul-report-"));
/** @type {Browser} */
let browser;
/** A small run, made while the other tests go on: how it ended, and what it said. @type {Promise<{ status: number | null, said: string }>} */
let small;
const SMALL = join(folder, "small");
before(async () => {
  if (missing) return;
  small = new Promise((done) => {
    const child = spawn(haul, ["lab", "run", EXPERIMENT, "--samples", "1", "--plain", "--server", "embedded", "--runs", SMALL], { stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text) => { said += text; });
    child.on("close", (status) => done({ status, said: said.trim() }));
  });
  browser = await Browser.start();
});
after(async () => {
  await browser?.stop();
  await small;
  rmSync(folder, { recursive: true, force: true });
});

/** Everything that opens is opened. @param {Page} page */
async function openAll(page) {
  await page.evaluate(async () => {
    // What is drawn when it opens is drawn by an event.
    const opened = [...document.querySelectorAll("details:not([open])")].map((details) => new Promise((done) => details.addEventListener("toggle", done, { once: true })));
    for (const details of document.querySelectorAll("details")) details.open = true;
    for (const button of document.querySelectorAll("button.opens")) if (button instanceof HTMLElement) button.click();
    await Promise.all(opened);
  });
}

/** `4.02 s` in seconds. @param {string | null | undefined} said */
function seconds(said) {
  const units = { ns: 1e-9, µs: 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600 };
  const parts = [...(said ?? "").matchAll(/([\d.]+)\s*(ns|µs|ms|min|s|h)\b/g)];
  assert.ok(parts.length > 0, `“${said}” is no time`);
  return parts.reduce((sum, [, number, unit]) => sum + Number(number) * (units[/** @type {keyof typeof units} */ (unit)] ?? Number.NaN), 0);
}

/** As near as three digits tell. @param {number} shown @param {number} is @param {string} what */
function near(shown, is, what) {
  assert.ok(Math.abs(shown - is) <= 0.0051 * Math.abs(is), `${what}: shown as ${shown}, is ${is}`);
}

test("a race: every number, every view", options, async () => {
  const run = race();
  const html = report(folder, "race", run);
  assert.ok(statSync(html).size < 1.5e6, "a race's report is small");
  const opened = await browser.open(html);
  const { page } = opened;
  assert.equal(await page.textContent("h1"), run.question);
  const answer = await page.textContent(".answer");
  assert.match(answer ?? "", /^curl-parallel-h2 in 2 of 2 races, /);

  const rows = await page.evaluate(() =>
    [...document.querySelectorAll("section.block tbody.cell")].map((row) => ({
      place: row.closest("section")?.id,
      // Of an opening row's head, the first text is the contender's name.
      contender: row.querySelector("th .opens")?.firstChild?.textContent,
      texts: [...row.querySelectorAll("tr:first-child td")].map((cell) => cell.textContent ?? ""),
      dots: row.querySelectorAll("circle").length,
      model: [row.querySelectorAll(".tag").length, row.querySelectorAll("rect.model").length],
    })),
  );
  assert.equal(rows.length, run.cells.length);
  for (const cell of run.cells) {
    const what = `${cell.workload}/${cell.network}/${cell.contender}`;
    const row = rows.find(({ place, contender }) => place === `${cell.workload}/${cell.network}` && contender === cell.contender);
    assert.ok(row, what);
    near(seconds(row.texts[1]), cell.median_s ?? 0, what);
    near(Number.parseFloat(row.texts.find((text) => text.endsWith("×")) ?? ""), cell.times_floor ?? 0, `${what} × floor`);
    assert.equal(row.dots, cell.samples_s.length, `${what}: a dot for each sample`);
    assert.deepEqual(row.model, cell.model ? [1, 1] : [0, 0], `${what}: a model is called and drawn as one`);
  }
  const drawn = await page.evaluate(() => [...document.querySelectorAll(".strip rect.bar")].map((bar) => Number.parseFloat(bar.getAttribute("width") ?? "")));
  assert.ok(drawn.every((width) => width > 0 && width <= 100));

  await openAll(page);
  const cell = run.cells.find(({ why }) => why && Object.keys(why.seconds).length > 2);
  assert.ok(cell?.why);
  const table = page.locator("table.causes", { hasText: `Time of ${cell.contender} by cause` }).first();
  const times = await table.locator("td:nth-child(2)").allTextContents();
  const sum = Object.values(cell.why.seconds).reduce((all, part) => all + part, 0);
  const shown = times.reduce((all, text) => all + seconds(text), 0);
  assert.ok(Math.abs(shown - sum) < 0.02 * sum, `the causes of ${cell.contender} add up to ${sum}, not ${shown}`);
  assert.equal(await page.locator(".pairs tbody").count(), run.comparisons.length, "every comparison has a row");
  for (const verdict of ["reproduced", "refuted"]) {
    const judged = run.claims.filter((claim) => claim.verdict === verdict).length;
    assert.equal(await page.locator(`.badge.${verdict}`).count(), judged, verdict);
  }
  const text = (await page.textContent("main")) ?? "";
  for (const { said } of run.claims) assert.ok(text.includes(said), `the page has the sentence “${said}”`);
  for (const what of [run.host.kernel, run.host.cpu, run.command, ...Object.keys(run.host.tools), ...Object.keys(run.host.sysctls)]) {
    assert.ok(text.includes(what), `the page says ${what}`);
  }
  await accessible(page, "a race, all of it open, light");
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible(page, "a race, all of it open, dark", "color-contrast");
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  assert.equal(await page.locator("nav").isVisible(), false, "paper has no links to follow");
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "light", "paper is white");
  quiet(opened, "a race");
  await page.close();
});

test("a race with the keyboard alone", options, async () => {
  const { page } = await browser.open(report(folder, "keys", race()));
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.className), "skip");
  const first = page.locator("section.block").first();
  const names = () => first.locator("tbody.cell th").allTextContents();
  const fastest = await names();
  await first.locator("thead button", { hasText: "median" }).focus();
  await page.keyboard.press("Enter");
  assert.deepEqual(await names(), fastest.toReversed(), "sorted the other way round");
  assert.equal(await first.locator('th[aria-sort="descending"]').count(), 1);
  const opens = first.locator("button.opens").first();
  await opens.focus();
  await page.keyboard.press("Enter");
  assert.equal(await opens.getAttribute("aria-expanded"), "true");
  assert.ok(await first.locator("tr.more").first().isVisible());
  await page.keyboard.press("Space");
  assert.equal(await opens.getAttribute("aria-expanded"), "false");
  await page.close();
});

test("a race looks as it should, in light, in dark and on a phone", options, async () => {
  const html = report(folder, "looks", race());
  for (const [name, look] of /** @type {const} */ ([
    ["light", { scheme: "light", width: 1280, height: 1600 }],
    ["dark", { scheme: "dark", width: 1280, height: 1600 }],
    ["phone", { scheme: "light", width: 390, height: 1600 }],
  ])) {
    const { page } = await browser.open(html, look);
    await fits(page, name);
    await looksAs(page, name);
    await page.close();
  }
  const { page } = await browser.open(html, { width: 3840, height: 2160 });
  await fits(page, "4K");
  const size = await page.evaluate(() => Number.parseFloat(getComputedStyle(document.documentElement).fontSize));
  assert.ok(size > 20, `letters of ${size} px can be read on a wall`);
  await page.close();
});

test("a run with nothing in it", options, async () => {
  const opened = await browser.open(report(folder, "empty", empty()));
  assert.match((await opened.page.textContent(".answer")) ?? "", /^Nothing was measured/);
  await accessible(opened.page, "an empty run");
  quiet(opened, "an empty run");
  await opened.page.close();
});

test("cells that were skipped, that failed, and that were never reached", options, async () => {
  const run = race();
  const [skipped, failed, unreached] = run.cells;
  assert.ok(skipped && failed && unreached);
  const nothing = { median_s: null, ci95_s: null, times_floor: null, round_trips: null, why: null };
  Object.assign(skipped, nothing, { status: "skipped", reason: "it is not installed", samples_s: [] });
  Object.assign(failed, nothing, { status: "failed", reason: "file 7 is not on the server" });
  Object.assign(unreached, nothing, { status: "skipped", reason: "the run was stopped before it", samples_s: [] });
  run.comparisons = [];
  const opened = await browser.open(report(folder, "gaps", run));
  const text = (await opened.page.textContent("main")) ?? "";
  for (const said of ["it is not installed", "file 7 is not on the server", "1 of 24\u00a0cells were not measured"]) assert.ok(text.includes(said), said);
  await accessible(opened.page, "cells without a result");
  quiet(opened, "cells without a result");
  await opened.page.close();
});

test("what the SYNs of a cell carried", options, async () => {
  const run = race();
  const [plain, early, raced, once] = run.cells;
  assert.ok(plain && early && raced && once);
  Object.assign(plain, { syns: { firsts: 2, firsts_with_data: 0, later: 9, later_with_data: 0, later_beside: 0 } });
  // A run of an earlier build, which did not tell them apart.
  Object.assign(early, { syns: { firsts: 20, firsts_with_data: 0, later: 300, later_with_data: 300 } });
  Object.assign(raced, { syns: { firsts: 20, firsts_with_data: 0, later: 300, later_with_data: 288, later_beside: 12 } });
  Object.assign(once, { syns: { firsts: 20, firsts_with_data: 0, later: 300, later_with_data: 299, later_beside: 1 } });
  const { page } = await browser.open(report(folder, "syns", run));
  await openAll(page);
  assert.deepEqual((await page.locator("dt", { hasText: "Data in SYNs" }).locator("+ dd").allTextContents()).toSorted(), [
    "in 0 of 20 first connections, and 288 of 300 later ones, of all samples; 12 of these are plain fallbacks beside an unanswered SYN",
    "in 0 of 20 first connections, and 299 of 300 later ones, of all samples; 1 of these is a plain fallback beside an unanswered SYN",
    "in 0 of 20 first connections, and 300 of 300 later ones, of all samples",
  ]);
  await page.close();
});

test("a thousand cells, and how they scale with the round-trip time", options, async () => {
  const run = thousand();
  const opened = await browser.open(report(folder, "thousand", run));
  const { page } = opened;
  assert.equal(await page.locator("tbody.cell").count(), 1000);
  assert.equal(await page.locator("figure.sweep").count(), 1);
  assert.equal(await page.locator("figure.sweep .line").count(), 11, "ten contenders and the floor");
  assert.equal(await page.locator("figure.sweep tbody").count(), 100, "the numbers stand beneath");
  await fits(page, "a thousand cells");
  quiet(opened, "a thousand cells");
  await page.close();
});

test("hostile names stay names", options, async () => {
  const opened = await browser.open(report(folder, "hostile", hostile()));
  const { page } = opened;
  await openAll(page);
  const text = (await page.textContent("main")) ?? "";
  for (const name of HOSTILE) assert.ok(text.includes(name), `the page shows ${JSON.stringify(name)}`);
  assert.ok(!text.includes("native code"), "what every object has is taken for nothing that is known");
  assert.equal(await page.locator('[class*="undefined"]').count(), 0);
  assert.equal(await page.evaluate(() => "broken" in window), false, "nothing of it was run");
  assert.equal(await page.locator("img, main script, main svg[onload]").count(), 0);
  assert.equal(await page.locator('a[href^="javascript"]').count(), 0);
  quiet(opened, "hostile names");
  await page.close();
});

test("the page may fetch nothing, whatever gets into it", options, async () => {
  let asked = 0;
  const server = createServer((_, answer) => {
    asked += 1;
    answer.end();
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", () => done(null)));
  const address = server.address();
  const { page } = await browser.open(report(folder, "policy", empty()));
  const got = await page.evaluate(async (url) => {
    const image = new Image();
    const blocked = new Promise((done) => image.addEventListener("error", () => done(true)));
    image.src = url;
    const script = document.createElement("script");
    script.textContent = "window.broken = 1";
    document.body.append(image, script);
    return { fetched: await fetch(url).then(() => true, () => false), blocked: await blocked, ran: "broken" in window };
  }, `http://127.0.0.1:${address && typeof address === "object" ? address.port : 0}/`);
  assert.deepEqual(got, { fetched: false, blocked: true, ran: false });
  assert.equal(asked, 0, "the policy stops it before it is sent");
  await page.close();
  server.close();
});

/** The race again, one of its cells so many times as long. @param {number} factor */
function again(factor) {
  const run = race();
  const cell = run.cells.find(({ contender, network }) => contender === "curl" && network === "article");
  assert.ok(cell?.median_s);
  cell.samples_s = cell.samples_s.map((sample) => sample * factor);
  cell.median_s *= factor;
  return run;
}

test("two runs: what changed beyond noise", options, async () => {
  const now = again(0.1);
  now.host.kernel = "7.0.0";
  const opened = await browser.open(compared(folder, race(), now).html);
  const { page } = opened;
  assert.match((await page.textContent(".answer")) ?? "", /1 became faster and 0 slower/);
  const row = page.locator("#changed tbody tr").first();
  assert.equal(await page.locator("#changed tbody").count(), 1);
  const said = (await row.locator("td").last().textContent()) ?? "";
  near(Number.parseFloat(said.replace("▼ ", "")), 0.1, "a tenth of the time");
  assert.match(said, /faster/);
  assert.match((await page.textContent("#unlike")) ?? "", /kernel: .* → 7\.0\.0/);
  await fits(page, "two runs");
  await accessible(page, "two runs, light");
  await page.emulateMedia({ colorScheme: "dark" });
  await accessible(page, "two runs, dark", "color-contrast");
  quiet(opened, "two runs");
  await page.close();
});

test("five runs: each against the first, on a desk and on a phone", options, async () => {
  const { html, json } = compared(folder, ...[1, 0.5, 1, 3, 2].map(again));
  const opened = await browser.open(html);
  const { page } = opened;
  assert.match((await page.textContent(".answer")) ?? "", /^Compared with run 1, the baseline: run 2 is faster in 1 and slower in none of \d+ cells; run 3 shows no detectable/);
  assert.equal(await page.locator("#runs tbody").count(), 5);
  const outcomes = await page.locator("#changed tbody .outcome").allTextContents();
  const cell = json.cells.find((/** @type {any} */ one) => one.contender === "curl" && one.network === "article");
  assert.equal(outcomes.length, 4);
  outcomes.forEach((said, place) => {
    const own = cell.runs[place + 1];
    near(Number.parseFloat(said.replace(/^\D+/, "")), own.ratio, `run ${place + 2}`);
    assert.ok(own.trend === "same" ? said.startsWith("=") : said.includes(own.trend), said);
  });
  assert.equal(await page.locator("#all tbody").count(), json.cells.length);
  const dots = json.cells.flatMap((/** @type {any} */ one) => one.runs.flatMap((/** @type {any} */ own) => own.samples_s)).length;
  assert.equal(await page.locator("#all circle").count(), dots, "a dot for each sample of each run");
  await fits(page, "five runs");
  await accessible(page, "five runs");
  await page.setViewportSize({ width: 390, height: 800 });
  await fits(page, "five runs on a phone");
  quiet(opened, "five runs");
  await page.close();
});

test("a run's report leads to its packets", options, async (context) => {
  const { status, said } = await small;
  if (status !== 0) {
    // Where hosts and cables cannot be made there is no run; that is not the report's to tell.
    assert.ok(readdirSync(folder).every((name) => name !== "small"), said);
    console.log(`SKIPPED: a run of our own: ${said}`);
    context.skip(said);
    return;
  }
  const [id = ""] = readdirSync(SMALL);
  const opened = await browser.open(join(SMALL, id, "report.html"));
  const { page } = opened;
  const run = JSON.parse(readFileSync(join(SMALL, id, "run.json"), "utf8"));
  assert.match(run.command, /^haul lab run .*watched\.toml --samples 1 --plain --server embedded --runs /);
  assert.equal(await page.textContent("h1"), run.question);
  await openAll(page);
  await accessible(page, "a run of one sample");
  quiet(opened, "a run of one sample");
  const curl = page.locator("tbody.cell").filter({ hasText: "curl" }).first();
  assert.equal(await curl.locator("a", { hasText: "capture of the typical sample" }).getAttribute("href"), "captures/upload-near-curl.pcapng");
  await curl.locator("a", { hasText: "packet report" }).click();
  await page.waitForURL("**/captures/upload-near-curl.html");
  assert.equal(await page.textContent("h1"), "upload-near-curl.pcapng");
  assert.deepEqual(opened.complaints, []);
  await page.close();
});

test("a run is watched, and ended, from its page", options, async (context) => {
  const runs = join(folder, "runs");
  const child = spawn(haul, ["lab", "run", EXPERIMENT, "--open", "--plain", "--server", "embedded", "--runs", runs], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => { said += text; });
  let over = false;
  const ended = new Promise((done) => child.on("close", done)).then((code) => { over = true; return code; });
  const address = await Promise.race([
    (async () => {
      while (!over) {
        const url = /live report: (http\S+)/.exec(said)?.[1];
        if (url) return url;
        await new Promise((done) => setTimeout(done, 50));
      }
      return null;
    })(),
    ended.then(() => null),
  ]);
  if (!address) {
    context.skip(`no run can be made here: ${said.trim()}`);
    console.log(`SKIPPED: a run that is watched: ${said.trim()}`);
    return;
  }
  try {
    const { page, complaints, requests } = await browser.open(address);
    await page.locator("circle").first().waitFor({ timeout: 60_000 });
    await accessible(page, "a run that goes on");
    // Others are sent away: who does not know the token, who comes by another name, who comes from elsewhere.
    const { hostname, port, pathname } = new URL(address);
    const status = (/** @type {string} */ path, /** @type {Record<string, string>} */ headers, method = "GET") =>
      new Promise((done) => request({ hostname, port, path, method, headers }, (answer) => { answer.resume(); done(answer.statusCode); }).end());
    assert.equal(await status("/", {}), 404);
    assert.equal(await status(pathname, { host: "evil.example" }), 421);
    assert.equal(await status(`${pathname}cancel`, { origin: "http://evil.example" }, "POST"), 403);

    await page.getByRole("button", { name: "Stop the run…" }).click();
    await page.getByRole("button", { name: "Continue" }).click();
    await page.getByRole("button", { name: "Stop the run…" }).click();
    await page.getByRole("button", { name: "Stop" }).click();
    // The page becomes the report.
    await page.waitForURL("**/report", { timeout: 60_000 });
    assert.match((await page.textContent("h1")) ?? "", /Is somebody watching/);
    await page.locator("tbody.cell").first().waitFor({ state: "attached" });
    assert.deepEqual(complaints, []);
    assert.ok(requests.every((url) => url.startsWith(address) || url.startsWith("data:")), requests.join(" "));
    await page.close();
    assert.equal(await ended, 1, "a run that was ended says so");
    const [id] = readdirSync(runs);
    const files = readdirSync(join(runs, id ?? "")).toSorted();
    assert.deepEqual(files, ["captures", "report.html", "run.json", "samples.csv"], "nothing of the watching is left");
    const kept = await browser.open(join(runs, id ?? "", "report.html"));
    const count = JSON.parse(readFileSync(join(runs, id ?? "", "run.json"), "utf8")).cells.length;
    assert.equal(await kept.page.locator("tbody.cell").count(), count);
    quiet(kept, "its report");
    await kept.page.close();
  } finally {
    child.kill("SIGTERM");
    await ended;
  }
});
