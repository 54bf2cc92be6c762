// A chart of lines with bands over a quantity that was varied, and its table. Both axes go by ratios where the values
// span more than a decade, since a doubling should look like a doubling.

import { h, s } from "./dom";
import { linear, logarithmic, round, type Scale } from "./scale";
import { table, wide } from "./table";
import { time, times } from "./units";

export interface Line {
  name: string;
  /** Drawn dashed and grey: what cannot be beaten. */
  floor?: boolean;
  points: { x: number; y: number; band: [number, number] | null }[];
}

const [WIDTH, HEIGHT] = [720, 320];
const EDGE = { left: 64, right: 170, top: 14, bottom: 44 };
/** So many lines have colours of their own; more share them, told apart by their marks. */
const COLOURS = 8;

export function lines(title: string, xName: string, sayX: (value: number) => string, all: Line[]): HTMLElement {
  const xs = [...new Set(all.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b);
  const ys = all.flatMap(({ points }) => points.flatMap(({ y, band }) => [y, ...(band ?? [])]));
  const [x, y] = [place(xs), place(ys)];
  const across = (value: number) => EDGE.left + ((WIDTH - EDGE.left - EDGE.right) * x.at(value)) / 100;
  const up = (value: number) => HEIGHT - EDGE.bottom - ((HEIGHT - EDGE.top - EDGE.bottom) * y.at(value)) / 100;
  const picture = s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "lines", role: "img", "aria-label": `${title}; the table below has the numbers` },
    y.marks.map((mark) => [s("line", { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: up(mark), y2: up(mark), class: "grid" }), s("text", { x: EDGE.left - 8, y: up(mark) + 4, class: "tick end" }, round(time(mark)))]),
    xs.map((value) => s("text", { x: across(value), y: HEIGHT - EDGE.bottom + 18, class: "tick" }, sayX(value))),
    s("text", { x: (EDGE.left + WIDTH - EDGE.right) / 2, y: HEIGHT - 6, class: "tick" }, xName),
    all.map((line, place) => draw(line, place, across, up)),
    names(all, up),
  );
  return h("figure", { class: "sweep" }, h("figcaption", {}, h("h3", {}, title)), picture, h("details", {}, h("summary", {}, "Show numbers"), numbers(title, xName, sayX, xs, all)));
}

function place(values: number[]): Scale {
  const positive = values.filter((value) => value > 0);
  const [low, high] = [Math.min(...positive), Math.max(...positive)];
  return positive.length === values.length && high / low > 5 ? logarithmic(low, high) : linear(Math.max(...values));
}

function draw({ points, floor }: Line, number: number, across: (x: number) => number, up: (y: number) => number): SVGElement {
  const at = points.map(({ x, y, band }) => ({ x: across(x), y: up(y), band: band ? band.map(up) : [up(y), up(y)] }));
  const path = (pairs: (number | undefined)[][]) => pairs.map((pair, i) => `${i === 0 ? "M" : "L"}${pair.map((value) => (value ?? 0).toFixed(1)).join(" ")}`).join("");
  const kind = floor ? "series floor-line" : `series colour${number % COLOURS}${number >= COLOURS ? " again" : ""}`;
  const band = path([...at.map(({ x, band: [low] }) => [x, low]), ...at.toReversed().map(({ x, band: [, high] }) => [x, high])]);
  return s("g", { class: kind }, !floor && s("path", { d: `${band}Z`, class: "band" }), s("path", { d: path(at.map(({ x, y }) => [x, y])), class: "line" }), !floor && at.map(({ x, y }) => s("circle", { cx: x, cy: y, r: 3.5 })));
}

/** Names at the right ends of their lines, moved apart where they would overlap. */
function names(all: Line[], up: (y: number) => number): SVGElement[] {
  const GAP = 14;
  const ends = all.map((line, number) => ({ line, number, y: up(line.points[line.points.length - 1]?.y ?? 0) })).sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => {
    const above = ends[i - 1];
    if (above && end.y < above.y + GAP) end.y = above.y + GAP;
  });
  // What was pushed out below is pushed up again.
  for (let i = ends.length - 1, limit = HEIGHT - EDGE.bottom + 4; i >= 0; i -= 1, limit -= GAP) {
    const end = ends[i];
    if (end && end.y > limit) end.y = limit;
  }
  return ends.map(({ line, number, y }) => s("text", { x: WIDTH - EDGE.right + 10, y: y + 4, class: `name ${line.floor ? "floor-line" : `colour${number % COLOURS}`}` }, line.name));
}

function numbers(title: string, xName: string, sayX: (value: number) => string, xs: number[], all: Line[]): HTMLElement {
  const view = table(title, [{ head: xName, cell: (x: number) => sayX(x) }, ...all.map((line) => ({
    head: line.name,
    number: true,
    cell: (x: number) => {
      const point = line.points.find((each) => each.x === x);
      return point ? [time(point.y), point.band && h("span", { class: "soft small" }, ` (${times(...point.band)})`)] : "–";
    },
  }))], xs);
  return wide(`${title}: numbers`, view);
}
