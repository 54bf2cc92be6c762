// Two runs: what changed beyond noise first, then every cell, then what was different about the runs themselves.

import { h, slug, type Child } from "../dom";
import { definitions } from "../run/cell";
import { verdict } from "../run/comparisons";
import { ratio, strip } from "../run/strip";
import { aboutOne, axis, linear, type Scale } from "../scale";
import { table, wide } from "../table";
import { counted, factor, factors, moment, share, time } from "../units";

/** The schema `longhaul.compare/1`. */
export interface Compare {
  schema: "longhaul.compare/1";
  answer: string[];
  runs: [About, About];
  circumstances: string[];
  cells: Change[];
}

interface About {
  title: string;
  started: string;
  command: string;
}

interface Change {
  workload: string;
  network: string;
  contender: string;
  model: boolean;
  medians_s: [number | null, number | null];
  samples_s: [number[], number[]];
  ratio: number | null;
  ci95: [number, number] | null;
  confidence: number | null;
  trend: "faster" | "slower" | "same" | "unknown";
  reason: string | null;
}

const WORDS = { faster: "▼ faster", slower: "▲ slower", same: "no difference detected", unknown: "not comparable" };

export function render(root: HTMLElement, data: Compare): void {
  const [then, now] = data.runs;
  const name = then.title === now.title ? then.title : `${then.title} and ${now.title}`;
  document.title = `${name}, compared · Longhaul`;
  const changed = data.cells.filter(({ trend }) => trend === "faster" || trend === "slower");
  root.append(
    h(
      "main",
      {},
      h("header", {}, h("p", { class: "soft small" }, `${name} · ${moment(then.started)}, then ${moment(now.started)}`), h("h1", {}, "What changed between two runs"), data.answer.map((paragraph, place) => h("p", { class: place === 0 ? "answer" : null }, paragraph))),
      h("section", { id: "changed", "aria-labelledby": "changed-heading" }, h("h2", { id: "changed-heading" }, "Beyond noise"), changed.length === 0 ? h("p", {}, "Nothing.") : ratios("Cells that became faster or slower", changed)),
      h("section", { id: "all", "aria-labelledby": "all-heading" }, h("h2", { id: "all-heading" }, "Every cell, then and now"), places(data.cells).map((cells) => pair(cells))),
      circumstances(data),
    ),
  );
}

function where({ workload, network }: Change): string {
  return `${workload} over ${network}`;
}

function name({ contender, model }: Change): Child {
  return [contender, model && [" ", h("span", { class: "tag" }, "model")]];
}

function said(change: Change): string {
  const { trend, reason, confidence } = change;
  if (reason !== null) return reason;
  if (trend === "same") return verdict({ differs: false, confidence: confidence ?? 0 });
  return WORDS[trend] + (confidence !== null && confidence < 0.95 - 1e-9 ? ` (${share(confidence)})` : "");
}

function ratios(caption: string, cells: Change[]): HTMLElement {
  const scale = aboutOne(cells.flatMap(({ ci95 }) => ci95 ?? []));
  const view = table<Change>(
    caption,
    [
      { head: "contender", key: ({ contender }) => contender, cell: name },
      { head: "at", key: where, cell: where },
      { head: "now ÷ then", class: "chart", axis: () => axis(scale), cell: ({ ratio: value, ci95, trend }) => ci95 && value !== null && ratio(value, ci95, scale, trend) },
      { head: "ratio", number: true, key: (change) => change.ratio, cell: (change) => (change.ratio === null ? "–" : factor(change.ratio)) },
      { head: "interval", number: true, class: "extra", cell: ({ ci95 }) => (ci95 ? factors(...ci95) : "–") },
      { head: "verdict", key: said, cell: (change) => h("span", { class: `trend ${change.trend}` }, said(change)) },
    ],
    cells,
    { sort: 3 },
  );
  return wide(caption, view);
}

/** The cells by place, in their order. */
function places(cells: Change[]): Change[][] {
  const grouped = new Map<string, Change[]>();
  for (const cell of cells) {
    const key = JSON.stringify([cell.workload, cell.network]);
    grouped.set(key, [...(grouped.get(key) ?? []), cell]);
  }
  return [...grouped.values()];
}

function pair(cells: Change[]): HTMLElement | null {
  const [first] = cells;
  if (!first) return null;
  const scale = linear(Math.max(0, ...cells.flatMap(({ samples_s }) => samples_s.flat())));
  const median = (which: 0 | 1) => ({ number: true, key: ({ medians_s }: Change) => medians_s[which], cell: ({ medians_s }: Change) => (medians_s[which] === null ? "–" : time(medians_s[which])) });
  const view = table<Change>(
    `${where(first)}: times then and now`,
    [
      { head: "contender", key: ({ contender }) => contender, cell: name },
      { head: "then above, now below", class: "chart", axis: () => axis(scale), cell: (change) => both(change, scale) },
      { head: "then", ...median(0) },
      { head: "now", ...median(1) },
      { head: "ratio", number: true, key: ({ ratio: value }) => value, cell: ({ ratio: value }) => (value === null ? "–" : factor(value)) },
      { head: "verdict", key: said, class: "extra", cell: (change) => h("span", { class: `trend ${change.trend}` }, said(change)) },
    ],
    cells,
    { sort: 3 },
  );
  view.classList.add("results");
  return h("section", { id: slug(first.workload, first.network), class: "block" }, h("h3", {}, first.workload, h("span", { class: "soft" }, " over "), first.network), wide(where(first), view));
}

function both({ medians_s, samples_s, model }: Change, scale: Scale): Child {
  return ([0, 1] as const).map((which) => {
    const drawn = strip({ samples_s: samples_s[which], median_s: medians_s[which], ci95_s: null, floor_s: null, model }, scale);
    drawn.classList.add(which === 0 ? "then" : "now");
    return drawn;
  });
}

function circumstances({ runs, circumstances: told }: Compare): HTMLElement {
  const [then, now] = runs;
  return h(
    "section",
    { id: "runs", "aria-labelledby": "runs-heading" },
    h("h2", { id: "runs-heading" }, "The runs themselves"),
    told.length === 0
      ? h("p", {}, "They were made alike, as far as was recorded. Even so, cells of one run took turns on one machine in one hour; cells of two runs did not.")
      : [h("p", {}, `${counted(told.length, "thing is", "things are")} not the same, and may be why the times are not:`), h("ul", {}, told.map((one) => h("li", {}, one)))],
    definitions([["Then", then.command && h("code", {}, then.command)], ["Now", now.command && h("code", {}, now.command)]]),
  );
}
