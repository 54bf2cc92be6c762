// The calibration of predictions: for each case, the measured time without the knob as a multiple of the predicted one, on
// the interval that was said to hold nine in ten.

import { h, s } from "../dom";
import { axis, logarithmic, type Scale } from "../scale";
import { table, scrollable, type Column } from "../table";
import { counted, factor, factors, share } from "../units";
import { judgement, type Case } from "./data";
import { section } from "./section";

/** Ratios beyond this, or its inverse, are drawn at the edge. */
const MOST = 10;

const MIDDLE = 13;

interface Pair {
  ratio: number;
  /** The interval as multiples of the prediction. */
  range: [number, number] | null;
}

interface Row {
  knob: string;
  pairs: Pair[];
}

export function calibration(judged: Case[], of: string): HTMLElement {
  const rows = new Map<string, Row>();
  for (const one of judged) {
    const found = judgement(one, of);
    if (!found?.is_judged || found.predicted_s === null || found.predicted_s <= 0) continue;
    const [predicted, range] = [found.predicted_s, found.range_s];
    const row = rows.get(one.case.knob) ?? { knob: one.case.knob, pairs: [] };
    row.pairs.push({ ratio: one.back.duration_s / predicted, range: range && [range[0] / predicted, range[1] / predicted] });
    rows.set(row.knob, row);
  }
  const all = [...rows.values()];
  const pairs = all.flatMap((row) => row.pairs);
  const ranged = pairs.filter(({ range }) => range !== null);
  const held = ranged.filter(isHeld);
  const scale = logarithmic(1 / MOST, MOST, factor);
  const columns: Column<Row>[] = [
    { head: "knob", class: "sticky", key: ({ knob }) => knob, cell: ({ knob }) => knob },
    { head: "predicted", number: true, key: (row) => row.pairs.length, cell: (row) => row.pairs.length },
    { head: "in range", hint: "of those with an interval", number: true, key: heldShare, cell: (row) => heldText(row) },
    { head: "interval", hint: "of the first case, as multiples of the prediction", number: true, class: "extra", cell: ({ pairs: own }) => interval(own) },
    { head: "measured ÷ predicted", class: "chart", axis: () => axis(scale), cell: (row) => plot(row, scale) },
    { head: "median", number: true, key: median, cell: (row) => factor(median(row)) },
  ];
  const summary = pairs.length === 0
    ? "Nothing was predicted."
    : `${counted(pairs.length, "prediction")}; ${ranged.length} have an interval of 90 %, and ${held.length} of those (${ranged.length > 0 ? share(held.length / ranged.length) : "–"}) hold the measured time. A dot is a case; the bar is the interval.`;
  return section("calibration", "Predictions", h("p", {}, summary), pairs.length > 0 && scrollable("Predictions by knob", table(`Measured and predicted times, captured at: ${of}`, columns, all)));
}

function isHeld({ ratio, range }: Pair): boolean {
  return range !== null && ratio >= range[0] && ratio <= range[1];
}

function heldShare({ pairs }: Row): number | null {
  const ranged = pairs.filter(({ range }) => range !== null);
  return ranged.length === 0 ? null : ranged.filter(isHeld).length / ranged.length;
}

function heldText(row: Row): string {
  const held = heldShare(row);
  return held === null ? "–" : share(held);
}

function interval(pairs: Pair[]): string {
  const first = pairs.find(({ range }) => range !== null)?.range;
  return first ? factors(...first) : "–";
}

function median({ pairs }: Row): number {
  const sorted = pairs.map(({ ratio }) => ratio).sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** The ratios of a knob's cases, and the interval of the first. Other columns have the numbers. */
function plot({ pairs }: Row, scale: Scale): SVGSVGElement {
  const x = (value: number) => `${scale.at(value)}%`;
  const range = pairs.find((pair) => pair.range !== null)?.range;
  const grid = scale.ticks.map((mark) => s("line", { x1: x(mark), x2: x(mark), y1: 0, y2: "100%", class: mark === 1 ? "one" : "grid" }));
  const band = range ? [s("rect", { x: x(range[0]), width: `${scale.at(range[1]) - scale.at(range[0])}%`, y: MIDDLE - 6, height: 12, class: "bar model" })] : [];
  const dots = pairs.map((pair) => s("circle", { cx: x(pair.ratio), cy: MIDDLE, r: 3, class: pair.range === null || isHeld(pair) ? "dot" : "dot outside" }));
  return s("svg", { class: "strip", "aria-hidden": "true", height: 2 * MIDDLE }, grid, band, dots);
}
