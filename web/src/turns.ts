// What is seen first is drawn first. The rest waits until that has been painted, and then comes a piece at a time, so
// that whoever scrolls or clicks meanwhile is not kept waiting; on paper nothing is missing, however soon it is printed.

/** How long to draw before the browser has a turn, in milliseconds. */
const TURN = 12;

/** Does one after another, in their order, once what is there has been painted. */
export function inTurns(pieces: (() => void)[]): void {
  let next = 0;
  const some = (until: number) => {
    while (next < pieces.length && performance.now() < until) {
      const piece = pieces[next];
      next += 1;
      piece?.();
    }
    if (next < pieces.length) setTimeout(turn);
    else removeEventListener("beforeprint", all);
  };
  const turn = () => some(performance.now() + TURN);
  const all = () => some(Infinity);
  addEventListener("beforeprint", all);
  // After a frame's callbacks it is painted, and after that a timer's turn comes.
  requestAnimationFrame(() => setTimeout(turn));
}
