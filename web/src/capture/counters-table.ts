// The counters of a connection's packets, one column for each direction, in the order of tcptrace's long output.

import { h } from "../dom";
import { scrollable, table } from "../table";
import { count, rate, time } from "../units";
import { size } from "./byte-sizes";
import type { Connection, Counters } from "./schema";
import type { Selection } from "./selection";

interface Row {
  name: string;
  /** What it counts, if the name does not say. */
  hint?: string;
  value: (counters: Counters) => string;
}

const rtt = (value: (samples: NonNullable<Counters["rtt_ms"]>) => string) => ({ rtt_ms: samples }: Counters) => (samples ? value(samples) : "–");

const ROWS: Row[] = [
  { name: "packets sent", value: ({ packets }) => count(packets) },
  { name: "packets with data", value: ({ data_packets: packets }) => count(packets) },
  { name: "data without retransmissions", value: ({ unique_bytes: bytes }) => size(bytes) },
  { name: "data with retransmissions", value: ({ data_bytes: bytes }) => size(bytes) },
  { name: "retransmitted packets", value: ({ retransmitted_packets: packets }) => count(packets) },
  { name: "retransmitted data", value: ({ retransmitted_bytes: bytes }) => size(bytes) },
  { name: "out-of-order packets", hint: "overtaken before the capture point", value: ({ out_of_order_packets: packets }) => count(packets) },
  { name: "duplicate ACKs sent", value: ({ duplicate_acks: acks }) => count(acks) },
  { name: "packets with SACK blocks", value: ({ sack_packets: packets }) => count(packets) },
  { name: "zero-window announcements", value: ({ zero_windows: packets }) => count(packets) },
  { name: "largest window announced", value: ({ max_window: bytes }) => size(bytes) },
  { name: "MSS announced", value: ({ mss }) => (mss === null ? "–" : size(mss)) },
  { name: "largest segment", value: ({ max_segment: bytes }) => size(bytes) },
  { name: "RTT, minimum", hint: "from the capture point to the receiver and back", value: rtt(({ min }) => time(min / 1e3)) },
  { name: "RTT, median", value: rtt(({ median }) => time(median / 1e3)) },
  { name: "RTT, maximum", value: rtt(({ max }) => time(max / 1e3)) },
  { name: "RTT samples", hint: "none of retransmitted data (Karn’s rule)", value: ({ rtt_ms: samples }) => count(samples?.samples ?? 0) },
  { name: "most bytes in flight", hint: "not yet acknowledged, those in SACK blocks included", value: ({ max_in_flight: bytes }) => size(bytes) },
  { name: "median bytes in flight", value: ({ median_in_flight: bytes }) => size(bytes) },
  { name: "throughput", hint: "unique data from its first packet to its last", value: ({ throughput_bits: bits }) => (bits === null ? "–" : rate(bits)) },
];

/** The counters of the selected transfer's connection. */
export function countersTable(selection: Selection, connectionOf: () => Connection | null): HTMLElement {
  const content = h("div", {});
  const update = () => {
    const connection = connectionOf();
    content.replaceChildren(...(connection ? [countersOf(connection)] : []));
  };
  selection.listen(({ transfer }) => {
    if (transfer) update();
  });
  update();
  return content;
}

function countersOf({ client, server, counters }: Connection): HTMLElement {
  const caption = "Counters of the connection’s packets";
  const view = table<Row>(
    caption,
    [
      { head: "sent by", cell: ({ name, hint }) => [name, hint ? h("span", { class: "soft small extra" }, `, ${hint}`) : null] },
      { head: "client", number: true, hint: client, cell: ({ value }) => value(counters.up) },
      { head: "server", number: true, hint: server, cell: ({ value }) => value(counters.down) },
    ],
    ROWS,
  );
  view.classList.add("counters");
  return h("div", {}, h("p", { class: "soft" }, `The whole connection of the client ${client} and the server ${server}.`), scrollable(caption, view));
}
