// The visible part of a time axis: zoomed and moved by wheel, drag, pinch, keys and buttons. A wheel without Ctrl scrolls
// the page, unless the chart was clicked first, so that scrolling does not get stuck in a chart.

import { h } from "../dom";

export class VisibleTime {
  from: number;
  to: number;
  private readonly listeners: (() => void)[] = [];

  constructor(
    private low: number,
    private high: number,
    /** The left and right ends of the plot, in pixels. */
    readonly plot: () => [number, number],
    onChange: () => void,
  ) {
    this.listeners.push(onChange);
    this.from = low;
    this.to = high;
  }

  get length(): number {
    return this.to - this.from;
  }

  /** Calls `onChange` whenever another part becomes visible. */
  listen(onChange: () => void): void {
    this.listeners.push(onChange);
  }

  /** Sets new limits and shows all of them. */
  reset(low: number, high: number): void {
    [this.low, this.high] = [low, high];
    this.show(low, high);
  }

  /** Shows a range of time, within the limits. */
  show(from: number, to: number): void {
    const whole = this.high - this.low;
    const length = Math.min(whole, Math.max(to - from, Math.max(whole * 1e-7, 5e-6)));
    const middle = (from + to) / 2;
    this.from = Math.max(this.low, Math.min(this.high - length, middle - length / 2));
    this.to = this.from + length;
    for (const onChange of this.listeners) onChange();
  }

  showAll(): void {
    this.show(this.low, this.high);
  }

  zoom(factor: number, around = (this.from + this.to) / 2): void {
    const length = this.length / factor;
    const share = (around - this.from) / this.length;
    this.show(around - share * length, around + (1 - share) * length);
  }

  /** Moves by a share of the visible time. */
  move(share: number): void {
    const by = share * this.length;
    this.show(this.from + by, this.to + by);
  }

  /** Makes a time visible. */
  reveal(time: number): void {
    const edge = 0.08 * this.length;
    if (time < this.from + edge || time > this.to - edge) this.show(time - this.length / 2, time + this.length / 2);
  }

  x(time: number): number {
    const [left, right] = this.plot();
    return left + ((time - this.from) / this.length) * (right - left);
  }

  timeAt(x: number): number {
    const [left, right] = this.plot();
    return this.from + ((x - left) / Math.max(1, right - left)) * this.length;
  }
}

/** Zooms and moves by pointer and wheel on a canvas; `click` gets the position of a click. */
export function zoomByPointer(canvas: HTMLCanvasElement, visible: VisibleTime, click: (x: number, y: number) => void): void {
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
      if (was > 10 && is > 10) visible.zoom(is / was, visible.timeAt(other.x));
      moved = Infinity;
    } else {
      moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
      if (moved > 4) {
        const by = visible.timeAt(before.x) - visible.timeAt(now.x);
        visible.show(visible.from + by, visible.to + by);
      }
    }
    down.set(event.pointerId, now);
  });
  const up = (event: PointerEvent, released: boolean) => {
    const was = down.delete(event.pointerId);
    if (was && released && moved <= 4 && down.size === 0) {
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
      if (sideways) visible.move((event.deltaX || event.deltaY) / 1000);
      else visible.zoom(Math.exp(-Math.max(-200, Math.min(200, event.deltaY)) / 300), visible.timeAt(at(event).x));
    },
    { passive: false },
  );
}

/** Buttons to zoom and move without wheel and keys. */
export function zoomButtons(visible: VisibleTime): HTMLElement[] {
  return [
    button("−", "Zoom out", () => visible.zoom(1 / 2)),
    button("+", "Zoom in", () => visible.zoom(2)),
    button("◂", "Earlier", () => visible.move(-0.5)),
    button("▸", "Later", () => visible.move(0.5)),
  ];
}

/** A small button; `name` is its accessible name, if `sign` is not clear. */
export function button(sign: string, name: string | null, onClick: () => void): HTMLButtonElement {
  return h("button", { type: "button", class: "button", "aria-label": name, title: name, onclick: onClick }, sign);
}
