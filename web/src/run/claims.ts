// The claims of the source: what it said, what was measured, and the verdict.

import { h, type Child } from "../dom";
import { scrollable, table } from "../table";
import type { Claim, Run } from "./data";

const MARKS = { reproduced: "✔", exceeded: "▲", missed: "▼", refuted: "✘", inconclusive: "?", "not-judged": "–" };

function isJudged({ verdict }: Claim): boolean {
  return verdict !== "not-judged";
}

export function claims({ claims: all, conditions = [] }: Run): HTMLElement | null {
  const [first] = all;
  if (!first) return null;
  const judged = all.filter(isJudged);
  const unjudged = byReason(all.filter((claim) => !isJudged(claim)));
  return h(
    "section",
    { id: "claims", "aria-labelledby": "claims-heading" },
    h("h2", { id: "claims-heading" }, "Claims of the source, and what was measured"),
    h("p", { class: "soft" }, first.source),
    conditions.length > 0 && scrollable("Conditions", table("Conditions of the source, and of this run", [{ head: "about", cell: ({ about }) => about }, { head: "the source", cell: ({ theirs }) => theirs }, { head: "this run", cell: ({ ours }) => ours }], conditions, { hasVisibleCaption: true })),
    h("ul", { class: "claims" }, judged.map((claim) => h("li", { class: "claim" }, badge(claim), claimText(claim)))),
    [...unjudged].map(([reason, claims]) => h("details", {}, h("summary", {}, `${claims.length} not judged: ${reason}`), h("ul", {}, claims.map((claim) => h("li", {}, `“${claim.said}” `, h("span", { class: "soft small" }, where(claim))))))),
  );
}

function byReason(unjudged: Claim[]): Map<string, Claim[]> {
  const grouped = new Map<string, Claim[]>();
  // Claims that are not part of this run come last.
  for (const claim of [...unjudged].sort((a, b) => Number(b.in_run) - Number(a.in_run))) {
    const reason = claim.measured.replace(/\.$/, "");
    grouped.set(reason, [...(grouped.get(reason) ?? []), claim]);
  }
  return grouped;
}

function badge({ verdict, model }: Claim): HTMLElement {
  return h(
    "div",
    {},
    h("div", { class: `badge ${verdict}` }, h("span", { "aria-hidden": "true" }, MARKS[verdict]), ` ${verdict}`),
    model ? h("span", { class: "tag", title: "The verdict rests on a model, which replays the requests of a client that cannot run here" }, "model") : null,
  );
}

function where({ workload, network }: Claim): string {
  return workload ? `${workload} over ${network}` : "";
}

function claimText(claim: Claim): Child {
  return h("div", {}, h("p", { class: "claim-text" }, `“${claim.said}”`), h("p", {}, `${claim.measured} `, h("span", { class: "soft small" }, where(claim))), claim.refuted_by && h("p", { class: "soft small" }, `Would be refuted if: ${claim.refuted_by}`));
}
