// Scales: from a value to its position on an axis, in per cent; and the axis itself.

import { s } from "./dom";
import { factor, ticks, time } from "./units";

export interface Scale {
  low: number;
  high: number;
  /** The position of a value in per cent, from 0 to 100. */
  at: (value: number) => number;
  ticks: number[];
  format: (value: number) => string;
}

function clamp(percent: number): number {
  return Number.isFinite(percent) ? Math.min(100, Math.max(0, percent)) : 0;
}

/** From zero to at least `high`. */
export function linear(high: number, format: (value: number) => string = time): Scale {
  const top = high > 0 ? high : 1;
  return { low: 0, high: top, at: (value) => clamp((100 * value) / top), ticks: ticks(0, top, 4), format };
}

/** Logarithmic, from `low` to `high`, both above zero. */
export function logarithmic(low: number, high: number, format: (value: number) => string = time): Scale {
  const [from, to] = low > 0 && high > low ? [low, high] : [low > 0 ? low : 1, (low > 0 ? low : 1) * 10];
  const width = Math.log(to / from);
  return { low: from, high: to, at: (value) => clamp((100 * Math.log(value / from)) / width), ticks: logTicks(from, to), format };
}

/** A logarithmic scale of ratios around 1, for all of `values`. */
export function ratioScale(values: number[]): Scale {
  const sizes = values.filter((value) => value > 0).map((value) => Math.abs(Math.log(value)));
  const max = Math.exp(Math.max(Math.log(1.25), ...sizes));
  return logarithmic(Math.min(1, ...values.filter((value) => value > 0)) < 1 ? 1 / max : 1, max, factor);
}

/** Ticks of a logarithmic axis: powers of ten, and multiples of them if these are few. */
function logTicks(low: number, high: number): number[] {
  const decades = Math.log10(high / low);
  const steps = decades > 2.5 ? [1] : decades > 1.2 ? [1, 3] : decades > 0.6 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
  const found: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const step of steps) {
      const value = step * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) found.push(value);
    }
  }
  return found;
}

/** A formatted number without trailing zeros: `10 s`. */
export function trimZeros(text: string): string {
  return text.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");
}

/** The axis above a column of strip plots. */
export function axis(scale: Scale): SVGSVGElement {
  const labels = scale.ticks.map((tick) => s("text", { x: `${scale.at(tick)}%`, y: 12, class: "tick" }, trimZeros(scale.format(tick))));
  return s("svg", { class: "axis", "aria-hidden": "true", height: 16 }, labels);
}
