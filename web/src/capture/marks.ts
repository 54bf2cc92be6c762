// Very many marks in the order of time, each from one height to another, for a chart that shows all of them in a
// thousand columns of pixels. How far those of a column reach is asked of a pyramid: blocks of sixteen marks, blocks of
// sixteen of these, and so on, each with its least and its most. So a frame costs what it shows, not what there is.

import { lowerBound } from "./decode";

/** How many of a level make one of the next. */
const FAN = 16;

interface Level {
  low: Float64Array;
  high: Float64Array;
}

export class Marks {
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
    for (let below = this.base; below.low.length > FAN; ) this.levels.push((below = above(below)));
  }

  get count(): number {
    return this.time.length;
  }

  low(place: number): number {
    return this.base.low[place] ?? 0;
  }

  high(place: number): number {
    return this.base.high[place] ?? 0;
  }

  /** The place of the first mark at a moment or after it. */
  from(moment: number, first = 0, end = this.count): number {
    return lowerBound(this.time, moment, end, first);
  }

  /** From where to where all marks from one place to before another reach; of none, from infinity to its opposite. */
  reach(from: number, to: number): [low: number, high: number] {
    let [low, high] = [Infinity, -Infinity];
    for (let depth = 0; depth < this.levels.length && from < to; depth++) {
      const level = this.levels[depth];
      if (!level) break;
      const top = depth === this.levels.length - 1;
      while (from < to && (top || from % FAN !== 0)) {
        low = Math.min(low, level.low[from] ?? low);
        high = Math.max(high, level.high[from] ?? high);
        from += 1;
      }
      while (from < to && to % FAN !== 0) {
        to -= 1;
        low = Math.min(low, level.low[to] ?? low);
        high = Math.max(high, level.high[to] ?? high);
      }
      [from, to] = [from / FAN, to / FAN];
    }
    return [low, high];
  }
}

function above({ low, high }: Level): Level {
  const count = Math.ceil(low.length / FAN);
  const level = { low: new Float64Array(count).fill(Infinity), high: new Float64Array(count).fill(-Infinity) };
  for (let i = 0; i < low.length; i++) {
    const at = Math.floor(i / FAN);
    level.low[at] = Math.min(level.low[at] ?? Infinity, low[i] ?? Infinity);
    level.high[at] = Math.max(level.high[at] ?? -Infinity, high[i] ?? -Infinity);
  }
  return level;
}
