// A connection as a ladder: the client left, the server right, time downwards, a rung for each packet. Rungs are as far
// apart as they need to be read, not as time passed; where much time passed, a fold says how much and what for. From far
// away, rungs become a picture of how busy each way was.

import { title } from "../causes";
import { h } from "../dom";
import { count, counted, time } from "../units";
import { AGAIN, lowerBound, SERVER } from "./decode";
import { sort } from "./inspector";
import { size } from "./quantities";
import type { Capture } from "./model";
import type { Selection } from "./selection";
import { button } from "./span";
import { fit, readableOn, Surface, textSize, type Frame } from "./surface";
import type { Trace } from "./trace";

/** A fold's height, in rungs. */
const FOLD = 1.7;

/** No browser lays out more, in pixels. */
const TALLEST = 8e6;

interface Rungs {
  /** Where each packet's rung is, in rungs from the top. */
  place: Float64Array;
  /** The packets before which time is folded. */
  folds: Uint32Array;
  height: number;
  /** What passed before each packet: bytes to the server, bytes to the client, packets sent again. */
  before: [Float64Array, Float64Array, Float64Array];
}

/** What a packet's headers add to its bytes, so that an acknowledgement is seen. */
const HEADERS = 54;

export class Ladder {
  readonly element: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly inner: HTMLElement;
  private readonly surface: Surface;
  private readonly rungs = new Map<Trace, Rungs>();
  /** The height of a rung, in pixels. */
  private rung = 0;

  constructor(
    private readonly capture: Capture,
    private readonly selection: Selection,
  ) {
    const sticky = h("div", { class: "sticky" });
    this.inner = h("div", { class: "inner" }, sticky);
    this.scroller = h("div", { class: "plot ladder", tabindex: "0", role: "application", "aria-roledescription": "chart", onscroll: () => this.surface.change() }, this.inner);
    this.surface = new Surface(sticky, { "aria-hidden": "true" }, (frame) => this.draw(frame));
    this.surface.canvas.addEventListener("click", (event) => this.click(event));
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
        button("Readable", null, () => this.zoom(this.comfortable() / this.rung)),
        button("Fit", null, () => this.zoom(1e-9)),
        button("◂ packet", "Previous packet", () => selection.step(-1)),
        button("packet ▸", "Next packet", () => selection.step(1)),
      ),
      this.scroller,
      h("figcaption", { class: "small soft" }, "Time runs downwards, but packets keep a readable distance; a fold shows how much time passed, and its cause. Zoomed out, the length of a line is the amount of data sent, its left end has the colour of the cause, and retransmissions are in the middle. ", h("span", { class: "screen" }, "Scroll to move, Ctrl and wheel to zoom. Keys: ↑ ↓ packets, + − zoom.")),
    );
    selection.listen(({ transfer }) => (transfer ? this.connect() : this.reveal()));
    this.connect();
  }

  private comfortable(): number {
    return 1.9 * textSize();
  }

  private connect(): void {
    const { trace, transfer } = this.selection;
    this.element.hidden = !trace || trace.count === 0;
    if (!trace || !transfer) return;
    this.scroller.setAttribute("aria-label", `${counted(trace.count, "packet")} between ${trace.connection.client} and ${trace.connection.server}. The table of packets below has the same data.`);
    this.rung = Math.min(this.comfortable(), TALLEST / this.of(trace).height);
    this.resize();
    const first = lowerBound(trace.packets.time, transfer.start_s - 1e-6);
    this.scroller.scrollTop = first < 4 ? 0 : (this.of(trace).place[first] ?? 0) * this.rung - 2 * this.rung;
    this.surface.change();
  }

  private resize(): void {
    const { trace } = this.selection;
    if (!trace) return;
    const tall = Math.ceil((this.of(trace).height + 0.5) * this.rung + 3 * textSize());
    this.inner.style.height = `${tall}px`;
    // With few packets it is no taller than they need; zooming out leaves it as tall as it was.
    if (!this.scroller.style.height || this.rung >= 3) this.scroller.style.height = `min(${tall + 2}px, 75vh)`;
    this.surface.change();
  }

  private zoom(factor: number, around = this.scroller.clientHeight / 2): void {
    const { trace } = this.selection;
    if (!trace) return;
    const whole = (this.scroller.clientHeight - 3.5 * textSize()) / (this.of(trace).height + 0.5);
    const most = Math.min(4 * this.comfortable(), TALLEST / this.of(trace).height);
    const rung = Math.max(Math.min(whole, most), Math.min(most, this.rung * factor));
    const at = (this.scroller.scrollTop + around) / this.rung;
    this.rung = rung;
    this.resize();
    this.scroller.scrollTop = at * rung - around;
  }

  private reveal(): void {
    const { trace, packet } = this.selection;
    if (trace && packet !== null) {
      const y = (this.of(trace).place[packet] ?? 0) * this.rung;
      const { scrollTop, clientHeight } = this.scroller;
      if (y < scrollTop + 2 * this.rung || y > scrollTop + clientHeight - 5 * textSize()) this.scroller.scrollTop = y - clientHeight / 2;
    }
    this.surface.change();
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
    const { place } = this.of(trace);
    const after = lowerBound(place, y / this.rung);
    const near = [after - 1, after].filter((at) => at >= 0 && at < trace.count);
    const best = near.sort((a, b) => Math.abs((place[a] ?? 0) * this.rung - y) - Math.abs((place[b] ?? 0) * this.rung - y))[0];
    this.selection.choosePacket(best ?? null);
  }

  /** Where the rungs of a connection are. */
  private of(trace: Trace): Rungs {
    const known = this.rungs.get(trace);
    if (known) return known;
    const { count: packets, time: times, kind, length } = trace.packets;
    const place = new Float64Array(packets);
    const [sent, answered, again] = [new Float64Array(packets + 1), new Float64Array(packets + 1), new Float64Array(packets + 1)];
    const folds: number[] = [];
    const much = Math.max(trace.connection.rtt_s / 3, 1e-3);
    let y = 1;
    for (let i = 0; i < packets; i++) {
      const gap = (times[i] ?? 0) - (i === 0 ? trace.begin : (times[i - 1] ?? 0));
      if (gap > much) {
        folds.push(i);
        y += FOLD;
      }
      place[i] = y;
      y += 1;
      const [is, bytes] = [kind[i] ?? 0, HEADERS + (length[i] ?? 0)];
      sent[i + 1] = (sent[i] ?? 0) + (is & SERVER ? 0 : bytes);
      answered[i + 1] = (answered[i] ?? 0) + (is & SERVER ? bytes : 0);
      again[i + 1] = (again[i] ?? 0) + (is & AGAIN ? 1 : 0);
    }
    const rungs: Rungs = { place, folds: Uint32Array.from(folds), height: y, before: [sent, answered, again] };
    this.rungs.set(trace, rungs);
    return rungs;
  }

  private draw(frame: Frame): void {
    const { trace } = this.selection;
    if (!trace) return;
    const { pen, width, height, colours } = frame;
    const text = textSize();
    const head = 2.2 * text;
    const { place, folds } = this.of(trace);
    const top = this.scroller.scrollTop;
    const y = (packet: number) => head + (place[packet] ?? 0) * this.rung - top;
    const first = Math.max(0, lowerBound(place, (top - head) / this.rung - 2) - 1);
    const last = Math.min(place.length, lowerBound(place, (top + height) / this.rung + 2) + 1);
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
      this.fromAfar(frame, trace, [first, last], y, [left, right], head);
    } else {
      this.folds(frame, trace, folds, [first, last], y, [left, right], text);
      for (let i = first; i < last; i++) this.one(frame, trace, i, y(i), [left, right], text);
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

  /** A rung: an arrow with what it carries, and when it passed. */
  private one({ pen, colours }: Frame, trace: Trace, packet: number, y: number, [left, right]: [number, number], text: number): void {
    const { packets } = trace;
    const kind = packets.kind[packet] ?? 0;
    const length = packets.length[packet] ?? 0;
    const again = (kind & AGAIN) !== 0;
    const chosen = packet === this.selection.packet;
    const [from, to] = kind & SERVER ? [right, left] : [left, right];
    const slope = Math.min(0.35 * this.rung, 8);
    const way = Math.sign(to - from);
    pen.strokeStyle = pen.fillStyle = again ? colours.again : length > 0 ? colours.ink : colours.ack;
    if (chosen) {
      pen.fillStyle = colours.focus;
      pen.globalAlpha = 0.18;
      pen.fillRect(0, y - 0.55 * this.rung, right + text, this.rung * 1.1);
      pen.globalAlpha = 1;
      pen.fillStyle = pen.strokeStyle;
    }
    pen.lineWidth = chosen ? 2.5 : again || length > 0 ? 1.5 : 1;
    pen.beginPath();
    pen.moveTo(from, y - slope / 2);
    pen.lineTo(to - way * 5, y + slope / 2);
    pen.stroke();
    const point = Math.min(5, this.rung / 3);
    pen.beginPath();
    pen.moveTo(to, y + slope / 2);
    pen.lineTo(to - way * 1.8 * point, y + slope / 2 - point * 0.8);
    pen.lineTo(to - way * 1.8 * point, y + slope / 2 + point * 0.8);
    pen.fill();
    if (this.rung < 1.15 * text) return;
    const seq = packets.seq[packet] ?? 0;
    const said = kind & 6 || length > 0 || kind & 1 ? sort(kind, length) : `ACK ${count(packets.ack[packet] ?? 0)}`;
    const more = length > 0 ? `${said}, from byte ${count(seq)}` : `${said}, window ${size(packets.window[packet] ?? 0)}`;
    const label = fit(pen, `${packets.number[packet] ?? 0}: ${more}`, right - left - 3 * text);
    const wide = pen.measureText(label).width;
    const [mx, my] = [(left + right) / 2, y];
    pen.fillStyle = colours.paper;
    pen.globalAlpha = 0.88;
    pen.fillRect(mx - wide / 2 - 4, my - 0.55 * text, wide + 8, 1.1 * text);
    pen.globalAlpha = 1;
    pen.fillStyle = again ? colours.again : colours.ink;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(label, mx, my + 0.5);
    pen.fillStyle = colours.soft;
    pen.textAlign = "right";
    pen.fillText(fit(pen, time((packets.time[packet] ?? 0) - trace.begin), left - 8), left - 8, y);
  }

  /** Time that is folded: how much, what for. */
  private folds({ pen, colours }: Frame, trace: Trace, folds: Uint32Array, [first, last]: [number, number], y: (packet: number) => number, [left, right]: [number, number], text: number): void {
    for (let n = lowerBound(folds, first); n < folds.length && (folds[n] ?? 0) < last + 1; n++) {
      const packet = folds[n] ?? 0;
      const gap = this.capture.gap(trace, packet);
      const whole = gap.reduce((sum, band) => sum + band.to - band.from, 0);
      const [top, high] = [y(packet) - (FOLD + 0.5) * this.rung + 0.1 * this.rung, FOLD * this.rung - 0.2 * this.rung];
      let x = left + 6;
      const room = right - left - 12;
      const longest = [...gap].sort((a, b) => b.to - b.from - (a.to - a.from))[0];
      for (const band of gap) {
        const wide = ((band.to - band.from) / whole) * room;
        const colour = colours.cause(band.cause);
        pen.fillStyle = colour;
        pen.fillRect(x, top, wide, high);
        if (this.rung >= 0.8 * text && band === longest) {
          pen.fillStyle = readableOn(colour);
          pen.textAlign = "center";
          pen.textBaseline = "middle";
          pen.fillText(fit(pen, `${time(band.to - band.from)}: ${title(band.cause)}`, wide - 8), x + wide / 2, top + high / 2);
        }
        x += wide;
      }
      if (this.rung >= 0.8 * text) {
        pen.fillStyle = colours.ink;
        pen.textAlign = "right";
        pen.textBaseline = "middle";
        pen.fillText(fit(pen, `⋮ ${time(whole)}`, left - 8), left - 8, top + high / 2);
      }
    }
  }

  /** Too many rungs to tell apart: how much each way, line of pixels by line. */
  private fromAfar({ pen, colours, height }: Frame, trace: Trace, [first, last]: [number, number], y: (packet: number) => number, [left, right]: [number, number], head: number): void {
    const { place, before } = this.of(trace);
    const { time: times } = trace.packets;
    const top = this.scroller.scrollTop;
    const lines: { at: number; from: number; to: number }[] = [];
    for (let at = Math.floor(head), from = first; at <= height; at++) {
      const to = lowerBound(place, (at + 1 + top - head) / this.rung, last, from);
      if (to > from) lines.push({ at, from, to });
      from = to;
    }
    const passed = (way: 0 | 1 | 2, { from, to }: { from: number; to: number }) => (before[way][to] ?? 0) - (before[way][from] ?? 0);
    const most = Math.max(1, ...lines.flatMap((line) => [passed(0, line), passed(1, line)]));
    const half = (right - left) / 2 - 8;
    for (const line of lines) {
      const cause = trace.shares.largest(times[line.from] ?? 0, times[Math.min(times.length - 1, line.to)] ?? 0);
      if (cause >= 0) {
        pen.fillStyle = colours.cause(this.capture.cause(cause));
        pen.fillRect(left - 7, line.at, 6, 1);
      }
      pen.fillStyle = colours.ink;
      const [out, back] = [(passed(0, line) / most) * half, (passed(1, line) / most) * half];
      if (out > 0) pen.fillRect(left + 2, line.at, Math.max(1, out), 1);
      if (back > 0) pen.fillRect(right - 2 - Math.max(1, back), line.at, Math.max(1, back), 1);
    }
    pen.fillStyle = colours.again;
    for (const line of lines) if (passed(2, line) > 0) pen.fillRect((left + right) / 2 - 4, line.at, 8, 1.5);
    pen.fillStyle = colours.soft;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const text = textSize();
    for (let at = head + text; at < height - text; at += 4 * text) {
      const packet = Math.min(trace.count - 1, lowerBound(this.of(trace).place, (at + this.scroller.scrollTop - head) / this.rung));
      if (y(packet) > height || y(packet) < at - 2 * text) continue;
      pen.fillText(time((trace.packets.time[packet] ?? 0) - trace.begin), left - 11, at);
    }
  }
}
