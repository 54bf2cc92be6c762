// The content of the charts as tables: the packets and the intervals of the selected transfer.

import { classes, title } from "../causes";
import { h } from "../dom";
import { table } from "../table";
import { count, counted, share, time } from "../units";
import { lowerBound, SERVER } from "./decode";
import { exactTime, packetType } from "./packet-details";
import { size } from "./byte-sizes";
import type { Capture } from "./model";
import type { Selection } from "./selection";
import type { Trace } from "./trace";

/** The number of rows on a page. */
const PAGE_ROWS = 200;

/** The tables. They are drawn when they are opened, and follow the selection. */
export function tables(capture: Capture, selection: Selection): HTMLElement {
  const packets = pagedTable("Packets as a table", (from) => packetTable(capture, selection, from));
  const intervals = pagedTable("The transfer’s time as a table", (from) => intervalTable(capture, selection, from));
  selection.listen(({ transfer }) => {
    if (transfer) [packets, intervals].forEach((one) => one.changed());
  });
  return h("div", {}, packets.element, intervals.element);
}

interface TablePage {
  view: HTMLElement;
  total: number;
}

function pagedTable(name: string, pageAt: (from: number) => TablePage | null): { element: HTMLElement; changed: () => void } {
  const content = h("div", {});
  const element = h("details", { class: "asked" }, h("summary", {}, name), content);
  let from = 0;
  const show = () => {
    const page = pageAt(from);
    if (!page) {
      content.replaceChildren(h("p", { class: "soft" }, "Not included in this report."));
      return;
    }
    const pageButton = (label: string, to: number) => h("button", { type: "button", class: "button screen", disabled: to < 0 || to >= page.total, onclick: () => { from = to; show(); } }, label);
    const last = Math.min(page.total, from + PAGE_ROWS);
    const pages = page.total > PAGE_ROWS ? h("p", {}, pageButton("Earlier", from - PAGE_ROWS), ` ${count(from + 1)} to ${count(last)} of ${count(page.total)} `, pageButton("Later", from + PAGE_ROWS)) : null;
    content.replaceChildren(...[pages, h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": name }, page.view)].filter((each) => each !== null));
  };
  element.addEventListener("toggle", () => {
    if (element.open) show();
  });
  return {
    element,
    changed: () => {
      from = 0;
      if (element.open) show();
    },
  };
}

function packetTable(capture: Capture, selection: Selection, first: number): TablePage | null {
  const { trace, transfer } = selection;
  if (!trace || !transfer) return null;
  const { packets, connection } = trace;
  const begin = lowerBound(packets.time, transfer.start_s - 1e-6);
  // Packets after its end, such as late acknowledgements, belong to it until the next transfer begins.
  const later = capture.data.transfers.filter((one) => one.connection === transfer.connection && one.start_s > transfer.start_s);
  const end = lowerBound(packets.time, Math.min(Infinity, ...later.map((one) => one.start_s - 1e-6)));
  const rows = Array.from({ length: Math.max(0, Math.min(PAGE_ROWS, end - begin - first)) }, (_, n) => begin + first + n);
  const view = table<number>(
    `Packets of the transfer between ${connection.client} (client) and ${connection.server} (server)`,
    [
      { head: "packet", number: true, cell: (index) => packets.number[index] ?? 0 },
      { head: "time since connection start", number: true, cell: (index) => exactTime((packets.time[index] ?? 0) - trace.begin) },
      { head: "from", cell: (index) => ((packets.kind[index] ?? 0) & SERVER ? "server" : "client") },
      { head: "packet type", cell: (index) => h("button", { type: "button", class: "choose", onclick: () => selection.choosePacket(index) }, packetType(packets.kind[index] ?? 0, packets.length[index] ?? 0)) },
      { head: "sequence", number: true, cell: (index) => count(packets.seq[index] ?? 0) },
      { head: "ACK number", number: true, cell: (index) => count(packets.ack[index] ?? 0) },
      { head: "window", number: true, cell: (index) => size(packets.window[index] ?? 0) },
    ],
    rows,
  );
  return { view, total: Math.max(0, end - begin) };
}

function intervalTable(capture: Capture, selection: Selection, first: number): TablePage | null {
  const { transfer } = selection;
  const intervals = transfer ? capture.intervalsOf(transfer) : null;
  if (!transfer || !intervals) return null;
  const view = table(
    `Time by cause, in order; total ${time(transfer.duration_s)}`,
    [
      { head: "cause", cell: ({ cause }) => [h("span", { class: `swatch ${classes(cause)}`, "aria-hidden": "true" }), title(cause)] },
      { head: "from", number: true, cell: ({ from }) => exactTime(from - transfer.start_s) },
      { head: "to", number: true, cell: ({ to }) => exactTime(to - transfer.start_s) },
      { head: "time", number: true, cell: ({ from, to }) => time(to - from) },
      { head: "share", number: true, cell: ({ from, to }) => share((to - from) / transfer.duration_s) },
      { head: "ended by packet", number: true, cell: ({ packet }) => packet ?? "–" },
    ],
    intervals.slice(first, first + PAGE_ROWS),
  );
  return { view, total: intervals.length };
}

/** A note on packets that are not in the report; null if there are none. */
export function omittedPackets(capture: Capture): string | null {
  const { packets, packets_kept: kept, connections } = capture.data;
  if (connections.every((one) => one.trace && one.trace.count >= one.packets)) return null;
  const omitted = connections.filter((one) => !one.trace).length;
  const others = omitted > 0 ? ` ${counted(omitted, "connection")} ${omitted === 1 ? "is" : "are"} not included; use haul explain \u2011\u2011connection for one of them.` : "";
  return `The charts below show ${count(kept)} of ${counted(packets, "packet")}: those of the connections with the largest losses.${others} All sentences and sums cover the whole capture.`;
}

/** A note on the part of a connection's packets in its trace; null if it has all. */
export function traceRange({ count: included, connection, begin, end, isComplete }: Trace): string | null {
  return isComplete ? null : `The charts show ${count(included)} of this connection’s ${counted(connection.packets, "packet")}, from ${time(begin)} to ${time(end)} after the start of the capture.`;
}
