// Ticks of axes that zoom: their labels have as many digits as the distance between two ticks needs, so that no two are
// equal, and are placed so that none overlaps another or is cut off at an edge.

import { count, ticks, time } from "./units";

const NBSP = "\u00a0";

export interface Tick {
  value: number;
  label: string;
}

/** The distance between two neighbours of ascending values; 0 if there are less than two. */
function stepOf(values: number[]): number {
  return values.length < 2 ? 0 : Math.min(...values.slice(1).map((value, index) => value - (values[index] ?? 0)));
}

/** The decimals that a step of 1, 2 or 5 times a power of ten needs. */
function decimalsOf(step: number): number {
  return Math.min(12, Math.max(0, -Math.floor(Math.log10(step) + 1e-4)));
}

/** Labels of ascending times in seconds, all with the same unit: `1.2340 s`. From 100 s on, whole seconds are `2 min 05 s`. */
export function timeLabels(values: number[]): string[] {
  const step = stepOf(values);
  if (step === 0) return values.map(time);
  const max = Math.max(...values.map(Math.abs));
  if (max >= 100 && step >= 0.999) return values.map(clock);
  const [unit, size] = max >= 1 ? ["s", 1] : max >= 1e-3 ? ["ms", 1e-3] : max >= 1e-6 ? ["µs", 1e-6] : ["ns", 1e-9];
  const decimals = decimalsOf(step / size);
  return values.map((value) => (Math.abs(value) < step / 1e3 ? `0${NBSP}${unit}` : `${minus((value / size).toFixed(decimals))}${NBSP}${unit}`));
}

/** Hours, minutes and seconds, without those that are zero at the end. */
function clock(seconds: number): string {
  const whole = Math.round(Math.abs(seconds));
  const parts: [number, string][] = [[Math.floor(whole / 3600), "h"], [Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]];
  const first = parts.findIndex(([value]) => value > 0);
  const last = parts.findLastIndex(([value]) => value > 0);
  if (first < 0) return `0${NBSP}s`;
  const shown = parts.slice(first, last + 1).map(([value, unit], n) => `${n > 0 ? String(value).padStart(2, "0") : value}${NBSP}${unit}`);
  return `${seconds < 0 ? "−" : ""}${shown.join(NBSP)}`;
}

function minus(text: string): string {
  return text.replace("-", "−");
}

/** Labels of ascending numbers of bytes, all with the same unit. Those that need more than three decimals are exact. */
export function byteLabels(values: number[]): string[] {
  return scaledLabels(values, 10_000, [["B", 1], ["KB", 1e3], ["MB", 1e6], ["GB", 1e9], ["TB", 1e12]]);
}

/** Labels of ascending rates in bits per second, all with the same unit. */
export function rateLabels(values: number[]): string[] {
  return scaledLabels(values, 1000, [["bit/s", 1], ["kbit/s", 1e3], ["Mbit/s", 1e6], ["Gbit/s", 1e9]]);
}

function scaledLabels(values: number[], exactBelow: number, units: [string, number][]): string[] {
  const max = Math.max(...values.map(Math.abs), 0);
  const step = stepOf(values) || max || 1;
  const exact = (value: number) => `${value < 0 ? "−" : ""}${count(Math.abs(value))}${NBSP}${units[0]?.[0] ?? ""}`;
  const [unit, size] = units.findLast(([, each]) => max >= each) ?? units[0] ?? ["", 1];
  const decimals = decimalsOf(step / size);
  if (max < exactBelow || decimals > 3) return values.map(exact);
  return values.map((value) => (value === 0 ? `0${NBSP}${unit}` : `${minus((value / size).toFixed(decimals))}${NBSP}${unit}`));
}

/** As many ticks of a time axis as fit into `width` pixels with a gap between their labels. */
export function timeTicks(low: number, high: number, width: number, measure: (label: string) => number, gap: number): Tick[] {
  const FEWEST = 3;
  let found: Tick[] = [];
  for (let wanted = Math.max(FEWEST, Math.floor(width / (measure(`0${NBSP}ms`) + gap))); ; wanted = Math.max(FEWEST, Math.floor(wanted * 0.8))) {
    const values = ticks(low, high, wanted);
    const labels = timeLabels(values);
    found = values.map((value, index) => ({ value, label: labels[index] ?? "" }));
    const distance = (stepOf(values) / Math.max(1e-12, high - low)) * width;
    if (wanted === FEWEST || found.length < 2 || distance >= Math.max(...labels.map(measure)) + gap) return found;
  }
}

/** The centres of labels, moved so that they are within the limits; null for those that would overlap the one before. */
export function placeLabels(centres: number[], widths: number[], [left, right]: [number, number], gap: number): (number | null)[] {
  let freeFrom = -Infinity;
  return centres.map((centre, index) => {
    const half = (widths[index] ?? 0) / 2;
    const x = Math.min(right - half, Math.max(left + half, centre));
    if (x - half < left - 0.5 || x - half < freeFrom) return null;
    freeFrom = x + half + gap;
    return x;
  });
}

/** Draws ticks of a time axis: a mark for each, and its label below `y`. */
export function drawTimeLabels(pen: CanvasRenderingContext2D, found: Tick[], x: (value: number) => number, limits: [number, number], y: number, gap: number): void {
  pen.textAlign = "center";
  const places = placeLabels(found.map(({ value }) => x(value)), found.map(({ label }) => pen.measureText(label).width), limits, gap);
  found.forEach(({ label }, index) => {
    const at = places[index];
    if (at !== null && at !== undefined) pen.fillText(label, at, y);
  });
}
