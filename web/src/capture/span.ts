// The part of a time axis that is looked at: zoomed and moved by wheel, drag, pinch, keys and buttons, the same in every
// chart that has one. A wheel that is not held with Ctrl belongs to the page unless the chart was clicked first: nobody
// shall be caught in a chart while scrolling past.

import { h } from "../dom";

export class Span {
  from: number;
  to: number;

  constructor(
    private low: number,
    private high: number,
    /** The chart's plot, from where to where across, in pixels. */
    private readonly plot: () => [number, number],
    private readonly changed: () => void,
  ) {
    this.from = low;
    this.to = high;
  }

  get length(): number {
    return this.to - this.from;
  }

  /** Other limits, all of which are shown. */
  reset(low: number, high: number): void {
    [this.low, this.high] = [low, high];
    this.show(low, high);
  }

  /** Shows from one moment to another, as far as there is anything. */
  show(from: number, to: number): void {
    const whole = this.high - this.low;
    const length = Math.min(whole, Math.max(to - from, Math.max(whole * 1e-7, 5e-6)));
    const middle = (from + to) / 2;
    this.from = Math.max(this.low, Math.min(this.high - length, middle - length / 2));
    this.to = this.from + length;
    this.changed();
  }

  all(): void {
    this.show(this.low, this.high);
  }

  zoom(factor: number, around = (this.from + this.to) / 2): void {
    const length = this.length / factor;
    const share = (around - this.from) / this.length;
    this.show(around - share * length, around + (1 - share) * length);
  }

  /** Moves by a share of what is shown. */
  move(share: number): void {
    const by = share * this.length;
    this.show(this.from + by, this.to + by);
  }

  /** Brings a moment into view. */
  reveal(moment: number): void {
    const edge = 0.08 * this.length;
    if (moment < this.from + edge || moment > this.to - edge) this.show(moment - this.length / 2, moment + this.length / 2);
  }

  x(moment: number): number {
    const [left, right] = this.plot();
    return left + ((moment - this.from) / this.length) * (right - left);
  }

  moment(x: number): number {
    const [left, right] = this.plot();
    return this.from + ((x - left) / Math.max(1, right - left)) * this.length;
  }
}

/** Lets a canvas zoom and move `span` by pointer and wheel; `click` is where it was pressed and let go. */
export function byPointer(canvas: HTMLCanvasElement, span: Span, click: (x: number, y: number) => void): void {
  const down = new Map<number, { x: number; y: number }>();
  let moved = 0;
  const at = (event: PointerEvent | WheelEvent) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    down.set(event.pointerId, at(event));
    if (down.size === 1) moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    if (!before) return;
    const now = at(event);
    const others = [...down].filter(([id]) => id !== event.pointerId);
    const other = others[0]?.[1];
    if (other) {
      const [was, is] = [Math.abs(before.x - other.x), Math.abs(now.x - other.x)];
      if (was > 10 && is > 10) span.zoom(is / was, span.moment(other.x));
      moved = Infinity;
    } else {
      moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      if (moved > 4) {
        const by = span.moment(before.x) - span.moment(now.x);
        span.show(span.from + by, span.to + by);
      }
    }
    down.set(event.pointerId, now);
  });
  const up = (event: PointerEvent, pressed: boolean) => {
    const was = down.delete(event.pointerId);
    if (was && pressed && moved <= 4 && down.size === 0) {
      const { x, y } = at(event);
      click(x, y);
    }
  };
  canvas.addEventListener("pointerup", (event) => up(event, true));
  canvas.addEventListener("pointercancel", (event) => up(event, false));
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
      event.preventDefault();
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
      if (sideways) span.move((event.deltaX || event.deltaY) / 1000);
      else span.zoom(Math.exp(-Math.max(-200, Math.min(200, event.deltaY)) / 300), span.moment(at(event).x));
    },
    { passive: false },
  );
}

/** Buttons for whoever has neither wheel nor keys. */
export function buttons(span: Span): HTMLElement[] {
  return [
    button("−", "Zoom out", () => span.zoom(1 / 2)),
    button("+", "Zoom in", () => span.zoom(2)),
    button("◂", "Earlier", () => span.move(-0.5)),
    button("▸", "Later", () => span.move(0.5)),
  ];
}

/** A small button; `name` is said where the sign on it says too little. */
export function button(sign: string, name: string | null, pressed: () => void): HTMLButtonElement {
  return h("button", { type: "button", class: "button", "aria-label": name, title: name, onclick: pressed }, sign);
}
