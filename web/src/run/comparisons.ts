// Comparisons of every pair of contenders: the ratio of their times, and whether it is significant. Drawn on demand, since
// a dozen contenders make sixty-six pairs.

import { h } from "../dom";
import { ratioScale, axis } from "../scale";
import { table, scrollable } from "../table";
import { counted, factor, factors, share } from "../units";
import { label, path, type Block, type Comparison, type Run } from "./data";
import { ratioPlot } from "./strip-plot";

/** The minimum confidence of a verdict. */
const MIN_CONFIDENCE = 0.9 - 1e-9;

/** A comparison's verdict in words. */
export function verdict({ differs, confidence }: { differs: boolean; confidence: number }): string {
  if (confidence < MIN_CONFIDENCE) return "too few samples";
  const reserve = confidence < 0.95 - 1e-9 ? ` (${share(confidence)})` : "";
  return (differs ? "differs" : "no difference detected") + reserve;
}

export function comparisons(run: Run, block: Block): HTMLElement | null {
  const names = new Map(block.rows.map(({ cell }) => [path(cell), label(cell)]));
  const pairs = run.comparisons.filter(({ a, b }) => names.has(a) && names.has(b));
  if (pairs.length === 0) return null;
  const differing = pairs.filter(({ differs }) => differs).length;
  const details = h("details", { class: "pairs" }, h("summary", {}, `${counted(pairs.length, "comparison")}, ${differing} with a detectable difference`));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) details.append(pairTable(block, pairs, names));
  });
  return details;
}

function pairTable(block: Block, pairs: Comparison[], names: Map<string, string>): HTMLElement {
  const scale = ratioScale(pairs.flatMap(({ ci95 }) => ci95));
  const view = table<Comparison>(
    `${block.workload.name} over ${block.network.name}: every pair of contenders`,
    [
      { head: "faster", key: ({ a }) => names.get(a), cell: ({ a }) => names.get(a) },
      { head: "slower", key: ({ b }) => names.get(b), cell: ({ b }) => names.get(b) },
      { head: "slower ÷ faster", class: "chart", axis: () => axis(scale), cell: (pair) => ratioPlot(pair.ratio, pair.ci95, scale, pair.differs ? "differs" : "same") },
      { head: "ratio", number: true, key: ({ ratio: value }) => value, cell: ({ ratio: value }) => factor(value) },
      { head: "interval", hint: "95 % confidence if the samples allow it", number: true, class: "extra", cell: ({ ci95 }) => factors(...ci95) },
      { head: "verdict", key: verdict, cell: verdict },
    ],
    pairs,
  );
  return scrollable(`Comparisons of ${block.workload.name} over ${block.network.name}`, view);
}
