// What the charts draw, as tables: of the packets around the one that is looked at, and of the pieces of time.

import { classes, title } from "../causes";
import { h } from "../dom";
import { table } from "../table";
import { count, counted, share, time } from "../units";
import { lowerBound, SERVER } from "./decode";
import { exact, sort } from "./inspector";
import { size } from "./quantities";
import type { Capture } from "./model";
import type { Selection } from "./selection";
import type { Trace } from "./trace";

/** How many rows at a time. */
const PAGE = 200;

/** The tables; they are made when they are opened, and follow what is looked at. */
export function tables(capture: Capture, selection: Selection): HTMLElement {
  const packets = opening("Packets as a table", (from) => packetTable(capture, selection, from));
  const pieces = opening("The transfer’s time as a table", (from) => pieceTable(capture, selection, from));
  selection.listen(({ transfer }) => {
    if (transfer) [packets, pieces].forEach((one) => one.changed());
  });
  return h("div", {}, packets.element, pieces.element);
}

interface Part {
  view: HTMLElement;
  all: number;
}

function opening(name: string, part: (from: number) => Part | null): { element: HTMLElement; changed: () => void } {
  const place = h("div", {});
  const element = h("details", { class: "asked" }, h("summary", {}, name), place);
  let from = 0;
  const show = () => {
    const shown = part(from);
    if (!shown) {
      place.replaceChildren(h("p", { class: "soft" }, "Not included in this report."));
      return;
    }
    const turn = (label: string, to: number) => h("button", { type: "button", class: "button screen", disabled: to < 0 || to >= shown.all, onclick: () => { from = to; show(); } }, label);
    const last = Math.min(shown.all, from + PAGE);
    const pages = shown.all > PAGE ? h("p", {}, turn("Earlier", from - PAGE), ` ${count(from + 1)} to ${count(last)} of ${count(shown.all)} `, turn("Later", from + PAGE)) : null;
    place.replaceChildren(...[pages, h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": name }, shown.view)].filter((each) => each !== null));
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

function packetTable(capture: Capture, selection: Selection, page: number): Part | null {
  const { trace, transfer } = selection;
  if (!trace || !transfer) return null;
  const { packets, connection } = trace;
  const begin = lowerBound(packets.time, transfer.start_s - 1e-6);
  // What still comes when it is over, late acknowledgements, is its own as well, until the next one begins.
  const later = capture.data.transfers.filter((one) => one.connection === transfer.connection && one.start_s > transfer.start_s);
  const end = lowerBound(packets.time, Math.min(Infinity, ...later.map((one) => one.start_s - 1e-6)));
  const rows = Array.from({ length: Math.max(0, Math.min(PAGE, end - begin - page)) }, (_, n) => begin + page + n);
  const view = table<number>(
    `Packets of the transfer between ${connection.client} (client) and ${connection.server} (server)`,
    [
      { head: "packet", number: true, cell: (at) => packets.number[at] ?? 0 },
      { head: "time since connection start", number: true, cell: (at) => exact((packets.time[at] ?? 0) - trace.begin) },
      { head: "from", cell: (at) => ((packets.kind[at] ?? 0) & SERVER ? "server" : "client") },
      { head: "packet type", cell: (at) => h("button", { type: "button", class: "choose", onclick: () => selection.choosePacket(at) }, sort(packets.kind[at] ?? 0, packets.length[at] ?? 0)) },
      { head: "sequence", number: true, cell: (at) => count(packets.seq[at] ?? 0) },
      { head: "ACK number", number: true, cell: (at) => count(packets.ack[at] ?? 0) },
      { head: "window", number: true, cell: (at) => size(packets.window[at] ?? 0) },
    ],
    rows,
  );
  return { view, all: Math.max(0, end - begin) };
}

function pieceTable(capture: Capture, selection: Selection, page: number): Part | null {
  const { transfer } = selection;
  const bands = transfer ? capture.order(transfer) : null;
  if (!transfer || !bands) return null;
  const view = table(
    `Time by cause, in order; total ${time(transfer.duration_s)}`,
    [
      { head: "cause", cell: ({ cause }) => [h("span", { class: `swatch ${classes(cause)}`, "aria-hidden": "true" }), title(cause)] },
      { head: "from", number: true, cell: ({ from }) => exact(from - transfer.start_s) },
      { head: "to", number: true, cell: ({ to }) => exact(to - transfer.start_s) },
      { head: "time", number: true, cell: ({ from, to }) => time(to - from) },
      { head: "share", number: true, cell: ({ from, to }) => share((to - from) / transfer.duration_s) },
      { head: "ended by packet", number: true, cell: ({ packet }) => packet ?? "–" },
    ],
    bands.slice(page, page + PAGE),
  );
  return { view, all: bands.length };
}

/** What of the capture is not in the page, and what is said of all of it nevertheless. */
export function leftOut(capture: Capture): string | null {
  const { packets, packets_kept: kept, connections } = capture.data;
  if (connections.every((one) => one.trace && one.trace.count >= one.packets)) return null;
  const none = connections.filter((one) => !one.trace).length;
  const others = none > 0 ? ` ${counted(none, "connection")} ${none === 1 ? "is" : "are"} not included; use haul explain \u2011\u2011connection for one of them.` : "";
  return `The charts below show ${count(kept)} of ${counted(packets, "packet")}: those of the connections with the largest losses.${others} All sentences and sums cover the whole capture.`;
}

/** Which part of a connection's packets a trace has; nothing, if all. */
export function partOf({ count: here, connection, begin, end, whole }: Trace): string | null {
  return whole ? null : `The charts show ${count(here)} of this connection’s ${counted(connection.packets, "packet")}, from ${time(begin)} to ${time(end)} after the start of the capture.`;
}
