// A ladder diagram of a connection: the client left, the server right, time downwards, a rung for each packet. Rungs have a
// readable distance, whatever the time between them; a long time becomes a fold with its length and causes. Zoomed out,
// each line of pixels shows the bytes of each direction.

import { title } from "../causes";
import { h } from "../dom";
import { count, counted, time } from "../units";
import { RETRANSMISSION, lowerBound, SERVER } from "./decode";
import { exactTime, packetType } from "./packet-details";
import { size } from "./byte-sizes";
import type { Capture } from "./model";
import type { Selection } from "./selection";
import { button } from "./visible-time";
import { fit, readableOn, ChartCanvas, textSize, type Frame } from "./chart-canvas";
import type { Trace } from "./trace";

/** A fold's height, in rungs. */
const FOLD_HEIGHT = 1.7;

/** Maximum height of an element in browsers, in pixels. */
const MAX_HEIGHT = 8e6;

interface Rungs {
  /** The position of each packet's rung, in rungs from the top. */
  position: Float64Array;
  /** The packets with a fold before them. */
  folds: Uint32Array;
  height: number;
  /** Sums before each packet: bytes to the server, bytes to the client, retransmissions. */
  before: [Float64Array, Float64Array, Float64Array];
}

/** The length of a packet's headers, so that acknowledgements are visible. */
const HEADERS = 54;

export class Ladder {
  readonly element: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly inner: HTMLElement;
  private readonly chart: ChartCanvas;
  private readonly rungs = new Map<Trace, Rungs>();
  /** The height of a rung, in pixels. */
  private rung = 0;

  constructor(
    private readonly capture: Capture,
    private readonly selection: Selection,
  ) {
    const sticky = h("div", { class: "sticky" });
    this.inner = h("div", { class: "inner" }, sticky);
    this.scroller = h("div", { class: "plot ladder", tabindex: "0", role: "application", "aria-roledescription": "chart", onscroll: () => this.chart.requestDraw() }, this.inner);
    this.chart = new ChartCanvas(sticky, { "aria-hidden": "true" }, (frame) => this.draw(frame));
    this.chart.canvas.addEventListener("click", (event) => this.click(event));
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.scroller.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 300), event.clientY - this.scroller.getBoundingClientRect().top);
      },
      { passive: false },
    );
    this.element = h(
      "figure",
      { class: "drawing" },
      h(
        "div",
        { class: "tools screen" },
        button("−", "Zoom out", () => this.zoom(1 / 2)),
        button("+", "Zoom in", () => this.zoom(2)),
        button("Readable", null, () => this.zoom(this.readableHeight() / this.rung)),
        button("Fit", null, () => this.zoom(1e-9)),
        button("◂ packet", "Previous packet", () => selection.step(-1)),
        button("packet ▸", "Next packet", () => selection.step(1)),
      ),
      this.scroller,
      h("figcaption", { class: "small soft" }, "Time runs downwards, but packets keep a readable distance; a fold shows how much time passed, and its cause. Zoomed out, the length of a line is the amount of data sent, its left end has the colour of the cause, and retransmissions are in the middle. ", h("span", { class: "screen" }, "Scroll to move, Ctrl and wheel to zoom. Keys: ↑ ↓ packets, + − zoom.")),
    );
    selection.listen(({ transfer }) => (transfer ? this.showConnection() : this.reveal()));
    this.showConnection();
  }

  private readableHeight(): number {
    return 1.9 * textSize();
  }

  private showConnection(): void {
    const { trace, transfer } = this.selection;
    this.element.hidden = !trace || trace.count === 0;
    if (!trace || !transfer) return;
    this.scroller.setAttribute("aria-label", `${counted(trace.count, "packet")} between ${trace.connection.client} and ${trace.connection.server}. The table of packets below has the same data.`);
    this.rung = Math.min(this.readableHeight(), MAX_HEIGHT / this.rungsOf(trace).height);
    this.resize();
    const first = lowerBound(trace.packets.time, transfer.start_s - 1e-6);
    this.scroller.scrollTop = first < 4 ? 0 : (this.rungsOf(trace).position[first] ?? 0) * this.rung - 2 * this.rung;
    this.chart.requestDraw();
  }

  private resize(): void {
    const { trace } = this.selection;
    if (!trace) return;
    const height = Math.ceil((this.rungsOf(trace).height + 0.5) * this.rung + 3 * textSize());
    this.inner.style.height = `${height}px`;
    // With few packets it is as tall as they need; zooming out does not change its height.
    if (!this.scroller.style.height || this.rung >= 3) this.scroller.style.height = `min(${height + 2}px, 75vh)`;
    this.chart.requestDraw();
  }

  private zoom(factor: number, around = this.scroller.clientHeight / 2): void {
    const { trace } = this.selection;
    if (!trace) return;
    const total = (this.scroller.clientHeight - 3.5 * textSize()) / (this.rungsOf(trace).height + 0.5);
    const max = Math.min(4 * this.readableHeight(), MAX_HEIGHT / this.rungsOf(trace).height);
    const rung = Math.max(Math.min(total, max), Math.min(max, this.rung * factor));
    const at = (this.scroller.scrollTop + around) / this.rung;
    this.rung = rung;
    this.resize();
    this.scroller.scrollTop = at * rung - around;
  }

  private reveal(): void {
    const { trace, packet } = this.selection;
    if (trace && packet !== null) {
      const y = (this.rungsOf(trace).position[packet] ?? 0) * this.rung;
      const { scrollTop, clientHeight } = this.scroller;
      if (y < scrollTop + 2 * this.rung || y > scrollTop + clientHeight - 5 * textSize()) this.scroller.scrollTop = y - clientHeight / 2;
    }
    this.chart.requestDraw();
  }

  private key(event: KeyboardEvent): void {
    const actions: Record<string, () => void> = {
      ArrowDown: () => this.selection.step(1),
      ArrowUp: () => this.selection.step(-1),
      "+": () => this.zoom(2),
      "=": () => this.zoom(2),
      "-": () => this.zoom(0.5),
      Escape: () => this.selection.choosePacket(null),
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  private click(event: MouseEvent): void {
    const { trace } = this.selection;
    if (!trace) return;
    const y = event.clientY - this.scroller.getBoundingClientRect().top + this.scroller.scrollTop - 2.2 * textSize();
    const { position } = this.rungsOf(trace);
    const after = lowerBound(position, y / this.rung);
    const near = [after - 1, after].filter((at) => at >= 0 && at < trace.count);
    const best = near.sort((a, b) => Math.abs((position[a] ?? 0) * this.rung - y) - Math.abs((position[b] ?? 0) * this.rung - y))[0];
    this.selection.choosePacket(best ?? null);
  }

  /** The rungs of a connection. */
  private rungsOf(trace: Trace): Rungs {
    const cached = this.rungs.get(trace);
    if (cached) return cached;
    const { count: packets, time: times, kind, length } = trace.packets;
    const position = new Float64Array(packets);
    const [sent, received, retransmitted] = [new Float64Array(packets + 1), new Float64Array(packets + 1), new Float64Array(packets + 1)];
    const folds: number[] = [];
    const foldAfter = Math.max(trace.connection.rtt_s / 3, 1e-3);
    let y = 1;
    for (let i = 0; i < packets; i++) {
      const wait = (times[i] ?? 0) - (i === 0 ? trace.begin : (times[i - 1] ?? 0));
      if (wait > foldAfter) {
        folds.push(i);
        y += FOLD_HEIGHT;
      }
      position[i] = y;
      y += 1;
      const [bits, bytes] = [kind[i] ?? 0, HEADERS + (length[i] ?? 0)];
      sent[i + 1] = (sent[i] ?? 0) + (bits & SERVER ? 0 : bytes);
      received[i + 1] = (received[i] ?? 0) + (bits & SERVER ? bytes : 0);
      retransmitted[i + 1] = (retransmitted[i] ?? 0) + (bits & RETRANSMISSION ? 1 : 0);
    }
    const rungs: Rungs = { position, folds: Uint32Array.from(folds), height: y, before: [sent, received, retransmitted] };
    this.rungs.set(trace, rungs);
    return rungs;
  }

  private draw(frame: Frame): void {
    const { trace } = this.selection;
    if (!trace) return;
    const { pen, width, height, colours } = frame;
    const text = textSize();
    const head = 2.2 * text;
    const { position, folds } = this.rungsOf(trace);
    const top = this.scroller.scrollTop;
    const y = (packet: number) => head + (position[packet] ?? 0) * this.rung - top;
    const first = Math.max(0, lowerBound(position, (top - head) / this.rung - 2) - 1);
    const last = Math.min(position.length, lowerBound(position, (top + height) / this.rung + 2) + 1);
    const gutter = Math.min(7.5 * text, width * 0.26);
    const [left, right] = [gutter + 0.5 * text, width - 2.5 * text];
    pen.font = `${text}px ${colours.font}`;
    pen.strokeStyle = colours.line;
    pen.lineWidth = 1.5;
    pen.beginPath();
    for (const x of [left, right]) {
      pen.moveTo(x, head);
      pen.lineTo(x, height);
    }
    pen.stroke();
    if (this.rung < 3) {
      this.drawOverview(frame, trace, [first, last], y, [left, right], head);
    } else {
      this.drawFolds(frame, trace, folds, [first, last], y, [left, right], text);
      for (let i = first; i < last; i++) this.drawRung(frame, trace, i, y(i), [left, right], text);
    }
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, head);
    pen.fillStyle = colours.ink;
    pen.textBaseline = "middle";
    pen.font = `600 ${text}px ${colours.font}`;
    const half = (right - left) / 2 - text;
    pen.textAlign = "left";
    pen.fillText(fit(pen, `client ${trace.connection.client}`, half), left - 2, head / 2);
    pen.textAlign = "right";
    pen.fillText(fit(pen, `${trace.connection.server} server`, half), right + 2, head / 2);
    pen.fillRect(left - 2, head - 2, right - left + 4, 2);
  }

  /** A rung: an arrow with the packet's content and time. */
  private drawRung({ pen, colours }: Frame, trace: Trace, packet: number, y: number, [left, right]: [number, number], text: number): void {
    const { packets } = trace;
    const kind = packets.kind[packet] ?? 0;
    const length = packets.length[packet] ?? 0;
    const retransmitted = (kind & RETRANSMISSION) !== 0;
    const chosen = packet === this.selection.packet;
    const [from, to] = kind & SERVER ? [right, left] : [left, right];
    const slope = Math.min(0.35 * this.rung, 8);
    const direction = Math.sign(to - from);
    pen.strokeStyle = pen.fillStyle = retransmitted ? colours.retransmission : length > 0 ? colours.ink : colours.ack;
    if (chosen) {
      pen.fillStyle = colours.focus;
      pen.globalAlpha = 0.18;
      pen.fillRect(0, y - 0.55 * this.rung, right + text, this.rung * 1.1);
      pen.globalAlpha = 1;
      pen.fillStyle = pen.strokeStyle;
    }
    pen.lineWidth = chosen ? 2.5 : retransmitted || length > 0 ? 1.5 : 1;
    pen.beginPath();
    pen.moveTo(from, y - slope / 2);
    pen.lineTo(to - direction * 5, y + slope / 2);
    pen.stroke();
    const point = Math.min(5, this.rung / 3);
    pen.beginPath();
    pen.moveTo(to, y + slope / 2);
    pen.lineTo(to - direction * 1.8 * point, y + slope / 2 - point * 0.8);
    pen.lineTo(to - direction * 1.8 * point, y + slope / 2 + point * 0.8);
    pen.fill();
    if (this.rung < 1.15 * text) return;
    const seq = packets.seq[packet] ?? 0;
    const type = kind & 6 || length > 0 || kind & 1 ? packetType(kind, length) : `ACK ${count(packets.ack[packet] ?? 0)}`;
    const more = length > 0 ? `${type}, from byte ${count(seq)}` : `${type}, window ${size(packets.window[packet] ?? 0)}`;
    const label = fit(pen, `${packets.number[packet] ?? 0}: ${more}`, right - left - 3 * text);
    const labelWidth = pen.measureText(label).width;
    const [mx, my] = [(left + right) / 2, y];
    pen.fillStyle = colours.paper;
    pen.globalAlpha = 0.88;
    pen.fillRect(mx - labelWidth / 2 - 4, my - 0.55 * text, labelWidth + 8, 1.1 * text);
    pen.globalAlpha = 1;
    pen.fillStyle = retransmitted ? colours.retransmission : colours.ink;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(label, mx, my + 0.5);
    pen.fillStyle = colours.soft;
    pen.textAlign = "right";
    const elapsed = (packets.time[packet] ?? 0) - trace.begin;
    const exact = exactTime(elapsed);
    pen.fillText(pen.measureText(exact).width < left - 8 ? exact : fit(pen, time(elapsed), left - 8), left - 8, y);
  }

  /** Folds: the time between two packets, by cause. */
  private drawFolds({ pen, colours }: Frame, trace: Trace, folds: Uint32Array, [first, last]: [number, number], y: (packet: number) => number, [left, right]: [number, number], text: number): void {
    for (let n = lowerBound(folds, first); n < folds.length && (folds[n] ?? 0) < last + 1; n++) {
      const packet = folds[n] ?? 0;
      const wait = this.capture.waitBefore(trace, packet);
      const total = wait.reduce((sum, interval) => sum + interval.to - interval.from, 0);
      const [top, foldHeight] = [y(packet) - (FOLD_HEIGHT + 0.5) * this.rung + 0.1 * this.rung, FOLD_HEIGHT * this.rung - 0.2 * this.rung];
      let x = left + 6;
      const room = right - left - 12;
      const longest = [...wait].sort((a, b) => b.to - b.from - (a.to - a.from))[0];
      for (const interval of wait) {
        const labelWidth = ((interval.to - interval.from) / total) * room;
        const colour = colours.cause(interval.cause);
        pen.fillStyle = colour;
        pen.fillRect(x, top, labelWidth, foldHeight);
        if (this.rung >= 0.8 * text && interval === longest) {
          pen.fillStyle = readableOn(colour);
          pen.textAlign = "center";
          pen.textBaseline = "middle";
          pen.fillText(fit(pen, `${time(interval.to - interval.from)}: ${title(interval.cause)}`, labelWidth - 8), x + labelWidth / 2, top + foldHeight / 2);
        }
        x += labelWidth;
      }
      if (this.rung >= 0.8 * text) {
        pen.fillStyle = colours.ink;
        pen.textAlign = "right";
        pen.textBaseline = "middle";
        pen.fillText(fit(pen, `⋮ ${time(total)}`, left - 8), left - 8, top + foldHeight / 2);
      }
    }
  }

  /** Zoomed out: the bytes of each direction for each line of pixels. */
  private drawOverview({ pen, colours, height }: Frame, trace: Trace, [first, last]: [number, number], y: (packet: number) => number, [left, right]: [number, number], head: number): void {
    const { position, before } = this.rungsOf(trace);
    const { time: times } = trace.packets;
    const top = this.scroller.scrollTop;
    const lines: { at: number; from: number; to: number }[] = [];
    for (let at = Math.floor(head), from = first; at <= height; at++) {
      const to = lowerBound(position, (at + 1 + top - head) / this.rung, last, from);
      if (to > from) lines.push({ at, from, to });
      from = to;
    }
    const between = (direction: 0 | 1 | 2, { from, to }: { from: number; to: number }) => (before[direction][to] ?? 0) - (before[direction][from] ?? 0);
    const max = Math.max(1, ...lines.flatMap((line) => [between(0, line), between(1, line)]));
    const half = (right - left) / 2 - 8;
    for (const line of lines) {
      const cause = trace.causeSums.largestCause(times[line.from] ?? 0, times[Math.min(times.length - 1, line.to)] ?? 0);
      if (cause >= 0) {
        pen.fillStyle = colours.cause(this.capture.causeName(cause));
        pen.fillRect(left - 7, line.at, 6, 1);
      }
      pen.fillStyle = colours.ink;
      const [out, back] = [(between(0, line) / max) * half, (between(1, line) / max) * half];
      if (out > 0) pen.fillRect(left + 2, line.at, Math.max(1, out), 1);
      if (back > 0) pen.fillRect(right - 2 - Math.max(1, back), line.at, Math.max(1, back), 1);
    }
    pen.fillStyle = colours.retransmission;
    for (const line of lines) if (between(2, line) > 0) pen.fillRect((left + right) / 2 - 4, line.at, 8, 1.5);
    pen.fillStyle = colours.soft;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const text = textSize();
    for (let at = head + text; at < height - text; at += 4 * text) {
      const packet = Math.min(trace.count - 1, lowerBound(position, (at + top - head) / this.rung));
      if (y(packet) > height || y(packet) < at - 2 * text) continue;
      pen.fillText(exactTime((times[packet] ?? 0) - trace.begin), left - 11, at, left - 13);
    }
  }
}
