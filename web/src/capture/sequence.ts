// Time and sequence: what was sent when, how far it was acknowledged, how far the window allowed (after tcptrace's
// graphs), before the colours of what each moment was spent on. A packet that was sent again is never hidden by those
// that were not, however far out one looks.

import { h } from "../dom";
import { counted, time } from "../units";
import { AGAIN } from "./decode";
import { Graph, legend } from "./graph";
import type { Capture } from "./model";
import { size } from "./quantities";
import type { Selection } from "./selection";
import { button, buttons, byPointer, Span } from "./span";
import { Surface, type Frame } from "./surface";
import type { Flow } from "./trace";

/** How far from a mark a click still means it, in pixels. */
const NEAR = 14;

export class Sequence {
  readonly element: HTMLElement;
  private readonly surface: Surface;
  readonly span: Span;
  private readonly directions: HTMLSelectElement;
  private readonly withWindow: HTMLInputElement;
  private readonly legend = h("ul", { class: "legend" });
  private flow: Flow | null = null;
  private readonly graph = new Graph();

  constructor(
    private readonly capture: Capture,
    private readonly selection: Selection,
  ) {
    const box = h("div", { class: "plot sequence" });
    this.span = new Span(0, 1, () => this.graph.plot, () => this.surface?.change());
    this.surface = new Surface(box, { tabindex: "0", role: "application", "aria-roledescription": "chart" }, (frame) => this.draw(frame));
    byPointer(this.surface.canvas, this.span, (x, y) => this.click(x, y));
    this.surface.canvas.addEventListener("keydown", (event) => this.key(event));
    this.directions = h("select", { "aria-label": "Direction", onchange: () => this.direct() });
    this.withWindow = h("input", { type: "checkbox", checked: true, onchange: () => this.surface.change() });
    this.element = h(
      "figure",
      { class: "drawing" },
      h(
        "div",
        { class: "tools screen" },
        this.directions,
        buttons(this.span),
        button("This transfer", null, () => this.showTransfer()),
        button("Whole connection", null, () => this.span.all()),
        button("◂ packet", "Previous packet", () => selection.step(-1)),
        button("packet ▸", "Next packet", () => selection.step(1)),
        button("Next retransmission", null, () => this.nextAgain()),
        button("Next evidence", null, () => this.nextEvidence()),
        h("label", {}, this.withWindow, " window edge"),
      ),
      box,
      this.legend,
      h(
        "figcaption",
        { class: "small soft" },
        "x: time since the connection’s first packet. y: bytes of the stream. Background: the cause of the time. ",
        h("span", { class: "screen" }, "Drag to move; Ctrl + wheel, or click and then wheel, to zoom. Keys: ← → packets, ⇧← ⇧→ move, + − 0 zoom, R next retransmission, E next evidence. Click a packet for details."),
      ),
    );
    selection.listen(({ transfer }) => (transfer ? this.connect() : this.reveal()));
    this.connect();
  }

  /** Shows the connection of the chosen transfer. */
  private connect(): void {
    const { trace, transfer } = this.selection;
    this.element.hidden = !trace || trace.count === 0;
    if (!trace || !transfer) return;
    const { client, server } = trace.connection;
    const name = (flow: Flow) => (flow.side === 0 ? `${client} → ${server}` : `${server} → ${client}`);
    this.directions.replaceChildren(...trace.flows.map((flow) => h("option", { value: flow.side }, `${name(flow)}: ${size(flow.bytes)}`)));
    this.directions.value = transfer.direction === "upload" ? "0" : "1";
    this.direct();
    this.span.reset(trace.begin, trace.end);
    this.showTransfer();
  }

  private direct(): void {
    const { trace } = this.selection;
    if (!trace) return;
    this.flow = trace.flows[this.directions.value === "1" ? 1 : 0];
    const { flow } = this;
    const said = `${this.directions.selectedOptions[0]?.textContent ?? ""} in ${time(trace.end - trace.begin)}, ${counted(flow.sent.marks.count + flow.again.marks.count, "segment")}, ${flow.again.marks.count} retransmitted`;
    this.surface.canvas.setAttribute("aria-label", `Time and sequence, ${said}. The table of packets below has the same data.`);
    this.legend.replaceChildren(...legend(flow));
    this.surface.change();
  }

  private showTransfer(): void {
    const { transfer } = this.selection;
    if (!transfer) return;
    const edge = 0.03 * transfer.duration_s + 1e-5;
    this.span.show(transfer.start_s - edge, transfer.start_s + transfer.duration_s + edge);
  }

  private reveal(): void {
    const { trace, packet } = this.selection;
    if (trace && packet !== null) this.span.reveal(trace.packets.time[packet] ?? 0);
    this.surface.change();
  }

  private nextAgain(): void {
    const kinds = this.selection.trace?.packets.kind;
    if (kinds) this.selection.step(1, (packet) => ((kinds[packet] ?? 0) & AGAIN) !== 0);
  }

  private nextEvidence(): void {
    const numbers = this.selection.trace?.packets.number;
    const evidence = new Set(this.selection.transfer?.findings.flatMap((finding) => finding.packets));
    const { packet } = this.selection;
    if (!numbers || evidence.size === 0) return;
    this.selection.step(1, (at) => evidence.has(numbers[at] ?? -1));
    if (this.selection.packet === packet && packet !== null) {
      this.selection.packet = null;
      this.selection.step(1, (at) => evidence.has(numbers[at] ?? -1));
    }
  }

  private key(event: KeyboardEvent): void {
    const { span, selection } = this;
    const last = (selection.trace?.count ?? 1) - 1;
    const actions: Record<string, () => void> = {
      ArrowRight: () => (event.shiftKey ? span.move(0.25) : selection.step(1)),
      ArrowLeft: () => (event.shiftKey ? span.move(-0.25) : selection.step(-1)),
      PageDown: () => span.move(0.9),
      PageUp: () => span.move(-0.9),
      Home: () => selection.choosePacket(0),
      End: () => selection.choosePacket(last),
      "+": () => span.zoom(2, this.middle()),
      "=": () => span.zoom(2, this.middle()),
      "-": () => span.zoom(0.5, this.middle()),
      "0": () => span.all(),
      r: () => this.nextAgain(),
      e: () => this.nextEvidence(),
      Escape: () => selection.choosePacket(null),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  /** Keys zoom around the packet that is looked at. */
  private middle(): number {
    const { trace, packet } = this.selection;
    const at = trace && packet !== null ? trace.packets.time[packet] : undefined;
    return at !== undefined && at >= this.span.from && at <= this.span.to ? at : (this.span.from + this.span.to) / 2;
  }

  private click(x: number, y: number): void {
    const { trace } = this.selection;
    const { flow, span } = this;
    if (!trace || !flow) return;
    let [best, least]: [number | null, number] = [null, NEAR];
    for (const { packets, marks } of [flow.sent, flow.again, flow.acked]) {
      const [from, to] = [span.moment(x - NEAR), span.moment(x + NEAR)];
      for (let i = marks.from(from); i < marks.count && (marks.time[i] ?? 0) <= to; i++) {
        const [top, bottom] = [this.graph.height(marks.high(i)), this.graph.height(marks.low(i))];
        const distance = Math.hypot(span.x(marks.time[i] ?? 0) - x, y < top ? top - y : y > bottom ? y - bottom : 0);
        if (distance < least) [best, least] = [packets[i] ?? null, distance];
      }
    }
    this.selection.choosePacket(best);
  }

  private draw(frame: Frame): void {
    const { capture, flow, span } = this;
    const { trace, transfer, packet } = this.selection;
    if (trace && transfer && flow) this.graph.draw(frame, { capture, trace, flow, transfer, span, withEdge: this.withWindow.checked, packet });
  }
}
