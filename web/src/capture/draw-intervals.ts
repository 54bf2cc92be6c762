// Draws time in the colours of its causes. A pixel with several intervals gets the colour of its largest cause.

import type { Colours } from "./chart-canvas";
import type { MarkPyramid } from "./mark-pyramid";
import type { Capture } from "./model";
import type { VisibleTime } from "./visible-time";
import type { Trace } from "./trace";

export function drawIntervals(
  pen: CanvasRenderingContext2D,
  capture: Capture,
  { causeSums }: Trace,
  visible: VisibleTime,
  [top, height]: [number, number],
  colours: Colours,
  [from, to]: [number, number] = [-Infinity, Infinity],
  /** The opacity of avoidable and of other causes. */
  [avoidable, unavoidable]: [number, number] = [1, 1],
): void {
  const { intervals } = causeSums;
  const [begin, end] = [Math.max(from, visible.from), Math.min(to, visible.to)];
  const edge = Math.round(visible.x(end));
  let [cause, left] = [-1, 0];
  const flush = (right: number) => {
    const entry = capture.data.causes[cause];
    if (entry && right > left) {
      pen.globalAlpha = entry.avoidable ? avoidable : unavoidable;
      pen.fillStyle = colours.cause(entry.name);
      pen.fillRect(left, top, right - left, height);
    }
    left = right;
  };
  for (let x = Math.round(visible.x(begin)); x < edge; ) {
    const [start, next] = [Math.max(begin, visible.timeAt(x)), Math.min(end, visible.timeAt(x + 1))];
    const interval = causeSums.firstEndingAfter(start);
    const until = interval < intervals.count ? (intervals.to[interval] ?? 0) : -Infinity;
    // An interval that is wider than this column is drawn to its end; of narrower ones the largest cause is drawn.
    const isWide = until >= next && (intervals.from[interval] ?? 0) <= start;
    const colour = isWide ? (intervals.cause[interval] ?? -1) : causeSums.largestCause(start, next);
    if (colour !== cause) {
      flush(x);
      cause = colour;
    }
    x = isWide ? Math.max(x + 1, Math.min(edge, Math.floor(visible.x(until)))) : x + 1;
  }
  flush(edge);
  pen.globalAlpha = 1;
}

/** Draws marks as one bar in each column of pixels, as tall as all of them together, and at least `minHeight` pixels. */
export function drawColumns(pen: CanvasRenderingContext2D, marks: MarkPyramid, visible: VisibleTime, [left, right]: [number, number], y: (value: number) => number, minHeight: number): void {
  let first = marks.firstAt(visible.from);
  for (let x = left; x < right && first < marks.count; x++) {
    const next = marks.firstAt(visible.timeAt(x + 1), first);
    const [low, high] = marks.extent(first, next);
    first = next;
    if (low > high) continue;
    const top = y(high);
    pen.fillRect(x, top, 1.2, Math.max(minHeight, y(low) - top));
  }
}
