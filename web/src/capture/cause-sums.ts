// The largest cause between any two times, without a walk over all intervals: the sums of all causes are kept at each 16th
// interval (prefix sums), and only the intervals between are added.

import { lowerBound, type Intervals } from "./decode";

/** The number of intervals from one kept sum to the next. */
const STRIDE = 16;

export class CauseSums {
  private readonly sums: Float64Array;
  private readonly until: Float64Array;
  private readonly before: Float64Array;

  constructor(
    readonly intervals: Intervals,
    private readonly causes: number,
  ) {
    const rows = Math.floor(intervals.count / STRIDE) + 1;
    this.sums = new Float64Array(rows * causes);
    [this.until, this.before] = [new Float64Array(causes), new Float64Array(causes)];
    const sum = new Float64Array(causes);
    for (let i = 0; i < intervals.count; i++) {
      if (i % STRIDE === 0) this.sums.set(sum, (i / STRIDE) * causes);
      this.add(sum, i, intervals.to[i] ?? 0);
    }
    if (intervals.count % STRIDE === 0) this.sums.set(sum, (intervals.count / STRIDE) * causes);
  }

  /** The cause with most of the time between two times; −1 if there is none. */
  largestCause(from: number, to: number): number {
    this.sumUpTo(from, this.before);
    this.sumUpTo(to, this.until);
    let [found, largestTime] = [-1, 0];
    for (let cause = 0; cause < this.causes; cause++) {
      const seconds = (this.until[cause] ?? 0) - (this.before[cause] ?? 0);
      if (seconds > largestTime) [found, largestTime] = [cause, seconds];
    }
    // Differences of sums have rounding errors, which are not time.
    return largestTime > 1e-9 * (to - from) ? found : -1;
  }

  /** The first interval that ends after a time. */
  firstEndingAfter(time: number): number {
    const { to, count } = this.intervals;
    let index = lowerBound(to, time, count);
    while (index < count && (to[index] ?? 0) <= time) index += 1;
    return index;
  }

  private add(sum: Float64Array, interval: number, end: number): void {
    const cause = this.intervals.cause[interval] ?? 0;
    sum[cause] = (sum[cause] ?? 0) + Math.max(0, end - (this.intervals.from[interval] ?? 0));
  }

  /** Computes the time of each cause up to a time. */
  private sumUpTo(time: number, sum: Float64Array): void {
    const interval = this.firstEndingAfter(time);
    const row = Math.floor(interval / STRIDE);
    sum.set(this.sums.subarray(row * this.causes, (row + 1) * this.causes));
    for (let i = row * STRIDE; i < interval; i++) this.add(sum, i, this.intervals.to[i] ?? 0);
    if (interval < this.intervals.count) this.add(sum, interval, time);
  }
}
