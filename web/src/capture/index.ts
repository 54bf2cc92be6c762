// A capture: what its transfers' time was spent on.

import { h } from "../dom";

/** The schema `longhaul.view/1`. */
export interface CaptureView {
  schema: "longhaul.view/1";
  /** The files it was read from. */
  captures: string[];
  /** What there is to say, in a sentence. */
  answer: string;
}

export function render(root: HTMLElement, data: CaptureView): void {
  document.title = `${data.captures.join(", ")} · Longhaul`;
  root.append(h("main", {}, h("h1", {}, data.captures.join(", ")), h("p", { class: "answer" }, data.answer)));
}
