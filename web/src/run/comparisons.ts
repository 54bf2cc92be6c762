// Every pair of rivals of one block: how many times as long the slower takes, and whether that is more than chance.
// Drawn when asked for, since a dozen rivals make sixty-six pairs.

import { h } from "../dom";
import { aboutOne, axis } from "../scale";
import { table, wide } from "../table";
import { counted, factor, factors, share } from "../units";
import { label, path, type Block, type Comparison, type Run } from "./data";
import { ratio } from "./strip";

/** With less confidence nothing is said of a difference. */
const LEAST_CONFIDENCE = 0.9 - 1e-9;

/** What a comparison says. */
export function verdict({ differs, confidence }: { differs: boolean; confidence: number }): string {
  if (confidence < LEAST_CONFIDENCE) return "too few samples";
  const reserve = confidence < 0.95 - 1e-9 ? ` (${share(confidence)})` : "";
  return (differs ? "differs" : "no difference detected") + reserve;
}

export function comparisons(run: Run, own: Block): HTMLElement | null {
  const names = new Map(own.rows.map(({ cell }) => [path(cell), label(cell)]));
  const pairs = run.comparisons.filter(({ a, b }) => names.has(a) && names.has(b));
  if (pairs.length === 0) return null;
  const differing = pairs.filter(({ differs }) => differs).length;
  const details = h("details", { class: "pairs" }, h("summary", {}, `${counted(pairs.length, "comparison")}, ${differing} with a detectable difference`));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(draw(own, pairs, names));
  });
  return details;
}

function draw(own: Block, pairs: Comparison[], names: Map<string, string>): HTMLElement {
  const scale = aboutOne(pairs.flatMap(({ ci95 }) => ci95));
  const view = table<Comparison>(
    `${own.workload.name} over ${own.network.name}: every pair of contenders`,
    [
      { head: "faster", key: ({ a }) => names.get(a), cell: ({ a }) => names.get(a) },
      { head: "slower", key: ({ b }) => names.get(b), cell: ({ b }) => names.get(b) },
      { head: "slower ÷ faster", class: "chart", axis: () => axis(scale), cell: (pair) => ratio(pair.ratio, pair.ci95, scale, pair.differs ? "differs" : "same") },
      { head: "ratio", number: true, key: ({ ratio: value }) => value, cell: ({ ratio: value }) => factor(value) },
      { head: "interval", hint: "95 % confidence if the samples allow it", number: true, class: "extra", cell: ({ ci95 }) => factors(...ci95) },
      { head: "verdict", key: verdict, cell: verdict },
    ],
    pairs,
  );
  return wide(`Comparisons of ${own.workload.name} over ${own.network.name}`, view);
}
