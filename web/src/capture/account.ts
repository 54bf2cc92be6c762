// The account of one transfer: its time in order, and in sums that add up; what was found, and what would change it; how
// long it would take otherwise.

import { causeTable, inWords } from "../bar";
import { classes, title } from "../causes";
import { h, type Child } from "../dom";
import { round } from "../scale";
import { table } from "../table";
import { counted, rate, share, spoken, ticks, time } from "../units";
import { size } from "./quantities";
import { nameOf, type Band, type Capture } from "./model";
import type { Connection, Finding, Predictions, Transfer } from "./schema";
import type { Selection } from "./selection";

const VANTAGE = {
  client: "captured at the client",
  server: "captured at the server",
  middle: "captured between client and server",
  unknown: "captured at an unknown point",
};

/** How many pieces a bar is drawn of. */
const PIECES = 600;

export function account(capture: Capture, selection: Selection, toPacket: (number: number) => void): HTMLElement {
  const section = h("section", { class: "account", "aria-label": "Selected transfer" });
  const tell = () => {
    const { transfer } = selection;
    section.replaceChildren(...(transfer ? told(capture, transfer, toPacket) : []));
  };
  selection.listen(({ transfer }) => {
    if (transfer) tell();
  });
  tell();
  return section;
}

function told(capture: Capture, transfer: Transfer, toPacket: (number: number) => void): HTMLElement[] {
  const connection = capture.connection(transfer);
  return [
    h("h2", {}, nameOf(transfer)),
    h("p", {}, `${time(transfer.duration_s)}${carried(transfer)}.`),
    h("p", { class: "soft" }, facts(capture, connection)),
    timeline(capture, transfer),
    h("div", { class: "wide" }, sums(transfer)),
    ...whatIf(transfer),
    h("h3", { id: "found" }, "Findings"),
    ...(transfer.findings.length > 0
      ? transfer.findings.map((finding) => found(capture, transfer, finding, toPacket))
      : [h("p", {}, "None: no avoidable cause took 10 % of the time.")]),
  ];
}

function carried({ bytes, duration_s: seconds }: Transfer): string {
  return bytes > 0 ? ` for ${size(bytes)}: ${rate((8 * bytes) / Math.max(1e-9, seconds))}` : "";
}

function facts(capture: Capture, connection: Connection): string {
  const { client, server, rtt_s: rtt, mss, rate_bits: bits, chunk, vantage, also } = connection;
  const said = [`${client} → ${server}`, `RTT ${time(rtt)}`, `MSS ${size(mss)}`, VANTAGE[vantage]];
  if (bits !== null) said.push(`bottleneck ${rate(bits)}`);
  if (chunk !== null) {
    const rest = chunk % mss;
    said.push(`writes of ${size(chunk)}: ${counted(Math.floor(chunk / mss), "full segment")}${rest > 0 ? ` and one of ${size(rest)}` : ""}`);
  }
  if (capture.data.captures.length > 1) {
    said.push(`from ${capture.data.captures[connection.capture] ?? ""}${also.length > 0 ? `, also in ${also.map((place) => capture.data.captures[place]).join(", ")}` : ""}`);
  }
  return said.join(" · ");
}

/** Its time in order, on an axis. */
function timeline(capture: Capture, transfer: Transfer): HTMLElement {
  const whole = transfer.duration_s;
  const ordered = capture.outline(transfer, PIECES);
  const { bands, exact } = ordered ?? { bands: inSums(transfer), exact: true };
  const pieces = bands.map(({ from, to, cause }) => {
    const part = to - from;
    const label = exact ? `${title(cause)}: ${time(part)}, ${share(part / whole)}` : `mostly ${title(cause)}`;
    const name = part / whole > 0.09 ? h("span", { class: "said" }, exact ? [title(cause), " ", time(part)] : label) : null;
    const piece = h("span", { class: classes(cause), title: label }, name);
    piece.style.width = `${(100 * part) / whole}%`;
    return piece;
  });
  const marks = ticks(0, whole, 6).map((value) => {
    const mark = h("span", {}, round(time(value)));
    mark.style.left = `${(100 * value) / whole}%`;
    if (value / whole > 0.82) mark.className = "last";
    return mark;
  });
  const remark = !ordered
    ? "This report lacks some of its packets, so the bar is in order of size, not of time."
    : exact
      ? null
      : "In order of time. There are too many pieces to draw, so each stretch has the colour of its largest cause; the sums below are exact.";
  const words = `${nameOf(transfer)} took ${time(whole)}: ${inWords(transfer.time_s)}`;
  return h(
    "figure",
    { class: "timeline" },
    h("div", { class: "causebar", role: "img", "aria-label": words }, pieces),
    h("div", { class: "axis small soft", "aria-hidden": "true" }, marks),
    remark && h("figcaption", { class: "small soft" }, remark),
  );
}

function inSums(transfer: Transfer): Band[] {
  let at = 0;
  return Object.entries(transfer.time_s)
    .sort(([, a], [, b]) => b - a)
    .map(([cause, part]) => {
      at += part;
      return { from: at - part, to: at, cause };
    });
}

/** The sums, and that they add up. */
function sums(transfer: Transfer): HTMLElement {
  const view = causeTable("Time by cause", transfer.time_s);
  view.append(h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, "total"), h("td", { class: "number" }, time(transfer.duration_s)), h("td", { class: "number" }, share(1)))));
  return view;
}

function found(capture: Capture, transfer: Transfer, finding: Finding, toPacket: (number: number) => void): HTMLElement {
  const trace = capture.trace(transfer.connection);
  const packets = finding.packets.map((number): Child => {
    // Where all packets are there, none need be decoded to know.
    const there = trace !== null && (trace.whole || capture.place(trace, number) !== null);
    return there ? h("button", { type: "button", class: "packet", "aria-label": `Show packet ${number}`, onclick: () => toPacket(number) }, number) : h("span", { class: "packet" }, number);
  });
  return h(
    "article",
    { class: "found" },
    h("h4", {}, h("span", { class: `swatch ${classes(finding.cause)}`, "aria-hidden": "true" }), `${time(finding.cost_s)} (${share(finding.cost_s / transfer.duration_s)}) lost to ${finding.title}`),
    h("p", {}, finding.why),
    h("p", {}, "Evidence: ", finding.packets.length === 1 ? "packet " : "packets ", packets),
    finding.fix.length > 0 ? fixes(finding.fix) : null,
  );
}

/** Where to change what, and what that costs. */
export function fixes(ways: Finding["fix"]): HTMLElement {
  const way = ({ system, how, but }: Finding["fix"][number]) => [
    h("dt", {}, system),
    h("dd", {}, h("span", { class: "how" }, how), but ? h("span", { class: "soft but" }, `but: ${but}`) : null),
  ];
  return h("dl", { class: "fixes" }, ways.map(way));
}

/** Before and after: for what was seen, and for as many bytes as were asked for. */
function whatIf(transfer: Transfer): HTMLElement[] {
  const { predictions } = transfer;
  if (!predictions) return [];
  if (predictions.before_s === null) return [h("h3", {}, "What if"), h("p", {}, `${sentence(predictions.declined ?? "no prediction")}.`)];
  if (predictions.after.length === 0) return [];
  const amounts = [...new Set(predictions.after.map((after) => after.bytes))];
  const tables = amounts.map((bytes) => {
    const rows = predictions.after.filter((after) => after.bytes === bytes).map(({ change, duration_s: seconds }) => ({ change, seconds }));
    const before = bytes === null ? { change: "", seconds: transfer.duration_s } : rows.shift();
    return before ? beforeAfter(transfer, bytes, before, rows) : null;
  });
  return [h("h3", {}, "What if"), ...tables.filter((each) => each !== null), h("p", { class: "small soft" }, trust(predictions))];
}

interface Outcome {
  change: string;
  seconds: number;
}

function beforeAfter(transfer: Transfer, bytes: number | null, before: Outcome, after: Outcome[]): HTMLElement {
  const longest = Math.max(before.seconds, ...after.map(({ seconds }) => seconds));
  const bar = (outcome: Outcome) => {
    const fill = h("span", { class: outcome === before ? "seen" : "after" });
    fill.style.width = `${(100 * outcome.seconds) / longest}%`;
    return h("span", { class: "before-after", "aria-hidden": "true" }, fill);
  };
  const saved = (outcome: Outcome) => {
    const less = 1 - outcome.seconds / before.seconds;
    if (outcome === before || Math.abs(less) < 0.005) return "";
    return `${share(Math.abs(less))} ${less > 0 ? "less" : "more"}`;
  };
  const unchanged = bytes === null ? "as captured" : `${size(bytes)}, otherwise unchanged`;
  const view = table<Outcome>(
    bytes === null ? "Predicted time with a change" : `Predicted time for ${size(bytes)}`,
    [
      { head: "with", cell: (outcome) => (outcome === before ? unchanged : changed(transfer, outcome.change)) },
      { head: "time", number: true, cell: ({ seconds }) => time(seconds) },
      { head: "change", number: true, class: "soft", cell: saved },
      { head: "comparison", class: "bars", cell: bar },
    ],
    [before, ...after],
    { shown: bytes !== null },
  );
  return h("div", { class: "wide" }, view);
}

/** A change, and against what it is. */
function changed(transfer: Transfer, change: string): Child {
  const against = transfer.findings.filter((finding) => finding.change === change).map(({ cause }) => title(cause));
  return [h("span", { class: "how" }, change.replaceAll(",", ", ")), against.length > 0 ? h("span", { class: "soft but" }, `against ${spoken(against)}`) : null];
}

function trust({ model_error: error, before_s: before }: Predictions): string {
  const off = Math.abs(error ?? 0);
  const said = off < 0.005 ? "within 1 % of the captured time" : `${share(off)} ${(error ?? 0) > 0 ? "longer" : "shorter"} than captured`;
  return `Predicted by a simulation of the captured transfer. Without a change, the simulation takes ${time(before ?? 0)}, ${said}.`;
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
