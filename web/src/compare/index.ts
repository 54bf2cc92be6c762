// Runs, each against the first: what changed beyond noise, then every cell in every run, then what was different about
// the runs themselves. A run is called by its number, in every chart and column.

import { h, slug, type Child } from "../dom";
import { definitions } from "../run/cell";
import { verdict } from "../run/comparisons";
import { ratio, strip } from "../run/strip";
import { aboutOne, axis, linear, type Scale } from "../scale";
import { table, wide, type Column } from "../table";
import { counted, factor, factors, moment, share, spoken, time } from "../units";

/** The schema `longhaul.compare/1`. */
export interface Compare {
  schema: "longhaul.compare/1";
  answer: string[];
  /** The baseline first. */
  runs: About[];
  cells: Cell[];
}

interface About {
  name: string;
  title: string;
  started: string;
  command: string;
  unlike: string[];
}

interface Cell {
  workload: string;
  network: string;
  contender: string;
  model: boolean;
  /** What it was in each run. */
  runs: InRun[];
}

interface InRun {
  samples_s: number[];
  median_s: number | null;
  ratio: number | null;
  ci95: [number, number] | null;
  confidence: number | null;
  trend: "baseline" | "faster" | "slower" | "same" | "unknown";
  reason: string | null;
}

const SIGNS = { baseline: "", faster: "▼ ", slower: "▲ ", same: "= ", unknown: "" };

export function render(root: HTMLElement, data: Compare): void {
  const titles = spoken([...new Set(data.runs.map(({ title }) => title))]);
  document.title = `${titles}, compared · Longhaul`;
  const changed = data.cells.filter(({ runs }) => runs.some(differs)).sort((a, b) => most(b) - most(a));
  root.append(
    h(
      "main",
      {},
      h(
        "header",
        {},
        h("p", { class: "soft small" }, `${titles} · ${counted(data.runs.length, "run")}, each compared with the first`),
        h("h1", {}, data.runs.length === 2 ? "What changed between two runs" : `What changed in ${data.runs.length} runs`),
        data.answer.map((paragraph, place) => h("p", { class: place === 0 ? "answer" : null }, paragraph)),
      ),
      h("section", { id: "runs", "aria-labelledby": "runs-heading" }, h("h2", { id: "runs-heading" }, "The runs"), which(data)),
      h("section", { id: "changed", "aria-labelledby": "changed-heading" }, h("h2", { id: "changed-heading" }, "Detectable differences"), changed.length === 0 ? h("p", {}, "None.") : ratios(data.runs, changed)),
      h("section", { id: "all", "aria-labelledby": "all-heading" }, h("h2", { id: "all-heading" }, "Every cell in every run"), places(data.cells).map((cells) => times(data.runs, cells))),
      circumstances(data.runs),
    ),
  );
}

function differs({ trend }: InRun): boolean {
  return trend === "faster" || trend === "slower";
}

/** How far a cell is from its baseline where it is farthest. */
function most({ runs }: Cell): number {
  return Math.max(...runs.filter(differs).map(({ ratio: value }) => Math.abs(Math.log(value ?? 1))));
}

/** Which run is which, and how many cells of it changed. */
function which({ runs, cells }: Compare): HTMLElement {
  const number = (head: string, value: (run: number) => number): Column<number> => ({ head, number: true, cell: (run) => (run === 0 ? "" : value(run)) });
  const tally = (run: number, trend: InRun["trend"]) => cells.filter((cell) => cell.runs[run]?.trend === trend).length;
  const view = table<number>(
    "The runs, and the number of cells that changed",
    [
      { head: "run", cell: (run) => String(run + 1) },
      { head: "name", cell: (run) => h("span", { class: "named" }, runs[run]?.name) },
      { head: "started", class: "extra", cell: (run) => moment(runs[run]?.started ?? "") },
      { head: "differences from run 1", cell: (run) => (run === 0 ? "the baseline" : unlike(runs[run]?.unlike.length ?? 0)) },
      number("cells faster", (run) => tally(run, "faster")),
      number("slower", (run) => tally(run, "slower")),
      number("no difference", (run) => tally(run, "same")),
      number("not comparable", (run) => tally(run, "unknown")),
    ],
    runs.map((_, run) => run),
  );
  return wide("Table of the runs", view);
}

function unlike(many: number): Child {
  return many === 0 ? "none recorded" : h("a", { href: "#unlike" }, counted(many, "difference"));
}

function name({ contender, model }: Cell): Child {
  return [contender, model && [" ", h("span", { class: "tag" }, "model")]];
}

/** What became of a cell in a run, in words. */
function said({ trend, reason, confidence, ci95 }: InRun): string {
  if (reason !== null) return reason;
  if (trend === "same") return verdict({ differs: false, confidence: confidence ?? 0 });
  const reserve = confidence !== null && confidence < 0.95 - 1e-9 ? ` (${share(confidence)})` : "";
  return `${trend}${reserve}${ci95 ? `, ${factors(...ci95)}` : ""}`;
}

function change(run: InRun): Child {
  return h("span", { class: `trend ${run.trend}` }, run.ratio === null ? "–" : `${SIGNS[run.trend]}${factor(run.ratio)}`, h("small", {}, said(run)));
}

/** One picture for each run, beneath one another, with their numbers. */
function stack(runs: [run: number, drawn: Child][]): HTMLElement {
  return h("div", { class: "stack" }, runs.map(([run, drawn]) => h("div", {}, h("span", { class: "which", "aria-hidden": "true" }, run + 1), drawn)));
}

function axisOf(scale: Scale): () => Child {
  return () => h("div", { class: "stack" }, h("div", {}, h("span", { class: "which" }), axis(scale)));
}

/** With more runs than two there is no room for pictures on a phone, but the columns say the same. */
function chart(runs: About[]): string {
  return runs.length > 2 ? "chart extra" : "chart";
}

function ratios(runs: About[], cells: Cell[]): HTMLElement {
  const scale = aboutOne(cells.flatMap((cell) => cell.runs.flatMap(({ ci95 }) => ci95 ?? [])));
  const caption = "Times as multiples of run 1’s, largest change first";
  const view = table<Cell>(
    caption,
    [
      { head: "contender", class: "sticky", key: ({ contender }) => contender, cell: name },
      { head: "cell", key: where, cell: (cell) => h("span", { class: "named" }, where(cell)) },
      { head: "time as a multiple of run 1’s", class: chart(runs), axis: axisOf(scale), cell: (cell) => stack(cell.runs.flatMap(({ ratio: value, ci95, trend }, run) => (value !== null && ci95 ? [[run, ratio(value, ci95, scale, trend)]] : []))) },
      ...later(runs, (run) => ({ head: `run ${run + 1}`, number: true, class: "outcome", key: (cell) => cell.runs[run]?.ratio, cell: (cell) => cell.runs[run] && change(cell.runs[run]) })),
    ],
    cells,
    { shown: true },
  );
  return wide(caption, view);
}

/** A column for each run after the first. */
function later(runs: About[], column: (run: number) => Column<Cell>): Column<Cell>[] {
  return runs.slice(1).map((_, place) => column(place + 1));
}

function where({ workload, network }: Cell): string {
  return `${workload} over ${network}`;
}

/** The cells by place, in their order. */
function places(cells: Cell[]): Cell[][] {
  const grouped = new Map<string, Cell[]>();
  for (const cell of cells) {
    const key = JSON.stringify([cell.workload, cell.network]);
    grouped.set(key, [...(grouped.get(key) ?? []), cell]);
  }
  return [...grouped.values()];
}

function times(runs: About[], cells: Cell[]): HTMLElement | null {
  const [first] = cells;
  if (!first) return null;
  const scale = linear(Math.max(0, ...cells.flatMap((cell) => cell.runs.flatMap(({ samples_s }) => samples_s))));
  const median = ({ median_s }: InRun) => (median_s === null ? "–" : time(median_s));
  const view = table<Cell>(
    `${where(first)}: times in each run`,
    [
      { head: "contender", class: "sticky", key: ({ contender }) => contender, cell: name },
      { head: "time per run and sample", class: chart(runs), axis: axisOf(scale), cell: (cell) => stack(cell.runs.flatMap((own, run) => (own.samples_s.length > 0 ? [[run, drawn(cell, own, scale)]] : []))) },
      ...runs.map((_, run): Column<Cell> => ({
        head: `run ${run + 1}`,
        number: true,
        class: "outcome",
        key: (cell) => cell.runs[run]?.median_s,
        cell: ({ runs }) => runs[run] && [median(runs[run]), run > 0 && h("small", { class: `trend ${runs[run].trend}` }, runs[run].ratio === null ? runs[run].reason : `${SIGNS[runs[run].trend]}${factor(runs[run].ratio)}`)],
      })),
    ],
    cells,
    { sort: 2 },
  );
  view.classList.add("results");
  return h("section", { id: slug(first.workload, first.network), class: "block" }, h("h3", {}, first.workload, h("span", { class: "soft" }, " over "), first.network), wide(where(first), view));
}

function drawn({ model }: Cell, { samples_s, median_s, trend }: InRun, scale: Scale): SVGSVGElement {
  const picture = strip({ samples_s, median_s, ci95_s: null, floor_s: null, model }, scale);
  if (trend === "baseline") picture.classList.add("then");
  return picture;
}

function circumstances(runs: About[]): HTMLElement {
  const others = runs.flatMap(({ unlike: told }, run) => (told.length > 0 ? [{ told, run }] : []));
  const alike = "No differences were recorded. Still, the contenders of one run took turns on one machine, and those of several runs did not.";
  return h(
    "section",
    { id: "unlike", "aria-labelledby": "unlike-heading" },
    h("h2", { id: "unlike-heading" }, "How the runs differ from run 1"),
    others.length === 0 ? h("p", {}, alike) : h("p", {}, "These differences may explain the changed times:"),
    others.map(({ told, run }) => [h("h3", {}, `Run ${run + 1}`), h("ul", {}, told.map((one) => h("li", {}, one)))]),
    h("h3", {}, "Commands"),
    definitions(runs.map(({ command }, run) => [`Run ${run + 1}`, command && h("code", {}, command)])),
  );
}
