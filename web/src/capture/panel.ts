// A small chart over time: an axis from zero, grid lines, a title, and what all such charts draw on them.

import { drawTimeLabels, timeTicks } from "../axis";
import { ticks } from "../units";
import { fit, textSize, type Frame } from "./chart-canvas";
import type { MarkPyramid } from "./mark-pyramid";
import type { VisibleTime } from "./visible-time";

export interface PanelAxes {
  visible: VisibleTime;
  /** The time at which the axis is zero. */
  zero: number;
  /** The highest value. */
  max: number;
  labels: (values: number[]) => string[];
  title: string;
  hasTimeLabels: boolean;
  plot: [number, number];
}

export interface Panel {
  left: number;
  right: number;
  top: number;
  bottom: number;
  /** The y coordinate of a value. */
  y: (value: number) => number;
}

/** The height of a panel's head, and of its time labels, as multiples of the text size. */
const [HEAD, FOOT] = [1.7, 2.2];

/** Draws the axes, and clips what follows to the plot until `restore`. */
export function drawPanel({ pen, width, height, colours }: Frame, { visible, zero, max, labels, title, hasTimeLabels, plot: [left, right] }: PanelAxes): Panel {
  const text = textSize();
  const [top, bottom] = [HEAD * text, height - (hasTimeLabels ? FOOT : 0.7) * text];
  const high = max > 0 ? max : 1;
  const y = (value: number) => bottom - (value / high) * (bottom - top - 4);
  pen.font = `${text}px ${colours.font}`;
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  const values = ticks(0, high, Math.max(2, (bottom - top) / (3 * text)));
  labels(values).forEach((label, index) => {
    const at = Math.round(y(values[index] ?? 0)) + 0.5;
    pen.fillStyle = colours.line;
    pen.fillRect(left, at - 0.5, right - left, 1);
    pen.fillStyle = colours.soft;
    pen.fillText(label, left - 6, Math.min(at, height - 0.5 * text), left - 8);
  });
  const x = (value: number) => visible.x(value + zero);
  const found = timeTicks(visible.from - zero, visible.to - zero, right - left, (label) => pen.measureText(label).width, 1.5 * text);
  pen.fillStyle = colours.line;
  for (const { value } of found) pen.fillRect(Math.round(x(value)), top, 1, bottom - top);
  pen.fillStyle = colours.soft;
  pen.textBaseline = "top";
  if (hasTimeLabels) drawTimeLabels(pen, found, x, [2, width - 2], bottom + 0.85 * text, 0.5 * text);
  pen.fillStyle = colours.ink;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  // Above a narrow plot, a long title begins at the edge.
  const from = pen.measureText(title).width > width - left - 4 ? 6 : left;
  pen.fillText(fit(pen, title, width - from - 4), from, 0.5 * HEAD * text);
  pen.save();
  pen.beginPath();
  pen.rect(left, top - 1, right - left, bottom - top + 2);
  pen.clip();
  return { left, right, top, bottom, y };
}

/** A dashed horizontal line. */
export function drawDashed({ pen, colours }: Frame, { left, right, y }: Panel, value: number): void {
  const at = y(value);
  pen.strokeStyle = colours.soft;
  pen.lineWidth = 1.25;
  pen.setLineDash([5, 3]);
  pen.beginPath();
  pen.moveTo(left, at);
  pen.lineTo(right, at);
  pen.stroke();
  pen.setLineDash([]);
}

/** A dashed horizontal line with its name at the left. */
export function drawLimit(frame: Frame, panel: Panel, value: number, name: string): void {
  drawDashed(frame, panel, value);
  const { pen, colours } = frame;
  const { left, right, y, top } = panel;
  const [text, at] = [textSize(), y(value)];
  const label = fit(pen, name, right - left - 16);
  const middle = at - 0.7 * text > top ? at - 0.65 * text : at + 0.75 * text;
  pen.globalAlpha = 0.8;
  pen.fillStyle = colours.paper;
  pen.fillRect(left + 5, middle - 0.55 * text, pen.measureText(label).width + 6, 1.1 * text);
  pen.globalAlpha = 1;
  pen.fillStyle = colours.soft;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  pen.fillText(label, left + 8, middle);
}

/** The highest of the visible marks, with the one before, which continues into view. */
export function visibleMax(marks: MarkPyramid, visible: VisibleTime): number {
  return Math.max(0, marks.extent(Math.max(0, marks.firstAt(visible.from) - 1), marks.firstAt(visible.to + 1e-9))[1]);
}

/** How a value over time is drawn: as a line, a dashed line, or a line above an area. */
export type StepStyle = "line" | "dashes" | "area";

/** The opacity of the area below a line. */
const AREA_OPACITY = 0.35;

/** Draws a value that stays until the next mark; each column of pixels from its lowest to its highest. */
export function drawSteps({ pen }: Frame, { left, right, bottom, y }: Panel, marks: MarkPyramid, visible: VisibleTime, style: StepStyle): void {
  let index = marks.firstAt(visible.from);
  // Many marks are drawn in wider columns, so that a frame stays fast.
  const wide = marks.firstAt(visible.to, index) - index > 2 * (right - left) ? 2 : 1;
  let value = index > 0 ? marks.high(index - 1) : NaN;
  const begin = Math.max(left, Math.floor(visible.x(marks.time[0] ?? Infinity)));
  const end = Math.min(right, visible.x(marks.time[marks.count - 1] ?? -Infinity) + 1);
  for (let x = begin; x < end; x += wide) {
    const next = marks.firstAt(visible.timeAt(x + wide), index);
    let [low, high] = [value, value];
    if (next > index) {
      const [lowest, highest] = marks.extent(index, next);
      [low, high] = Number.isNaN(value) ? [lowest, highest] : [Math.min(lowest, value), Math.max(highest, value)];
      value = marks.high(next - 1);
      index = next;
    }
    const top = y(high);
    if (style === "area") {
      pen.globalAlpha = AREA_OPACITY;
      pen.fillRect(x, top, wide, bottom - top);
      pen.globalAlpha = 1;
    }
    if (style !== "dashes" || x % 8 < 5) pen.fillRect(x, top - 0.75, wide, y(low) - top + 1.5);
  }
}
