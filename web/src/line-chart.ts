// A line chart with confidence bands over a varied quantity, and its table. An axis is logarithmic if its values differ by
// more than a factor of 5.

import { h, s } from "./dom";
import { linear, logarithmic, trimZeros, type Scale } from "./scale";
import { table, scrollable } from "./table";
import { time, times } from "./units";

export interface Line {
  name: string;
  /** Whether it is the floor, which is dashed and grey. */
  floor?: boolean;
  points: { x: number; y: number; band: [number, number] | null }[];
}

const [WIDTH, HEIGHT] = [720, 320];
const MARGIN = { left: 64, right: 170, top: 14, bottom: 44 };
/** The number of colours. Further lines reuse them, with other marks. */
const COLOURS = 8;

export function lineChart(title: string, xName: string, formatX: (value: number) => string, lines: Line[]): HTMLElement {
  const xs = [...new Set(lines.flatMap(({ points }) => points.map(({ x }) => x)))].sort((a, b) => a - b);
  const ys = lines.flatMap(({ points }) => points.flatMap(({ y, band }) => [y, ...(band ?? [])]));
  const [x, y] = [scaleFor(xs), scaleFor(ys)];
  const xOf = (value: number) => MARGIN.left + ((WIDTH - MARGIN.left - MARGIN.right) * x.at(value)) / 100;
  const yOf = (value: number) => HEIGHT - MARGIN.bottom - ((HEIGHT - MARGIN.top - MARGIN.bottom) * y.at(value)) / 100;
  const picture = s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "lines", role: "img", "aria-label": `${title}; the table below has the numbers` },
    y.ticks.map((mark) => [s("line", { x1: MARGIN.left, x2: WIDTH - MARGIN.right, y1: yOf(mark), y2: yOf(mark), class: "grid" }), s("text", { x: MARGIN.left - 8, y: yOf(mark) + 4, class: "tick end" }, trimZeros(time(mark)))]),
    xs.map((value) => s("text", { x: xOf(value), y: HEIGHT - MARGIN.bottom + 18, class: "tick" }, formatX(value))),
    s("text", { x: (MARGIN.left + WIDTH - MARGIN.right) / 2, y: HEIGHT - 6, class: "tick" }, xName),
    lines.map((line, index) => draw(line, index, xOf, yOf)),
    lineLabels(lines, yOf),
  );
  return h("figure", { class: "sweep" }, h("figcaption", {}, h("h3", {}, title)), picture, h("details", {}, h("summary", {}, "Show numbers"), dataTable(title, xName, formatX, xs, lines)));
}

function scaleFor(values: number[]): Scale {
  const positive = values.filter((value) => value > 0);
  const [low, high] = [Math.min(...positive), Math.max(...positive)];
  return positive.length === values.length && high / low > 5 ? logarithmic(low, high) : linear(Math.max(...values));
}

function draw({ points, floor }: Line, number: number, xOf: (x: number) => number, yOf: (y: number) => number): SVGElement {
  const drawn = points.map(({ x, y, band }) => ({ x: xOf(x), y: yOf(y), band: band ? band.map(yOf) : [yOf(y), yOf(y)] }));
  const path = (pairs: (number | undefined)[][]) => pairs.map((pair, i) => `${i === 0 ? "M" : "L"}${pair.map((value) => (value ?? 0).toFixed(1)).join(" ")}`).join("");
  const kind = floor ? "series floor-line" : `series colour${number % COLOURS}${number >= COLOURS ? " again" : ""}`;
  const band = path([...drawn.map(({ x, band: [low] }) => [x, low]), ...drawn.toReversed().map(({ x, band: [, high] }) => [x, high])]);
  return s("g", { class: kind }, !floor && s("path", { d: `${band}Z`, class: "band" }), s("path", { d: path(drawn.map(({ x, y }) => [x, y])), class: "line" }), !floor && drawn.map(({ x, y }) => s("circle", { cx: x, cy: y, r: 3.5 })));
}

/** Names at the right ends of the lines, moved apart if they would overlap. */
function lineLabels(lines: Line[], yOf: (y: number) => number): SVGElement[] {
  const GAP = 14;
  const ends = lines.map((line, number) => ({ line, number, y: yOf(line.points[line.points.length - 1]?.y ?? 0) })).sort((a, b) => a.y - b.y);
  ends.forEach((end, i) => {
    const above = ends[i - 1];
    if (above && end.y < above.y + GAP) end.y = above.y + GAP;
  });
  // Names below the chart are moved up again.
  for (let i = ends.length - 1, limit = HEIGHT - MARGIN.bottom + 4; i >= 0; i -= 1, limit -= GAP) {
    const end = ends[i];
    if (end && end.y > limit) end.y = limit;
  }
  return ends.map(({ line, number, y }) => s("text", { x: WIDTH - MARGIN.right + 10, y: y + 4, class: `name ${line.floor ? "floor-line" : `colour${number % COLOURS}`}` }, line.name));
}

function dataTable(title: string, xName: string, formatX: (value: number) => string, xs: number[], lines: Line[]): HTMLElement {
  const view = table(title, [{ head: xName, cell: (x: number) => formatX(x) }, ...lines.map((line) => ({
    head: line.name,
    number: true,
    cell: (x: number) => {
      const point = line.points.find((each) => each.x === x);
      return point ? [time(point.y), point.band && h("span", { class: "soft small" }, ` (${times(...point.band)})`)] : "–";
    },
  }))], xs);
  return scrollable(`${title}: numbers`, view);
}
