// Time by cause, as a bar and as a table. The bar is an image with a text alternative.

import { classes, ordered, title } from "./causes";
import { h } from "./dom";
import { table } from "./table";
import { share, time } from "./units";

export type Seconds = Record<string, number>;

function sum(seconds: Seconds): number {
  return Object.values(seconds).reduce((total, part) => total + part, 0);
}

function ranked(seconds: Seconds): [string, number][] {
  return Object.entries(seconds).filter(([, part]) => part > 0).sort(([, a], [, b]) => b - a);
}

/** The bar in words, largest cause first, without small ones. */
export function causesInWords(seconds: Seconds): string {
  const total = sum(seconds);
  const large = ranked(seconds).filter(([, part], index) => index === 0 || part >= 0.02 * total);
  return large.map(([cause, part]) => `${title(cause)} ${share(part / total)}`).join(", ");
}

/** The bar. `full` is the time of its full width, by default its sum. */
export function causeBar(seconds: Seconds, full = sum(seconds)): HTMLElement {
  const total = sum(seconds);
  const segments = ordered(Object.keys(seconds)).flatMap((cause) => {
    const part = seconds[cause] ?? 0;
    if (part <= 0) return [];
    const segment = h("span", { class: classes(cause), title: `${title(cause)}: ${time(part)}, ${share(part / total)}` });
    segment.style.width = `${(100 * part) / full}%`;
    return [segment];
  });
  return h("div", { class: "causebar", role: "img", "aria-label": `${time(total)}: ${causesInWords(seconds)}` }, segments);
}

/** Table and legend of the bar, largest cause first. */
export function causeTable(caption: string, seconds: Seconds): HTMLTableElement {
  const total = sum(seconds);
  const rows = ranked(seconds).map(([cause, part]) => ({ cause, part }));
  const view = table(
    caption,
    [
      { head: "cause", cell: ({ cause }) => [h("span", { class: `swatch ${classes(cause)}`, "aria-hidden": "true" }), title(cause)] },
      { head: "time", number: true, cell: ({ part }) => time(part) },
      { head: "share", number: true, cell: ({ part }) => share(part / total) },
    ],
    rows,
  );
  view.classList.add("causes");
  return view;
}
