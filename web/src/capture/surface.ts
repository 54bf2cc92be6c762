// A canvas that is as sharp as the screen, is drawn again whenever its size or the colours change, and no more often
// than the screen shows. Colours come from the style sheet, so that light, dark and paper are decided in one place.

import { classes } from "../causes";
import { h } from "../dom";

export interface Colours {
  paper: string;
  raised: string;
  line: string;
  ink: string;
  soft: string;
  link: string;
  again: string;
  ack: string;
  sack: string;
  focus: string;
  font: string;
  cause: (name: string) => string;
}

export interface Frame {
  pen: CanvasRenderingContext2D;
  width: number;
  height: number;
  colours: Colours;
}

/** A colour from the style sheet as the canvas understands it: `light-dark()` is resolved only in a real element. */
class Probe {
  private readonly element = h("span", { hidden: true });
  private readonly known = new Map<string, string>();
  constructor(parent: HTMLElement) {
    parent.append(this.element);
  }

  forget(): void {
    this.known.clear();
  }

  colours(): Colours {
    const style = getComputedStyle(this.element);
    const named = (name: string) => this.of("", `var(--${name})`);
    return {
      paper: named("paper"),
      raised: named("raised"),
      line: named("line"),
      ink: named("ink"),
      soft: named("soft"),
      link: named("link"),
      again: this.of(classes("retransmission_timeout"), "var(--cause)"),
      ack: this.of(classes("server_think"), "var(--cause)"),
      sack: this.of(classes("delayed_ack"), "var(--cause)"),
      focus: named("focus"),
      font: style.fontFamily,
      cause: (name) => this.of(classes(name), "var(--cause)"),
    };
  }

  private of(kind: string, colour: string): string {
    const key = `${kind} ${colour}`;
    let known = this.known.get(key);
    if (known === undefined) {
      this.element.className = kind;
      this.element.style.color = colour;
      known = getComputedStyle(this.element).color;
      this.known.set(key, known);
    }
    return known;
  }
}

/** Draws with `draw` when it must; ask for it with `change`. */
export class Surface {
  readonly canvas: HTMLCanvasElement;
  private readonly probe: Probe;
  private pending = false;
  private width = 0;
  private height = 0;
  private ratio = 1;

  constructor(
    private readonly parent: HTMLElement,
    props: Record<string, string>,
    private readonly draw: (frame: Frame) => void,
  ) {
    this.canvas = h("canvas", props);
    parent.append(this.canvas);
    this.probe = new Probe(parent);
    new ResizeObserver(() => this.change()).observe(parent);
    const recolour = () => {
      this.probe.forget();
      this.now();
    };
    for (const query of ["(prefers-color-scheme: dark)", "print", "(forced-colors: active)"]) {
      matchMedia(query).addEventListener("change", recolour);
    }
    addEventListener("beforeprint", recolour);
    addEventListener("afterprint", recolour);
  }

  change(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.now();
    });
  }

  private now(): void {
    const { clientWidth: width, clientHeight: height } = this.parent;
    const ratio = Math.min(4, devicePixelRatio || 1);
    if (width === 0 || height === 0) return;
    if (width !== this.width || height !== this.height || ratio !== this.ratio) {
      [this.width, this.height, this.ratio] = [width, height, ratio];
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
    }
    const pen = this.canvas.getContext("2d");
    if (!pen) return;
    const colours = this.probe.colours();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, height);
    this.draw({ pen, width, height, colours });
  }
}

/** The size of text in a chart, which follows the page's. */
export function textSize(): number {
  return 0.75 * parseFloat(getComputedStyle(document.documentElement).fontSize);
}

/** As much of a text as there is room for. */
export function fit(pen: CanvasRenderingContext2D, text: string, room: number): string {
  if (pen.measureText(text).width <= room) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? "" : `${text.slice(0, low)}…`;
}

/** Black or white, whichever can be read on a colour that the canvas was given. */
export function readableOn(colour: string): string {
  const [r = 0, g = 0, b = 0] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  const scale = colour.startsWith("color(") ? 255 : 1;
  return (0.299 * r + 0.587 * g + 0.114 * b) * scale > 140 ? "#000" : "#fff";
}
