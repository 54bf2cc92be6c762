// The time–sequence graph (after tcptrace's): segments, acknowledgements and the window edge over time, on a background of
// causes. Retransmissions stay visible at any zoom.

import { h } from "../dom";
import { counted, time } from "../units";
import { RETRANSMISSION } from "./decode";
import { TimeSequenceDrawing, legend } from "./time-sequence-drawing";
import { PathGraphs } from "./path-graphs";
import type { Capture } from "./model";
import { size } from "./byte-sizes";
import type { Selection } from "./selection";
import { button, zoomButtons, zoomByPointer, VisibleTime } from "./visible-time";
import { ChartCanvas, type Frame } from "./chart-canvas";
import type { Flow } from "./trace";

/** Maximum distance of a click from a mark, in pixels. */
const MAX_CLICK_DISTANCE = 14;

export class TimeSequence {
  readonly element: HTMLElement;
  private readonly chart: ChartCanvas;
  readonly visible: VisibleTime;
  private readonly directions: HTMLSelectElement;
  private readonly windowEdgeBox: HTMLInputElement;
  private readonly legend = h("ul", { class: "legend" });
  private flow: Flow | null = null;
  private readonly drawing = new TimeSequenceDrawing();
  /** What the path did meanwhile. */
  private readonly graphs: PathGraphs;

  constructor(
    private readonly capture: Capture,
    private readonly selection: Selection,
  ) {
    const box = h("div", { class: "plot sequence" });
    this.visible = new VisibleTime(0, 1, () => this.drawing.plot, () => this.chart?.requestDraw());
    this.chart = new ChartCanvas(box, { tabindex: "0", role: "application", "aria-roledescription": "chart" }, (frame) => this.draw(frame));
    zoomByPointer(this.chart.canvas, this.visible, (x, y) => this.click(x, y));
    this.chart.canvas.addEventListener("keydown", (event) => this.key(event));
    this.graphs = new PathGraphs(this.visible, selection);
    this.directions = h("select", { "aria-label": "Direction", onchange: () => this.showDirection() });
    this.windowEdgeBox = h("input", { type: "checkbox", checked: true, onchange: () => this.chart.requestDraw() });
    this.element = h(
      "figure",
      { class: "drawing" },
      h(
        "div",
        { class: "tools screen" },
        this.directions,
        zoomButtons(this.visible),
        button("This transfer", null, () => this.showTransfer()),
        button("Whole connection", null, () => this.visible.showAll()),
        button("◂ packet", "Previous packet", () => selection.step(-1)),
        button("packet ▸", "Next packet", () => selection.step(1)),
        button("Next retransmission", null, () => this.nextRetransmission()),
        button("Next evidence", null, () => this.nextEvidence()),
        h("label", {}, this.windowEdgeBox, " window edge"),
      ),
      box,
      this.legend,
      this.graphs.elements,
      h(
        "figcaption",
        { class: "small soft" },
        "x: time since the connection’s first packet. y: bytes of the stream. Background: the cause of the time. The graphs below it have the same time axis: RTT from the capture point to the receiver and back, without retransmitted data; bytes not yet acknowledged; data per time, retransmissions included. ",
        h("span", { class: "screen" }, "Drag to move; Ctrl + wheel, or click and then wheel, to zoom. Keys: ← → packets, ⇧← ⇧→ move, + − 0 zoom, R next retransmission, E next evidence. Click a packet for details."),
      ),
    );
    selection.listen(({ transfer }) => (transfer ? this.showConnection() : this.reveal()));
    this.showConnection();
  }

  /** Shows the connection of the selected transfer. */
  private showConnection(): void {
    const { trace, transfer } = this.selection;
    this.element.hidden = !trace || trace.count === 0;
    if (!trace || !transfer) return;
    const { client, server } = trace.connection;
    const name = (flow: Flow) => (flow.side === 0 ? `${client} → ${server}` : `${server} → ${client}`);
    this.directions.replaceChildren(...trace.flows.map((flow) => h("option", { value: flow.side }, `${name(flow)}: ${size(flow.bytes)}`)));
    this.directions.value = transfer.direction === "upload" ? "0" : "1";
    this.showDirection();
    this.visible.reset(trace.begin, trace.end);
    this.showTransfer();
  }

  private showDirection(): void {
    const { trace } = this.selection;
    if (!trace) return;
    this.flow = trace.flows[this.directions.value === "1" ? 1 : 0];
    const { flow } = this;
    const summary = `${this.directions.selectedOptions[0]?.textContent ?? ""} in ${time(trace.end - trace.begin)}, ${counted(flow.sent.marks.count + flow.retransmitted.marks.count, "segment")}, ${flow.retransmitted.marks.count} retransmitted`;
    this.chart.canvas.setAttribute("aria-label", `Time and sequence, ${summary}. The table of packets below has the same data.`);
    this.legend.replaceChildren(...legend(flow));
    this.graphs.show(trace, flow);
    this.chart.requestDraw();
  }

  private showTransfer(): void {
    const { transfer } = this.selection;
    if (!transfer) return;
    const edge = 0.03 * transfer.duration_s + 1e-5;
    this.visible.show(transfer.start_s - edge, transfer.start_s + transfer.duration_s + edge);
  }

  private reveal(): void {
    const { trace, packet } = this.selection;
    if (trace && packet !== null) this.visible.reveal(trace.packets.time[packet] ?? 0);
    this.chart.requestDraw();
  }

  private nextRetransmission(): void {
    const kinds = this.selection.trace?.packets.kind;
    if (kinds) this.selection.step(1, (packet) => ((kinds[packet] ?? 0) & RETRANSMISSION) !== 0);
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
    const { visible, selection } = this;
    const last = (selection.trace?.count ?? 1) - 1;
    const actions: Record<string, () => void> = {
      ArrowRight: () => (event.shiftKey ? visible.move(0.25) : selection.step(1)),
      ArrowLeft: () => (event.shiftKey ? visible.move(-0.25) : selection.step(-1)),
      PageDown: () => visible.move(0.9),
      PageUp: () => visible.move(-0.9),
      Home: () => selection.choosePacket(0),
      End: () => selection.choosePacket(last),
      "+": () => visible.zoom(2, this.zoomCentre()),
      "=": () => visible.zoom(2, this.zoomCentre()),
      "-": () => visible.zoom(0.5, this.zoomCentre()),
      "0": () => visible.showAll(),
      r: () => this.nextRetransmission(),
      e: () => this.nextEvidence(),
      Escape: () => selection.choosePacket(null),
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  /** The time around which keys zoom: that of the selected packet, if it is visible. */
  private zoomCentre(): number {
    const { trace, packet } = this.selection;
    const at = trace && packet !== null ? trace.packets.time[packet] : undefined;
    return at !== undefined && at >= this.visible.from && at <= this.visible.to ? at : (this.visible.from + this.visible.to) / 2;
  }

  private click(x: number, y: number): void {
    const { trace } = this.selection;
    const { flow, visible } = this;
    if (!trace || !flow) return;
    let [best, nearest]: [number | null, number] = [null, MAX_CLICK_DISTANCE];
    for (const { packets, marks } of [flow.sent, flow.retransmitted, flow.acked]) {
      const [from, to] = [visible.timeAt(x - MAX_CLICK_DISTANCE), visible.timeAt(x + MAX_CLICK_DISTANCE)];
      for (let i = marks.firstAt(from); i < marks.count && (marks.time[i] ?? 0) <= to; i++) {
        const [top, bottom] = [this.drawing.yOf(marks.high(i)), this.drawing.yOf(marks.low(i))];
        const distance = Math.hypot(visible.x(marks.time[i] ?? 0) - x, y < top ? top - y : y > bottom ? y - bottom : 0);
        if (distance < nearest) [best, nearest] = [packets[i] ?? null, distance];
      }
    }
    this.selection.choosePacket(best);
  }

  private draw(frame: Frame): void {
    const { capture, flow, visible } = this;
    const { trace, transfer, packet } = this.selection;
    if (trace && transfer && flow) this.drawing.draw(frame, { capture, trace, flow, transfer, visible, showsWindowEdge: this.windowEdgeBox.checked, packet });
  }
}
