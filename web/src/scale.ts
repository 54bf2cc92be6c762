// From a value to its place on an axis, as a percentage of its length, and the axis itself.

import { s } from "./dom";
import { factor, ticks, time } from "./units";

export interface Scale {
  low: number;
  high: number;
  /** A place in per cent, never beyond the ends. */
  at: (value: number) => number;
  marks: number[];
  say: (value: number) => string;
}

function within(percent: number): number {
  return Number.isFinite(percent) ? Math.min(100, Math.max(0, percent)) : 0;
}

/** From zero to at least `high`. */
export function linear(high: number, say: (value: number) => string = time): Scale {
  const top = high > 0 ? high : 1;
  return { low: 0, high: top, at: (value) => within((100 * value) / top), marks: ticks(0, top, 4), say };
}

/** By ratios, from `low` to `high`, both above zero. */
export function logarithmic(low: number, high: number, say: (value: number) => string = time): Scale {
  const [from, to] = low > 0 && high > low ? [low, high] : [low > 0 ? low : 1, (low > 0 ? low : 1) * 10];
  const width = Math.log(to / from);
  return { low: from, high: to, at: (value) => within((100 * Math.log(value / from)) / width), marks: ratios(from, to), say };
}

/** A scale of factors about one, wide enough for all of `values`. */
export function aboutOne(values: number[]): Scale {
  const sizes = values.filter((value) => value > 0).map((value) => Math.abs(Math.log(value)));
  const most = Math.exp(Math.max(Math.log(1.25), ...sizes));
  return logarithmic(Math.min(1, ...values.filter((value) => value > 0)) < 1 ? 1 / most : 1, most, factor);
}

/** Powers of ten between the two, with twos and fives where those are few. */
function ratios(low: number, high: number): number[] {
  const decades = Math.log10(high / low);
  const steps = decades > 2.5 ? [1] : decades > 1.2 ? [1, 3] : decades > 0.6 ? [1, 2, 5] : [1, 1.5, 2, 3, 5, 7];
  const marks: number[] = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power += 1) {
    for (const step of steps) {
      const value = step * 10 ** power;
      if (value >= low * 0.999 && value <= high * 1.001) marks.push(value);
    }
  }
  return marks;
}

/** A mark's value without the zeros that its neighbours' digits brought: `10 s`. */
export function round(said: string): string {
  return said.replace(/(\.\d*?)0+(?!\d)/, "$1").replace(/\.(?!\d)/, "");
}

/** The axis above a column of strips. */
export function axis(scale: Scale): SVGSVGElement {
  const labels = scale.marks.map((mark) => s("text", { x: `${scale.at(mark)}%`, y: 12, class: "tick" }, round(scale.say(mark))));
  return s("svg", { class: "axis", "aria-hidden": "true", height: 16 }, labels);
}
