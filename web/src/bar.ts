// A bar of causes: what a time was spent on, in pieces that add up to it; and the same as a table. The bar by itself is
// a picture with a sentence for those who do not see it.

import { classes, ordered, title } from "./causes";
import { h } from "./dom";
import { table } from "./table";
import { share, time } from "./units";

export type Seconds = Record<string, number>;

function sum(seconds: Seconds): number {
  return Object.values(seconds).reduce((all, part) => all + part, 0);
}

function ranked(seconds: Seconds): [string, number][] {
  return Object.entries(seconds).filter(([, part]) => part > 0).sort(([, a], [, b]) => b - a);
}

/** What the bar says, in words: the largest first, small change left out. */
export function inWords(seconds: Seconds): string {
  const all = sum(seconds);
  const said = ranked(seconds).filter(([, part], place) => place === 0 || part >= 0.02 * all);
  return said.map(([cause, part]) => `${title(cause)} ${share(part / all)}`).join(", ");
}

/** The bar. `whole` is the time that its full width stands for; its own sum if left out. */
export function causeBar(seconds: Seconds, whole = sum(seconds)): HTMLElement {
  const all = sum(seconds);
  const pieces = ordered(Object.keys(seconds)).flatMap((cause) => {
    const part = seconds[cause] ?? 0;
    if (part <= 0) return [];
    const piece = h("span", { class: classes(cause), title: `${title(cause)}: ${time(part)}, ${share(part / all)}` });
    piece.style.width = `${(100 * part) / whole}%`;
    return [piece];
  });
  return h("div", { class: "causebar", role: "img", "aria-label": `${time(all)}: ${inWords(seconds)}` }, pieces);
}

/** The legend of the bar and its table in one, largest cause first. */
export function causeTable(caption: string, seconds: Seconds): HTMLTableElement {
  const all = sum(seconds);
  const rows = ranked(seconds).map(([cause, part]) => ({ cause, part }));
  const view = table(
    caption,
    [
      { head: "cause", cell: ({ cause }) => [h("span", { class: `swatch ${classes(cause)}`, "aria-hidden": "true" }), title(cause)] },
      { head: "time", number: true, cell: ({ part }) => time(part) },
      { head: "share", number: true, cell: ({ part }) => share(part / all) },
    ],
    rows,
  );
  view.classList.add("causes");
  return view;
}
