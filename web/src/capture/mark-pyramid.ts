// Marks of a chart in the order of time, each from a low to a high value. A chart may have to draw 200,000 of them in a
// thousand columns of pixels. So a pyramid keeps the minimum and maximum of each 16 marks, of each 16 of these, and so on:
// the cost of a frame depends on its width, not on the number of marks.

import { lowerBound } from "./decode";

/** The number of entries of a level in one of the next. */
const FAN_OUT = 16;

interface Level {
  low: Float64Array;
  high: Float64Array;
}

export class MarkPyramid {
  private readonly base: Level;
  private readonly levels: Level[];

  /** Each from `low` to `high`, at its `time`. */
  constructor(
    readonly time: Float64Array,
    low: Float64Array,
    high: Float64Array,
  ) {
    this.base = { low, high };
    this.levels = [this.base];
    for (let level = this.base; level.low.length > FAN_OUT; ) this.levels.push((level = nextLevel(level)));
  }

  get count(): number {
    return this.time.length;
  }

  low(index: number): number {
    return this.base.low[index] ?? 0;
  }

  high(index: number): number {
    return this.base.high[index] ?? 0;
  }

  /** The index of the first mark at or after a time. */
  firstAt(time: number, first = 0, end = this.count): number {
    return lowerBound(this.time, time, end, first);
  }

  /** Minimum and maximum of the marks from one index to before another; `[Infinity, -Infinity]` if there are none. */
  extent(from: number, to: number): [low: number, high: number] {
    let [low, high] = [Infinity, -Infinity];
    for (let depth = 0; depth < this.levels.length && from < to; depth++) {
      const level = this.levels[depth];
      if (!level) break;
      const top = depth === this.levels.length - 1;
      while (from < to && (top || from % FAN_OUT !== 0)) {
        low = Math.min(low, level.low[from] ?? low);
        high = Math.max(high, level.high[from] ?? high);
        from += 1;
      }
      while (from < to && to % FAN_OUT !== 0) {
        to -= 1;
        low = Math.min(low, level.low[to] ?? low);
        high = Math.max(high, level.high[to] ?? high);
      }
      [from, to] = [from / FAN_OUT, to / FAN_OUT];
    }
    return [low, high];
  }
}

function nextLevel({ low, high }: Level): Level {
  const count = Math.ceil(low.length / FAN_OUT);
  const level = { low: new Float64Array(count).fill(Infinity), high: new Float64Array(count).fill(-Infinity) };
  for (let i = 0; i < low.length; i++) {
    const at = Math.floor(i / FAN_OUT);
    level.low[at] = Math.min(level.low[at] ?? Infinity, low[i] ?? Infinity);
    level.high[at] = Math.max(level.high[at] ?? -Infinity, high[i] ?? -Infinity);
  }
  return level;
}
