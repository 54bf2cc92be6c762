// Reports of captures: the book's stalled upload, a transfer over an emulated link, 200,000 packets, and hostile names.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Browser, program } from "./browser.mjs";
import { large, requests } from "./captures.mjs";
import { haul, isBuilt } from "./haul.mjs";
import { assertLooksLike } from "./visual-check.mjs";
import { assertAccessible, assertFits, assertQuiet } from "./page-checks.mjs";

const SEED = fileURLToPath(new URL("../../docs/src/traces/browser-upload.snoop.txt", import.meta.url));
const LINUX = fileURLToPath(new URL("../../crates/explain/tests/traces/lossy-download-client.pcapng.gz", import.meta.url));
// report.test.mjs prints what is missing.
const skip = !program || !isBuilt;

describe("report of a capture", { skip, timeout: 240_000 }, () => {
  /** @type {Browser} */
  let browser;
  /** @type {string} */
  let folder;

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), "longhaul-page-"));
    browser = await Browser.start();
  });
  after(async () => {
    await browser?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  /** Explains captures as a page and as JSON. @param {string} name @param {string[]} args */
  function explain(name, ...args) {
    const page = join(folder, `${name}.html`);
    const ran = spawnSync(haul, ["explain", "--html", page, "--json", "-", ...args], { encoding: "utf8", maxBuffer: 1e9 });
    assert.equal(ran.status, 0, `${ran.error ?? ran.stderr}`);
    return { page, json: JSON.parse(ran.stdout) };
  }

  test("stalled upload: answer, time by cause and predictions", async () => {
    const { page: file, json } = explain("seed", SEED, "--bytes", "18MB");
    const opened = await browser.open(file);
    const { page } = opened;
    assert.match((await page.locator(".answer").textContent()) ?? "", /^93 ms of 113 ms \(82 %\) were lost: delayed ACKs/);
    const transfer = json.connections[0].transfers[0];
    // The bar and the table add up to the transfer.
    const widths = await page.locator(".timeline .cause").evaluateAll((pieces) => pieces.map((piece) => parseFloat(/** @type {HTMLElement} */ (piece).style.width)));
    assert.ok(Math.abs(widths.reduce((sum, width) => sum + width, 0) - 100) < 0.01, `${widths}`);
    assert.equal(await page.locator("table.causes tbody tr").count(), Object.keys(transfer.time_s).length);
    const after = await page.locator(".account table", { hasText: "otherwise unchanged" }).locator("tbody").allTextContents();
    assert.match(after[0] ?? "", /^18.MB, otherwise unchanged4.min.07.s/);
    assert.match(after[1] ?? "", /^deferred-ack=1msagainst delayed ACKs36\.8.s85.% less/);
    assertQuiet(opened, "the stalled upload");
    await assertAccessible(page, "the stalled upload");
    await page.close();
  });

  test("a finding's packet is selected by click and by keys", async () => {
    const { page: file } = explain("evidence", SEED);
    const opened = await browser.open(file);
    const { page } = opened;
    await page.getByRole("button", { name: "Show packet 416" }).click();
    const panel = page.locator(".inspector");
    await panel.getByText("Packet 416: acknowledgement").waitFor();
    const text = (await panel.textContent()) ?? "";
    assert.match(text, /yangtze:443 → host22:1742/);
    assert.match(text, /all bytes before 8.217/);
    assert.match(text, /9[23](\.\d)?.ms: delayed ACKs/);
    assert.match(text, /Evidence of a finding/);
    // By keys: one back, and forward to the evidence.
    await page.locator(".sequence canvas").focus();
    await page.keyboard.press("ArrowLeft");
    await panel.getByText("Packet 415").waitFor();
    await page.keyboard.press("e");
    await panel.getByText("Packet 416").waitFor();
    // From nothing to the first packet.
    await page.keyboard.press("Escape");
    assert.match((await panel.textContent()) ?? "", /No packet selected/);
    await page.locator(".ladder").press("ArrowDown");
    await panel.getByText("Packet 405").waitFor();
    await assertAccessible(page, "the evidence");
    assertQuiet(opened, "the evidence");
    await page.close();
  });

  test("fixes for other systems are folded, and the systems have their evidence", async () => {
    const { page: file, json } = explain("systems", LINUX);
    assert.deepEqual([json.connections[0].system.client, json.connections[0].system.server], ["Linux", "Linux"]);
    const opened = await browser.open(file);
    const { page } = opened;
    const found = page.locator(".found").first();
    const windows = found.getByText("Windows sender");
    assert.equal(await found.getByText("Linux sender").first().isVisible(), true);
    assert.equal(await windows.isVisible(), false);
    await found.getByText(/^For other systems/).click();
    await windows.waitFor();
    await page.getByText("Systems: client Linux, server Linux").click();
    await page.getByText(/The server runs Linux, by packet 2: time to live 64/).waitFor();
    await assertAccessible(page, "the systems");
    assertQuiet(opened, "the systems");
    await page.close();
  });

  test("packet table has every packet of the capture", async () => {
    const { page: file } = explain("packets", SEED);
    const { page } = await browser.open(file);
    await page.getByText("Packets as a table").click();
    const printed = readFileSync(SEED, "utf8").trim().split("\n");
    // The table is drawn after the click.
    const drawn = page.locator("details[open] tbody tr");
    await drawn.nth(printed.length - 1).waitFor();
    const rows = await drawn.allTextContents();
    assert.equal(rows.length, printed.length);
    for (const line of printed) {
      const [, number, length] = /^(\d+)\s.*Len=(\d+)/.exec(line) ?? [];
      const row = rows.find((each) => each.startsWith(`${number}`)) ?? "";
      const what = Number(length) > 0 ? Number(length).toString().replace(/(\d)(\d{3})$/, "$1\u202f$2") + "\u00a0B of data" : "acknowledgement";
      assert.ok(row.includes(what), `${line} | ${row}`);
    }
    await page.getByText("The transfer’s time as a table").click();
    await page.locator("details[open] caption", { hasText: /total 113.ms/ }).waitFor();
    await assertAccessible(page, "the tables");
    await page.close();
  });

  test("retransmissions and SACK blocks of an emulated link are shown", async (context) => {
    const captures = join(folder, "link");
    writeFileSync(join(folder, "two.bin"), Buffer.alloc(2_000_000, 7));
    const server = `python3 -m http.server 8080 -d ${folder} 2>/dev/null`;
    const client = "curl -sfo /dev/null http://$HAUL_SERVER_IP:8080/two.bin";
    const ran = spawnSync(haul, ["link", "--rtt", "20ms", "--rate", "50mbit", "--loss", "1%", "--seed", "4", "--capture", captures, "-q", "--server", server, "--", "sh", "-c", client], { encoding: "utf8", timeout: 60_000 });
    if (ran.status !== 0) {
      context.skip(`no emulated link here: ${ran.stderr}`);
      return;
    }
    const { page: file, json } = explain("link", join(captures, "server.pcapng"), join(captures, "client.pcapng"));
    const opened = await browser.open(file);
    const { page } = opened;
    assert.equal(json.connections.length, 1);
    const label = (await page.locator(".sequence canvas").getAttribute("aria-label")) ?? "";
    const retransmitted = Number(/(\d+) retransmitted/.exec(label)?.[1]);
    assert.ok(retransmitted > 0, label);
    await page.locator(".legend", { hasText: "retransmitted" }).filter({ hasText: "SACK" }).waitFor();
    await page.getByRole("button", { name: "Next retransmission" }).click();
    assert.match((await page.locator(".inspector h3").textContent()) ?? "", /of data, retransmitted$/);
    assertQuiet(opened, "a link");
    await assertAccessible(page, "a link");
    await page.close();
  });

  test("several requests: phases, shared link, counters and masked queries", async (context) => {
    const captures = join(folder, "several");
    for (const name of ["one", "two", "three"]) writeFileSync(join(folder, `${name}.bin`), Buffer.alloc(400_000, 7));
    const server = `python3 -m http.server 8080 -d ${folder} 2>/dev/null`;
    const client = "curl -sZ --parallel-immediate $(for name in one two three; do echo -o /dev/null http://$HAUL_SERVER_IP:8080/$name.bin?page=2\\&token=s3cret; done)";
    const ran = spawnSync(haul, ["link", "--rtt", "20ms", "--rate", "20mbit", "--capture", captures, "-q", "--server", server, "--", "sh", "-c", client], { encoding: "utf8", timeout: 60_000 });
    if (ran.status !== 0) {
      context.skip(`no emulated link here: ${ran.stderr}`);
      return;
    }
    const { page: file, json } = explain("several", join(captures, "client.pcapng"));
    assert.equal(json.connections.length, 3);
    assert.ok(!readFileSync(file, "utf8").includes("s3cret") && !JSON.stringify(json).includes("s3cret"), "the token is masked");
    const opened = await browser.open(file, { width: 1400 });
    const { page } = opened;
    await page.getByRole("button", { name: "GET /one.bin?page=2&token=… → 200" }).waitFor();
    const legend = page.locator("figure:has(.waterfall) > .legend");
    assert.match((await legend.textContent()) ?? "", /connect.*wait for first byte.*receive/);
    await page.getByRole("combobox", { name: "Colours" }).selectOption("causes");
    assert.match((await legend.textContent()) ?? "", /round trips|link saturated/);
    const link = page.locator("figure", { has: page.getByRole("combobox", { name: "Shared link" }) });
    assert.equal(await link.locator(".legend li").count(), 3);
    await link.getByText("Shared link as a table").click();
    // It is filled when it is opened.
    await link.locator("tbody").nth(5).waitFor({ state: "attached" });
    await page.getByText("The path over time as a table").click();
    const facts = (await page.locator(".account").textContent()) ?? "";
    const { counters, transfers } = json.connections.find((/** @type {any} */ each) => facts.includes(`${each.client} → `));
    const row = page.locator("table.counters tbody").first();
    assert.deepEqual(await row.locator("td").allTextContents(), [counters.up.packets, counters.down.packets].map(String));
    const phases = Object.values(transfers[0].phases_s).reduce((sum, seconds) => Number(sum) + Number(seconds), 0);
    assert.ok(Math.abs(Number(phases) - transfers[0].duration_s) < 1e-9);
    await assertAccessible(page, "several requests");
    for (const width of [1400, 800, 400]) {
      await page.setViewportSize({ width, height: 900 });
      await assertFits(page, `several requests, ${width} px wide`);
      for (const canvas of [".waterfall canvas", ".sequence canvas", ".path.last canvas"]) {
        for (let attempts = 50; (await drawnShare(page, canvas)) <= 0.005; attempts--) assert.ok(attempts > 0, `${canvas} stays empty at ${width} px`);
      }
    }
    assertQuiet(opened, "several requests");
    await page.close();
  });

  test("200,000 packets are drawn and can be selected", async () => {
    const capture = join(folder, "large.pcap");
    writeFileSync(capture, large(200_000));
    const { page: file, json } = explain("large", capture);
    const opened = await browser.open(file);
    const { page } = opened;
    const canvas = page.locator(".sequence canvas");
    await canvas.waitFor();
    const count = json.connections[0].packets;
    assert.ok(count >= 200_000);
    await canvas.focus();
    await page.keyboard.press("End");
    const last = new RegExp(`^Packet ${count.toString().replace(/\B(?=(\d{3})+$)/g, ".")}:`);
    assert.match((await page.locator(".inspector h3").textContent()) ?? "", last);
    for (const key of ["0", "+", "+", "Shift+ArrowLeft", "-", "PageUp", "r"]) await page.keyboard.press(key);
    assert.match((await page.locator(".inspector h3").textContent()) ?? "", last);
    await page.keyboard.press("Home");
    await page.keyboard.press("r");
    assert.match((await page.locator(".inspector h3").textContent()) ?? "", /retransmitted$/);
    for (const name of ["Fit", "Readable", "Zoom in", "Zoom out"]) await page.locator("figure:has(.ladder)").getByRole("button", { name }).click();
    for (const canvas of [".ladder canvas", ".sequence canvas"]) {
      for (let attempts = 50; (await drawnShare(page, canvas)) <= 0.01; attempts--) assert.ok(attempts > 0, `${canvas} stays empty`);
    }
    assertQuiet(opened, "200,000 packets");
    await page.close();
  });

  test("hostile names are shown as text", async () => {
    const names = ["/index.html", "/</script><script>alert(1)</script>", "/<img/src=x/onerror=alert(1)>", "/%22onload=alert(1)//", `/${"a".repeat(600)}`];
    const capture = join(folder, "</script><script>alert(2)</script>.pcap".replaceAll("/", "_"));
    writeFileSync(capture, requests(names));
    const { page: file } = explain("hostile", capture);
    const opened = await browser.open(file);
    const { page } = opened;
    for (const name of names.slice(0, 4)) await page.getByRole("button", { name: `GET ${name}`, exact: false }).first().waitFor();
    assert.equal(await page.locator("img, main script").count(), 0);
    // Selects all of them in the waterfall, then clicks everything.
    await page.locator(".waterfall").focus();
    for (const _ of names) await page.keyboard.press("ArrowDown");
    assert.match((await page.locator(".account h2").textContent()) ?? "", /^GET \/a{600}/);
    await page.getByRole("combobox", { name: "Order" }).selectOption("connection");
    for (const button of await page.locator("button:visible:enabled").all()) await button.click();
    for (const summary of await page.locator("summary").all()) await summary.click();
    await page.getByLabel("window edge").click();
    assertQuiet(opened, "hostile names");
    await assertAccessible(page, "hostile names");
    await page.close();
  });

  test("page fits a phone, a wall screen, dark mode and print", async () => {
    const { page: file } = explain("looks", SEED);
    const looks = [
      { name: "capture-phone", width: 360, height: 740 },
      { name: "capture-dark", scheme: /** @type {const} */ ("dark") },
      { name: "capture-wall", width: 3840, height: 2160 },
    ];
    for (const look of looks) {
      const opened = await browser.open(file, look);
      const { page } = opened;
      await page.locator(".ladder canvas").waitFor();
      await assertFits(page, look.name);
      await page.locator(".sequence").scrollIntoViewIfNeeded();
      await assertLooksLike(page, look.name);
      if (look.scheme) {
        await assertAccessible(page, "its looks");
        for (let attempts = 50; (await background(page)) >= 60; attempts--) assert.ok(attempts > 0, "the charts are not dark");
        await page.emulateMedia({ media: "print" });
        for (let attempts = 50; (await background(page)) < 240; attempts--) assert.ok(attempts > 0, "the charts stay dark on paper");
      }
      assertQuiet(opened, "its looks");
      await page.close();
    }
  });
});

/** The pixels of a copy of a canvas; reading the canvas itself would log a warning. @param {string} name */
function pixelsOf(name) {
  const canvas = document.querySelector(name);
  if (!(canvas instanceof HTMLCanvasElement)) throw new Error(`${name} is no canvas`);
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [canvas.width, canvas.height];
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen?.drawImage(canvas, 0, 0);
  return pen?.getImageData(0, 0, copy.width, copy.height).data ?? new Uint8ClampedArray();
}

/** The brightness of the charts' background, of 255. @param {import("playwright-core").Page} page */
async function background(page) {
  await page.waitForTimeout(50);
  return page.evaluate(`(${pixelsOf})(".sequence canvas")[4]`).then(Number);
}

/** The share of a canvas with another colour than its most frequent one. @param {import("playwright-core").Page} page @param {string} canvas */
async function drawnShare(page, canvas) {
  await page.waitForTimeout(50);
  return Number(
    await page.evaluate(`(() => {
      const pixels = new Uint32Array((${pixelsOf})(${JSON.stringify(canvas)}).buffer);
      const counts = new Map();
      for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
      return 1 - Math.max(...counts.values()) / Math.max(1, pixels.length);
    })()`),
  );
}
