// The phases of a transfer, as WebPageTest and HAR files name them, in the order in which they follow one another.

import { h } from "../dom";
import { time } from "../units";
import type { Phase, Transfer } from "./schema";

const TITLES: [Phase, string][] = [
  ["dns", "DNS lookup"],
  ["connect", "connect"],
  ["tls", "TLS handshake"],
  ["blocked", "blocked"],
  ["send", "send request"],
  ["wait", "wait for first byte"],
  ["receive", "receive"],
];

export interface PhaseInterval {
  phase: Phase;
  title: string;
  from: number;
  to: number;
}

/** The phases that take any time, one after another from the transfer's start. */
export function phasesOf({ start_s: start, phases_s: seconds }: Transfer): PhaseInterval[] {
  let at = start;
  return TITLES.flatMap(([phase, title]) => {
    const length = seconds[phase];
    if (!(length > 0)) return [];
    at += length;
    return [{ phase, title, from: at - length, to: at }];
  });
}

/** The phases that any of these transfers has, as the items of a legend. */
export function phaseLegend(transfers: Transfer[]): HTMLElement[] {
  const shown = TITLES.filter(([phase]) => transfers.some((transfer) => transfer.phases_s[phase] > 0));
  return shown.map(([phase, title]) => h("li", {}, h("span", { class: `swatch phase ${phase}`, "aria-hidden": "true" }), title));
}

/** The phases of a transfer as a bar. */
export function phaseBar(transfer: Transfer): HTMLElement {
  const phases = phasesOf(transfer);
  const segments = phases.map(({ phase, title, from, to }) => {
    const segment = h("span", { class: `phase ${phase}`, title: `${title}: ${time(to - from)}` });
    segment.style.width = `${(100 * (to - from)) / transfer.duration_s}%`;
    return segment;
  });
  return h("div", { class: "causebar", role: "img", "aria-label": phases.map(({ title, from, to }) => `${title} ${time(to - from)}`).join(", ") }, segments);
}

/** The phases with their times: a legend of the bar. */
export function phaseTimes(transfer: Transfer): HTMLElement {
  const items = phasesOf(transfer).map(({ phase, title, from, to }) => h("li", {}, h("span", { class: `swatch phase ${phase}`, "aria-hidden": "true" }), `${title} `, h("strong", {}, time(to - from))));
  return h("ul", { class: "legend" }, items);
}
