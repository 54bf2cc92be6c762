// The details of the selected packet: its header, the causes of the wait before it, and its finding.

import { classes, title } from "../causes";
import { h, type Child } from "../dom";
import { count, share, listInWords, time } from "../units";
import { ACK, RETRANSMISSION, lowerBound, PROBE, SERVER, OUT_OF_WINDOW, type Packets } from "./decode";
import { size } from "./byte-sizes";
import { transferName, type Capture } from "./model";
import type { Selection } from "./selection";
import type { Trace } from "./trace";

const FLAGS = ["FIN", "SYN", "RST", "PSH", "ACK", "URG"];

/** `PSH ACK`. */
export function flags(kind: number): string {
  return FLAGS.filter((_, bit) => kind & (1 << bit)).join(" ");
}

/** The type of a packet, in two or three words. */
export function packetType(kind: number, length: number): string {
  if (kind & PROBE) return "probe";
  const suffix = kind & RETRANSMISSION ? ", retransmitted" : "";
  if (kind & 2) return `${kind & ACK ? "SYN-ACK" : "SYN"}${suffix}`;
  if (kind & 4) return "reset";
  if (length > 0) return `${size(length)} of data${suffix}`;
  return kind & 1 ? "FIN" : "acknowledgement";
}

/** The panel below the charts. */
export function packetDetails(capture: Capture, selection: Selection): HTMLElement {
  const panel = h("section", { class: "inspector", "aria-live": "polite", "aria-label": "Selected packet" });
  const update = () => {
    const { trace, packet } = selection;
    panel.replaceChildren(...(trace && packet !== null ? details(capture, trace, packet) : []));
    panel.hidden = !trace;
    // Not printed if no packet is selected.
    panel.classList.toggle("screen", packet === null);
    if (trace && packet === null) {
      panel.append(h("p", { class: "soft" }, "No packet selected. Click one in a chart, or step with the buttons or arrow keys."));
    }
  };
  selection.listen(update);
  update();
  return panel;
}

function details(capture: Capture, trace: Trace, packet: number): HTMLElement[] {
  const { packets, connection } = trace;
  const kind = packets.kind[packet] ?? 0;
  const when = packets.time[packet] ?? 0;
  const length = packets.length[packet] ?? 0;
  const [seq, ack, window] = [packets.seq[packet] ?? 0, packets.ack[packet] ?? 0, packets.window[packet] ?? 0];
  const [from, to] = kind & SERVER ? [connection.server, connection.client] : [connection.client, connection.server];
  const sack = sackBlocks(packets, packet);
  const since = packet > 0 ? when - (packets.time[packet - 1] ?? 0) : null;
  const fields: [string, Child][] = [
    ["time", `${exactTime(when - trace.begin)} since connection start`],
    ["since previous packet", since === null ? "first packet" : time(since)],
    ["flags", flags(kind) || "none"],
    ["sequence", length > 0 ? `bytes ${count(seq)} to ${count(seq + length)} (${size(length)})` : signed(seq)],
    kind & ACK ? ["acknowledges", `all bytes before ${signed(ack)}`] : ["acknowledges", "nothing"],
    ["window", `${size(window)}${kind & ACK ? `, up to byte ${signed(ack + window)}` : ""}`],
  ];
  if (sack.length > 0) fields.push(["SACK blocks", listInWords(sack.map(([from, to]) => `${count(from)} to ${count(to)}`))]);
  if (kind & OUT_OF_WINDOW) fields.push(["note", "sequence number outside any window; not drawn"]);
  return [
    h("h3", {}, `Packet ${count(packets.number[packet] ?? 0)}: ${packetType(kind, length)}`),
    h("p", {}, `${from} → ${to}`),
    h("dl", {}, fields.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    waitBefore(capture, trace, packet),
    ...findingOf(capture, trace, packet),
  ];
}

function sackBlocks({ sack }: Packets, packet: number): [number, number][] {
  const found: [number, number][] = [];
  for (let i = lowerBound(sack.packet, packet); sack.packet[i] === packet; i++) found.push([sack.from[i] ?? 0, sack.to[i] ?? 0]);
  return found;
}

function waitBefore(capture: Capture, trace: Trace, packet: number): HTMLElement {
  const wait = capture.waitBefore(trace, packet).filter((interval, _, all) => interval.to - interval.from > 0.02 * ((all[all.length - 1]?.to ?? 0) - (all[0]?.from ?? 0)));
  if (wait.length === 0) return h("p", { class: "soft" }, "Nothing waited before this packet.");
  const each = wait.map((interval) => h("li", {}, h("span", { class: `swatch ${classes(interval.cause)}`, "aria-hidden": "true" }), `${time(interval.to - interval.from)}: ${title(interval.cause)}`));
  return h("div", {}, h("p", {}, "Waiting time before this packet:"), h("ul", { class: "plain" }, each));
}

function findingOf(capture: Capture, trace: Trace, packet: number): HTMLElement[] {
  const found = capture.findingAt(trace, packet);
  if (!found) return [];
  const { transfer, finding, evidence } = found;
  const lost = `${time(finding.cost_s)} of ${time(transfer.duration_s)} (${share(finding.cost_s / transfer.duration_s)})`;
  return [
    h("p", { class: "finding" }, h("strong", {}, evidence ? "Evidence of a finding: " : "Part of a finding: "), `${transferName(transfer)} lost ${lost} to ${finding.title}. `, finding.why),
  ];
}

/** A relative sequence number, which may be negative. */
function signed(value: number): string {
  return value < 0 ? `−${count(-value)}` : count(value);
}

/** A time in microseconds, as in captures. */
export function exactTime(seconds: number): string {
  return `${seconds.toFixed(6)}\u00a0s`;
}
