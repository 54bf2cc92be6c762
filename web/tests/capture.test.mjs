// Pages of captures: of the book's stalled upload, of a transfer over an emulated link, of very many packets, of names that
// nobody means well with.

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
import { looksAs } from "./look.mjs";
import { accessible, fits, quiet } from "./rules.mjs";

const SEED = fileURLToPath(new URL("../../docs/src/traces/browser-upload.snoop.txt", import.meta.url));
// That it is missing report.test.mjs says aloud.
const skip = !program || !isBuilt;

describe("a capture's page", { skip, timeout: 240_000 }, () => {
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

  test("says first what the stalled upload waited for, and what it would take otherwise", async () => {
    const { page: file, json } = explain("seed", SEED, "--bytes", "18MB");
    const opened = await browser.open(file);
    const { page } = opened;
    assert.match((await page.locator(".answer").textContent()) ?? "", /^93 ms of 113 ms \(82 %\) were lost to delayed ACKs/);
    const transfer = json.connections[0].transfers[0];
    // The bar's pieces add up to the transfer, and so does the table beside it.
    const widths = await page.locator(".timeline .cause").evaluateAll((pieces) => pieces.map((piece) => parseFloat(/** @type {HTMLElement} */ (piece).style.width)));
    assert.ok(Math.abs(widths.reduce((sum, width) => sum + width, 0) - 100) < 0.01, `${widths}`);
    assert.equal(await page.locator("table.causes tbody tr").count(), Object.keys(transfer.time_s).length);
    const after = await page.locator(".account table", { hasText: "otherwise unchanged" }).locator("tbody").allTextContents();
    assert.match(after[0] ?? "", /^18.MB, otherwise unchanged4.min.07.s/);
    assert.match(after[1] ?? "", /^deferred-ack=1msagainst delayed ACKs36\.8.s85.% less/);
    quiet(opened, "the stalled upload");
    await accessible(page, "the stalled upload");
    await page.close();
  });

  test("shows a packet that a finding names, in words and in the charts", async () => {
    const { page: file } = explain("evidence", SEED);
    const opened = await browser.open(file);
    const { page } = opened;
    await page.getByRole("button", { name: "Show packet 416" }).click();
    const panel = page.locator(".inspector");
    await panel.getByText("Packet 416: acknowledgement").waitFor();
    const said = (await panel.textContent()) ?? "";
    assert.match(said, /yangtze:443 → host22:1742/);
    assert.match(said, /all bytes before 8.217/);
    assert.match(said, /9[23](\.\d)?.ms: delayed ACKs/);
    assert.match(said, /Evidence of a finding/);
    // The same one by keys: back one and forth again.
    await page.locator(".sequence canvas").focus();
    await page.keyboard.press("ArrowLeft");
    await panel.getByText("Packet 415").waitFor();
    await page.keyboard.press("e");
    await panel.getByText("Packet 416").waitFor();
    // And by a click where it stands.
    await page.keyboard.press("Escape");
    assert.match((await panel.textContent()) ?? "", /No packet selected/);
    await page.locator(".ladder").press("ArrowDown");
    await panel.getByText("Packet 405").waitFor();
    await accessible(page, "the evidence");
    quiet(opened, "the evidence");
    await page.close();
  });

  test("tells every packet as the capture has it", async () => {
    const { page: file } = explain("packets", SEED);
    const { page } = await browser.open(file);
    await page.getByText("Packets as a table").click();
    const printed = readFileSync(SEED, "utf8").trim().split("\n");
    // The table is drawn by an event that follows the click.
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
    await accessible(page, "the tables");
    await page.close();
  });

  test("shows a transfer over an emulated link, sent again and acknowledged selectively", async (context) => {
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
    const again = Number(/(\d+) retransmitted/.exec(label)?.[1]);
    assert.ok(again > 0, label);
    await page.locator(".legend", { hasText: "retransmitted" }).filter({ hasText: "SACK" }).waitFor();
    await page.getByRole("button", { name: "Next retransmission" }).click();
    assert.match((await page.locator(".inspector h3").textContent()) ?? "", /of data, retransmitted$/);
    quiet(opened, "a link");
    await accessible(page, "a link");
    await page.close();
  });

  test("keeps 200,000 packets, and every one of them within reach", async () => {
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
      for (let left = 50; (await ink(page, canvas)) <= 0.01; left--) assert.ok(left > 0, `${canvas} stays empty`);
    }
    quiet(opened, "200,000 packets");
    await page.close();
  });

  test("makes nothing of names but names", async () => {
    const names = ["/index.html", "/</script><script>alert(1)</script>", "/<img/src=x/onerror=alert(1)>", "/%22onload=alert(1)//", `/${"a".repeat(600)}`];
    const capture = join(folder, "</script><script>alert(2)</script>.pcap".replaceAll("/", "_"));
    writeFileSync(capture, requests(names));
    const { page: file } = explain("hostile", capture);
    const opened = await browser.open(file);
    const { page } = opened;
    for (const name of names.slice(0, 4)) await page.getByRole("button", { name: `GET ${name}`, exact: false }).first().waitFor();
    assert.equal(await page.locator("img, main script").count(), 0);
    // All of them one after another, in the waterfall and by name.
    await page.locator(".waterfall").focus();
    for (const _ of names) await page.keyboard.press("ArrowDown");
    assert.match((await page.locator(".account h2").textContent()) ?? "", /^GET \/a{600}/);
    await page.getByRole("combobox", { name: "Order" }).selectOption("connection");
    for (const button of await page.locator("button:visible:enabled").all()) await button.click();
    for (const summary of await page.locator("summary").all()) await summary.click();
    await page.getByLabel("window edge").click();
    quiet(opened, "hostile names");
    await accessible(page, "hostile names");
    await page.close();
  });

  test("is drawn on a phone, in the dark, on paper and on a wall, and fits", async () => {
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
      await fits(page, look.name);
      await page.locator(".sequence").scrollIntoViewIfNeeded();
      await looksAs(page, look.name);
      if (look.scheme) {
        await accessible(page, "its looks");
        for (let left = 50; (await paper(page)) >= 60; left--) assert.ok(left > 0, "the charts are not dark");
        await page.emulateMedia({ media: "print" });
        for (let left = 50; (await paper(page)) < 240; left--) assert.ok(left > 0, "the charts stay dark on paper");
      }
      quiet(opened, "its looks");
      await page.close();
    }
  });
});

/** The pixels of a canvas, without asking it for them, which the browser would complain of. @param {string} name */
function pixelsOf(name) {
  const found = document.querySelector(name);
  if (!(found instanceof HTMLCanvasElement)) throw new Error(`${name} is no canvas`);
  const copy = document.createElement("canvas");
  [copy.width, copy.height] = [found.width, found.height];
  const pen = copy.getContext("2d", { willReadFrequently: true });
  pen?.drawImage(found, 0, 0);
  return pen?.getImageData(0, 0, copy.width, copy.height).data ?? new Uint8ClampedArray();
}

/** How light the paper of the charts is, of 255. @param {import("playwright-core").Page} page */
async function paper(page) {
  await page.waitForTimeout(50);
  return page.evaluate(`(${pixelsOf})(".sequence canvas")[4]`).then(Number);
}

/** How much of a canvas is not of the colour that most of it has. @param {import("playwright-core").Page} page @param {string} canvas */
async function ink(page, canvas) {
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
