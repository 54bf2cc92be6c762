// The table of transfers, largest loss first, with their time by cause. It has the same data as the waterfall.

import { causeBar } from "../cause-bar";
import { h } from "../dom";
import { table } from "../table";
import { count, counted, rate, share, time } from "../units";
import { title } from "../causes";
import { size } from "./byte-sizes";
import { transferName, type Capture } from "./model";
import type { Transfer } from "./schema";
import type { Selection } from "./selection";

/** The number of rows shown at first. */
const INITIAL_ROWS = 12;

export function transferList(capture: Capture, selection: Selection): HTMLElement {
  const { transfers, transfers_seen: seen } = capture.data;
  const container = h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Table of transfers" });
  const buttons = new Map<Transfer, HTMLButtonElement>();
  const updatePressed = () => buttons.forEach((button, transfer) => button.setAttribute("aria-pressed", String(transfer === selection.transfer)));
  const show = (limit: number) => {
    buttons.clear();
    const rows = transfers.slice(0, limit);
    const longest = Math.max(...rows.map((transfer) => transfer.duration_s));
    container.replaceChildren(
      table<Transfer>(
        "Transfers, largest loss first",
        [
          {
            head: "transfer",
            key: transferName,
            cell: (transfer) => {
              const button = h("button", { type: "button", class: "choose", onclick: () => selection.chooseTransfer(transfer) }, transferName(transfer));
              buttons.set(transfer, button);
              return button;
            },
          },
          { head: "connection", key: (transfer) => ends(capture, transfer), class: "soft", cell: (transfer) => ends(capture, transfer) },
          { head: "start", number: true, key: (transfer) => transfer.start_s, cell: (transfer) => time(transfer.start_s) },
          { head: "time", number: true, key: (transfer) => transfer.duration_s, cell: (transfer) => time(transfer.duration_s) },
          { head: "bytes", number: true, key: (transfer) => transfer.bytes, cell: (transfer) => size(transfer.bytes) },
          { head: "rate", number: true, key: (transfer) => transfer.bytes / transfer.duration_s, cell: (transfer) => (transfer.bytes > 0 ? rate((8 * transfer.bytes) / Math.max(1e-9, transfer.duration_s)) : "–") },
          { head: "largest loss", key: (transfer) => transfer.findings[0]?.cause, cell: (transfer) => largestLoss(transfer) },
          { head: "where the time went", class: "bars", hint: "The longest transfer fills the width", cell: (transfer) => (transfer.duration_s > 0 ? causeBar(transfer.time_s, longest) : "") },
        ],
        rows,
      ),
    );
    if (rows.length < transfers.length) {
      container.append(h("p", {}, h("button", { type: "button", class: "button screen", onclick: () => show(transfers.length) }, `Show all ${count(transfers.length)}`)));
    }
    updatePressed();
  };
  show(INITIAL_ROWS);
  selection.listen(({ transfer }) => {
    if (transfer) updatePressed();
  });
  const omitted = seen - transfers.length;
  return h("div", {}, container, omitted > 0 ? h("p", { class: "soft" }, `${counted(omitted, "transfer")} with smaller losses are not in this report; haul explain --json lists all.`) : null);
}

function ends(capture: Capture, transfer: Transfer): string {
  const { client, server } = capture.connection(transfer);
  return `${client} → ${server}`;
}

function largestLoss(transfer: Transfer): string {
  const finding = transfer.findings[0];
  return finding ? `${title(finding.cause)}, ${share(finding.cost_s / transfer.duration_s)}` : "–";
}
