// Time in the colours of its causes. Where a pixel is more time than a piece, it gets the colour that most of it has.

import type { Colours } from "./surface";
import type { Marks } from "./marks";
import type { Capture } from "./model";
import type { Span } from "./span";
import type { Trace } from "./trace";

export function drawBands(
  pen: CanvasRenderingContext2D,
  capture: Capture,
  { shares }: Trace,
  span: Span,
  [top, height]: [number, number],
  colours: Colours,
  [from, to]: [number, number] = [-Infinity, Infinity],
  /** How strong the colours are: of what could be avoided, and of what no setting removes. */
  [avoidable, given]: [number, number] = [1, 1],
): void {
  const { pieces } = shares;
  const [begin, end] = [Math.max(from, span.from), Math.min(to, span.to)];
  const edge = Math.round(span.x(end));
  let [cause, left] = [-1, 0];
  const flush = (right: number) => {
    const known = capture.data.causes[cause];
    if (known && right > left) {
      pen.globalAlpha = known.avoidable ? avoidable : given;
      pen.fillStyle = colours.cause(known.name);
      pen.fillRect(left, top, right - left, height);
    }
    left = right;
  };
  for (let x = Math.round(span.x(begin)); x < edge; ) {
    const [moment, next] = [Math.max(begin, span.moment(x)), Math.min(end, span.moment(x + 1))];
    const piece = shares.after(moment);
    const until = piece < pieces.count ? (pieces.to[piece] ?? 0) : -Infinity;
    // A piece that is wider than this column reaches as far as it does; of narrower ones the largest has the column.
    const wide = until >= next && (pieces.from[piece] ?? 0) <= moment;
    const colour = wide ? (pieces.cause[piece] ?? -1) : shares.largest(moment, next);
    if (colour !== cause) {
      flush(x);
      cause = colour;
    }
    x = wide ? Math.max(x + 1, Math.min(edge, Math.floor(span.x(until)))) : x + 1;
  }
  flush(edge);
  pen.globalAlpha = 1;
}

/** Marks as one bar in each column of pixels, as tall as all that it stands for together; at least so many pixels. */
export function drawColumns(pen: CanvasRenderingContext2D, marks: Marks, span: Span, [left, right]: [number, number], y: (value: number) => number, least: number): void {
  let first = marks.from(span.from);
  for (let x = left; x < right && first < marks.count; x++) {
    const next = marks.from(span.moment(x + 1), first);
    const [low, high] = marks.reach(first, next);
    first = next;
    if (low > high) continue;
    const top = y(high);
    pen.fillRect(x, top, 1.2, Math.max(least, y(low) - top));
  }
}
