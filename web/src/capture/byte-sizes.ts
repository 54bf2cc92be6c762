// Sizes as in explain's sentences, so that the numbers are the same on the page and in the text: powers of ten, and exact
// below 10,000 bytes, to count segments.

import { count } from "../units";

/** A size in bytes: `1 160 B`, `66 KB`, `18.0 MB`. */
export function size(bytes: number): string {
  if (Math.abs(bytes) < 10_000) return `${bytes < 0 ? "−" : ""}${count(Math.abs(bytes))}\u00a0B`;
  const units = ["KB", "MB", "GB", "TB"];
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 99.95 && value !== Math.round(value) ? value.toFixed(1) : value.toFixed(0)}\u00a0${units[unit]}`;
}
