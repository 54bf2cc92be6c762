// Draws the time–sequence graph: segments, retransmissions, acknowledgements, SACK blocks and the window edge, on a
// background of causes. The cost of a frame depends on its width, not on the number of packets (`mark-pyramid`).

import { classes, title } from "../causes";
import { h, s } from "../dom";
import { byteLabels, drawTimeLabels, timeTicks } from "../axis";
import { ticks, time } from "../units";
import { drawIntervals, drawColumns } from "./draw-intervals";
import { FIN, SERVER, SYN } from "./decode";
import type { MarkPyramid } from "./mark-pyramid";
import type { Capture } from "./model";
import { size } from "./byte-sizes";
import type { Transfer } from "./schema";
import type { VisibleTime } from "./visible-time";
import { plotEnds, textSize, type Colours, type Frame } from "./chart-canvas";
import type { Flow, Trace } from "./trace";

/** Maximum number of marks of a kind that are drawn individually. */
const MAX_SINGLE_MARKS = 4000;

/** Maximum number of corners of a line; one with more is drawn as boxes. */
const MAX_CORNERS = 800;

/** The width of a line, in pixels. */
const LINE_WIDTH = 1.75;

/** Maximum number of intervals with labels. */
const MAX_LABELLED = 5000;

/** Minimum width of an interval with a label, as a multiple of the text size. */
const MIN_LABEL_WIDTH = 4;

export interface Drawn {
  capture: Capture;
  trace: Trace;
  flow: Flow;
  transfer: Transfer;
  visible: VisibleTime;
  /** Whether the window edge is drawn. */
  showsWindowEdge: boolean;
  /** The selected packet. */
  packet: number | null;
}

/** The plot's left, right, top and bottom, in pixels. */
type Box = [number, number, number, number];

/** The visible bytes, and the highest window edge. */
interface ByteRange {
  low: number;
  high: number;
  edge: number;
}

export class TimeSequenceDrawing {
  private y: (bytes: number) => number = () => 0;
  /** The left and right ends of the plot. */
  plot: [number, number] = [0, 1];

  /** The y coordinate of a byte. */
  yOf(byte: number): number {
    return this.y(byte);
  }

  draw({ pen, width, height, colours }: Frame, drawn: Drawn): void {
    const { capture, trace, flow, transfer, visible, showsWindowEdge } = drawn;
    const text = textSize();
    const [left, right] = plotEnds(width);
    const box: Box = [left, right, 1.9 * text, height - 3.6 * text];
    const [, , top, bottom] = box;
    this.plot = [left, right];
    const bytes = byteRange(drawn);
    const extent = Math.max(1, bytes.high - bytes.low);
    const y = (value: number) => bottom - ((value - bytes.low) / extent) * (bottom - top - 6) - 3;
    this.y = y;
    pen.font = `${text}px ${colours.font}`;

    const end = transfer.start_s + transfer.duration_s;
    drawIntervals(pen, capture, trace, visible, [top, bottom - top], colours, [transfer.start_s, end], [0.28, 0.1]);
    drawIntervals(pen, capture, trace, visible, [bottom + 2, 0.6 * text], colours);
    axes(pen, colours, trace, visible, bytes, box, width, y, text);

    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, bottom + 1);
    pen.clip();
    causeLabels(pen, capture, trace, visible, colours, bottom, text);
    if (showsWindowEdge && bytes.edge > bytes.high) {
      pen.textAlign = "left";
      pen.textBaseline = "top";
      pen.fillStyle = colours.soft;
      pen.fillText(`↑ window edge, up to ${size(bytes.edge)}`, left + 8, top + 5);
    }
    if (showsWindowEdge) stepLine(pen, trace, flow.windowEdge.marks, visible, y, colours.soft, [5, 3]);
    stepLine(pen, trace, flow.acked.marks, visible, y, colours.ack, []);
    pen.fillStyle = colours.sack;
    drawColumns(pen, flow.sacked.marks, visible, this.plot, y, 2);
    segments(pen, trace, flow, visible, this.plot, y, colours);
    retransmissions(pen, flow, visible, this.plot, y, colours, text);
    evidence(pen, drawn, this.plot, colours, text);
    selectedPacket(pen, drawn, y, colours, [top, bottom]);
    pen.restore();
  }
}

/** The visible marks: the first index, and the one after the last. */
function inView(marks: MarkPyramid, visible: VisibleTime): [number, number] {
  return [marks.firstAt(visible.from), marks.firstAt(visible.to + 1e-9)];
}

function byteRange({ trace, flow, visible, showsWindowEdge }: Drawn): ByteRange {
  const [sent, retransmitted] = [flow.sent.marks, flow.retransmitted.marks].map((marks) => marks.extent(...inView(marks, visible))) as [[number, number], [number, number]];
  let [low, high] = [Math.min(sent[0], retransmitted[0]), Math.max(sent[1], retransmitted[1])];
  const { acked: { marks: acks }, windowEdge: { marks: edges } } = flow;
  // The line of the mark before continues into view.
  const [first, last] = inView(acks, visible);
  const [acked, sacked] = acks.extent(Math.max(0, first - 1), last);
  high = Math.max(high, sacked);
  const edge = Math.max(high, edges.extent(Math.max(0, first - 1), last)[1]);
  if (low === Infinity) low = acked === Infinity ? 0 : acked;
  else if (acked < low) low = Math.max(acked, low - 2 * Math.max(1, high - low));
  if (high === -Infinity) high = low + 1;
  // If the window is far above the data, the data would be too small to see.
  const room = 2.5 * Math.max(high - low, trace.connection.mss);
  if (showsWindowEdge && edge - low <= room) high = Math.max(high, edge);
  return { low, high: Math.max(high, low + 1), edge };
}

function axes(pen: CanvasRenderingContext2D, colours: Colours, trace: Trace, visible: VisibleTime, bytes: ByteRange, [left, right, top, bottom]: Box, width: number, y: (value: number) => number, text: number): void {
  pen.strokeStyle = colours.line;
  pen.fillStyle = colours.soft;
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  // Bytes are whole numbers.
  const values = ticks(bytes.low, bytes.high, Math.min(bytes.high - bytes.low, (bottom - top) / (4 * text)));
  const labels = byteLabels(values);
  for (const [index, value] of values.entries()) {
    const at = Math.round(y(value)) + 0.5;
    if (at < top || at > bottom) continue;
    pen.globalAlpha = 0.6;
    pen.beginPath();
    pen.moveTo(left, at);
    pen.lineTo(right, at);
    pen.stroke();
    pen.globalAlpha = 1;
    // Labels with many digits are condensed.
    pen.fillText(labels[index] ?? "", left - 6, at, left - 8);
  }
  pen.textBaseline = "top";
  const zero = trace.begin;
  const x = (value: number) => visible.x(value + zero);
  const found = timeTicks(visible.from - zero, visible.to - zero, right - left, (label) => pen.measureText(label).width, 1.5 * text);
  for (const { value } of found) pen.fillRect(x(value), bottom + 2 + 0.6 * text, 1, 5);
  drawTimeLabels(pen, found, x, [2, width - 2], bottom + 0.6 * text + 10, 0.5 * text);
  pen.strokeStyle = colours.soft;
  pen.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top);
}

/** Labels long intervals with their cause. */
function causeLabels(pen: CanvasRenderingContext2D, capture: Capture, trace: Trace, visible: VisibleTime, colours: Colours, bottom: number, text: number): void {
  const { causeSums } = trace;
  if (causeSums.firstEndingAfter(visible.to) - causeSums.firstEndingAfter(visible.from) > MAX_LABELLED) return;
  pen.fillStyle = colours.ink;
  pen.textBaseline = "bottom";
  pen.textAlign = "center";
  for (const { from, to, cause } of capture.intervals(trace, visible.from, visible.to)) {
    const [a, b] = [visible.x(from), visible.x(to)];
    if (b - a < MIN_LABEL_WIDTH * text) continue;
    const lines = [title(cause), time(to - from)];
    const wide = Math.max(...lines.map((line) => pen.measureText(line).width));
    if (b - a < wide + 10) continue;
    lines.reverse().forEach((line, n) => pen.fillText(line, (a + b) / 2, bottom - 4 - n * 1.25 * text));
  }
}

/** A step line, for acknowledgement numbers and window edges. */
function stepLine(pen: CanvasRenderingContext2D, trace: Trace, marks: MarkPyramid, visible: VisibleTime, y: (value: number) => number, colour: string, dash: number[]): void {
  const [begin, last] = inView(marks, visible);
  const first = Math.max(0, begin - 1);
  if (last <= first) return;
  // A path with a thousand corners takes longer than as many boxes, and its dashes are not visible.
  const dense = last - first > MAX_CORNERS;
  pen.strokeStyle = pen.fillStyle = colour;
  pen.lineWidth = LINE_WIDTH;
  pen.setLineDash(dash);
  pen.beginPath();
  let height = y(marks.low(first));
  let column = Math.max(visible.x(trace.begin), visible.x(marks.time[first] ?? 0));
  pen.moveTo(column, height);
  const step = (x: number, next: number) => {
    if (!dense) {
      pen.lineTo(x, height);
      pen.lineTo(x, next);
    } else {
      if (x - column > 1) pen.fillRect(column, height - LINE_WIDTH / 2, x - column, LINE_WIDTH);
      pen.fillRect(x - LINE_WIDTH / 2, Math.min(height, next) - LINE_WIDTH / 2, LINE_WIDTH, Math.abs(next - height) + LINE_WIDTH);
    }
    [height, column] = [next, x];
  };
  for (let i = first + 1; i < last; i++) {
    // One mark for each column of pixels is enough.
    i = Math.min(last - 1, marks.firstAt(visible.timeAt(column + 1), i, last));
    step(visible.x(marks.time[i] ?? 0), y(marks.low(i)));
  }
  step(Math.min(visible.x(trace.end), visible.x(visible.to)), height);
  if (!dense) pen.stroke();
  pen.setLineDash([]);
}

/** The width of a mark if `count` are visible. */
function markWidth(count: number): number {
  return count < 80 ? 4 : count < 500 ? 3 : 2;
}

function segments(pen: CanvasRenderingContext2D, trace: Trace, { sent: { packets, marks } }: Flow, visible: VisibleTime, plot: [number, number], y: (value: number) => number, colours: Colours): void {
  const [from, to] = inView(marks, visible);
  const wide = markWidth(to - from);
  pen.fillStyle = colours.ink;
  if (to - from > 2 * (plot[1] - plot[0])) {
    drawColumns(pen, marks, visible, plot, y, 1.5);
    return;
  }
  for (let i = from; i < to; i++) {
    const [x, top] = [visible.x(marks.time[i] ?? 0), y(marks.high(i))];
    pen.fillRect(x - wide / 2, top, wide, Math.max(3, y(marks.low(i)) - top));
    const kind = trace.packets.kind[packets[i] ?? 0] ?? 0;
    if (kind & (SYN | FIN) && to - from < 200) {
      pen.textAlign = "left";
      pen.textBaseline = "bottom";
      pen.fillText(kind & SYN ? "SYN" : "FIN", x + 4, top);
    }
  }
}

/** Retransmissions, on top of everything else. */
function retransmissions(pen: CanvasRenderingContext2D, { sent, retransmitted: { marks } }: Flow, visible: VisibleTime, plot: [number, number], y: (value: number) => number, colours: Colours, text: number): void {
  const [from, to] = inView(marks, visible);
  pen.fillStyle = colours.retransmission;
  if (to - from > MAX_SINGLE_MARKS) {
    drawColumns(pen, marks, visible, plot, y, 5);
    return;
  }
  const [first, last] = inView(sent.marks, visible);
  const wide = markWidth(to - from + last - first);
  pen.textAlign = "right";
  pen.textBaseline = "bottom";
  let labelled = -Infinity;
  for (let i = from; i < to; i++) {
    const [x, top, bottom] = [visible.x(marks.time[i] ?? 0), y(marks.high(i)), y(marks.low(i))];
    pen.fillRect(x - wide / 2 - 1, top - 2, wide + 2, Math.max(5, bottom - top + 2));
    if (to - from < 200 && x > labelled + text) {
      pen.fillText("R", x - wide, bottom);
      labelled = x;
    }
  }
}

function evidence(pen: CanvasRenderingContext2D, { capture, trace, transfer, visible }: Drawn, [left, right]: [number, number], colours: Colours, text: number): void {
  pen.textAlign = "center";
  pen.textBaseline = "bottom";
  pen.fillStyle = colours.ink;
  let freeFrom = -Infinity;
  const numbers = new Set(transfer.findings.flatMap((finding) => finding.packets));
  const evidencePackets = [...numbers].map((number) => capture.packetIndex(trace, number)).filter((index) => index !== null);
  for (const at of evidencePackets.sort((a, b) => a - b)) {
    const x = visible.x(trace.packets.time[at] ?? 0);
    if (x < left || x > right) continue;
    pen.beginPath();
    pen.moveTo(x - 4, 1.25 * text);
    pen.lineTo(x + 4, 1.25 * text);
    pen.lineTo(x, 1.9 * text);
    pen.fill();
    const label = String(trace.packets.number[at]);
    const half = pen.measureText(label).width / 2;
    if (x - half <= freeFrom) continue;
    const labelX = Math.max(left + half, Math.min(right - half, x));
    pen.fillText(label, labelX, 1.2 * text);
    freeFrom = labelX + half + 4;
  }
}

function selectedPacket(pen: CanvasRenderingContext2D, { trace, flow, visible, packet }: Drawn, y: (value: number) => number, colours: Colours, [top, bottom]: [number, number]): void {
  if (packet === null) return;
  const { packets } = trace;
  const x = visible.x(packets.time[packet] ?? 0);
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

/** The legend of the marks that a flow has. */
export function legend(flow: Flow): HTMLElement[] {
  const mark = (name: string, kind: string, path: string) =>
    h("li", {}, s("svg", { width: 26, height: 14, "aria-hidden": "true", class: kind }, s("path", { d: path })), name);
  return [
    mark("segment", "mark-segment", "M6 2v10M13 0v10M20 -2v10"),
    mark("acknowledged up to here", `mark-ack ${classes("server_think")}`, "M0 12h8v-5h9v-5h9"),
    mark("window edge", "mark-window", "M0 12h8v-5h9v-5h9"),
    ...(flow.retransmitted.marks.count > 0 ? [mark("retransmitted", `mark-again ${classes("retransmission_timeout")}`, "M13 1v12")] : []),
    ...(flow.sacked.marks.count > 0 ? [mark("SACK blocks", `mark-sack ${classes("delayed_ack")}`, "M13 1v12")] : []),
    mark("evidence of a finding", "mark-evidence", "M9 2h8l-4 8z"),
  ];
}
