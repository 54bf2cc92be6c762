// A strip plot of a cell's times: a dot for each sample, a bar up to the median, a line for the interval, a dashed line for
// the floor. It is hidden from screen readers, since other columns have the numbers.

import { s } from "../dom";
import type { Scale } from "../scale";
import type { Cell } from "./data";

export interface Times {
  samples_s: number[];
  median_s: number | null;
  ci95_s: Cell["ci95_s"];
  model: boolean;
  /** Null for no line. */
  floor_s: number | null;
}

const MIDDLE = 13;

export function stripPlot(times: Times, scale: Scale): SVGSVGElement {
  const x = (value: number) => `${scale.at(value)}%`;
  const grid = scale.ticks.map((mark) => s("line", { x1: x(mark), x2: x(mark), y1: 0, y2: "100%", class: "grid" }));
  const parts: SVGElement[] = [];
  if (times.median_s !== null) {
    const from = scale.low === 0 ? 0 : scale.at(times.floor_s ?? scale.low);
    const width = Math.max(0, scale.at(times.median_s) - from);
    parts.push(s("rect", { x: `${from}%`, width: `${width}%`, y: MIDDLE - 7, height: 14, class: times.model ? "bar model" : "bar" }));
  }
  if (times.ci95_s) {
    parts.push(s("line", { x1: x(times.ci95_s[0]), x2: x(times.ci95_s[1]), y1: MIDDLE, y2: MIDDLE, class: "interval" }));
  }
  if (times.median_s !== null) {
    parts.push(s("line", { x1: x(times.median_s), x2: x(times.median_s), y1: MIDDLE - 9, y2: MIDDLE + 9, class: "median" }));
  }
  const dots = times.samples_s.map((sample) => s("circle", { cx: x(sample), cy: MIDDLE, r: 3, class: times.median_s === null ? "dot lone" : "dot" }));
  const floor = times.floor_s !== null && times.floor_s > 0 ? [s("line", { x1: x(times.floor_s), x2: x(times.floor_s), y1: 0, y2: "100%", class: "floor" })] : [];
  return s("svg", { class: "strip", "aria-hidden": "true", height: 2 * MIDDLE }, grid, parts, dots, floor);
}

/** A ratio with its interval, on an axis with a line at 1. */
export function ratioPlot(value: number, interval: [number, number], scale: Scale, kind: string): SVGSVGElement {
  const x = (each: number) => `${scale.at(each)}%`;
  const lines = [...scale.ticks.filter((mark) => mark !== 1).map((mark) => s("line", { x1: x(mark), x2: x(mark), y1: 0, y2: "100%", class: "grid" })), s("line", { x1: x(1), x2: x(1), y1: 0, y2: "100%", class: "one" })];
  const point = s("circle", { cx: x(value), cy: MIDDLE, r: 4.5, class: "point" });
  return s("svg", { class: `strip ratio ${kind}`, "aria-hidden": "true", height: 2 * MIDDLE }, lines, s("line", { x1: x(interval[0]), x2: x(interval[1]), y1: MIDDLE, y2: MIDDLE, class: "interval" }), point);
}
