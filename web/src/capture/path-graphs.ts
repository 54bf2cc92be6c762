// RTT, bytes in flight and throughput over time, below the time–sequence graph, whose time axis and zoom they share.

import { byteLabels, rateLabels, timeLabels } from "../axis";
import { h } from "../dom";
import { trimZeros } from "../scale";
import { rate, time } from "../units";
import { size } from "./byte-sizes";
import { ChartCanvas, plotEnds, type Frame } from "./chart-canvas";
import { drawColumns } from "./draw-intervals";
import { drawLimit, drawPanel, drawSteps, visibleMax, type Panel } from "./panel";
import { binLength, pathSeries, throughput, type PathSeries } from "./path-series";
import type { Selection } from "./selection";
import type { Flow, Trace } from "./trace";
import { zoomByPointer, type VisibleTime } from "./visible-time";

/** Limits and windows above this multiple of the values are only mentioned, because the values would be too small to see. */
const MAX_ROOM = 2.5;

/** The distance of a click from a packet in time, in pixels. */
const MAX_CLICK_DISTANCE = 14;

export class PathGraphs {
  readonly elements: HTMLElement[];
  private readonly charts: ChartCanvas[];
  private trace: Trace | null = null;
  private flow: Flow | null = null;
  private readonly series = new Map<Flow, PathSeries>();

  constructor(
    private readonly visible: VisibleTime,
    private readonly selection: Selection,
  ) {
    const graphs: [string, (frame: Frame, trace: Trace, series: PathSeries) => void][] = [
      ["RTT", (frame, trace, series) => this.drawRtt(frame, trace, series)],
      ["Bytes in flight", (frame, trace, series) => this.drawFlight(frame, trace, series)],
      ["Throughput", (frame, trace, series) => this.drawThroughput(frame, trace, series)],
    ];
    const drawn = graphs.map(([name, draw], index) => {
      const box = h("div", { class: index === graphs.length - 1 ? "plot path last" : "plot path" });
      const label = `${name} over time. The table of the path below has the same data.`;
      const chart = new ChartCanvas(box, { tabindex: "-1", role: "img", "aria-label": label }, (frame) => {
        const series = this.currentSeries();
        if (this.trace && series) draw(frame, this.trace, series);
      });
      zoomByPointer(chart.canvas, visible, (x) => this.click(x));
      return { box, chart };
    });
    this.elements = drawn.map(({ box }) => box);
    this.charts = drawn.map(({ chart }) => chart);
    visible.listen(() => this.requestDraw());
    selection.listen(() => this.requestDraw());
  }

  /** Shows the data of one direction. */
  show(trace: Trace, flow: Flow): void {
    if (trace !== this.trace) this.series.clear();
    [this.trace, this.flow] = [trace, flow];
    this.requestDraw();
  }

  private requestDraw(): void {
    for (const chart of this.charts) chart.requestDraw();
  }

  private currentSeries(): PathSeries | null {
    const { trace, flow } = this;
    if (!trace || !flow) return null;
    let series = this.series.get(flow);
    if (!series) this.series.set(flow, (series = pathSeries(trace.packets, flow.side)));
    return series;
  }

  /** Selects the nearest packet in time. */
  private click(x: number): void {
    const times = this.trace?.packets.time;
    if (!times) return;
    const at = this.visible.timeAt(x);
    let nearest: number | null = null;
    let distance = Math.abs(this.visible.timeAt(x + MAX_CLICK_DISTANCE) - at);
    times.forEach((each, index) => {
      if (Math.abs(each - at) < distance) [nearest, distance] = [index, Math.abs(each - at)];
    });
    this.selection.choosePacket(nearest);
  }

  private panel(frame: Frame, max: number, labels: (values: number[]) => string[], title: string, hasTimeLabels = false): Panel {
    return drawPanel(frame, { visible: this.visible, zero: this.trace?.begin ?? 0, max, labels, title, hasTimeLabels, plot: plotEnds(frame.width) });
  }

  /** Who receives the data, and whether the capture was taken there. */
  private receiver(trace: Trace): { receiver: string; isAtReceiver: boolean } {
    const receiver = this.flow?.side === 0 ? "server" : "client";
    return { receiver, isAtReceiver: trace.connection.vantage === receiver };
  }

  private drawRtt(frame: Frame, trace: Trace, { rtt }: PathSeries): void {
    const { receiver, isAtReceiver } = this.receiver(trace);
    const { vantage, rtt_s: base } = trace.connection;
    const title = isAtReceiver ? `RTT (at the ${receiver}: only its ACK delays)` : `RTT to the ${receiver} and back`;
    const highest = visibleMax(rtt, this.visible);
    const showsBase = !isAtReceiver && vantage !== "middle" && base > 0 && (rtt.count === 0 || base <= MAX_ROOM * highest);
    const panel = this.panel(frame, 1.12 * Math.max(highest, showsBase ? base : 0), timeLabels, rtt.count === 0 ? `${title}: no samples` : title);
    const { pen, colours } = frame;
    if (showsBase) drawLimit(frame, panel, base, `without queues: ${time(base)}`);
    pen.fillStyle = colours.link;
    const [first, last] = [rtt.firstAt(this.visible.from), rtt.firstAt(this.visible.to + 1e-9)];
    if (last - first > 2 * (panel.right - panel.left)) drawColumns(pen, rtt, this.visible, [panel.left, panel.right], panel.y, 2);
    else for (let i = first; i < last; i++) pen.fillRect(this.visible.x(rtt.time[i] ?? 0) - 1.5, panel.y(rtt.high(i)) - 1.5, 3, 3);
    this.end(frame, panel);
  }

  private drawFlight(frame: Frame, trace: Trace, { flight, window }: PathSeries): void {
    const highest = visibleMax(flight, this.visible);
    const offered = visibleMax(window, this.visible);
    const showsWindow = offered > 0 && offered <= MAX_ROOM * highest;
    const { receiver, isAtReceiver } = this.receiver(trace);
    const title = `${isAtReceiver ? `Arrived at the ${receiver}, not acknowledged` : "Bytes in flight"}${offered === 0 ? "" : showsWindow ? ", and the receive window (dashed)" : `; receive window up to ${size(offered)}`}`;
    const panel = this.panel(frame, 1.12 * Math.max(highest, showsWindow ? offered : 0), byteLabels, title);
    const { pen, colours } = frame;
    pen.fillStyle = colours.link;
    drawSteps(frame, panel, flight, this.visible, "area");
    if (showsWindow) {
      pen.fillStyle = colours.soft;
      drawSteps(frame, panel, window, this.visible, "dashes");
    }
    this.end(frame, panel);
  }

  private drawThroughput(frame: Frame, trace: Trace, { sent }: PathSeries): void {
    const { visible } = this;
    const [left, right] = plotEnds(frame.width);
    const bin = binLength(visible.length, (right - left) / 8);
    // Bins begin at multiples of their length, so that they stay the same while the graph moves.
    const from = trace.begin + Math.floor((visible.from - trace.begin) / bin) * bin;
    const rates = throughput(sent, from, bin, Math.ceil((visible.to - from) / bin) + 1);
    const highest = rates.reduce((max, each) => Math.max(max, each), 0);
    const bottleneck = trace.connection.rate_bits ?? 0;
    const showsRate = bottleneck > 0 && bottleneck <= MAX_ROOM * highest;
    const title = `Throughput in bins of ${trimZeros(time(bin))}`;
    const panel = this.panel(frame, 1.12 * Math.max(highest, showsRate ? bottleneck : 0), rateLabels, title, true);
    const { pen, colours } = frame;
    pen.fillStyle = colours.link;
    rates.forEach((each, n) => {
      if (each === 0) return;
      const [a, b] = [Math.round(visible.x(from + n * bin)), Math.round(visible.x(from + (n + 1) * bin))];
      pen.globalAlpha = 0.35;
      pen.fillRect(a, panel.y(each), b - a, panel.bottom - panel.y(each));
      pen.globalAlpha = 1;
      pen.fillRect(a, panel.y(each) - 0.75, b - a, 1.5);
    });
    if (showsRate) drawLimit(frame, panel, bottleneck, `bottleneck ${rate(bottleneck)}, headers included`);
    this.end(frame, panel);
  }

  /** Draws the frame, and the selected packet. */
  private end({ pen, colours }: Frame, { left, right, top, bottom }: Panel): void {
    const { packet } = this.selection;
    const at = packet === null ? undefined : this.trace?.packets.time[packet];
    if (at !== undefined) {
      pen.fillStyle = colours.focus;
      pen.fillRect(Math.round(this.visible.x(at)), top, 1, bottom - top);
    }
    pen.restore();
    pen.strokeStyle = colours.soft;
    pen.lineWidth = 1;
    pen.strokeRect(left + 0.5, top + 0.5, right - left - 1, bottom - top);
  }
}
