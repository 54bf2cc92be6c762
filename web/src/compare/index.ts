// The view of `longhaul.compare/1`: each run compared with the first: significant changes, every cell in every run, and how
// the runs themselves differ. Runs are identified by their number.

import { h, slug, type Child } from "../dom";
import { definitionList } from "../run/cell-details";
import { verdict } from "../run/comparisons";
import { ratioPlot, stripPlot } from "../run/strip-plot";
import { ratioScale, axis, linear, type Scale } from "../scale";
import { table, scrollable, type Column } from "../table";
import { counted, factor, factors, dateTime, share, listInWords, time } from "../units";

/** The schema `longhaul.compare/1`. */
export interface Compare {
  schema: "longhaul.compare/1";
  answer: string[];
  /** The baseline first. */
  runs: RunInfo[];
  cells: Cell[];
}

interface RunInfo {
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
  /** Its result in each run. */
  runs: CellInRun[];
}

interface CellInRun {
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
  const titles = listInWords([...new Set(data.runs.map(({ title }) => title))]);
  document.title = `${titles}, compared · Longhaul`;
  const changed = data.cells.filter(({ runs }) => runs.some(differs)).sort((a, b) => largestChange(b) - largestChange(a));
  root.append(
    h(
      "main",
      {},
      h(
        "header",
        {},
        h("p", { class: "soft small" }, `${titles} · ${counted(data.runs.length, "run")}, each compared with the first`),
        h("h1", {}, data.runs.length === 2 ? "What changed between two runs" : `What changed in ${data.runs.length} runs`),
        data.answer.map((paragraph, index) => h("p", { class: index === 0 ? "answer" : null }, paragraph)),
      ),
      h("section", { id: "runs", "aria-labelledby": "runs-heading" }, h("h2", { id: "runs-heading" }, "The runs"), runTable(data)),
      h("section", { id: "changed", "aria-labelledby": "changed-heading" }, h("h2", { id: "changed-heading" }, "Detectable differences"), changed.length === 0 ? h("p", {}, "None.") : changeTable(data.runs, changed)),
      h("section", { id: "all", "aria-labelledby": "all-heading" }, h("h2", { id: "all-heading" }, "Every cell in every run"), byWorkload(data.cells).map((cells) => timeTable(data.runs, cells))),
      runDifferences(data.runs),
    ),
  );
}

function differs({ trend }: CellInRun): boolean {
  return trend === "faster" || trend === "slower";
}

/** The largest change of a cell, as a logarithm. */
function largestChange({ runs }: Cell): number {
  return Math.max(...runs.filter(differs).map(({ ratio: value }) => Math.abs(Math.log(value ?? 1))));
}

/** The table of the runs, with the number of changed cells. */
function runTable({ runs, cells }: Compare): HTMLElement {
  const number = (head: string, value: (run: number) => number): Column<number> => ({ head, number: true, cell: (run) => (run === 0 ? "" : value(run)) });
  const tally = (run: number, trend: CellInRun["trend"]) => cells.filter((cell) => cell.runs[run]?.trend === trend).length;
  const view = table<number>(
    "The runs, and the number of cells that changed",
    [
      { head: "run", cell: (run) => String(run + 1) },
      { head: "name", cell: (run) => h("span", { class: "named" }, runs[run]?.name) },
      { head: "started", class: "extra", cell: (run) => dateTime(runs[run]?.started ?? "") },
      { head: "differences from run 1", cell: (run) => (run === 0 ? "the baseline" : differencesLink(runs[run]?.unlike.length ?? 0)) },
      number("cells faster", (run) => tally(run, "faster")),
      number("slower", (run) => tally(run, "slower")),
      number("no difference", (run) => tally(run, "same")),
      number("not comparable", (run) => tally(run, "unknown")),
    ],
    runs.map((_, run) => run),
  );
  return scrollable("Table of the runs", view);
}

function differencesLink(count: number): Child {
  return count === 0 ? "none recorded" : h("a", { href: "#unlike" }, counted(count, "difference"));
}

function name({ contender, model }: Cell): Child {
  return [contender, model && [" ", h("span", { class: "tag" }, "model")]];
}

/** The change of a cell in a run, in words. */
function changeInWords({ trend, reason, confidence, ci95 }: CellInRun): string {
  if (reason !== null) return reason;
  if (trend === "same") return verdict({ differs: false, confidence: confidence ?? 0 });
  const reserve = confidence !== null && confidence < 0.95 - 1e-9 ? ` (${share(confidence)})` : "";
  return `${trend}${reserve}${ci95 ? `, ${factors(...ci95)}` : ""}`;
}

function change(run: CellInRun): Child {
  return h("span", { class: `trend ${run.trend}` }, run.ratio === null ? "–" : `${SIGNS[run.trend]}${factor(run.ratio)}`, h("small", {}, changeInWords(run)));
}

/** A chart for each run, one below the other, with its number. */
function stack(runs: [run: number, cellChart: Child][]): HTMLElement {
  return h("div", { class: "stack" }, runs.map(([run, cellChart]) => h("div", {}, h("span", { class: "which", "aria-hidden": "true" }, run + 1), cellChart)));
}

function axisOf(scale: Scale): () => Child {
  return () => h("div", { class: "stack" }, h("div", {}, h("span", { class: "which" }), axis(scale)));
}

/** With more than two runs, a phone has no room for charts; the columns have the same data. */
function chart(runs: RunInfo[]): string {
  return runs.length > 2 ? "chart extra" : "chart";
}

function changeTable(runs: RunInfo[], cells: Cell[]): HTMLElement {
  const scale = ratioScale(cells.flatMap((cell) => cell.runs.flatMap(({ ci95 }) => ci95 ?? [])));
  const caption = "Times as multiples of run 1’s, largest change first";
  const view = table<Cell>(
    caption,
    [
      { head: "contender", class: "sticky", key: ({ contender }) => contender, cell: name },
      { head: "cell", key: where, cell: (cell) => h("span", { class: "named" }, where(cell)) },
      { head: "time as a multiple of run 1’s", class: chart(runs), axis: axisOf(scale), cell: (cell) => stack(cell.runs.flatMap(({ ratio: value, ci95, trend }, run) => (value !== null && ci95 ? [[run, ratioPlot(value, ci95, scale, trend)]] : []))) },
      ...laterRuns(runs, (run) => ({ head: `run ${run + 1}`, number: true, class: "outcome", key: (cell) => cell.runs[run]?.ratio, cell: (cell) => cell.runs[run] && change(cell.runs[run]) })),
    ],
    cells,
    { hasVisibleCaption: true },
  );
  return scrollable(caption, view);
}

/** A column for each run after the first. */
function laterRuns(runs: RunInfo[], column: (run: number) => Column<Cell>): Column<Cell>[] {
  return runs.slice(1).map((_, index) => column(index + 1));
}

function where({ workload, network }: Cell): string {
  return `${workload} over ${network}`;
}

/** The cells by workload and network, in their order. */
function byWorkload(cells: Cell[]): Cell[][] {
  const grouped = new Map<string, Cell[]>();
  for (const cell of cells) {
    const key = JSON.stringify([cell.workload, cell.network]);
    grouped.set(key, [...(grouped.get(key) ?? []), cell]);
  }
  return [...grouped.values()];
}

function timeTable(runs: RunInfo[], cells: Cell[]): HTMLElement | null {
  const [first] = cells;
  if (!first) return null;
  const scale = linear(Math.max(0, ...cells.flatMap((cell) => cell.runs.flatMap(({ samples_s }) => samples_s))));
  const median = ({ median_s }: CellInRun) => (median_s === null ? "–" : time(median_s));
  const view = table<Cell>(
    `${where(first)}: times in each run`,
    [
      { head: "contender", class: "sticky", key: ({ contender }) => contender, cell: name },
      { head: "time per run and sample", class: chart(runs), axis: axisOf(scale), cell: (cell) => stack(cell.runs.flatMap((cellInRun, run) => (cellInRun.samples_s.length > 0 ? [[run, cellChart(cell, cellInRun, scale)]] : []))) },
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
  return h("section", { id: slug(first.workload, first.network), class: "block" }, h("h3", {}, first.workload, h("span", { class: "soft" }, " over "), first.network), scrollable(where(first), view));
}

function cellChart({ model }: Cell, { samples_s, median_s, trend }: CellInRun, scale: Scale): SVGSVGElement {
  const picture = stripPlot({ samples_s, median_s, ci95_s: null, floor_s: null, model }, scale);
  if (trend === "baseline") picture.classList.add("baseline");
  return picture;
}

function runDifferences(runs: RunInfo[]): HTMLElement {
  const differing = runs.flatMap(({ unlike: differences }, run) => (differences.length > 0 ? [{ differences, run }] : []));
  const noDifferences = "No differences were recorded. Still, the contenders of one run took turns on one machine, and those of several runs did not.";
  return h(
    "section",
    { id: "unlike", "aria-labelledby": "unlike-heading" },
    h("h2", { id: "unlike-heading" }, "How the runs differ from run 1"),
    differing.length === 0 ? h("p", {}, noDifferences) : h("p", {}, "These differences may explain the changed times:"),
    differing.map(({ differences, run }) => [h("h3", {}, `Run ${run + 1}`), h("ul", {}, differences.map((one) => h("li", {}, one)))]),
    h("h3", {}, "Commands"),
    definitionList(runs.map(({ command }, run) => [`Run ${run + 1}`, command && h("code", {}, command)])),
  );
}
