// What the chart of time and sequence draws: the colours of what each moment was spent on, and before them segments,
// acknowledgements, the window's edge, what was sent again and what arrived ahead. Each part is drawn by what it shows,
// however many packets there are: see `marks`.

import { classes, title } from "../causes";
import { h, s } from "../dom";
import { ticks, time } from "../units";
import { drawBands, drawColumns } from "./bands";
import { FIN, SERVER, SYN } from "./decode";
import type { Marks } from "./marks";
import type { Capture } from "./model";
import { scaled, size } from "./quantities";
import type { Transfer } from "./schema";
import type { Span } from "./span";
import { textSize, type Colours, type Frame } from "./surface";
import type { Flow, Trace } from "./trace";

/** More marks than so many of a kind are not drawn one by one. */
const EACH = 4000;

/** A line of more corners is drawn as boxes. */
const CORNERS = 800;

/** How thick a line is, in pixels. */
const THICK = 1.75;

/** More pieces of time than so many are not named. */
const NAMED = 5000;

/** No piece that is narrower has room for its name, in letters. */
const NARROWEST = 4;

export interface Shown {
  capture: Capture;
  trace: Trace;
  flow: Flow;
  transfer: Transfer;
  span: Span;
  /** Whether the window's edge is drawn. */
  withEdge: boolean;
  /** The packet that is looked at. */
  packet: number | null;
}

/** The plot's left, right, top and bottom, in pixels. */
type Box = [number, number, number, number];

/** From which byte to which there is anything to see, and how far the window reaches. */
interface Scope {
  low: number;
  high: number;
  edge: number;
}

export class Graph {
  private y: (bytes: number) => number = () => 0;
  /** The plot, from where to where across. */
  plot: [number, number] = [0, 1];

  /** Where a byte is drawn. */
  height(byte: number): number {
    return this.y(byte);
  }

  draw({ pen, width, height, colours }: Frame, shown: Shown): void {
    const { capture, trace, flow, transfer, span, withEdge } = shown;
    const text = textSize();
    const box: Box = [5.6 * text, width - 0.8 * text, 1.9 * text, height - 3.6 * text];
    const [left, right, top, bottom] = box;
    this.plot = [left, right];
    const scope = scopeOf(shown);
    const reach = Math.max(1, scope.high - scope.low);
    const y = (value: number) => bottom - ((value - scope.low) / reach) * (bottom - top - 6) - 3;
    this.y = y;
    pen.font = `${text}px ${colours.font}`;

    const end = transfer.start_s + transfer.duration_s;
    drawBands(pen, capture, trace, span, [top, bottom - top], colours, [transfer.start_s, end], [0.28, 0.1]);
    drawBands(pen, capture, trace, span, [bottom + 2, 0.6 * text], colours);
    axes(pen, colours, trace, span, scope, box, y, text);

    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, bottom + 1);
    pen.clip();
    names(pen, capture, trace, span, colours, bottom, text);
    if (withEdge && scope.edge > scope.high) {
      pen.textAlign = "left";
      pen.textBaseline = "top";
      pen.fillStyle = colours.soft;
      pen.fillText(`↑ window edge, up to ${size(scope.edge)}`, left + 8, top + 5);
    }
    if (withEdge) steps(pen, trace, flow.edge.marks, span, y, colours.soft, [5, 3]);
    steps(pen, trace, flow.acked.marks, span, y, colours.ack, []);
    pen.fillStyle = colours.sack;
    drawColumns(pen, flow.ahead.marks, span, this.plot, y, 2);
    segments(pen, trace, flow, span, this.plot, y, colours);
    resent(pen, flow, span, this.plot, y, colours, text);
    evidence(pen, shown, this.plot, colours, text);
    chosen(pen, shown, y, colours, [top, bottom]);
    pen.restore();
  }
}

/** The marks in view, from which place to before which. */
function inView(marks: Marks, span: Span): [number, number] {
  return [marks.from(span.from), marks.from(span.to + 1e-9)];
}

function scopeOf({ trace, flow, span, withEdge }: Shown): Scope {
  const [sent, again] = [flow.sent.marks, flow.again.marks].map((marks) => marks.reach(...inView(marks, span))) as [[number, number], [number, number]];
  let [low, high] = [Math.min(sent[0], again[0]), Math.max(sent[1], again[1])];
  const { acked: { marks: acks }, edge: { marks: edges } } = flow;
  // The one before counts too: its line goes on into view.
  const [first, last] = inView(acks, span);
  const [acked, ahead] = acks.reach(Math.max(0, first - 1), last);
  high = Math.max(high, ahead);
  const edge = Math.max(high, edges.reach(Math.max(0, first - 1), last)[1]);
  if (low === Infinity) low = acked === Infinity ? 0 : acked;
  else if (acked < low) low = Math.max(acked, low - 2 * Math.max(1, high - low));
  if (high === -Infinity) high = low + 1;
  // A window far above the data would leave nothing of it to see.
  const room = 2.5 * Math.max(high - low, trace.connection.mss);
  if (withEdge && edge - low <= room) high = Math.max(high, edge);
  return { low, high: Math.max(high, low + 1), edge };
}

function axes(pen: CanvasRenderingContext2D, colours: Colours, trace: Trace, span: Span, scope: Scope, [left, right, top, bottom]: Box, y: (value: number) => number, text: number): void {
  pen.strokeStyle = colours.line;
  pen.fillStyle = colours.soft;
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (const value of ticks(scope.low, scope.high, (bottom - top) / (4 * text))) {
    const at = Math.round(y(value)) + 0.5;
    if (at < top || at > bottom) continue;
    pen.globalAlpha = 0.6;
    pen.beginPath();
    pen.moveTo(left, at);
    pen.lineTo(right, at);
    pen.stroke();
    pen.globalAlpha = 1;
    pen.fillText(scaled(value, scope.high), left - 6, at);
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
function names(pen: CanvasRenderingContext2D, capture: Capture, trace: Trace, span: Span, colours: Colours, bottom: number, text: number): void {
  const { shares } = trace;
  if (shares.after(span.to) - shares.after(span.from) > NAMED) return;
  pen.fillStyle = colours.ink;
  pen.textBaseline = "bottom";
  pen.textAlign = "center";
  for (const { from, to, cause } of capture.bands(trace, span.from, span.to)) {
    const [a, b] = [span.x(from), span.x(to)];
    if (b - a < NARROWEST * text) continue;
    const lines = [title(cause), time(to - from)];
    const wide = Math.max(...lines.map((line) => pen.measureText(line).width));
    if (b - a < wide + 10) continue;
    lines.reverse().forEach((line, n) => pen.fillText(line, (a + b) / 2, bottom - 4 - n * 1.25 * text));
  }
}

/** A line that goes on at the same height until it is told another: what was acknowledged, the window's edge. */
function steps(pen: CanvasRenderingContext2D, trace: Trace, marks: Marks, span: Span, y: (value: number) => number, colour: string, dash: number[]): void {
  const [begin, last] = inView(marks, span);
  const first = Math.max(0, begin - 1);
  if (last <= first) return;
  // A path of a thousand corners takes longer than as many boxes, and its dashes are not seen.
  const dense = last - first > CORNERS;
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = THICK;
  pen.setLineDash(dash);
  pen.beginPath();
  let height = y(marks.low(first));
  let column = Math.max(span.x(trace.begin), span.x(marks.time[first] ?? 0));
  pen.moveTo(column, height);
  const step = (x: number, next: number) => {
    if (!dense) {
      pen.lineTo(x, height);
      pen.lineTo(x, next);
    } else {
      if (x - column > 1) pen.fillRect(column, height - THICK / 2, x - column, THICK);
      pen.fillRect(x - THICK / 2, Math.min(height, next) - THICK / 2, THICK, Math.abs(next - height) + THICK);
    }
    [height, column] = [next, x];
  };
  for (let i = first + 1; i < last; i++) {
    // Of several in one column of pixels one stands for all.
    i = Math.min(last - 1, marks.from(span.moment(column + 1), i, last));
    step(span.x(marks.time[i] ?? 0), y(marks.low(i)));
  }
  step(Math.min(span.x(trace.end), span.x(span.to)), height);
  if (!dense) pen.stroke();
  pen.setLineDash([]);
}

/** How wide a mark is where so many are in view. */
function width(many: number): number {
  return many < 80 ? 4 : many < 500 ? 3 : 2;
}

function segments(pen: CanvasRenderingContext2D, trace: Trace, { sent: { packets, marks } }: Flow, span: Span, plot: [number, number], y: (value: number) => number, colours: Colours): void {
  const [from, to] = inView(marks, span);
  const wide = width(to - from);
  pen.fillStyle = colours.ink;
  if (to - from > 2 * (plot[1] - plot[0])) {
    drawColumns(pen, marks, span, plot, y, 1.5);
    return;
  }
  for (let i = from; i < to; i++) {
    const [x, top] = [span.x(marks.time[i] ?? 0), y(marks.high(i))];
    pen.fillRect(x - wide / 2, top, wide, Math.max(3, y(marks.low(i)) - top));
    const kind = trace.packets.kind[packets[i] ?? 0] ?? 0;
    if (kind & (SYN | FIN) && to - from < 200) {
      pen.textAlign = "left";
      pen.textBaseline = "bottom";
      pen.fillText(kind & SYN ? "SYN" : "FIN", x + 4, top);
    }
  }
}

/** What was sent again, over all the rest. */
function resent(pen: CanvasRenderingContext2D, { sent, again: { marks } }: Flow, span: Span, plot: [number, number], y: (value: number) => number, colours: Colours, text: number): void {
  const [from, to] = inView(marks, span);
  pen.fillStyle = colours.again;
  if (to - from > EACH) {
    drawColumns(pen, marks, span, plot, y, 5);
    return;
  }
  const [first, last] = inView(sent.marks, span);
  const wide = width(to - from + last - first);
  pen.textAlign = "right";
  pen.textBaseline = "bottom";
  let labelled = -Infinity;
  for (let i = from; i < to; i++) {
    const [x, top, bottom] = [span.x(marks.time[i] ?? 0), y(marks.high(i)), y(marks.low(i))];
    pen.fillRect(x - wide / 2 - 1, top - 2, wide + 2, Math.max(5, bottom - top + 2));
    if (to - from < 200 && x > labelled + text) {
      pen.fillText("R", x - wide, bottom);
      labelled = x;
    }
  }
}

function evidence(pen: CanvasRenderingContext2D, { capture, trace, transfer, span }: Shown, [left, right]: [number, number], colours: Colours, text: number): void {
  pen.textAlign = "center";
  pen.textBaseline = "bottom";
  pen.fillStyle = colours.ink;
  let free = -Infinity;
  const numbers = new Set(transfer.findings.flatMap((finding) => finding.packets));
  const places = [...numbers].map((number) => capture.place(trace, number)).filter((place) => place !== null);
  for (const at of places.sort((a, b) => a - b)) {
    const x = span.x(trace.packets.time[at] ?? 0);
    if (x < left || x > right) continue;
    pen.beginPath();
    pen.moveTo(x - 4, 1.25 * text);
    pen.lineTo(x + 4, 1.25 * text);
    pen.lineTo(x, 1.9 * text);
    pen.fill();
    const label = String(trace.packets.number[at]);
    const half = pen.measureText(label).width / 2;
    if (x - half <= free) continue;
    const place = Math.max(left + half, Math.min(right - half, x));
    pen.fillText(label, place, 1.2 * text);
    free = place + half + 4;
  }
}

function chosen(pen: CanvasRenderingContext2D, { trace, flow, span, packet }: Shown, y: (value: number) => number, colours: Colours, [top, bottom]: [number, number]): void {
  if (packet === null) return;
  const { packets } = trace;
  const x = span.x(packets.time[packet] ?? 0);
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

/** What the marks of a flow mean, for those that it has. */
export function legend(flow: Flow): HTMLElement[] {
  const mark = (name: string, kind: string, path: string) =>
    h("li", {}, s("svg", { width: 26, height: 14, "aria-hidden": "true", class: kind }, s("path", { d: path })), name);
  return [
    mark("segment", "mark-segment", "M6 2v10M13 0v10M20 -2v10"),
    mark("acknowledged up to here", `mark-ack ${classes("server_think")}`, "M0 12h8v-5h9v-5h9"),
    mark("window edge", "mark-window", "M0 12h8v-5h9v-5h9"),
    ...(flow.again.marks.count > 0 ? [mark("retransmitted", `mark-again ${classes("retransmission_timeout")}`, "M13 1v12")] : []),
    ...(flow.ahead.marks.count > 0 ? [mark("SACK blocks", `mark-sack ${classes("delayed_ack")}`, "M13 1v12")] : []),
    mark("evidence of a finding", "mark-evidence", "M9 2h8l-4 8z"),
  ];
}
