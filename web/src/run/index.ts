// The view of `longhaul.run/1`: the answer, the results of each workload on each network, claims and method.

import { append, h } from "../dom";
import { inTimeSlices } from "../time-slices";
import { counted, dateTime, keepPercents } from "../units";
import { workloadResults, type BarScale } from "./workload-results";
import { claims } from "./claims";
import { blocks, type Block, type Run } from "./data";
import { method } from "./method";
import { overview } from "./overview";
import { isSwept, sweeps } from "./sweeps";

/** The ratio of slowest to fastest from which bars from zero hide the fast ones. */
const LARGE_RATIO = 30;

/** With more blocks than this, those outside the window are not laid out. Screenshots of the whole page would lack them. */
const MANY_BLOCKS = 24;

export function render(root: HTMLElement, run: Run): void {
  const name = run.title || run.experiment;
  document.title = `${name} · Longhaul`;
  const all = blocks(run);
  const first = results(run, all);
  const main = h("main", {}, head(run, name), contents(run, all), first.section);
  root.append(h("a", { class: "skip", href: "#results" }, "To the results"), main);
  inTimeSlices([
    ...first.rest,
    () => append(main, [sweeps(all), claims(run)]),
    () => append(main, [method(run)]),
    () => {
      if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
    },
  ]);
}

function head(run: Run, name: string): HTMLElement {
  const samples = run.cells.reduce((all, { samples_s }) => all + samples_s.length, 0);
  return h(
    "header",
    {},
    h("p", { class: "soft small" }, `${name} · ${dateTime(run.started)} · ${counted(run.cells.length, "cell")}, ${counted(samples, "sample")}`),
    h("h1", {}, run.question || name),
    h("dl", { class: "answers" }, run.page.answer.map(({ about, text }, index) => [h("dt", {}, about), h("dd", { class: index === 0 ? "answer" : null }, keepPercents(text))])),
    stopNote(run),
  );
}

/** A note if the run was stopped early. */
function stopNote(run: Run): HTMLElement | null {
  const unreached = run.cells.filter(({ reason }) => reason === "the run was stopped before it").length;
  return unreached === 0 ? null : h("p", { class: "note" }, `${unreached} of ${counted(run.cells.length, "cell")} were not measured, because the run was stopped.`);
}

function contents(run: Run, all: Block[]): HTMLElement {
  const parts: [string, string, boolean][] = [
    ["results", "Results", true],
    ["sweeps", "How it scales", isSwept(all)],
    ["claims", "Claims", run.claims.length > 0],
    ["how", "Method", true],
  ];
  return h("nav", { class: "contents screen", "aria-label": "Parts of this page" }, parts.filter(([, , isShown]) => isShown).map(([id, text]) => h("a", { href: `#${id}` }, text)));
}

/** The results, and the tasks that draw the rest of them. The matrix, or else the first block, fills the window. */
function results(run: Run, all: Block[]): { section: HTMLElement; rest: (() => void)[] } {
  const medians = (each: Block) => each.rows.flatMap(({ cell }) => cell.median_s ?? []);
  const hasLargeRatio = all.some((each) => Math.max(...medians(each)) > LARGE_RATIO * Math.min(...medians(each)));
  const container = h("div");
  let barScale: BarScale = "linear";
  const draw = (each: Block) => workloadResults(run, each, barScale);
  const matrix = overview(all);
  const drawnFirst = matrix ? 0 : 1;
  container.append(...all.slice(0, drawnFirst).map(draw));
  if (all.length > MANY_BLOCKS) container.className = "many";
  const section = h("section", { id: "results", "aria-labelledby": "results-heading" }, h("h2", { id: "results-heading" }, "Results"));
  const redraw = (choice: BarScale) => {
    barScale = choice;
    container.replaceChildren(...all.slice(0, container.childElementCount).map(draw));
  };
  append(section, [matrix, hasLargeRatio && scaleChoice(redraw), container]);
  if (all.length === 0) section.append(h("p", {}, "No results."));
  return { section, rest: all.slice(drawnFirst).map((each) => () => container.append(draw(each))) };
}

/** The choice between linear and logarithmic bars. */
function scaleChoice(draw: (barScale: BarScale) => void): HTMLElement {
  const option = (barScale: BarScale, name: string) => {
    const input = h("input", { type: "radio", name: "reading", value: barScale, checked: barScale === "linear", onchange: () => draw(barScale) });
    return h("label", {}, input, ` ${name}`);
  };
  return h("fieldset", { class: "choice screen" }, h("legend", { class: "visually-hidden" }, "Bars"), option("linear", "linear, from zero"), option("ratios", "logarithmic, from the floor"));
}
