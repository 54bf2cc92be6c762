// Reports in a browser: numbers are compared with run.json, and every page is accessible, logs no errors and requests
// nothing.

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
import { assertLooksLike } from "./visual-check.mjs";
import { assertAccessible, assertFits, assertQuiet } from "./page-checks.mjs";

/** @typedef {import("playwright-core").Page} Page */

const missing = !program ? "Chromium is not installed (sudo apt-get install chromium)" : !isBuilt ? `${haul} is not built (cargo build --package haul)` : null;
if (missing) console.log(`SKIPPED: reports in a browser: ${missing}`);
const options = { skip: missing ?? false, timeout: 120_000 };

const EXPERIMENT = fileURLToPath(new URL("runs/watched.toml", import.meta.url));
const folder = mkdtempSync(join(tmpdir(), "longhaul-report-"));
/** @type {Browser} */
let browser;
/** A small run, started before the other tests: its exit status and output. @type {Promise<{ status: number | null, said: string }>} */
let small;
const SMALL = join(folder, "small");
before(async () => {
  if (missing) return;
  small = new Promise((done) => {
    const child = spawn(haul, ["lab", "run", EXPERIMENT, "--samples", "1", "--plain", "--server", "embedded", "--results", SMALL], { stdio: ["ignore", "ignore", "pipe"] });
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

/** Expands everything. @param {Page} page */
async function openAll(page) {
  await page.evaluate(async () => {
    // The content of details is drawn by their toggle event.
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

/** Checks that two numbers have the same first three digits. @param {number} shown @param {number} is @param {string} what */
function assertNear(shown, is, what) {
  assert.ok(Math.abs(shown - is) <= 0.0051 * Math.abs(is), `${what}: shown as ${shown}, is ${is}`);
}

test("ground truth: what is said of each knob is shown, for the chosen captures", options, async () => {
  const truth = JSON.parse(readFileSync(new URL("runs/truth.json", import.meta.url), "utf8"));
  const html = report(folder, "truth", truth);
  const opened = await browser.open(html);
  const { page } = opened;
  const judged = (/** @type {string} */ vantage, /** @type {string} */ variant) =>
    truth.cases.flatMap((/** @type {any} */ one) => one.judgements.filter((/** @type {any} */ each) => one.is_judged && each.is_judged && each.vantage === vantage && each.variant === variant).map((/** @type {any} */ each) => ({ one, each })));
  const shown = async () => {
    const right = await page.locator(".said-right").allTextContents();
    const wrong = await page.locator(".said-wrong").allTextContents();
    const sum = (/** @type {string[]} */ cells) => cells.reduce((all, cell) => all + Number.parseInt(cell, 10), 0);
    return [sum(right), sum(wrong), await page.locator("#worst tbody").count(), await page.locator("#calibration circle").count()];
  };
  const expected = (/** @type {any[]} */ all) => {
    const right = all.filter(({ each }) => each.is_right).length;
    return [right, all.length - right, all.length - right, all.filter(({ each }) => each.predicted_s > 0).length];
  };
  assert.deepEqual(await shown(), expected(judged("client", "full")));
  await page.getByLabel("client, begun-late").check();
  assert.deepEqual(await shown(), expected(judged("client", "begun-late")));
  assert.equal(await page.locator("#bars tbody tr").count(), truth.bars.length);
  await openAll(page);
  await assertAccessible(page, "ground truth");
  await assertFits(page, "ground truth");
  assertQuiet(opened, "ground truth");
  await page.close();
});

test("race: every number of run.json is shown", options, async () => {
  const run = race();
  const html = report(folder, "race", run);
  assert.ok(statSync(html).size < 1.5e6, "a race's report is small");
  const opened = await browser.open(html);
  const { page } = opened;
  assert.equal(await page.textContent("h1"), run.question);
  const answer = await page.textContent(".answer");
  assert.match(answer ?? "", /^Of the 2 combinations of workload and network, curl-parallel-h2, curl-parallel-h1 and haul are fastest in both\. /);

  const rows = await page.evaluate(() =>
    [...document.querySelectorAll("section.block tbody.cell")].map((row) => ({
      place: row.closest("section")?.id,
      // The first text in the head of an expandable row is the contender's name.
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
    assertNear(seconds(row.texts[1]), cell.median_s ?? 0, what);
    assertNear(Number.parseFloat(row.texts.find((text) => text.endsWith("×")) ?? ""), cell.times_floor ?? 0, `${what} × floor`);
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
  await assertAccessible(page, "a race, all of it open, light");
  await page.emulateMedia({ colorScheme: "dark" });
  await assertAccessible(page, "a race, all of it open, dark", "color-contrast");
  await page.emulateMedia({ media: "print", colorScheme: "dark" });
  assert.equal(await page.locator("nav").isVisible(), false, "paper has no links to follow");
  assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).colorScheme), "light", "paper is white");
  assertQuiet(opened, "a race");
  await page.close();
});

test("disturbed cell is marked in the matrix and is not the fastest", options, async () => {
  const run = race();
  const cell = run.cells.find(({ contender, network }) => contender === "curl-parallel-h2" && network === "article");
  assert.ok(cell);
  cell.disturbed = "the machine may have added 49 % of the time";
  const { page } = await browser.open(report(folder, "disturbed", run));
  const row = page.locator(".matrix tbody", { hasText: "curl-parallel-h2" });
  const marked = row.locator("td").filter({ hasText: "⚠" });
  assert.match((await marked.textContent()) ?? "", /disturbed/);
  const next = page.locator(".matrix tbody", { hasText: "curl-parallel-h1" }).locator("td").first();
  assert.match((await next.textContent()) ?? "", /fastest/);
  assert.match((await page.locator(".matrix").locator("xpath=../..").textContent()) ?? "", /nothing rests on this time/);
});

test("race on a phone: every result is visible, with a bar of the whole width", options, async () => {
  const { page } = await browser.open(report(folder, "phone", race()), { width: 390, height: 844 });
  const table = page.locator("table.results").first();
  const { hidden, narrowest } = await table.evaluate((view) => {
    const cells = [...view.querySelectorAll("tbody.cell > tr:first-child > :not(.extra)")].map((cell) => cell.getBoundingClientRect());
    const bars = [...view.querySelectorAll("tbody.cell .strip")].map((bar) => bar.getBoundingClientRect().width);
    return { hidden: cells.filter(({ right, width }) => width === 0 || right > innerWidth).length, narrowest: Math.min(...bars) };
  });
  assert.equal(hidden, 0);
  assert.ok(narrowest > 300, `a bar is ${narrowest} px wide`);
});

test("race: usable by keyboard", options, async () => {
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

test("race: layout in light, dark, on a phone and on a wall screen", options, async () => {
  const html = report(folder, "looks", race());
  for (const [name, look] of /** @type {const} */ ([
    ["light", { scheme: "light", width: 1280, height: 1600 }],
    ["dark", { scheme: "dark", width: 1280, height: 1600 }],
    ["phone", { scheme: "light", width: 390, height: 1600 }],
  ])) {
    const { page } = await browser.open(html, look);
    await assertFits(page, name);
    await assertLooksLike(page, name);
    await page.close();
  }
  const { page } = await browser.open(html, { width: 3840, height: 2160 });
  await assertFits(page, "4K");
  const size = await page.evaluate(() => Number.parseFloat(getComputedStyle(document.documentElement).fontSize));
  assert.ok(size > 20, `letters of ${size} px can be read on a wall`);
  await page.close();
});

test("empty run says that nothing was measured", options, async () => {
  const opened = await browser.open(report(folder, "empty", empty()));
  assert.match((await opened.page.textContent(".answer")) ?? "", /^Nothing was measured/);
  await assertAccessible(opened.page, "an empty run");
  assertQuiet(opened, "an empty run");
  await opened.page.close();
});

test("skipped, failed and unreached cells show their reason", options, async () => {
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
  await assertAccessible(opened.page, "cells without a result");
  assertQuiet(opened, "cells without a result");
  await opened.page.close();
});

test("page loads are shown as waterfalls beside each other, with a film", options, async () => {
  const run = race();
  const [client, chromium] = run.cells;
  assert.ok(client && chromium && client.network === chromium.network && client.workload === chromium.workload);
  const request = (/** @type {string} */ name, /** @type {number} */ start_s, cached = false) => ({ name, start_s, head_s: start_s + 0.1, end_s: start_s + 0.2, cached });
  // The smallest JPEG that a browser shows.
  const jpeg = "/9j/4AAQSkZJRgABAQEASABIAAD/2wBDAP//////////////////////////////////////////////////////////////////////////////////////wAALCAABAAEBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAA//EABQQAQAAAAAAAAAAAAAAAAAAAAD/2gAIAQEAAD8AN//Z";
  Object.assign(client, { page_view: { fcp_s: null, lcp_s: null, requests: [request("page", 0), request("style", 0.3)] } });
  Object.assign(chromium, { fcp_s: 0.35, lcp_s: 0.5, page_view: { fcp_s: 0.36, lcp_s: 0.51, requests: [request("https://a/", 0), request("https://a/s", 0.8, true), { ...request("https://a/open", 0.4), end_s: null }], film: [{ at_s: 0.36, jpeg }, { at_s: 0.51, jpeg }] } });
  const opened = await browser.open(report(folder, "page-loads", run));
  const { page } = opened;
  await openAll(page);
  const figures = page.locator(".page-views figure");
  assert.deepEqual(await figures.locator("figcaption strong").allTextContents(), [client, chromium].sort((a, b) => (a.median_s ?? 0) - (b.median_s ?? 0)).map(({ contender }) => contender));
  const theirs = figures.filter({ hasText: chromium.contender }).last();
  assert.match((await theirs.locator("figcaption").textContent()) ?? "", /3.requests, 1 of them from the cache; last byte at 1.00.s; first contentful paint at 360.ms; largest contentful paint at 510.ms/);
  assert.deepEqual(await theirs.locator(".requests g > title").allTextContents(), ["https://a/: 0\u00a0s to 200\u00a0ms", "https://a/s: 800\u00a0ms to 1.00\u00a0s", "https://a/open: 400\u00a0ms to not finished"]);
  const lefts = await figures.locator(".requests g:nth-of-type(2) rect:first-of-type").evaluateAll((bars) => bars.map((bar) => Number.parseFloat(bar.getAttribute("x") ?? "")));
  assert.equal(lefts.length, 2, "both have the same axis, on which the second request of one begins later");
  assert.equal(await theirs.locator(".paint").count(), 2);
  const widths = await theirs.locator(".film img").evaluateAll((images) => images.map((image) => (image instanceof HTMLImageElement && image.complete ? image.naturalWidth : 0)));
  assert.deepEqual(widths, [1, 1], "the pictures are shown");
  assert.equal(await page.locator("thead", { hasText: "first paint" }).count(), 1, "only the table with a browser has the column");
  await assertAccessible(page, "page loads");
  await assertFits(page, "page loads");
  assertQuiet(opened, "page loads");
  await page.close();
});

test("data in SYNs is shown for each cell", options, async () => {
  const run = race();
  const [plain, early, raced, once] = run.cells;
  assert.ok(plain && early && raced && once);
  Object.assign(plain, { syns: { firsts: 2, firsts_with_data: 0, later: 9, later_with_data: 0, later_beside: 0 } });
  // Earlier versions did not count fallbacks.
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

test("thousand cells: all rows, and a chart by RTT", options, async () => {
  const run = thousand();
  const opened = await browser.open(report(folder, "thousand", run));
  const { page } = opened;
  assert.equal(await page.locator("tbody.cell").count(), 1000);
  assert.equal(await page.locator("figure.sweep").count(), 1);
  assert.equal(await page.locator("figure.sweep .line").count(), 11, "ten contenders and the floor");
  assert.equal(await page.locator("figure.sweep tbody").count(), 100, "the numbers stand beneath");
  await assertFits(page, "a thousand cells");
  assertQuiet(opened, "a thousand cells");
  await page.close();
});

test("hostile names are shown as text", options, async () => {
  const opened = await browser.open(report(folder, "hostile", hostile()));
  const { page } = opened;
  await openAll(page);
  const text = (await page.textContent("main")) ?? "";
  for (const name of HOSTILE) assert.ok(text.includes(name), `the page shows ${JSON.stringify(name)}`);
  assert.ok(!text.includes("native code"), "properties of Object are no known names");
  assert.equal(await page.locator('[class*="undefined"]').count(), 0);
  assert.equal(await page.evaluate(() => "broken" in window), false, "no injected script ran");
  assert.equal(await page.locator("img, main script, main svg[onload]").count(), 0);
  assert.equal(await page.locator('a[href^="javascript"]').count(), 0);
  assertQuiet(opened, "hostile names");
  await page.close();
});

test("Content Security Policy blocks requests and injected scripts", options, async () => {
  let requested = 0;
  const server = createServer((_, answer) => {
    requested += 1;
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
  assert.equal(requested, 0, "the policy stops it before it is sent");
  await page.close();
  server.close();
});

/** The race with one cell's times multiplied by a factor. @param {number} factor */
function scaledRace(factor) {
  const run = race();
  const cell = run.cells.find(({ contender, network }) => contender === "curl" && network === "article");
  assert.ok(cell?.median_s);
  cell.samples_s = cell.samples_s.map((sample) => sample * factor);
  cell.median_s *= factor;
  return run;
}

test("two runs: detectable differences", options, async () => {
  const now = scaledRace(0.1);
  now.host.kernel = "7.0.0";
  const opened = await browser.open(compared(folder, race(), now).html);
  const { page } = opened;
  assert.match((await page.textContent(".answer")) ?? "", /1 became faster and 0 slower/);
  const row = page.locator("#changed tbody tr").first();
  assert.equal(await page.locator("#changed tbody").count(), 1);
  const said = (await row.locator("td").last().textContent()) ?? "";
  assertNear(Number.parseFloat(said.replace("▼ ", "")), 0.1, "a tenth of the time");
  assert.match(said, /faster/);
  assert.match((await page.textContent("#unlike")) ?? "", /kernel: .* → 7\.0\.0/);
  await assertFits(page, "two runs");
  await assertAccessible(page, "two runs, light");
  await page.emulateMedia({ colorScheme: "dark" });
  await assertAccessible(page, "two runs, dark", "color-contrast");
  assertQuiet(opened, "two runs");
  await page.close();
});

test("five runs: each is compared with the first", options, async () => {
  const { html, json } = compared(folder, ...[1, 0.5, 1, 3, 2].map(scaledRace));
  const opened = await browser.open(html);
  const { page } = opened;
  assert.match((await page.textContent(".answer")) ?? "", /^Compared with run 1, the baseline: run 2 is faster in 1 and slower in none of \d+ cells; run 3 shows no detectable/);
  assert.equal(await page.locator("#runs tbody").count(), 5);
  const outcomes = await page.locator("#changed tbody .outcome").allTextContents();
  const cell = json.cells.find((/** @type {any} */ one) => one.contender === "curl" && one.network === "article");
  assert.equal(outcomes.length, 4);
  outcomes.forEach((said, place) => {
    const result = cell.runs[place + 1];
    assertNear(Number.parseFloat(said.replace(/^\D+/, "")), result.ratio, `run ${place + 2}`);
    assert.ok(result.trend === "same" ? said.startsWith("=") : said.includes(result.trend), said);
  });
  assert.equal(await page.locator("#all tbody").count(), json.cells.length);
  const dots = json.cells.flatMap((/** @type {any} */ one) => one.runs.flatMap((/** @type {any} */ result) => result.samples_s)).length;
  assert.equal(await page.locator("#all circle").count(), dots, "a dot for each sample of each run");
  await assertFits(page, "five runs");
  await assertAccessible(page, "five runs");
  await page.setViewportSize({ width: 390, height: 800 });
  await assertFits(page, "five runs on a phone");
  assertQuiet(opened, "five runs");
  await page.close();
});

test("report of a run links to its packet reports", options, async (context) => {
  const { status, said } = await small;
  if (status !== 0) {
    // There is no run if this machine cannot create hosts and cables.
    assert.ok(readdirSync(folder).every((name) => name !== "small"), said);
    console.log(`SKIPPED: a small run: ${said}`);
    context.skip(said);
    return;
  }
  const [id = ""] = readdirSync(SMALL);
  const opened = await browser.open(join(SMALL, id, "report.html"));
  const { page } = opened;
  const run = JSON.parse(readFileSync(join(SMALL, id, "run.json"), "utf8"));
  assert.match(run.command, /^haul lab run .*watched\.toml --samples 1 --plain --server embedded --results /);
  assert.equal(await page.textContent("h1"), run.question);
  await openAll(page);
  await assertAccessible(page, "a run of one sample");
  assertQuiet(opened, "a run of one sample");
  const curl = page.locator("tbody.cell").filter({ hasText: "curl" }).first();
  assert.equal(await curl.locator("a", { hasText: "capture of the typical sample" }).getAttribute("href"), "captures/upload-near-curl.pcapng");
  await curl.locator("a", { hasText: "packet report" }).click();
  await page.waitForURL("**/captures/upload-near-curl.html");
  assert.equal(await page.textContent("h1"), "upload-near-curl.pcapng");
  assert.deepEqual(opened.errors, []);
  await page.close();
});

test("run is watched and stopped from its live report", options, async (context) => {
  const runs = join(folder, "runs");
  const child = spawn(haul, ["lab", "run", EXPERIMENT, "--open", "--plain", "--server", "embedded", "--results", runs], { stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.setEncoding("utf8").on("data", (text) => { said += text; });
  let hasEnded = false;
  const ended = new Promise((done) => child.on("close", done)).then((code) => { hasEnded = true; return code; });
  const address = await Promise.race([
    (async () => {
      while (!hasEnded) {
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
    const { page, errors, requests } = await browser.open(address);
    await page.locator("circle").first().waitFor({ timeout: 60_000 });
    await assertAccessible(page, "a run that goes on");
    // Requests without the token, with another Host, or from another origin are rejected.
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
    assert.deepEqual(errors, []);
    assert.ok(requests.every((url) => url.startsWith(address) || url.startsWith("data:")), requests.join(" "));
    await page.close();
    assert.equal(await ended, 1, "a stopped run fails");
    const [id] = readdirSync(runs);
    const files = readdirSync(join(runs, id ?? "")).toSorted();
    assert.deepEqual(files, ["captures", "report.html", "run.json", "samples.csv"], "no files of the live report are left");
    const kept = await browser.open(join(runs, id ?? "", "report.html"));
    const count = JSON.parse(readFileSync(join(runs, id ?? "", "run.json"), "utf8")).cells.length;
    assert.equal(await kept.page.locator("tbody.cell").count(), count);
    assertQuiet(kept, "its report");
    await kept.page.close();
  } finally {
    child.kill("SIGTERM");
    await ended;
  }
});
