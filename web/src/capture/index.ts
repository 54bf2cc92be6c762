// The view of `longhaul.view/1`, captures: the answer, all transfers, the details of one of them, and its packets.

import "./capture.css";
import { h } from "../dom";
import { inTimeSlices } from "../time-slices";
import { count, counted } from "../units";
import { transferDetails, fixes } from "./transfer-details";
import { packetDetails } from "./packet-details";
import { Ladder } from "./ladder";
import { countersTable } from "./counters-table";
import { Capture } from "./model";
import { omittedPackets, traceRange, tables } from "./packet-tables";
import { pathTable } from "./path-table";
import type { CaptureView } from "./schema";
import { Selection } from "./selection";
import { sharedLink } from "./shared-link";
import { TimeSequence } from "./time-sequence";
import { transferList } from "./transfer-list";
import { Waterfall } from "./waterfall";

export function render(root: HTMLElement, data: CaptureView): void {
  const name = data.captures.map((path) => path.slice(path.lastIndexOf("/") + 1)).join(", ");
  document.title = `${name} · Longhaul`;
  const capture = new Capture(data);
  const main = h(
    "main",
    {},
    h("p", { class: "soft small" }, `${counted(data.packets, "packet")}${data.packets_kept < data.packets ? `, ${count(data.packets_kept)} of them shown below` : ""} · ${counted(data.connections.length, "connection")} · ${counted(data.transfers_seen, "transfer")} · explained by haul explain ${data.captures.join(" ")}`),
    h("h1", {}, name),
    h("p", { class: "answer" }, data.answer),
    largestLoss(data),
  );
  root.append(main);
  if (data.transfers.length === 0) return;
  const selection = new Selection(capture);
  const waterfall = data.transfers.length > 1 ? new Waterfall(capture, selection) : null;
  let packets: PacketViews | null = null;
  let requested: number | null = null;
  main.append(
    ...(waterfall ? [h("h2", {}, "Transfers"), transferList(capture, selection), h("h2", {}, "Waterfall"), waterfall.element] : []),
    transferDetails(capture, selection, (number) => {
      if (packets) packets.show(number);
      else requested = number;
    }),
  );
  inTimeSlices([
    () => {
      const link = waterfall && sharedLink(capture, waterfall.visible);
      if (link) waterfall.element.after(link);
    },
    () => {
      packets = new PacketViews(capture, selection);
      main.append(packets.element);
      if (requested !== null) packets.show(requested);
    },
  ]);
}

/** The number of fixes next to the answer. */
const MAX_FIXES = 3;

/** Reason and fixes of the largest loss; the finding below has all of them. */
function largestLoss({ transfers: [transfer] }: CaptureView): HTMLElement | null {
  const finding = transfer?.findings[0];
  if (!finding) return null;
  const fitting = finding.fix.filter(({ applies }) => applies !== false);
  const omitted = finding.fix.length - Math.min(fitting.length, MAX_FIXES);
  return h(
    "dl",
    { class: "answers" },
    h("dt", {}, "Why"),
    h("dd", {}, finding.why),
    fitting.length > 0 && [
      h("dt", {}, "What to change"),
      h("dd", {}, fitting.length > 1 && h("p", {}, "One of:"), fixes(fitting.slice(0, MAX_FIXES)), h("a", { href: "#found" }, omitted > 0 ? `${counted(omitted, "more option")}, and the evidence` : "Evidence")),
    ],
  );
}

/** The views that show packets. */
class PacketViews {
  readonly element: HTMLElement;
  private readonly sequence: TimeSequence;

  constructor(
    private readonly capture: Capture,
    private readonly selection: Selection,
  ) {
    this.sequence = new TimeSequence(capture, selection);
    const omitted = omittedPackets(capture);
    const views = h(
      "div",
      {},
      h("h2", {}, "Time–sequence graph"),
      this.sequence.element,
      packetDetails(capture, selection),
      pathTable(selection),
      h("h2", {}, "Packets between client and server"),
      new Ladder(capture, selection).element,
      tables(capture, selection),
    );
    const noPackets = h("p", { class: "soft" }, "This report does not include the packets of this connection.");
    const partNote = h("p", { class: "note" });
    const update = () => {
      const { trace } = selection;
      views.hidden = !trace;
      noPackets.hidden = !views.hidden;
      partNote.textContent = trace && traceRange(trace);
      partNote.hidden = !partNote.textContent;
    };
    selection.listen(update);
    update();
    this.element = h("section", { "aria-label": "Packets" }, omitted ? h("p", { class: "note" }, omitted) : null, partNote, views, noPackets, h("h2", {}, "Counters"), countersTable(selection, () => selection.transfer && capture.connection(selection.transfer)));
  }

  /** Shows the packet with this number in the capture. */
  show(number: number): void {
    const { trace } = this.selection;
    if (!trace) return;
    this.selection.choosePacket(this.capture.packetIndex(trace, number));
    this.sequence.element.scrollIntoView({ block: "start", behavior: "smooth" });
  }
}
