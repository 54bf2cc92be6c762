// Time in the colours of its causes. Where a pixel is more time than a piece, it gets the colour that most of it has.

import type { Colours } from "./surface";
import { firstAfter, type Capture, type Trace } from "./model";
import type { Span } from "./span";

export function drawBands(
  pen: CanvasRenderingContext2D,
  capture: Capture,
  trace: Trace,
  span: Span,
  [top, height]: [number, number],
  colours: Colours,
  [from, to]: [number, number] = [-Infinity, Infinity],
  /** How strong the colours are: of what could be avoided, and of what no setting removes. */
  [avoidable, given]: [number, number] = [1, 1],
): void {
  const { pieces } = trace;
  const strength = capture.data.causes.map((cause) => (cause.avoidable ? avoidable : given));
  const share = new Float64Array(capture.data.causes.length);
  let column = -1;
  const fill = (cause: number, x: number, width: number) => {
    pen.globalAlpha = strength[cause] ?? 1;
    pen.fillStyle = colours.cause(capture.cause(cause));
    pen.fillRect(x, top, width, height);
  };
  const flush = () => {
    if (column < 0) return;
    fill(share.indexOf(Math.max(...share)), column, 1);
    share.fill(0);
    column = -1;
  };
  for (let i = firstAfter(pieces, Math.max(from, span.from)); i < pieces.count; i++) {
    const begin = Math.max(span.from, from, pieces.from[i] ?? 0);
    const end = Math.min(span.to, to, pieces.to[i] ?? 0);
    if ((pieces.from[i] ?? 0) >= Math.min(span.to, to)) break;
    const cause = pieces.cause[i] ?? 0;
    const [left, right] = [Math.round(span.x(begin)), Math.round(span.x(end))];
    if (right > left) {
      flush();
      fill(cause, left, right - left);
    } else {
      if (column !== left) flush();
      column = left;
      share[cause] = (share[cause] ?? 0) + end - begin;
    }
  }
  flush();
  pen.globalAlpha = 1;
}

/** The least and the most of something in each column of pixels, so that a million marks are drawn as a thousand. */
export class Columns {
  private readonly low: Float64Array;
  private readonly high: Float64Array;

  constructor(
    private readonly left: number,
    right: number,
  ) {
    const count = Math.max(1, Math.ceil(right - left) + 1);
    this.low = new Float64Array(count).fill(Infinity);
    this.high = new Float64Array(count).fill(-Infinity);
  }

  add(x: number, low: number, high: number): void {
    const at = Math.floor(x - this.left);
    if (at < 0 || at >= this.low.length) return;
    if (low < (this.low[at] ?? 0)) this.low[at] = low;
    if (high > (this.high[at] ?? 0)) this.high[at] = high;
  }

  draw(pen: CanvasRenderingContext2D, y: (value: number) => number, least: number): void {
    for (let at = 0; at < this.low.length; at++) {
      const [low, high] = [this.low[at] ?? 0, this.high[at] ?? 0];
      if (low > high) continue;
      const top = y(high);
      pen.fillRect(this.left + at, top, 1.2, Math.max(least, y(low) - top));
    }
  }
}
