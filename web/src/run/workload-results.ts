// The results of one workload on one network: a table with a chart, fastest first; a row expands to the cell's details.

import { causeBar } from "../cause-bar";
import { classes, ordered, title } from "../causes";
import { h, type Child } from "../dom";
import { axis, linear, logarithmic, type Scale } from "../scale";
import { table, scrollable, type Column } from "../table";
import { count, counted, factor, time } from "../units";
import { cellDetails } from "./cell-details";
import { comparisons } from "./comparisons";
import { label, type Block, type Cell, type Row, type Run } from "./data";
import { pageViews } from "./page-views";
import { stripPlot } from "./strip-plot";

/** Whether bars are linear from zero, or logarithmic from the floor. */
export type BarScale = "linear" | "ratios";

export function workloadResults(run: Run, block: Block, barScale: BarScale): HTMLElement {
  const heading = `${block.id}-heading`;
  return h(
    "section",
    { id: block.id, class: "block", "aria-labelledby": heading },
    h("h3", { id: heading }, block.workload.name, h("span", { class: "soft" }, " over "), block.network.name),
    h("p", { class: "soft small" }, `${block.workload.description}; ${block.network.description}. Floor (the minimum that physics allows): ${time(block.floor)}.`),
    block.sentences.map((sentence) => h("p", {}, sentence)),
    legend(block),
    scrollable(`Results of ${block.workload.name} over ${block.network.name}`, drawTable(run, block, barScale)),
    pageViews(block),
    comparisons(run, block),
  );
}

/** A smaller share of every bar is not named. */
const NAMED_SHARE = 0.02;

/** The legend of the causes in this block's bars. */
function legend({ rows }: Block): HTMLElement | null {
  const named = rows.flatMap(({ cell }) => {
    const seconds = Object.entries(cell.why?.seconds ?? {});
    const total = seconds.reduce((sum, [, part]) => sum + part, 0);
    return seconds.filter(([, part]) => part > NAMED_SHARE * total).map(([cause]) => cause);
  });
  const causes = ordered(new Set(named));
  if (causes.length === 0) return null;
  return h("p", { class: "legend small" }, "Where the time went: ", causes.map((cause) => h("span", { class: "key" }, h("span", { class: `swatch ${classes(cause)}`, "aria-hidden": "true" }), title(cause), " ")));
}

function scaleOf(block: Block, barScale: BarScale): Scale {
  const shown = block.rows.flatMap(({ cell }) => [...cell.samples_s, ...(cell.ci95_s ?? [])]);
  const high = Math.max(block.floor, ...shown);
  return barScale === "ratios" && block.floor > 0 ? logarithmic(Math.min(block.floor, ...shown), high) : linear(high);
}

function drawTable(run: Run, block: Block, barScale: BarScale): HTMLTableElement {
  const scale = scaleOf(block, barScale);
  const anyCell = (has: (cell: Cell) => boolean) => block.rows.some(({ cell }) => has(cell));
  const number = (head: string, hint: string, value: (row: Row) => number | null, format: (value: number) => string): Column<Row> => ({
    head,
    hint,
    number: true,
    class: "extra",
    key: value,
    cell: (row) => orDash(value(row), format),
  });
  const columns: Column<Row>[] = [
    { head: "contender", class: "who", key: ({ cell }) => label(cell), cell: ({ cell }) => contenderName(cell) },
    {
      head: "time per sample",
      class: "chart",
      axis: () => axis(scale),
      cell: ({ cell }) => (cell.status === "ok" ? stripPlot(cell, scale) : unmeasured(cell, scale)),
    },
    { head: "median", number: true, key: ({ cell }) => cell.median_s, cell: ({ cell }) => orDash(cell.median_s, time) },
  ];
  if (block.rows.some(({ extras }) => extras.place !== null)) {
    columns.push({ head: "rank", hint: "2–4: the samples do not decide between these ranks", number: true, class: "extra", key: ({ extras }) => (extras.place === null ? null : Number.parseInt(extras.place, 10)), cell: ({ extras }) => extras.place ?? "–" });
  }
  columns.push({ head: "× floor", hint: "the median as a multiple of the floor", number: true, class: "floors", key: ({ cell }) => cell.times_floor, cell: ({ cell }) => orDash(cell.times_floor, factor) });
  if (anyCell(({ fcp_s }) => typeof fcp_s === "number")) columns.push(number("first paint", "the first contentful paint, from the first request", ({ cell }) => cell.fcp_s ?? null, time));
  if (anyCell(({ lcp_s }) => typeof lcp_s === "number")) columns.push(number("largest paint", "the largest contentful paint, from the first request", ({ cell }) => cell.lcp_s ?? null, time));
  columns.push(number("round trips", "the median divided by the RTT of the network", ({ cell }) => cell.round_trips, (trips) => (trips < 10 ? trips.toFixed(1) : count(trips))));
  if (anyCell(({ requests }) => requests !== null)) columns.push(number("requests", "HTTP requests", ({ cell }) => cell.requests, count));
  if (anyCell(({ connections }) => connections !== null)) columns.push(number("connec\u00adtions", "TCP connections", ({ cell }) => cell.connections, count));
  if (anyCell(({ why }) => hasCauses(why))) {
    columns.push({ head: "where the time went", class: "where", cell: ({ cell }) => (cell.why && hasCauses(cell.why) ? causeBar(cell.why.seconds) : cell.status === "ok" ? "–" : "") });
  }
  const view = table(`${block.workload.name} over ${block.network.name}: times by contender`, columns, block.rows, {
    sort: 2,
    detail: (row) => () => cellDetails(run, row),
    class: ({ cell }) => `cell ${cell.status}`,
  });
  view.classList.add("results", "stacked");
  return view;
}

function hasCauses(why: Cell["why"]): boolean {
  return why !== null && why !== undefined && Object.keys(why.seconds).length > 0;
}

function orDash(value: number | null, format: (value: number) => string): string {
  return value === null ? "–" : format(value);
}

/** A contender's name, with a tag if it is a model, and one if other programs on the machine disturbed it. */
export function contenderName(cell: Cell): Child {
  return [
    cell.contender,
    cell.model ? [" ", h("span", { class: "tag", title: "Replays the requests of a client that cannot run here" }, "model")] : null,
    cell.disturbed ? [" ", h("span", { class: "tag", title: cell.disturbed }, "⚠ disturbed")] : null,
  ];
}

/** The status in place of a bar; a failed cell also shows its samples. */
function unmeasured(cell: Cell, scale: Scale): Child {
  const hasSamples = cell.samples_s.length > 0;
  return [
    h("span", { class: `status ${cell.status}` }, cell.status === "skipped" ? "skipped" : "failed"),
    h("span", { class: "soft small" }, ` ${cell.reason ?? "no reason given"}${hasSamples ? `; ${counted(cell.samples_s.length, "sample")} before that` : ""}`),
    hasSamples ? stripPlot({ ...cell, median_s: null, ci95_s: null, floor_s: null }, scale) : null,
  ];
}
