// The graphs of the path over time as a table: equal bins of the connection, with the data of the transfer's direction.

import { h } from "../dom";
import { scrollable, table } from "../table";
import { rate, time } from "../units";
import { size } from "./byte-sizes";
import { exactTime } from "./packet-details";
import type { MarkPyramid } from "./mark-pyramid";
import { binLength, pathSeries, throughput } from "./path-series";
import type { Selection } from "./selection";

/** About how many rows it has. */
const ROWS = 60;

/** The table, drawn when it is opened. */
export function pathTable(selection: Selection): HTMLElement {
  const content = h("div", {});
  const element = h("details", { class: "asked" }, h("summary", {}, "The path over time as a table"), content);
  const update = () => {
    if (element.open) content.replaceChildren(...rowsOf(selection));
  };
  element.addEventListener("toggle", update);
  selection.listen(({ transfer }) => {
    if (transfer) update();
  });
  return element;
}

function rowsOf({ trace, transfer }: Selection): HTMLElement[] {
  if (!trace || !transfer) return [h("p", { class: "soft" }, "Not included in this report.")];
  const { client, server } = trace.connection;
  const { rtt, flight, window, sent } = pathSeries(trace.packets, transfer.direction === "upload" ? 0 : 1);
  const bin = binLength(trace.end - trace.begin, ROWS);
  const count = Math.max(1, Math.ceil((trace.end - trace.begin) / bin));
  const rates = throughput(sent, trace.begin, bin, count);
  const extent = (marks: MarkPyramid, n: number) => marks.extent(marks.firstAt(trace.begin + n * bin), marks.firstAt(trace.begin + (n + 1) * bin));
  const shown = (value: number, format: (value: number) => string) => (Number.isFinite(value) ? format(value) : "–");
  const caption = `Bins of ${time(bin)} of the data of ${transfer.direction === "upload" ? `${client} → ${server}` : `${server} → ${client}`}`;
  const view = table<number>(
    caption,
    [
      { head: "from", number: true, cell: (n) => exactTime(n * bin) },
      { head: "lowest RTT", number: true, cell: (n) => shown(extent(rtt, n)[0], time) },
      { head: "highest RTT", number: true, cell: (n) => shown(extent(rtt, n)[1], time) },
      { head: "most bytes in flight", number: true, cell: (n) => shown(extent(flight, n)[1], size) },
      { head: "smallest receive window", number: true, cell: (n) => shown(extent(window, n)[0], size) },
      { head: "throughput", number: true, cell: (n) => rate(rates[n] ?? 0) },
    ],
    Array.from({ length: count }, (_, n) => n),
  );
  return [scrollable(caption, view)];
}
