// The list of transfers, those that lost most first, each with what its time was spent on. It is the table behind the
// waterfall, too.

import { causeBar } from "../bar";
import { h } from "../dom";
import { table } from "../table";
import { count, counted, rate, share, time } from "../units";
import { title } from "../causes";
import { size } from "./quantities";
import { nameOf, type Capture } from "./model";
import type { Transfer } from "./schema";
import type { Selection } from "./selection";

/** How many are shown unasked. */
const FIRST = 12;

export function transferList(capture: Capture, selection: Selection): HTMLElement {
  const { transfers, transfers_seen: seen } = capture.data;
  const place = h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table of transfers" });
  const chosen = new Map<Transfer, HTMLButtonElement>();
  const mark = () => chosen.forEach((button, transfer) => button.setAttribute("aria-pressed", String(transfer === selection.transfer)));
  const show = (many: number) => {
    chosen.clear();
    const rows = transfers.slice(0, many);
    const longest = Math.max(...rows.map((one) => one.duration_s));
    place.replaceChildren(
      table<Transfer>(
        "Transfers, largest loss first",
        [
          {
            head: "transfer",
            key: nameOf,
            cell: (one) => {
              const button = h("button", { type: "button", class: "choose", onclick: () => selection.chooseTransfer(one) }, nameOf(one));
              chosen.set(one, button);
              return button;
            },
          },
          { head: "connection", key: (one) => ends(capture, one), class: "soft", cell: (one) => ends(capture, one) },
          { head: "start", number: true, key: (one) => one.start_s, cell: (one) => time(one.start_s) },
          { head: "time", number: true, key: (one) => one.duration_s, cell: (one) => time(one.duration_s) },
          { head: "bytes", number: true, key: (one) => one.bytes, cell: (one) => size(one.bytes) },
          { head: "rate", number: true, key: (one) => one.bytes / one.duration_s, cell: (one) => (one.bytes > 0 ? rate((8 * one.bytes) / Math.max(1e-9, one.duration_s)) : "–") },
          { head: "largest loss", key: (one) => one.findings[0]?.cause, cell: (one) => lost(one) },
          { head: "where the time went", class: "bars", hint: "The longest transfer fills the width", cell: (one) => (one.duration_s > 0 ? causeBar(one.time_s, longest) : "") },
        ],
        rows,
      ),
    );
    if (rows.length < transfers.length) {
      place.append(h("p", {}, h("button", { type: "button", class: "button screen", onclick: () => show(transfers.length) }, `Show all ${count(transfers.length)}`)));
    }
    mark();
  };
  show(FIRST);
  selection.listen(({ transfer }) => {
    if (transfer) mark();
  });
  const left = seen - transfers.length;
  return h("div", {}, place, left > 0 ? h("p", { class: "soft" }, `${counted(left, "transfer")} with smaller losses are not in this report; haul explain --json lists all.`) : null);
}

function ends(capture: Capture, transfer: Transfer): string {
  const { client, server } = capture.connection(transfer);
  return `${client} → ${server}`;
}

function lost(transfer: Transfer): string {
  const finding = transfer.findings[0];
  return finding ? `${title(finding.cause)}, ${share(finding.cost_s / transfer.duration_s)}` : "–";
}
