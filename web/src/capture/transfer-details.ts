// The details of the selected transfer: its time in order and by cause, the findings with their fixes, and predictions.

import { timeLabels } from "../axis";
import { causeTable, causesInWords } from "../cause-bar";
import { classes, title } from "../causes";
import { h, type Child } from "../dom";
import { table } from "../table";
import { counted, rate, share, listInWords, ticks, time } from "../units";
import { size } from "./byte-sizes";
import { transferName, type CauseInterval, type Capture } from "./model";
import { phaseBar, phaseTimes } from "./phases";
import type { Connection, Finding, Fix, Predictions, Transfer } from "./schema";
import type { Selection } from "./selection";

const VANTAGE = {
  client: "captured at the client",
  server: "captured at the server",
  middle: "captured between client and server",
  unknown: "captured at an unknown point",
};

/** Maximum number of intervals in a bar. */
const MAX_INTERVALS = 600;

export function transferDetails(capture: Capture, selection: Selection, toPacket: (number: number) => void): HTMLElement {
  const section = h("section", { class: "account", "aria-label": "Selected transfer" });
  const update = () => {
    const { transfer } = selection;
    section.replaceChildren(...(transfer ? details(capture, transfer, toPacket) : []));
  };
  selection.listen(({ transfer }) => {
    if (transfer) update();
  });
  update();
  return section;
}

function details(capture: Capture, transfer: Transfer, toPacket: (number: number) => void): HTMLElement[] {
  const connection = capture.connection(transfer);
  return [
    h("h2", {}, transferName(transfer)),
    h("p", {}, `${time(transfer.duration_s)}${amount(transfer)}.`),
    h("p", { class: "soft" }, facts(capture, connection)),
    ...systems(connection),
    h("h3", {}, connection.vantage === "client" ? "Phases" : `Phases, ${VANTAGE[connection.vantage]}`),
    phaseBar(transfer, capture.intervalsOf(transfer)),
    phaseTimes(transfer),
    h("h3", {}, "Causes of the time"),
    timeline(capture, transfer),
    h("div", { class: "wide" }, timeByCause(transfer)),
    ...whatIf(transfer),
    h("h3", { id: "found" }, "Findings"),
    ...(transfer.findings.length > 0
      ? transfer.findings.map((finding) => findingArticle(capture, transfer, finding, toPacket))
      : [h("p", {}, "None: no avoidable cause took 10 % of the time.")]),
    ...transfer.also.map((text) => h("p", {}, text.split("`").map((part, at) => (at % 2 === 1 ? h("code", {}, part) : part)))),
  ];
}

function amount({ bytes, duration_s: seconds }: Transfer): string {
  return bytes > 0 ? ` for ${size(bytes)}: ${rate((8 * bytes) / Math.max(1e-9, seconds))}` : "";
}

function facts(capture: Capture, connection: Connection): string {
  const { client, server, rtt_s: rtt, mss, rate_bits: bits, chunk, vantage, also } = connection;
  const parts = [`${client} → ${server}`, `RTT ${time(rtt)}`, `MSS ${size(mss)}`, VANTAGE[vantage]];
  if (bits !== null) parts.push(`bottleneck ${rate(bits)}`);
  if (chunk !== null) {
    const rest = chunk % mss;
    parts.push(`writes of ${size(chunk)}: ${counted(Math.floor(chunk / mss), "full segment")}${rest > 0 ? ` and one of ${size(rest)}` : ""}`);
  }
  if (capture.data.captures.length > 1) {
    parts.push(`from ${capture.data.captures[connection.capture] ?? ""}${also.length > 0 ? `, also in ${also.map((index) => capture.data.captures[index]).join(", ")}` : ""}`);
  }
  return parts.join(" · ");
}

/** The operating systems of both ends, and what shows them. */
function systems({ system }: Connection): HTMLElement[] {
  const ends = (["client", "server"] as const).map((end) => {
    const sign = system.signs[end];
    return sign ? h("p", {}, `The ${end} runs ${system[end] ?? ""}, by packet ${sign.packet}: ${sign.why}.`) : null;
  });
  if (system.client === null && system.server === null) return [];
  const known = [system.client && `client ${system.client}`, system.server && `server ${system.server}`].filter((text) => text !== null);
  return [h("details", { class: "soft" }, h("summary", {}, `Systems: ${known.join(", ")}`), ends)];
}

/** A bar of its time in order, with an axis. */
function timeline(capture: Capture, transfer: Transfer): HTMLElement {
  const duration = transfer.duration_s;
  const outline = capture.outline(transfer, MAX_INTERVALS);
  const { intervals, exact } = outline ?? { intervals: bySize(transfer), exact: true };
  const segments = intervals.map(({ from, to, cause }) => {
    const length = to - from;
    const label = exact ? `${title(cause)}: ${time(length)}, ${share(length / duration)}` : `mostly ${title(cause)}`;
    const name = length / duration > 0.09 ? h("span", { class: "segment-label" }, exact ? [title(cause), " ", time(length)] : label) : null;
    const segment = h("span", { class: classes(cause), title: label }, name);
    segment.style.width = `${(100 * length) / duration}%`;
    return segment;
  });
  // Few enough for a phone.
  const values = ticks(0, duration, 4);
  const marks = timeLabels(values).map((label, index) => {
    const value = values[index] ?? 0;
    const mark = h("span", {}, label);
    mark.style.left = `${(100 * value) / duration}%`;
    if (value / duration > 0.82) mark.className = "last";
    return mark;
  });
  const remark = !outline
    ? "This report lacks some of its packets, so the bar is in order of size, not of time."
    : exact
      ? null
      : "In order of time. There are too many intervals to draw, so each segment has the colour of its largest cause; the sums below are exact.";
  const words = `${transferName(transfer)} took ${time(duration)}: ${causesInWords(transfer.time_s)}`;
  return h(
    "figure",
    { class: "timeline" },
    h("div", { class: "causebar", role: "img", "aria-label": words }, segments),
    h("div", { class: "axis small soft", "aria-hidden": "true" }, marks),
    remark && h("figcaption", { class: "small soft" }, remark),
  );
}

function bySize(transfer: Transfer): CauseInterval[] {
  let at = 0;
  return Object.entries(transfer.time_s)
    .sort(([, a], [, b]) => b - a)
    .map(([cause, length]) => {
      at += length;
      return { from: at - length, to: at, cause };
    });
}

/** The time by cause, with the total. */
function timeByCause(transfer: Transfer): HTMLElement {
  const view = causeTable("Time by cause", transfer.time_s);
  view.append(h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, "total"), h("td", { class: "number" }, time(transfer.duration_s)), h("td", { class: "number" }, share(1)))));
  return view;
}

function findingArticle(capture: Capture, transfer: Transfer, finding: Finding, toPacket: (number: number) => void): HTMLElement {
  const trace = capture.trace(transfer.connection);
  const packets = finding.packets.map((number): Child => {
    // If the trace has all packets, they need not be decoded to find this one.
    const isIncluded = trace !== null && (trace.isComplete || capture.packetIndex(trace, number) !== null);
    return isIncluded ? h("button", { type: "button", class: "packet", "aria-label": `Show packet ${number}`, onclick: () => toPacket(number) }, number) : h("span", { class: "packet" }, number);
  });
  return h(
    "article",
    { class: "found" },
    h("h4", {}, h("span", { class: `swatch ${classes(finding.cause)}`, "aria-hidden": "true" }), `${time(finding.cost_s)} (${share(finding.cost_s / transfer.duration_s)}) lost: ${finding.title}`, h("code", { class: "soft" }, ` ${finding.cause}`)),
    h("p", {}, finding.why),
    h("p", {}, "Evidence: ", finding.packets.length === 1 ? "packet " : "packets ", packets),
    finding.fix.length > 0 ? fixes(finding.fix) : null,
  );
}

/** A list of fixes: the system, the setting, and the drawback. Those for other systems than the ones seen are folded. */
export function fixes(list: Fix[]): HTMLElement {
  const others = list.filter(({ applies }) => applies === false);
  const shown = list.filter(({ applies }) => applies !== false);
  if (others.length === 0) return fixList(shown);
  const folded = h("details", {}, h("summary", {}, `For other systems (${others.length})`), fixList(others));
  return h("div", {}, shown.length > 0 ? fixList(shown) : null, folded);
}

function fixList(list: Fix[]): HTMLElement {
  const item = ({ system, how, but }: Fix) => [
    h("dt", {}, system),
    h("dd", {}, h("span", { class: "how" }, how), but ? h("span", { class: "soft but" }, `but: ${but}`) : null),
  ];
  return h("dl", { class: "fixes" }, list.map(item));
}

/** Predicted times: for the captured transfer, and for another number of bytes. */
function whatIf(transfer: Transfer): HTMLElement[] {
  const { predictions } = transfer;
  if (!predictions) return [];
  const declined = predictions.declined === null ? null : predictions.after.length > 0 ? `nothing else is predicted; ${predictions.declined}` : predictions.declined;
  if (predictions.after.length === 0) return declined === null ? [] : [h("h3", {}, "What if"), h("p", {}, `${sentence(declined)}.`)];
  const amounts = [...new Set(predictions.after.map((after) => after.bytes))];
  const tables = amounts.map((bytes) => {
    const rows = predictions.after.filter((after) => after.bytes === bytes).map(({ change, duration_s: seconds }) => ({ change, seconds }));
    const before = bytes === null ? { change: "", seconds: transfer.duration_s } : rows.shift();
    return before ? beforeAfter(transfer, bytes, before, rows) : null;
  });
  return [h("h3", {}, "What if"), ...tables.filter((view) => view !== null), h("p", { class: "small soft" }, declined === null ? modelError(predictions) : `${sentence(declined)}.`)];
}

interface Outcome {
  change: string;
  seconds: number;
}

function beforeAfter(transfer: Transfer, bytes: number | null, before: Outcome, after: Outcome[]): HTMLElement {
  const max = Math.max(before.seconds, ...after.map(({ seconds }) => seconds));
  const bar = (outcome: Outcome) => {
    const fill = h("span", { class: outcome === before ? "seen" : "after" });
    fill.style.width = `${(100 * outcome.seconds) / max}%`;
    return h("span", { class: "before-after", "aria-hidden": "true" }, fill);
  };
  const saved = (outcome: Outcome) => {
    const less = 1 - outcome.seconds / before.seconds;
    if (outcome === before || Math.abs(less) < 0.005) return "";
    return `${share(Math.abs(less))} ${less > 0 ? "less" : "more"}`;
  };
  const baseline = bytes === null ? "as captured" : `${size(bytes)}, otherwise unchanged`;
  const view = table<Outcome>(
    bytes === null ? "Predicted time with a change" : `Predicted time for ${size(bytes)}`,
    [
      { head: "with", cell: (outcome) => (outcome === before ? baseline : changeCell(transfer, outcome.change)) },
      { head: "time", number: true, cell: ({ seconds }) => time(seconds) },
      { head: "change", number: true, class: "soft", cell: saved },
      { head: "comparison", class: "bars", cell: bar },
    ],
    [before, ...after],
    { hasVisibleCaption: bytes !== null },
  );
  return h("div", { class: "wide" }, view);
}

/** A change, and the causes that it reduces. */
function changeCell(transfer: Transfer, change: string): Child {
  const causes = transfer.findings.filter((finding) => finding.change === change).map(({ cause }) => title(cause));
  return [h("span", { class: "how" }, change.replaceAll(",", ", ")), causes.length > 0 ? h("span", { class: "soft but" }, `against ${listInWords(causes)}`) : null];
}

function modelError({ model_error: error, before_s: before }: Predictions): string {
  const difference = Math.abs(error ?? 0);
  const parts = difference < 0.005 ? "within 1 % of the captured time" : `${share(difference)} ${(error ?? 0) > 0 ? "longer" : "shorter"} than captured`;
  return `Predicted by a simulation of the captured transfer. Without a change, the simulation takes ${time(before ?? 0)}, ${parts}.`;
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
