// A run: the answer first, then who took how long at what over which network, and why; then what of the source held,
// and how it was done.

import { classes, ordered, title } from "../causes";
import { append, h } from "../dom";
import { inTurns } from "../turns";
import { counted, moment, unbroken } from "../units";
import { block, type Reading } from "./block";
import { claims } from "./claims";
import { blocks, type Block, type Run } from "./data";
import { how } from "./how";
import { overview } from "./overview";
import { isSwept, sweeps } from "./sweeps";

/** Where the slowest takes so many times as long as the fastest, bars from zero hide the fast ones. */
const FAR = 30;

export function render(root: HTMLElement, run: Run): void {
  const name = run.title || run.experiment;
  document.title = `${name} · Longhaul`;
  const all = blocks(run);
  const first = results(run, all);
  const main = h("main", {}, head(run, name), contents(run, all), first.section);
  root.append(h("a", { class: "skip", href: "#results" }, "To the results"), main);
  inTurns([
    ...first.rest,
    () => append(main, [sweeps(all), claims(run.claims)]),
    () => append(main, [how(run)]),
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
    h("p", { class: "soft small" }, `${name} · ${moment(run.started)} · ${counted(run.cells.length, "cell")}, ${counted(samples, "sample")}`),
    h("h1", {}, run.question || name),
    h("dl", { class: "answers" }, run.page.answer.map(({ about, text }, place) => [h("dt", {}, about), h("dd", { class: place === 0 ? "answer" : null }, unbroken(text))])),
    stopped(run),
  );
}

/** What keeps the results from being whole. */
function stopped(run: Run): HTMLElement | null {
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
  return h("nav", { class: "contents screen", "aria-label": "Parts of this page" }, parts.filter(([, , there]) => there).map(([id, text]) => h("a", { href: `#${id}` }, text)));
}

/** The results, and what draws all of them that is not seen at first: the matrix of all fills a window, else a block. */
function results(run: Run, all: Block[]): { section: HTMLElement; rest: (() => void)[] } {
  const medians = (own: Block) => own.rows.flatMap(({ cell }) => cell.median_s ?? []);
  const far = all.some((own) => Math.max(...medians(own)) > FAR * Math.min(...medians(own)));
  const place = h("div");
  let reading: Reading = "linear";
  const draw = (own: Block) => block(run, own, reading);
  const whole = overview(all);
  const atOnce = whole ? 0 : 1;
  place.append(...all.slice(0, atOnce).map(draw));
  const section = h("section", { id: "results", "aria-labelledby": "results-heading" }, h("h2", { id: "results-heading" }, "Results"));
  const redraw = (chosen: Reading) => {
    reading = chosen;
    place.replaceChildren(...all.slice(0, place.childElementCount).map(draw));
  };
  append(section, [whole, legend(run), far && choice(redraw), place]);
  if (all.length === 0) section.append(h("p", {}, "No results."));
  return { section, rest: all.slice(atOnce).map((own) => () => place.append(draw(own))) };
}

/** What the colours of the causes mean, for those that this run has. */
function legend(run: Run): HTMLElement | null {
  const whys = run.cells.flatMap(({ why }) => (why ? [why.seconds] : []));
  const causes = ordered(new Set(whys.flatMap((seconds) => Object.keys(seconds).filter((cause) => (seconds[cause] ?? 0) > 0))));
  if (causes.length === 0) return null;
  return h("div", { class: "legend small" }, h("strong", {}, "Where the time went: "), h("ul", {}, causes.map((cause) => h("li", {}, h("span", { class: `swatch ${classes(cause)}`, "aria-hidden": "true" }), title(cause)))));
}

/** Bars from zero, or by ratios from the floor: for who wants to see the fast ones beside the slow. */
function choice(draw: (reading: Reading) => void): HTMLElement {
  const option = (reading: Reading, name: string) => {
    const input = h("input", { type: "radio", name: "reading", value: reading, checked: reading === "linear", onchange: () => draw(reading) });
    return h("label", {}, input, ` ${name}`);
  };
  return h("fieldset", { class: "choice screen" }, h("legend", { class: "unseen" }, "Bars"), option("linear", "linear, from zero"), option("ratios", "logarithmic, from the floor"));
}
