// One packet in words: what it says, what the time before it was spent on, and what was found because of it.

import { classes, title } from "../causes";
import { h, type Child } from "../dom";
import { count, share, spoken, time } from "../units";
import { ACK, AGAIN, lowerBound, PROBE, SERVER, STRAY, type Packets } from "./decode";
import { size } from "./quantities";
import { nameOf, type Capture } from "./model";
import type { Selection } from "./selection";
import type { Trace } from "./trace";

const FLAGS = ["FIN", "SYN", "RST", "PSH", "ACK", "URG"];

/** `PSH ACK`. */
export function flags(kind: number): string {
  return FLAGS.filter((_, bit) => kind & (1 << bit)).join(" ");
}

/** What a packet is, in two or three words. */
export function sort(kind: number, length: number): string {
  if (kind & PROBE) return "probe";
  const again = kind & AGAIN ? ", retransmitted" : "";
  if (kind & 2) return `${kind & ACK ? "SYN-ACK" : "SYN"}${again}`;
  if (kind & 4) return "reset";
  if (length > 0) return `${size(length)} of data${again}`;
  return kind & 1 ? "FIN" : "acknowledgement";
}

/** The panel beneath the charts. */
export function inspector(capture: Capture, selection: Selection): HTMLElement {
  const panel = h("section", { class: "inspector", "aria-live": "polite", "aria-label": "Selected packet" });
  const tell = () => {
    const { trace, packet } = selection;
    panel.replaceChildren(...(trace && packet !== null ? told(capture, trace, packet) : []));
    panel.hidden = !trace;
    // On paper nobody chooses one.
    panel.classList.toggle("screen", packet === null);
    if (trace && packet === null) {
      panel.append(h("p", { class: "soft" }, "No packet selected. Click one in a chart, or step with the buttons or arrow keys."));
    }
  };
  selection.listen(tell);
  tell();
  return panel;
}

function told(capture: Capture, trace: Trace, packet: number): HTMLElement[] {
  const { packets, connection } = trace;
  const kind = packets.kind[packet] ?? 0;
  const at = packets.time[packet] ?? 0;
  const length = packets.length[packet] ?? 0;
  const [seq, ack, window] = [packets.seq[packet] ?? 0, packets.ack[packet] ?? 0, packets.window[packet] ?? 0];
  const [from, to] = kind & SERVER ? [connection.server, connection.client] : [connection.client, connection.server];
  const blocks = blocksOf(packets, packet);
  const since = packet > 0 ? at - (packets.time[packet - 1] ?? 0) : null;
  const fields: [string, Child][] = [
    ["time", `${exact(at - trace.begin)} since connection start`],
    ["since previous packet", since === null ? "first packet" : time(since)],
    ["flags", flags(kind) || "none"],
    ["sequence", length > 0 ? `bytes ${count(seq)} to ${count(seq + length)} (${size(length)})` : signed(seq)],
    kind & ACK ? ["acknowledges", `all bytes before ${signed(ack)}`] : ["acknowledges", "nothing"],
    ["window", `${size(window)}${kind & ACK ? `, up to byte ${signed(ack + window)}` : ""}`],
  ];
  if (blocks.length > 0) fields.push(["SACK blocks", spoken(blocks.map(([from, to]) => `${count(from)} to ${count(to)}`))]);
  if (kind & STRAY) fields.push(["note", "sequence number outside any window; not drawn"]);
  return [
    h("h3", {}, `Packet ${count(packets.number[packet] ?? 0)}: ${sort(kind, length)}`),
    h("p", {}, `${from} → ${to}`),
    h("dl", {}, fields.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
    waited(capture, trace, packet),
    ...found(capture, trace, packet),
  ];
}

function blocksOf({ blocks }: Packets, packet: number): [number, number][] {
  const found: [number, number][] = [];
  for (let i = lowerBound(blocks.packet, packet); blocks.packet[i] === packet; i++) found.push([blocks.from[i] ?? 0, blocks.to[i] ?? 0]);
  return found;
}

function waited(capture: Capture, trace: Trace, packet: number): HTMLElement {
  const gap = capture.gap(trace, packet).filter((band, _, all) => band.to - band.from > 0.02 * ((all[all.length - 1]?.to ?? 0) - (all[0]?.from ?? 0)));
  if (gap.length === 0) return h("p", { class: "soft" }, "Nothing waited before this packet.");
  const each = gap.map((band) => h("li", {}, h("span", { class: `swatch ${classes(band.cause)}`, "aria-hidden": "true" }), `${time(band.to - band.from)}: ${title(band.cause)}`));
  return h("div", {}, h("p", {}, "Waiting time before this packet:"), h("ul", { class: "plain" }, each));
}

function found(capture: Capture, trace: Trace, packet: number): HTMLElement[] {
  const found = capture.finding(trace, packet);
  if (!found) return [];
  const { transfer, finding, evidence } = found;
  const lost = `${time(finding.cost_s)} of ${time(transfer.duration_s)} (${share(finding.cost_s / transfer.duration_s)})`;
  return [
    h("p", { class: "finding" }, h("strong", {}, evidence ? "Evidence of a finding: " : "Part of a finding: "), `${nameOf(transfer)} lost ${lost} to ${finding.title}. `, finding.why),
  ];
}

/** A number of bytes; before the first one, with a sign. */
function signed(value: number): string {
  return value < 0 ? `−${count(-value)}` : count(value);
}

/** A time to the microsecond, as the packets beside it have it. */
export function exact(seconds: number): string {
  return `${seconds.toFixed(6)}\u00a0s`;
}
