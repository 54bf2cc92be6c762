// The parts of the page.

import { h, type Child } from "../dom";

/** A part of the page with a heading. */
export function section(id: string, heading: string, ...content: Child[]): HTMLElement {
  return h("section", { id, "aria-labelledby": `${id}-heading` }, h("h2", { id: `${id}-heading` }, heading), ...content);
}
