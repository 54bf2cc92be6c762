// The phases of a transfer, as WebPageTest and HAR files name them, in the order in which they follow one another.

import { h } from "../dom";
import { time } from "../units";
import type { CauseInterval } from "./model";
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

/** The phases that are not set-up; they follow one another. */
const EXCHANGE: Phase[] = ["blocked", "send", "wait", "receive"];

/** The phases of the causes that are set-up; their intervals are exact. */
const SETUP: Record<string, Phase | undefined> = { name_lookup: "dns", connect: "connect", connect_retry: "connect", tls: "tls" };

/** Shorter intervals are not drawn, in seconds: the precision of times in a report. */
const SHORT = 2e-6;

/** The smallest share of a transfer's time that a legend names. */
const MIN_SHARE = 0.002;

/**
 * The phases of a transfer in order of time. A client may pause between lookup, handshakes and request, so `intervals` says
 * when these were; without it, the phases follow one another as in the list of their titles.
 */
export function phasesOf({ start_s: start, duration_s: duration, phases_s: seconds }: Transfer, intervals: CauseInterval[] | null = null): PhaseInterval[] {
  const found: PhaseInterval[] = [];
  const add = (phase: Phase, from: number, to: number) => {
    const last = found[found.length - 1];
    if (last?.phase === phase) last.to = to;
    else if (to > from) found.push({ phase, title: TITLES.find(([each]) => each === phase)?.[1] ?? phase, from, to });
  };
  if (!intervals) {
    let at = start;
    for (const [phase] of TITLES) add(phase, at, (at += seconds[phase]));
    return found;
  }
  const left = new Map(EXCHANGE.map((phase) => [phase, seconds[phase]]));
  /** Divides time without set-up among the other phases. */
  const divide = (from: number, to: number) => {
    for (const phase of EXCHANGE) {
      const until = Math.min(to, from + (left.get(phase) ?? 0));
      add(phase, from, until);
      left.set(phase, (left.get(phase) ?? 0) - (until - from));
      from = until;
    }
    if (to - from > SHORT) add("receive", from, to);
  };
  let at = start;
  for (const { from, to, cause } of intervals) {
    const phase = Object.hasOwn(SETUP, cause) ? SETUP[cause] : undefined;
    if (!phase) continue;
    divide(at, from);
    add(phase, from, to);
    at = to;
  }
  divide(at, start + duration);
  return found;
}

/** The phases that any of these transfers has, as the items of a legend. */
export function phaseLegend(transfers: Transfer[]): HTMLElement[] {
  const isVisible = (phase: Phase) => transfers.some((transfer) => transfer.phases_s[phase] > MIN_SHARE * transfer.duration_s);
  const shown = TITLES.filter(([phase]) => isVisible(phase));
  return shown.map(([phase, title]) => h("li", {}, h("span", { class: `swatch phase ${phase}`, "aria-hidden": "true" }), title));
}

/** The phases of a transfer as a bar. */
export function phaseBar(transfer: Transfer, intervals: CauseInterval[] | null): HTMLElement {
  const phases = phasesOf(transfer, intervals);
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
