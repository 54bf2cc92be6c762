// What most of any stretch of a trace's time was spent on, without walking through it: every so many pieces the sums of
// all causes until there are kept, and only the pieces between are added.

import { lowerBound, type Pieces } from "./decode";

/** How many pieces from one sum to the next. */
const STRIDE = 16;

export class Shares {
  private readonly sums: Float64Array;
  private readonly until: Float64Array;
  private readonly before: Float64Array;

  constructor(
    readonly pieces: Pieces,
    private readonly causes: number,
  ) {
    const rows = Math.floor(pieces.count / STRIDE) + 1;
    this.sums = new Float64Array(rows * causes);
    [this.until, this.before] = [new Float64Array(causes), new Float64Array(causes)];
    const sum = new Float64Array(causes);
    for (let i = 0; i < pieces.count; i++) {
      if (i % STRIDE === 0) this.sums.set(sum, (i / STRIDE) * causes);
      this.add(sum, i, pieces.to[i] ?? 0);
    }
    if (pieces.count % STRIDE === 0) this.sums.set(sum, (pieces.count / STRIDE) * causes);
  }

  /** The cause that most of the time between two moments was spent on; −1 where there was none. */
  largest(from: number, to: number): number {
    this.upTo(from, this.before);
    this.upTo(to, this.until);
    let [found, most] = [-1, 0];
    for (let cause = 0; cause < this.causes; cause++) {
      const share = (this.until[cause] ?? 0) - (this.before[cause] ?? 0);
      if (share > most) [found, most] = [cause, share];
    }
    // What is left of sums that cancel is not time.
    return most > 1e-9 * (to - from) ? found : -1;
  }

  /** The first piece that ends after a moment. */
  after(moment: number): number {
    const { to, count } = this.pieces;
    let place = lowerBound(to, moment, count);
    while (place < count && (to[place] ?? 0) <= moment) place += 1;
    return place;
  }

  private add(sum: Float64Array, piece: number, end: number): void {
    const cause = this.pieces.cause[piece] ?? 0;
    sum[cause] = (sum[cause] ?? 0) + Math.max(0, end - (this.pieces.from[piece] ?? 0));
  }

  /** What was spent on each cause until a moment. */
  private upTo(moment: number, sum: Float64Array): void {
    const piece = this.after(moment);
    const row = Math.floor(piece / STRIDE);
    sum.set(this.sums.subarray(row * this.causes, (row + 1) * this.causes));
    for (let i = row * STRIDE; i < piece; i++) this.add(sum, i, this.pieces.to[i] ?? 0);
    if (piece < this.pieces.count) this.add(sum, piece, moment);
  }
}
