// Time and sequence: what was sent when, how far it was acknowledged, how far the window allowed (after tcptrace's
// graphs), before the colours of what each moment was spent on. A packet that was sent again is never hidden by those
// that were not, however far out one looks.

import { classes, title } from "../causes";
import { h, s } from "../dom";
import { counted, ticks, time } from "../units";
import { Columns, drawBands } from "./bands";
import { AGAIN, FIN, lowerBound, SERVER, SYN } from "./decode";
import { scaled, size } from "./quantities";
import type { Capture, Flow, Trace } from "./model";
import type { Selection } from "./selection";
import { button, buttons, byPointer, Span } from "./span";
import { Surface, textSize, type Colours, type Frame } from "./surface";

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
  private plot: [number, number] = [0, 1];
  private y: (bytes: number) => number = () => 0;

  constructor(
    private readonly capture: Capture,
    private readonly selection: Selection,
  ) {
    const box = h("div", { class: "plot sequence" });
    this.span = new Span(0, 1, () => this.plot, () => this.surface?.change());
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
        button("◂ packet", "Packet before", () => selection.step(-1)),
        button("packet ▸", "Next packet", () => selection.step(1)),
        button("Next sent again", null, () => this.nextAgain()),
        button("Next evidence", null, () => this.nextEvidence()),
        h("label", {}, this.withWindow, " window edge"),
      ),
      box,
      this.legend,
      h(
        "figcaption",
        { class: "small soft" },
        "Across: time since the connection’s first packet. Up: bytes since the stream’s first. The colour behind is what the time was spent on. ",
        h("span", { class: "screen" }, "Drag to move; Ctrl and wheel, or a click and then wheel, to zoom. Keys: ← → packets, ⇧← ⇧→ move, + − 0 zoom, R next sent again, E next evidence. A click on a packet says what it is."),
      ),
    );
    selection.listen(({ transfer }) => (transfer ? this.connect() : this.reveal()));
    this.connect();
  }

  /** Shows the connection of the chosen transfer. */
  private connect(): void {
    const { trace, transfer } = this.selection;
    this.element.hidden = !trace || trace.packets.count === 0;
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
    const said = `${this.directions.selectedOptions[0]?.textContent ?? ""} in ${time(trace.end - trace.begin)}, ${counted(flow.data.length, "segment")}, ${flow.again} sent again`;
    this.surface.canvas.setAttribute("aria-label", `Time and sequence, ${said}. The table of packets below says the same.`);
    this.draws(flow);
    this.surface.change();
  }

  private draws(flow: Flow): void {
    const mark = (name: string, kind: string, path: string) =>
      h("li", {}, s("svg", { width: 26, height: 14, "aria-hidden": "true", class: kind }, s("path", { d: path })), name);
    const side = flow.side === 0 ? SERVER : 0;
    const kinds = this.selection.trace?.packets.kind;
    const blocks = this.selection.trace?.packets.blocks.packet.some((packet) => ((kinds?.[packet] ?? 0) & SERVER) === side);
    this.legend.replaceChildren(
      mark("segment", "mark-segment", "M6 2v10M13 0v10M20 -2v10"),
      mark("acknowledged up to here", `mark-ack ${classes("server_think")}`, "M0 12h8v-5h9v-5h9"),
      mark("window edge", "mark-window", "M0 12h8v-5h9v-5h9"),
      ...(flow.again > 0 ? [mark("sent again", `mark-again ${classes("retransmission_timeout")}`, "M13 1v12")] : []),
      ...(blocks ? [mark("arrived ahead (SACK)", `mark-sack ${classes("delayed_ack")}`, "M13 1v12")] : []),
      mark("evidence of a finding", "mark-evidence", "M9 2h8l-4 8z"),
    );
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
    const last = (selection.trace?.packets.count ?? 1) - 1;
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
    const { packets } = trace;
    const [from, to] = [span.moment(x - NEAR), span.moment(x + NEAR)];
    let best: number | null = null;
    let least = NEAR;
    const look = (places: Uint32Array, times: Float64Array, low: (at: number) => number, high: (at: number) => number) => {
      for (let i = lowerBound(times, from); i < times.length && (times[i] ?? 0) <= to; i++) {
        const at = places[i] ?? 0;
        const [top, bottom] = [this.y(high(at)), this.y(low(at))];
        const distance = Math.hypot(span.x(times[i] ?? 0) - x, y < top ? top - y : y > bottom ? y - bottom : 0);
        if (distance < least) [best, least] = [at, distance];
      }
    };
    const seq = (at: number) => packets.seq[at] ?? 0;
    look(flow.data, flow.dataTime, seq, (at) => seq(at) + (packets.length[at] ?? 0));
    const acked = (at: number) => packets.ack[at] ?? 0;
    look(flow.acks, flow.acksTime, acked, acked);
    this.selection.choosePacket(best);
  }

  private draw(frame: Frame): void {
    const { trace, transfer } = this.selection;
    const { flow, span } = this;
    if (!trace || !transfer || !flow) return;
    const { pen, width, height, colours } = frame;
    const text = textSize();
    const [left, right] = [5.6 * text, width - 0.8 * text];
    const [top, bottom] = [1.9 * text, height - 3.6 * text];
    this.plot = [left, right];
    const scope = this.scope(trace, flow);
    const reach = Math.max(1, scope.high - scope.low);
    const y = (value: number) => bottom - ((value - scope.low) / reach) * (bottom - top - 6) - 3;
    this.y = y;
    pen.font = `${text}px ${colours.font}`;

    const end = transfer.start_s + transfer.duration_s;
    drawBands(pen, this.capture, trace, span, [top, bottom - top], colours, [transfer.start_s, end], [0.28, 0.1]);
    drawBands(pen, this.capture, trace, span, [bottom + 2, 0.6 * text], colours);
    this.axes(frame, trace, scope, [left, right, top, bottom], text);

    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, bottom + 1);
    pen.clip();
    this.names(pen, trace, colours, bottom, text);
    if (this.withWindow.checked && scope.edge > scope.high) {
      pen.textAlign = "left";
      pen.textBaseline = "top";
      pen.fillStyle = colours.soft;
      pen.fillText(`↑ window edge, up to ${size(scope.edge)}`, left + 8, top + 5);
    }
    if (this.withWindow.checked) this.steps(pen, trace, flow, y, colours.soft, [5, 3], (at) => (trace.packets.ack[at] ?? 0) + (trace.packets.window[at] ?? 0));
    this.steps(pen, trace, flow, y, colours.ack, [], (at) => trace.packets.ack[at] ?? 0);
    this.blocks(pen, trace, flow, y, colours);
    this.segments(pen, trace, flow, y, colours);
    this.evidence(pen, trace, colours, text);
    this.chosen(pen, trace, flow, y, colours, [top, bottom]);
    pen.restore();
  }

  /** From which byte to which there is anything to see. */
  private scope(trace: Trace, flow: Flow): { low: number; high: number; edge: number } {
    const { packets } = trace;
    const { span } = this;
    const [from, to] = [lowerBound(flow.dataTime, span.from), lowerBound(flow.dataTime, span.to + 1e-9)];
    let [low, high] = [Infinity, -Infinity];
    for (let i = from; i < to; i++) {
      const at = flow.data[i] ?? 0;
      const seq = packets.seq[at] ?? 0;
      if (seq < low) low = seq;
      if (seq + (packets.length[at] ?? 0) > high) high = seq + (packets.length[at] ?? 0);
    }
    const [first, last] = [Math.max(0, lowerBound(flow.acksTime, span.from) - 1), lowerBound(flow.acksTime, span.to + 1e-9)];
    let [edge, acked] = [high, Infinity];
    for (let i = first; i < last; i++) {
      const at = flow.acks[i] ?? 0;
      const ack = packets.ack[at] ?? 0;
      if (ack < acked) acked = ack;
      if (ack > high) high = ack;
      edge = Math.max(edge, ack + (packets.window[at] ?? 0));
    }
    if (low === Infinity) low = acked === Infinity ? 0 : acked;
    else if (acked < low) low = Math.max(acked, low - 2 * Math.max(1, high - low));
    if (high === -Infinity) high = low + 1;
    // A window far above the data would leave nothing of it to see.
    const room = 2.5 * Math.max(high - low, trace.connection.mss);
    if (this.withWindow.checked && edge - low <= room) high = Math.max(high, edge);
    return { low, high: Math.max(high, low + 1), edge };
  }

  private axes(frame: Frame, trace: Trace, scope: { low: number; high: number }, [left, right, top, bottom]: [number, number, number, number], text: number): void {
    const { pen, colours } = frame;
    const { span } = this;
    pen.strokeStyle = colours.line;
    pen.fillStyle = colours.soft;
    pen.lineWidth = 1;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const value of ticks(scope.low, scope.high, (bottom - top) / (4 * text))) {
      const y = Math.round(this.y(value)) + 0.5;
      if (y < top || y > bottom) continue;
      pen.globalAlpha = 0.6;
      pen.beginPath();
      pen.moveTo(left, y);
      pen.lineTo(right, y);
      pen.stroke();
      pen.globalAlpha = 1;
      pen.fillText(scaled(value, scope.high), left - 6, y);
    }
    pen.textBaseline = "top";
    pen.textAlign = "center";
    const zero = trace.begin;
    for (const value of ticks(span.from - zero, span.to - zero, (right - left) / (7 * text))) {
      const x = span.x(value + zero);
      pen.fillRect(x, bottom + 2 + 0.6 * text, 1, 5);
      const label = time(Math.abs(value) < 1e-12 ? 0 : value);
      const half = pen.measureText(label).width / 2;
      pen.fillText(label, Math.max(left + half - 4, Math.min(right - half, x)), bottom + 0.6 * text + 10);
    }
    pen.strokeStyle = colours.soft;
    pen.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top);
  }

  /** Says in long pieces what they were spent on. */
  private names(pen: CanvasRenderingContext2D, trace: Trace, colours: Colours, bottom: number, text: number): void {
    pen.fillStyle = colours.ink;
    pen.textBaseline = "bottom";
    pen.textAlign = "center";
    const { pieces } = trace;
    if (lowerBound(pieces.from, this.span.to, pieces.count) - lowerBound(pieces.to, this.span.from, pieces.count) > 5000) return;
    const bands = this.capture.bands(trace, this.span.from, this.span.to);
    for (const { from, to, cause } of bands) {
      const [a, b] = [this.span.x(from), this.span.x(to)];
      const lines = [title(cause), time(to - from)];
      const wide = Math.max(...lines.map((line) => pen.measureText(line).width));
      if (b - a < wide + 10) continue;
      lines.reverse().forEach((line, n) => pen.fillText(line, (a + b) / 2, bottom - 4 - n * 1.25 * text));
    }
  }

  /** A line that goes on at the same height until it is told another: what was acknowledged, the window's edge. */
  private steps(pen: CanvasRenderingContext2D, trace: Trace, flow: Flow, y: (value: number) => number, colour: string, dash: number[], value: (at: number) => number): void {
    const { span } = this;
    const first = Math.max(0, lowerBound(flow.acksTime, span.from) - 1);
    const last = lowerBound(flow.acksTime, span.to + 1e-9);
    if (last <= first) return;
    pen.strokeStyle = colour;
    pen.lineWidth = 1.75;
    pen.setLineDash(dash);
    pen.beginPath();
    let height = y(value(flow.acks[first] ?? 0));
    let column = Math.max(span.x(trace.begin), span.x(flow.acksTime[first] ?? 0));
    pen.moveTo(column, height);
    for (let i = first + 1; i < last; i++) {
      const x = span.x(flow.acksTime[i] ?? 0);
      const next = y(value(flow.acks[i] ?? 0));
      // Of several in one column of pixels the last stands for all.
      if (x - column < 0.5 && i + 1 < last) continue;
      pen.lineTo(x, height);
      pen.lineTo(x, next);
      [height, column] = [next, x];
    }
    pen.lineTo(Math.min(span.x(trace.end), span.x(span.to)), height);
    pen.stroke();
    pen.setLineDash([]);
  }

  private blocks(pen: CanvasRenderingContext2D, trace: Trace, flow: Flow, y: (value: number) => number, colours: Colours): void {
    const { packets } = trace;
    const { span } = this;
    const side = flow.side === 0 ? SERVER : 0;
    const columns = new Columns(...this.plot);
    const { packet: by, from, to } = packets.blocks;
    const end = lowerBound(packets.time, span.to + 1e-9);
    for (let i = lowerBound(by, lowerBound(packets.time, span.from)); i < by.length && (by[i] ?? 0) < end; i++) {
      const packet = by[i] ?? 0;
      if (((packets.kind[packet] ?? 0) & SERVER) === side) columns.add(span.x(packets.time[packet] ?? 0), from[i] ?? 0, to[i] ?? 0);
    }
    pen.fillStyle = colours.sack;
    columns.draw(pen, y, 2);
  }

  private segments(pen: CanvasRenderingContext2D, trace: Trace, flow: Flow, y: (value: number) => number, colours: Colours): void {
    const { packets } = trace;
    const { span } = this;
    const [from, to] = [lowerBound(flow.dataTime, span.from), lowerBound(flow.dataTime, span.to + 1e-9)];
    const many = to - from > 2 * (this.plot[1] - this.plot[0]);
    const wide = to - from < 80 ? 4 : to - from < 500 ? 3 : 2;
    const again: number[] = [];
    const columns = many ? new Columns(...this.plot) : null;
    pen.fillStyle = colours.ink;
    for (let i = from; i < to; i++) {
      const at = flow.data[i] ?? 0;
      const kind = packets.kind[at] ?? 0;
      if (kind & AGAIN) {
        again.push(i);
        continue;
      }
      const seq = packets.seq[at] ?? 0;
      const end = seq + (packets.length[at] ?? 0);
      const x = span.x(flow.dataTime[i] ?? 0);
      if (columns) {
        columns.add(x, seq, end);
        continue;
      }
      const top = y(end);
      pen.fillRect(x - wide / 2, top, wide, Math.max(3, y(seq) - top));
      if (kind & (SYN | FIN) && to - from < 200) {
        pen.textAlign = "left";
        pen.textBaseline = "bottom";
        pen.fillText(kind & SYN ? "SYN" : "FIN", x + 4, top);
      }
    }
    columns?.draw(pen, y, 1.5);
    pen.fillStyle = colours.again;
    pen.textAlign = "right";
    pen.textBaseline = "bottom";
    const text = textSize();
    let labelled = -Infinity;
    const seen = again.length > 4000 ? new Columns(...this.plot) : null;
    for (const i of again) {
      const at = flow.data[i] ?? 0;
      const seq = packets.seq[at] ?? 0;
      const end = seq + (packets.length[at] ?? 0);
      const x = span.x(flow.dataTime[i] ?? 0);
      if (seen) {
        seen.add(x, seq, end);
        continue;
      }
      const top = y(end);
      pen.fillRect(x - wide / 2 - 1, top - 2, wide + 2, Math.max(5, y(seq) - top + 2));
      if (again.length < 200 && x > labelled + text) {
        pen.fillText("R", x - wide, y(seq));
        labelled = x;
      }
    }
    seen?.draw(pen, y, 5);
  }

  private evidence(pen: CanvasRenderingContext2D, trace: Trace, colours: Colours, text: number): void {
    pen.textAlign = "center";
    pen.textBaseline = "bottom";
    let free = -Infinity;
    const numbers = new Set(this.selection.transfer?.findings.flatMap((finding) => finding.packets));
    const places = [...numbers].map((number) => this.capture.place(trace, number)).filter((place) => place !== null);
    for (const at of places.sort((a, b) => a - b)) {
      const x = this.span.x(trace.packets.time[at] ?? 0);
      if (x < this.plot[0] || x > this.plot[1]) continue;
      pen.fillStyle = colours.ink;
      pen.beginPath();
      pen.moveTo(x - 4, 1.25 * text);
      pen.lineTo(x + 4, 1.25 * text);
      pen.lineTo(x, 1.9 * text);
      pen.fill();
      const label = String(trace.packets.number[at]);
      const half = pen.measureText(label).width / 2;
      if (x - half <= free) continue;
      const place = Math.max(this.plot[0] + half, Math.min(this.plot[1] - half, x));
      pen.fillText(label, place, 1.2 * text);
      free = place + half + 4;
    }
  }

  private chosen(pen: CanvasRenderingContext2D, trace: Trace, flow: Flow, y: (value: number) => number, colours: Colours, [top, bottom]: [number, number]): void {
    const { packet } = this.selection;
    if (packet === null) return;
    const { packets } = trace;
    const x = this.span.x(packets.time[packet] ?? 0);
    const own = ((packets.kind[packet] ?? 0) & SERVER ? 1 : 0) === flow.side;
    const low = own ? (packets.seq[packet] ?? 0) : (packets.ack[packet] ?? 0);
    const high = own ? low + (packets.length[packet] ?? 0) : low;
    pen.strokeStyle = colours.focus;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(x, top);
    pen.lineTo(x, bottom);
    pen.stroke();
    pen.lineWidth = 2.5;
    pen.strokeRect(x - 7, y(high) - 6, 14, y(low) - y(high) + 12);
  }
}
