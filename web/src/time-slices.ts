// Draws the rest of a page in time slices after the first paint, so that scrolling and clicks stay responsive. Printing
// draws everything first.

/** The length of a slice, in milliseconds. */
const SLICE_MS = 12;

/** Runs tasks in their order, after the next paint. */
export function inTimeSlices(tasks: (() => void)[]): void {
  let next = 0;
  const runUntil = (until: number) => {
    while (next < tasks.length && performance.now() < until) {
      const task = tasks[next];
      next += 1;
      task?.();
    }
    if (next < tasks.length) setTimeout(slice);
    else removeEventListener("beforeprint", finish);
  };
  const slice = () => runUntil(performance.now() + SLICE_MS);
  const finish = () => runUntil(Infinity);
  addEventListener("beforeprint", finish);
  // A frame is painted after its callbacks; the timer fires after that.
  requestAnimationFrame(() => setTimeout(slice));
}
