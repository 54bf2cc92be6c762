// A run: the answer first, then who took how long at what over which network, and why.

import { h } from "../dom";
import type { Run } from "./data";

export function render(root: HTMLElement, run: Run): void {
  document.title = `${run.title || run.experiment} · Longhaul`;
  root.append(h("main", {}, h("h1", {}, run.question || run.title || run.experiment)));
}
