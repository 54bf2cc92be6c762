// The program under test, and the runs that it shows.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** @typedef {import("../src/run/data").Run} Run */

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
/** The debug build, which `make test` builds first. */
export const haul = process.env.HAUL ?? join(process.env.CARGO_TARGET_DIR ?? join(ROOT, "target"), "debug/haul");
export const isBuilt = existsSync(haul);

/** A recorded race. @returns {Run} */
export function race() {
  return JSON.parse(readFileSync(new URL("runs/race.json", import.meta.url), "utf8"));
}

/** Writes a run to `folder` and returns the path of its report. @param {string} folder @param {string} name @param {object} run */
export function report(folder, name, run) {
  const [json, html] = [join(folder, `${name}.json`), join(folder, `${name}.html`)];
  writeFileSync(json, JSON.stringify(run));
  execFileSync(haul, ["report", json, "--html", html]);
  return html;
}

/** Compares runs with the program. @param {string} folder @param {object[]} runs */
export function compared(folder, ...runs) {
  const html = join(folder, `compared-${runs.length}.html`);
  const files = runs.map((run, index) => {
    const file = join(folder, `compared-${index + 1}-of-${runs.length}.json`);
    writeFileSync(file, JSON.stringify(run));
    return file;
  });
  const json = execFileSync(haul, ["lab", "compare", ...files, "--html", html, "--json", "-"], { encoding: "utf8" });
  return { html, json: JSON.parse(json) };
}

/** The race without cells. @returns {Run} */
export function empty() {
  return { ...race(), cells: [], comparisons: [], claims: [] };
}

/** A thousand cells: ten contenders on a hundred networks, which differ only in their RTT. @returns {Run} */
export function thousand() {
  const run = race();
  const cells = run.cells.slice(0, 10);
  const networks = Array.from({ length: 100 }, (_, index) => ({ name: `rtt-${index + 1}`, description: `${index + 1}ms RTT`, rtt_s: (index + 1) / 1000, link: { rtt: `${index + 1}ms` } }));
  return {
    ...run,
    networks,
    cells: networks.flatMap((network) => cells.map((cell) => ({ ...cell, network: network.name }))),
    comparisons: networks.flatMap(({ name }) => run.comparisons.filter(({ a, b }) => [a, b].every((path) => path.includes("/article/"))).map((pair) => ({ ...pair, a: pair.a.replace("/article/", `/${name}/`), b: pair.b.replace("/article/", `/${name}/`) }))),
    claims: [],
  };
}

/** Names that a hostile experiment, server or machine may have. */
export const HOSTILE = [
  "</script><script>window.broken=1</script>",
  "<img src=x onerror=window.broken=1>",
  '"><svg onload=window.broken=1>',
  "<!--<script>",
  "javascript:window.broken=1",
  "%00\u0000\u202eevil\u2028\u2029",
  "constructor",
  "__proto__",
];

/** The race with hostile names everywhere. @returns {Run} */
export function hostile() {
  const run = race();
  const [workload, network] = [HOSTILE[0] ?? "", HOSTILE[1] ?? ""];
  const [workloadData, networkData] = [run.workloads[0], run.networks[0]];
  if (!workloadData || !networkData) throw new Error("the race has no networks");
  const cells = run.cells.slice(0, HOSTILE.length).map((cell, index) => ({
    ...cell,
    workload,
    network,
    contender: HOSTILE[index] ?? "",
    reason: HOSTILE[2] ?? "",
    why: { round: 0, seconds: { [HOSTILE[index] ?? ""]: 1, propagation: 2 }, answer: HOSTILE[0] ?? "" },
    methods: Object.fromEntries([[HOSTILE[1] ?? "", 3]]),
  }));
  return {
    ...run,
    title: HOSTILE[0] ?? "",
    question: HOSTILE[1] ?? "",
    command: HOSTILE[3] ?? "",
    settings: Object.fromEntries(HOSTILE.map((name) => [name, name])),
    host: { ...run.host, cpu: HOSTILE[2] ?? "", tools: Object.fromEntries(HOSTILE.map((name) => [name, name])) },
    workloads: [{ ...workloadData, name: workload, description: HOSTILE[2] ?? "" }],
    networks: [{ ...networkData, name: network, description: HOSTILE[3] ?? "" }],
    cells,
    comparisons: [],
    claims: run.claims.map((claim) => ({ ...claim, said: HOSTILE[0] ?? "", measured: HOSTILE[1] ?? "", source: HOSTILE[2] ?? "" })),
  };
}
