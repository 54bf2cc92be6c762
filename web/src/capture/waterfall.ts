// All transfers, one beneath the other, each from its first cause to its last byte, in the colours of what its time was
// spent on; those that the end waited for are marked.

import { causeBar, inWords } from "../bar";
import { classes, title } from "../causes";
import { h } from "../dom";
import { count, counted, ticks, time } from "../units";
import { drawBands } from "./bands";
import { size } from "./quantities";
import { nameOf, type Capture } from "./model";
import type { Transfer } from "./schema";
import type { Selection } from "./selection";
import { button, buttons, byPointer, Span } from "./span";
import { fit, Surface, textSize, type Frame } from "./surface";

/** How many critical paths are told. */
const PATHS = 3;

interface Row {
  transfer: Transfer | null;
  connection: number;
}

export class Waterfall {
  readonly element: HTMLElement;
  private readonly scroller: HTMLElement;
  private readonly inner: HTMLElement;
  private readonly surface: Surface;
  private readonly span: Span;
  private readonly order: HTMLSelectElement;
  private rows: Row[] = [];
  private plot: [number, number] = [0, 1];
  /** Each transfer that an end waited for, with the one that it waited for itself. */
  private readonly waited = new Map<Transfer, Transfer | null>();

  constructor(
    private readonly capture: Capture,
    private readonly selection: Selection,
  ) {
    const { transfers, pages } = capture.data;
    for (const { path } of pages) {
      path.forEach((place, n) => {
        const transfer = transfers[place];
        if (transfer) this.waited.set(transfer, transfers[path[n - 1] ?? -1] ?? null);
      });
    }
    const sticky = h("div", { class: "sticky" });
    this.inner = h("div", { class: "inner" }, sticky);
    this.scroller = h("div", { class: "plot waterfall", tabindex: "0", role: "application", "aria-roledescription": "chart", onscroll: () => this.surface.change() }, this.inner);
    this.scroller.setAttribute("aria-label", `Waterfall of ${counted(transfers.length, "transfer")}. The table of transfers above has the same data.`);
    this.span = new Span(0, 1, () => this.plot, () => this.surface?.change());
    this.surface = new Surface(sticky, {}, (frame) => this.draw(frame));
    byPointer(this.surface.canvas, this.span, (_, y) => this.click(y));
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.order = h("select", { "aria-label": "Order", onchange: () => this.arrange() }, h("option", { value: "start" }, "by start"), h("option", { value: "connection" }, "by connection"));
    const causes = new Set(transfers.flatMap((transfer) => Object.keys(transfer.time_s)));
    this.element = h(
      "figure",
      { class: "drawing" },
      h("div", { class: "tools screen" }, this.order, buttons(this.span), button("All", null, () => this.span.all())),
      this.scroller,
      h("ul", { class: "legend" }, [...causes].map((cause) => h("li", {}, h("span", { class: `swatch ${classes(cause)}`, "aria-hidden": "true" }), title(cause)))),
      ...(pages.length > 0 ? this.paths() : []),
      h("figcaption", { class: "small soft" }, "Each bar is a transfer, from its trigger to its last byte. ", h("span", { class: "screen" }, "Click a row to show the transfer below. Keys: ↑ ↓ rows, + − 0 zoom.")),
    );
    const end = Math.max(1e-6, ...transfers.map((one) => one.start_s + one.duration_s));
    const begin = Math.min(end, ...transfers.map((one) => one.start_s));
    this.span.reset(begin, end);
    this.arrange();
    selection.listen(({ transfer }) => {
      if (transfer) this.reveal();
    });
  }

  /** The critical paths in words, the longest first. */
  private paths(): HTMLElement[] {
    const { pages } = this.capture.data;
    const shown = [...pages].sort((a, b) => b.duration_s - a.duration_s).slice(0, PATHS);
    const each = shown.map((page) =>
      h(
        "li",
        {},
        `${page.client}: ${counted(page.transfers, "transfer")} in ${time(page.duration_s)}, ${page.path.length === 1 ? "the last waited for no other" : `${counted(page.path.length, "transfer")} on the critical path`}. `,
        causeBar(page.time_s),
        h("span", { class: "small" }, inWords(page.time_s)),
      ),
    );
    if (pages.length > shown.length) each.push(h("li", { class: "soft" }, `and ${count(pages.length - shown.length)} shorter ones`));
    return [h("p", {}, h("strong", {}, "◆ The critical path"), ", from the first request to the last byte; what is not on it cost nothing:"), h("ul", { class: "plain" }, each)];
  }

  private row(): number {
    return 1.9 * textSize();
  }

  private arrange(): void {
    const transfers = [...this.capture.data.transfers].sort((a, b) => a.start_s - b.start_s);
    if (this.order.value === "start") {
      this.rows = transfers.map((transfer) => ({ transfer, connection: transfer.connection }));
    } else {
      const connections = [...new Set(transfers.map((transfer) => transfer.connection))];
      this.rows = connections.flatMap((connection) => [{ transfer: null, connection }, ...transfers.filter((one) => one.connection === connection).map((transfer) => ({ transfer, connection }))]);
    }
    const tall = (this.rows.length + 0.3) * this.row() + 2.4 * textSize();
    this.inner.style.height = `${Math.ceil(tall)}px`;
    this.scroller.style.height = `min(${Math.ceil(tall) + 2}px, 75vh)`;
    this.surface.change();
  }

  private reveal(): void {
    const at = this.rows.findIndex((row) => row.transfer === this.selection.transfer);
    const y = at * this.row();
    const { scrollTop, clientHeight } = this.scroller;
    if (y < scrollTop || y > scrollTop + clientHeight - 5 * this.row()) this.scroller.scrollTop = y - clientHeight / 2;
    this.surface.change();
  }

  private click(y: number): void {
    const at = Math.floor((y - 2.4 * textSize() + this.scroller.scrollTop) / this.row());
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
      ArrowLeft: () => this.span.move(-0.25),
      ArrowRight: () => this.span.move(0.25),
      "+": () => this.span.zoom(2),
      "=": () => this.span.zoom(2),
      "-": () => this.span.zoom(0.5),
      "0": () => this.span.all(),
    };
    const action = actions[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  }

  private draw(frame: Frame): void {
    const { pen, width, height, colours } = frame;
    const text = textSize();
    const [head, row] = [2.4 * text, this.row()];
    const names = Math.min(22 * text, 0.36 * width);
    const [left, right] = [names + 0.5 * text, width - 0.8 * text];
    this.plot = [left, right];
    pen.font = `${text}px ${colours.font}`;
    pen.textBaseline = "middle";
    const top = this.scroller.scrollTop;
    const first = Math.max(0, Math.floor((top - head) / row));
    const last = Math.min(this.rows.length, Math.ceil((top + height) / row));
    pen.fillStyle = colours.line;
    const axis = ticks(this.span.from, this.span.to, (right - left) / (8 * text));
    for (const value of axis) pen.fillRect(Math.round(this.span.x(value)), head, 1, Math.min(height, head + this.rows.length * row - top) - head);
    for (let at = first; at < last; at++) {
      const one = this.rows[at];
      if (one) this.one(frame, one, head + at * row - top, [left, right], text);
    }
    this.path(frame, head - top, [left, right]);
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, head);
    pen.fillStyle = colours.soft;
    pen.textAlign = "center";
    for (const value of axis) {
      const label = time(value);
      const half = pen.measureText(label).width / 2;
      pen.fillText(label, Math.max(left + half, Math.min(right - half, this.span.x(value))), head / 2);
    }
    pen.fillRect(left, head - 1, right - left, 1);
  }

  /** From each transfer on the critical path to the one that waited for it. */
  private path({ pen, height, colours }: Frame, top: number, [left, right]: [number, number]): void {
    const row = this.row();
    const places = new Map(this.rows.map(({ transfer }, at) => [transfer, at]));
    pen.save();
    pen.beginPath();
    pen.rect(left, 0, right - left, height);
    pen.clip();
    pen.strokeStyle = colours.ink;
    pen.lineWidth = 1.5;
    for (const [transfer, before] of this.waited) {
      const at = top + (places.get(transfer) ?? 0) * row;
      const [a, b] = [this.span.x(transfer.start_s), this.span.x(transfer.start_s + transfer.duration_s)];
      pen.strokeRect(a, at + 0.2 * row, Math.max(1, b - a), 0.6 * row);
      if (!before) continue;
      const from = top + (places.get(before) ?? 0) * row;
      const x = this.span.x(Math.min(transfer.start_s, before.start_s + before.duration_s));
      const [below, edge] = at > from ? [from + 0.8 * row, at + 0.2 * row] : [from + 0.2 * row, at + 0.8 * row];
      pen.beginPath();
      pen.moveTo(x, below);
      pen.lineTo(x, (below + edge) / 2);
      pen.lineTo(a, (below + edge) / 2);
      pen.lineTo(a, edge);
      pen.stroke();
    }
    pen.restore();
  }

  private one(frame: Frame, { transfer, connection }: Row, y: number, [left, right]: [number, number], text: number): void {
    const { pen, width, colours } = frame;
    const row = this.row();
    pen.textAlign = "left";
    if (!transfer) {
      const one = this.capture.data.connections[connection];
      pen.fillStyle = colours.raised;
      pen.fillRect(0, y, width, row);
      pen.fillStyle = colours.soft;
      pen.fillText(fit(pen, `${one?.client ?? ""} → ${one?.server ?? ""}, RTT ${time(one?.rtt_s ?? 0)}`, width - text), 4, y + row / 2);
      return;
    }
    if (transfer === this.selection.transfer) {
      pen.fillStyle = colours.focus;
      pen.globalAlpha = 0.16;
      pen.fillRect(0, y, width, row);
      pen.globalAlpha = 1;
    }
    pen.fillStyle = colours.ink;
    const critical = this.waited.has(transfer);
    pen.font = `${critical ? "600 " : ""}${text}px ${colours.font}`;
    pen.fillText(fit(pen, `${critical ? "◆ " : ""}${nameOf(transfer)}`, left - 1.2 * text), 6, y + row / 2);
    pen.font = `${text}px ${colours.font}`;
    const end = transfer.start_s + transfer.duration_s;
    const [a, b] = [this.span.x(transfer.start_s), this.span.x(end)];
    pen.save();
    pen.beginPath();
    pen.rect(left, y, right - left, row);
    pen.clip();
    const [top, high] = [y + 0.2 * row, 0.6 * row];
    const trace = this.capture.ordered(transfer);
    if (trace) {
      drawBands(pen, this.capture, trace, this.span, [top, high], colours, [transfer.start_s, end]);
    } else {
      // Only the sums are known; the largest stands for all.
      const largest = Object.entries(transfer.time_s).sort(([, x], [, z]) => z - x)[0]?.[0] ?? "";
      pen.fillStyle = colours.cause(largest);
      pen.fillRect(a, top, Math.max(1, b - a), high);
    }
    pen.fillStyle = colours.cause(transfer.cause ?? "propagation");
    if (b - a < 1) pen.fillRect(a, top, 1, high);
    pen.fillStyle = colours.soft;
    const label = `${time(transfer.duration_s)}, ${size(transfer.bytes)}`;
    const wide = pen.measureText(label).width;
    if (b + 6 + wide < right) pen.fillText(label, b + 6, y + row / 2);
    else if (a - 6 - wide > left) pen.fillText(label, a - 6 - wide, y + row / 2);
    pen.restore();
  }
}
