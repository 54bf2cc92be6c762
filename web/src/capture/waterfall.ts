// A waterfall of all transfers, each from its trigger to its last byte, in the colours of its phases or of its causes. Those
// on the critical path are marked.

import { drawTimeLabels, timeTicks } from "../axis";
import { causeBar, causesInWords } from "../cause-bar";
import { classes, ordered, title } from "../causes";
import { h } from "../dom";
import { count, counted, time } from "../units";
import { drawIntervals } from "./draw-intervals";
import { size } from "./byte-sizes";
import { transferName, type Capture } from "./model";
import { phaseLegend, phasesOf, type PhaseInterval } from "./phases";
import type { Transfer } from "./schema";
import type { Selection } from "./selection";
import { button, zoomButtons, zoomByPointer, VisibleTime } from "./visible-time";
import { fit, ChartCanvas, textSize, type Frame } from "./chart-canvas";

/** Maximum number of critical paths in words. */
const MAX_PATHS = 3;

interface Row {
  transfer: Transfer | null;
  connection: number;
}

export class Waterfall {
  readonly element: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly inner: HTMLElement;
  private readonly chart: ChartCanvas;
  readonly visible: VisibleTime;
  private readonly order: HTMLSelectElement;
  private readonly colouring: HTMLSelectElement;
  private readonly legend = h("ul", { class: "legend" });
  private rows: Row[] = [];
  private readonly phaseCache = new Map<Transfer, PhaseInterval[]>();
  private plot: [number, number] = [0, 1];
  /** The transfers on a critical path, each with the one before it on the path. */
  private readonly onCriticalPath = new Map<Transfer, Transfer | null>();

  constructor(
    private readonly capture: Capture,
    private readonly selection: Selection,
  ) {
    const { transfers, pages } = capture.data;
    for (const { path } of pages) {
      path.forEach((place, n) => {
        const transfer = transfers[place];
        if (transfer) this.onCriticalPath.set(transfer, transfers[path[n - 1] ?? -1] ?? null);
      });
    }
    const sticky = h("div", { class: "sticky" });
    this.inner = h("div", { class: "inner" }, sticky);
    this.scroller = h("div", { class: "plot waterfall", tabindex: "0", role: "application", "aria-roledescription": "chart", onscroll: () => this.chart.requestDraw() }, this.inner);
    this.scroller.setAttribute("aria-label", `Waterfall of ${counted(transfers.length, "transfer")}. The table of transfers above has the same data.`);
    this.visible = new VisibleTime(0, 1, () => this.plot, () => this.chart?.requestDraw());
    this.chart = new ChartCanvas(sticky, {}, (frame) => this.draw(frame));
    zoomByPointer(this.chart.canvas, this.visible, (_, y) => this.click(y));
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.order = h("select", { "aria-label": "Order", onchange: () => this.arrange() }, h("option", { value: "start" }, "by start"), h("option", { value: "connection" }, "by connection"));
    this.colouring = h("select", { "aria-label": "Colours", onchange: () => this.colour() }, h("option", { value: "phases" }, "phases"), h("option", { value: "causes" }, "causes of the time"));
    this.element = h(
      "figure",
      { class: "drawing" },
      h("div", { class: "tools screen" }, this.order, this.colouring, zoomButtons(this.visible), button("All", null, () => this.visible.showAll())),
      this.scroller,
      this.legend,
      ...(pages.length > 0 ? this.paths() : []),
      h("figcaption", { class: "small soft" }, "Each bar is a transfer, from its trigger to its last byte. ", h("span", { class: "screen" }, "Click a row to show the transfer below. Keys: ↑ ↓ rows, + − 0 zoom.")),
    );
    const end = Math.max(1e-6, ...transfers.map((each) => each.start_s + each.duration_s));
    const begin = Math.min(end, ...transfers.map((each) => each.start_s));
    this.visible.reset(begin, end);
    this.colour();
    this.arrange();
    selection.listen(({ transfer }) => {
      if (transfer) this.reveal();
    });
  }

  /** The critical paths in words, longest first. */
  private paths(): HTMLElement[] {
    const { pages } = this.capture.data;
    const shown = [...pages].sort((a, b) => b.duration_s - a.duration_s).slice(0, MAX_PATHS);
    const each = shown.map((page) =>
      h(
        "li",
        {},
        `${page.client}: ${counted(page.transfers, "transfer")} in ${time(page.duration_s)}, ${page.path.length === 1 ? "the last waited for no other" : `${counted(page.path.length, "transfer")} on the critical path`}. `,
        causeBar(page.time_s),
        h("span", { class: "small" }, causesInWords(page.time_s)),
      ),
    );
    if (pages.length > shown.length) each.push(h("li", { class: "soft" }, `and ${count(pages.length - shown.length)} shorter ones`));
    return [h("p", {}, h("strong", {}, "◆ The critical path"), ", from the first request to the last byte; what is not on it cost nothing:"), h("ul", { class: "plain" }, each)];
  }

  /** Shows the legend of the chosen colours. */
  private colour(): void {
    const { transfers } = this.capture.data;
    const causes = ordered(new Set(transfers.flatMap((transfer) => Object.keys(transfer.time_s))));
    const item = (cause: string) => h("li", {}, h("span", { class: `swatch ${classes(cause)}`, "aria-hidden": "true" }), title(cause));
    this.legend.replaceChildren(...(this.colouring.value === "causes" ? causes.map(item) : phaseLegend(transfers)));
    this.chart.requestDraw();
  }

  private rowHeight(): number {
    return 1.9 * textSize();
  }

  private arrange(): void {
    const transfers = [...this.capture.data.transfers].sort((a, b) => a.start_s - b.start_s);
    if (this.order.value === "start") {
      this.rows = transfers.map((transfer) => ({ transfer, connection: transfer.connection }));
    } else {
      const connections = [...new Set(transfers.map((transfer) => transfer.connection))];
      this.rows = connections.flatMap((connection) => [{ transfer: null, connection }, ...transfers.filter((each) => each.connection === connection).map((transfer) => ({ transfer, connection }))]);
    }
    const height = (this.rows.length + 0.3) * this.rowHeight() + 2.4 * textSize();
    this.inner.style.height = `${Math.ceil(height)}px`;
    this.scroller.style.height = `min(${Math.ceil(height) + 2}px, 75vh)`;
    this.chart.requestDraw();
  }

  private reveal(): void {
    const at = this.rows.findIndex((row) => row.transfer === this.selection.transfer);
    const y = at * this.rowHeight();
    const { scrollTop, clientHeight } = this.scroller;
    if (y < scrollTop || y > scrollTop + clientHeight - 5 * this.rowHeight()) this.scroller.scrollTop = y - clientHeight / 2;
    this.chart.requestDraw();
  }

  private click(y: number): void {
    const at = Math.floor((y - 2.4 * textSize() + this.scroller.scrollTop) / this.rowHeight());
    const transfer = this.rows[at]?.transfer;
    if (transfer) this.selection.chooseTransfer(transfer);
  }

  private step(by: 1 | -1): void {
    let at = this.rows.findIndex((row) => row.transfer === this.selection.transfer) + by;
    while (this.rows[at] && !this.rows[at]?.transfer) at += by;
    const transfer = this.rows[at]?.transfer;
    if (transfer) this.selection.chooseTransfer(transfer);
  }

  private key(event: KeyboardEvent): void {
    const actions: Record<string, () => void> = {
      ArrowDown: () => this.step(1),
      ArrowUp: () => this.step(-1),
      ArrowLeft: () => this.visible.move(-0.25),
      ArrowRight: () => this.visible.move(0.25),
      "+": () => this.visible.zoom(2),
      "=": () => this.visible.zoom(2),
      "-": () => this.visible.zoom(0.5),
      "0": () => this.visible.showAll(),
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  private draw(frame: Frame): void {
    const { pen, width, height, colours } = frame;
    const text = textSize();
    const [head, rowHeight] = [2.4 * text, this.rowHeight()];
    const names = Math.min(22 * text, 0.36 * width);
    const [left, right] = [names + 0.5 * text, width - 0.8 * text];
    this.plot = [left, right];
    pen.font = `${text}px ${colours.font}`;
    pen.textBaseline = "middle";
    const top = this.scroller.scrollTop;
    const first = Math.max(0, Math.floor((top - head) / rowHeight));
    const last = Math.min(this.rows.length, Math.ceil((top + height) / rowHeight));
    pen.fillStyle = colours.line;
    const axis = timeTicks(this.visible.from, this.visible.to, right - left, (label) => pen.measureText(label).width, 1.5 * text);
    for (const { value } of axis) pen.fillRect(Math.round(this.visible.x(value)), head, 1, Math.min(height, head + this.rows.length * rowHeight - top) - head);
    for (let at = first; at < last; at++) {
      const row = this.rows[at];
      if (row) this.drawRow(frame, row, head + at * rowHeight - top, [left, right], text);
    }
    this.path(frame, head - top, [left, right]);
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, head);
    pen.fillStyle = colours.soft;
    drawTimeLabels(pen, axis, (value) => this.visible.x(value), [2, width - 2], head / 2, 0.5 * text);
    pen.fillRect(left, head - 1, right - left, 1);
  }

  /** The critical path: lines from each transfer to the next. */
  private path({ pen, height, colours }: Frame, top: number, [left, right]: [number, number]): void {
    const rowHeight = this.rowHeight();
    const places = new Map(this.rows.map(({ transfer }, at) => [transfer, at]));
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, height);
    pen.clip();
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1.5;
    for (const [transfer, before] of this.onCriticalPath) {
      const at = top + (places.get(transfer) ?? 0) * rowHeight;
      const [a, b] = [this.visible.x(transfer.start_s), this.visible.x(transfer.start_s + transfer.duration_s)];
      pen.strokeRect(a, at + 0.2 * rowHeight, Math.max(1, b - a), 0.6 * rowHeight);
      if (!before) continue;
      const from = top + (places.get(before) ?? 0) * rowHeight;
      const x = this.visible.x(Math.min(transfer.start_s, before.start_s + before.duration_s));
      const [below, edge] = at > from ? [from + 0.8 * rowHeight, at + 0.2 * rowHeight] : [from + 0.2 * rowHeight, at + 0.8 * rowHeight];
      pen.beginPath();
      pen.moveTo(x, below);
      pen.lineTo(x, (below + edge) / 2);
      pen.lineTo(a, (below + edge) / 2);
      pen.lineTo(a, edge);
      pen.stroke();
    }
    pen.restore();
  }

  private drawRow(frame: Frame, { transfer, connection }: Row, y: number, [left, right]: [number, number], text: number): void {
    const { pen, width, colours } = frame;
    const rowHeight = this.rowHeight();
    pen.textAlign = "left";
    if (!transfer) {
      const ends = this.capture.data.connections[connection];
      pen.fillStyle = colours.raised;
      pen.fillRect(0, y, width, rowHeight);
      pen.fillStyle = colours.soft;
      pen.fillText(fit(pen, `${ends?.client ?? ""} → ${ends?.server ?? ""}, RTT ${time(ends?.rtt_s ?? 0)}`, width - text), 4, y + rowHeight / 2);
      return;
    }
    if (transfer === this.selection.transfer) {
      pen.fillStyle = colours.focus;
      pen.globalAlpha = 0.16;
      pen.fillRect(0, y, width, rowHeight);
      pen.globalAlpha = 1;
    }
    pen.fillStyle = colours.ink;
    const isCritical = this.onCriticalPath.has(transfer);
    pen.font = `${isCritical ? "600 " : ""}${text}px ${colours.font}`;
    pen.fillText(fit(pen, `${isCritical ? "◆ " : ""}${transferName(transfer)}`, left - 1.2 * text), 6, y + rowHeight / 2);
    pen.font = `${text}px ${colours.font}`;
    const end = transfer.start_s + transfer.duration_s;
    const [a, b] = [this.visible.x(transfer.start_s), this.visible.x(end)];
    pen.save();
    pen.beginPath();
    pen.rect(left, y, right - left, rowHeight);
    pen.clip();
    const [top, barHeight] = [y + 0.2 * rowHeight, 0.6 * rowHeight];
    if (this.colouring.value === "causes") this.drawCauses(frame, transfer, [top, barHeight]);
    else {
      for (const { phase, from, to } of this.phases(transfer)) {
        pen.fillStyle = colours.phase(phase);
        pen.fillRect(this.visible.x(from), top, this.visible.x(to) - this.visible.x(from), barHeight);
      }
    }
    pen.fillStyle = colours.cause(transfer.cause ?? "propagation");
    if (b - a < 1) pen.fillRect(a, top, 1, barHeight);
    pen.fillStyle = colours.soft;
    const label = `${time(transfer.duration_s)}, ${size(transfer.bytes)}`;
    const labelWidth = pen.measureText(label).width;
    if (b + 6 + labelWidth < right) pen.fillText(label, b + 6, y + rowHeight / 2);
    else if (a - 6 - labelWidth > left) pen.fillText(label, a - 6 - labelWidth, y + rowHeight / 2);
    pen.restore();
  }

  private phases(transfer: Transfer): PhaseInterval[] {
    let phases = this.phaseCache.get(transfer);
    if (!phases) this.phaseCache.set(transfer, (phases = phasesOf(transfer, this.capture.intervalsOf(transfer))));
    return phases;
  }

  private drawCauses({ pen, colours }: Frame, transfer: Transfer, [top, height]: [number, number]): void {
    const trace = this.capture.completeTrace(transfer);
    const [from, to] = [transfer.start_s, transfer.start_s + transfer.duration_s];
    if (trace) {
      drawIntervals(pen, this.capture, trace, this.visible, [top, height], colours, [from, to]);
      return;
    }
    // Only the sums are known: the whole bar gets the colour of the largest cause.
    const largest = Object.entries(transfer.time_s).sort(([, x], [, z]) => z - x)[0]?.[0] ?? "";
    pen.fillStyle = colours.cause(largest);
    pen.fillRect(this.visible.x(from), top, Math.max(1, this.visible.x(to) - this.visible.x(from)), height);
  }
}
