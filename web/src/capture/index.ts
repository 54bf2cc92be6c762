// A capture: the answer first, then all transfers, then one of them: what its time was spent on, what would change that,
// and the packets to prove it.

import "./capture.css";
import { h } from "../dom";
import { inTurns } from "../turns";
import { count, counted } from "../units";
import { account, fixes } from "./account";
import { inspector } from "./inspector";
import { Ladder } from "./ladder";
import { Capture } from "./model";
import { leftOut, partOf, tables } from "./packets";
import type { CaptureView } from "./schema";
import { Selection } from "./selection";
import { Sequence } from "./sequence";
import { transferList } from "./transfers";
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
    reasons(data),
  );
  root.append(main);
  if (data.transfers.length === 0) return;
  const selection = new Selection(capture);
  const several = data.transfers.length > 1;
  let packets: PacketViews | null = null;
  let asked: number | null = null;
  main.append(
    ...(several ? [h("h2", {}, "Transfers"), transferList(capture, selection)] : []),
    ...(several ? [h("h2", {}, "Waterfall"), new Waterfall(capture, selection).element] : []),
    account(capture, selection, (number) => {
      if (packets) packets.show(number);
      else asked = number;
    }),
  );
  inTurns([
    () => {
      packets = new PacketViews(capture, selection);
      main.append(packets.element);
      if (asked !== null) packets.show(asked);
    },
  ]);
}

/** How many ways to change what was lost are told at once. */
const WAYS = 3;

/** Why what the answer says was lost, and what would change it: as much as is read at once; all stands with the finding. */
function reasons({ transfers: [worst] }: CaptureView): HTMLElement | null {
  const finding = worst?.findings[0];
  if (!finding) return null;
  const more = finding.fix.length - WAYS;
  return h(
    "dl",
    { class: "answers" },
    h("dt", {}, "Why"),
    h("dd", {}, finding.why),
    finding.fix.length > 0 && [
      h("dt", {}, "What to change"),
      h("dd", {}, finding.fix.length > 1 && h("p", {}, "One of:"), fixes(finding.fix.slice(0, WAYS)), h("a", { href: "#found" }, more > 0 ? `${counted(more, "more option")}, and the evidence` : "Evidence")),
    ],
  );
}

/** The views that show packets. */
class PacketViews {
  readonly element: HTMLElement;
  private readonly sequence: Sequence;

  constructor(
    private readonly capture: Capture,
    private readonly selection: Selection,
  ) {
    this.sequence = new Sequence(capture, selection);
    const left = leftOut(capture);
    const views = h(
      "div",
      {},
      h("h2", {}, "Time–sequence graph"),
      this.sequence.element,
      inspector(capture, selection),
      h("h2", {}, "Packets between client and server"),
      new Ladder(capture, selection).element,
      tables(capture, selection),
    );
    const none = h("p", { class: "soft" }, "This report does not include the packets of this connection.");
    const some = h("p", { class: "note" });
    const choose = () => {
      const { trace } = selection;
      views.hidden = !trace;
      none.hidden = !views.hidden;
      some.textContent = trace && partOf(trace);
      some.hidden = !some.textContent;
    };
    selection.listen(choose);
    choose();
    this.element = h("section", { "aria-label": "Packets" }, left ? h("p", { class: "note" }, left) : null, some, views, none);
  }

  /** Shows the packet with a number in its capture. */
  show(number: number): void {
    const { trace } = this.selection;
    if (!trace) return;
    this.selection.choosePacket(this.capture.place(trace, number));
    this.sequence.element.scrollIntoView({ block: "start", behavior: "smooth" });
  }
}
