// Connections between the same two hosts share their link. If several overlap in time, their throughput is stacked, below the
// waterfall, whose time axis and zoom it shares: what one of them gets, the others do not.

import { rateLabels } from "../axis";
import { h } from "../dom";
import { trimZeros } from "../scale";
import { scrollable, table } from "../table";
import { counted, rate, time } from "../units";
import { size } from "./byte-sizes";
import { ChartCanvas, type Frame } from "./chart-canvas";
import { SERVER } from "./decode";
import type { Capture } from "./model";
import { drawDashed, drawPanel } from "./panel";
import { binLength, throughput, type PathSeries } from "./path-series";
import type { Trace } from "./trace";
import { zoomByPointer, type VisibleTime } from "./visible-time";

/** The number of connections with a colour of their own; further ones are stacked as one. */
const MAX_COLOURED = 7;

/** The number of rows of the table. */
const ROWS = 40;

/** Several connections of two hosts, in one direction. */
export interface SharedLink {
  /** `10.0.0.2 → 10.0.0.1`. */
  name: string;
  /** Most bytes first. */
  shares: { name: string; bytes: number; sent: PathSeries["sent"] }[];
  /** The highest of their inferred bottleneck rates, in bits per second. */
  bottleneck: number;
  /** Whether the capture was taken before the bottleneck, where bursts are faster. */
  isBeforeBottleneck: boolean;
}

function host(end: string): string {
  return end.slice(0, end.lastIndexOf(":"));
}

/** When data of one side passed, and the bytes until then. */
function sentBy({ packets: { count, time: times, kind, length } }: Trace, side: 0 | 1): PathSeries["sent"] {
  const [time, bytes]: [number[], number[]] = [[], []];
  let total = 0;
  for (let i = 0; i < count; i++) {
    if (((kind[i] ?? 0) & SERVER ? 1 : 0) !== side || !length[i]) continue;
    total += length[i] ?? 0;
    time.push(times[i] ?? 0);
    bytes.push(total);
  }
  return { time: Float64Array.from(time), bytes: Float64Array.from(bytes) };
}

/** Whether the times of any two traces overlap. */
function overlap(traces: Trace[]): boolean {
  const sorted = [...traces].sort((a, b) => a.begin - b.begin);
  let end = -Infinity;
  return sorted.some((trace) => {
    const overlaps = trace.begin < end;
    end = Math.max(end, trace.packets.time[trace.count - 1] ?? trace.begin);
    return overlaps;
  });
}

/** The shared links of a capture, in the directions with a tenth of the bytes or more; most bytes first. */
export function sharedLinks(capture: Capture): SharedLink[] {
  const groups = new Map<string, Trace[]>();
  capture.data.connections.forEach(({ client, server }, index) => {
    const trace = capture.trace(index);
    const pair = `${host(client)} ${host(server)}`;
    if (trace && trace.count > 0) groups.set(pair, [...(groups.get(pair) ?? []), trace]);
  });
  const links = [...groups.values()].filter((traces) => traces.length > 1 && overlap(traces)).flatMap((traces) => ([0, 1] as const).map((side) => linkOf(traces, side)));
  const bytes = ({ shares }: SharedLink) => shares.reduce((sum, share) => sum + share.bytes, 0);
  const most = Math.max(0, ...links.map(bytes));
  return links.filter((link) => bytes(link) > 0.1 * most).sort((a, b) => bytes(b) - bytes(a));
}

function linkOf(traces: Trace[], side: 0 | 1): SharedLink {
  const first = traces[0]?.connection;
  const [client, server] = [host(first?.client ?? ""), host(first?.server ?? "")];
  const shares = traces.map((trace) => {
    const sent = sentBy(trace, side);
    const end = trace.connection.client;
    return { name: `client port ${end.slice(end.lastIndexOf(":") + 1)}`, bytes: sent.bytes[sent.bytes.length - 1] ?? 0, sent };
  });
  return {
    name: side === 0 ? `${client} → ${server}` : `${server} → ${client}`,
    shares: shares.filter((share) => share.bytes > 0).sort((a, b) => b.bytes - a.bytes),
    bottleneck: Math.max(0, ...traces.map((trace) => trace.connection.rate_bits ?? 0)),
    isBeforeBottleneck: first?.vantage === (side === 0 ? "client" : "server"),
  };
}

/** Rates by share and bin, those beyond `MAX_COLOURED` as one. */
function rates({ shares }: SharedLink, from: number, bin: number, count: number): Float64Array[] {
  const each = shares.map(({ sent }) => throughput(sent, from, bin, count));
  const others = each.slice(MAX_COLOURED);
  if (others.length === 0) return each;
  const sum = others.reduce((total, one) => total.map((value, n) => value + (one[n] ?? 0)), new Float64Array(count));
  return [...each.slice(0, MAX_COLOURED), sum];
}

function names({ shares }: SharedLink): string[] {
  const shown = shares.slice(0, MAX_COLOURED).map(({ name, bytes }) => `${name}, ${size(bytes)}`);
  return shares.length > MAX_COLOURED ? [...shown, `${counted(shares.length - MAX_COLOURED, "other")}`] : shown;
}

/** The graph; null if no connections share a link. */
export function sharedLink(capture: Capture, visible: VisibleTime): HTMLElement | null {
  const links = sharedLinks(capture);
  let [link] = links;
  if (!link) return null;
  const box = h("div", { class: "plot path last" });
  const chart = new ChartCanvas(box, { tabindex: "-1", role: "img", "aria-label": "Throughput of the connections that share the link, stacked. The table below has the same data." }, (frame) => {
    if (link) draw(frame, link, visible);
  });
  zoomByPointer(chart.canvas, visible, () => undefined);
  visible.listen(() => chart.requestDraw());
  const legend = h("ul", { class: "legend" });
  const remark = h("span", {});
  const numbers = h("details", { class: "asked" }, h("summary", {}, "Shared link as a table"));
  const update = () => {
    if (!link) return;
    legend.replaceChildren(...names(link).map((name, n) => h("li", {}, h("span", { class: `swatch series-swatch colour${n}`, "aria-hidden": "true" }), name)));
    remark.textContent = link.isBeforeBottleneck ? " The sender’s packets were captured before they queued at the bottleneck, so its bursts exceed the rate of the link." : "";
    numbers.querySelector(".wide")?.remove();
    if (numbers.open) numbers.append(tableOf(link));
    chart.requestDraw();
  };
  numbers.addEventListener("toggle", update);
  const choice = h("select", { "aria-label": "Shared link" }, links.map(({ name, shares }, n) => h("option", { value: n }, `${name}: ${counted(shares.length, "connection")}`)));
  choice.addEventListener("change", () => {
    link = links[Number(choice.value)];
    update();
  });
  update();
  return h("figure", { class: "drawing" }, h("div", { class: "tools" }, "Shared link: ", choice), box, legend, h("figcaption", { class: "small soft" }, "The throughput of connections between the same two hosts, stacked, on the time axis of the waterfall. Retransmissions are included.", remark), numbers);
}

function draw(frame: Frame, link: SharedLink, visible: VisibleTime): void {
  const { pen, colours, width } = frame;
  const [left, right] = visible.plot();
  const bin = binLength(visible.length, (right - left) / 12);
  const from = Math.floor(visible.from / bin) * bin;
  const count = Math.ceil((visible.to - from) / bin) + 1;
  const stacked = rates(link, from, bin, count);
  const sums = Float64Array.from({ length: count }, (_, n) => stacked.reduce((sum, each) => sum + (each[n] ?? 0), 0));
  const highest = sums.reduce((max, each) => Math.max(max, each), 0);
  const showsRate = link.bottleneck > 0 && link.bottleneck <= 2.5 * highest;
  const title = `Throughput (bins of ${trimZeros(time(bin))})${showsRate ? `, bottleneck ${rate(link.bottleneck)}` : ""}`;
  const panel = drawPanel(frame, { visible, zero: 0, max: 1.12 * Math.max(highest, showsRate ? link.bottleneck : 0), labels: rateLabels, title, hasTimeLabels: true, plot: [left, Math.min(right, width - 2)] });
  const base = new Float64Array(count);
  stacked.forEach((each, index) => {
    pen.fillStyle = colours.series(index);
    each.forEach((value, n) => {
      if (value === 0) return;
      const [a, b] = [visible.x(from + n * bin), visible.x(from + (n + 1) * bin)];
      const [low, high] = [base[n] ?? 0, (base[n] ?? 0) + value];
      pen.fillRect(a, panel.y(high), Math.max(1, b - a - (b - a > 4 ? 1 : 0)), panel.y(low) - panel.y(high));
      base[n] = high;
    });
  });
  if (showsRate) drawDashed(frame, panel, link.bottleneck);
  pen.restore();
  pen.strokeStyle = colours.soft;
  pen.strokeRect(panel.left + 0.5, panel.top + 0.5, panel.right - panel.left - 1, panel.bottom - panel.top);
}

function tableOf(link: SharedLink): HTMLElement {
  const begins = link.shares.map(({ sent }) => sent.time[0] ?? Infinity);
  const ends = link.shares.map(({ sent }) => sent.time[sent.time.length - 1] ?? -Infinity);
  const [begin, end] = [Math.min(...begins), Math.max(...ends)];
  const bin = binLength(end - begin, ROWS);
  const from = Math.floor(begin / bin) * bin;
  const count = Math.floor((end - from) / bin) + 1;
  const each = rates(link, from, bin, count);
  const caption = `Throughput in bins of ${time(bin)}, ${link.name}`;
  const columns = names(link).map((name, index) => ({ head: name, number: true, cell: (n: number) => rate(each[index]?.[n] ?? 0) }));
  const sum = { head: "all", number: true, cell: (n: number) => rate(each.reduce((total, one) => total + (one[n] ?? 0), 0)) };
  return scrollable(caption, table<number>(caption, [{ head: "from", cell: (n) => time(from + n * bin) }, ...columns, sum], Array.from({ length: count }, (_, n) => n)));
}
