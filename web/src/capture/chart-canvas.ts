// A canvas with the resolution of the screen. It is redrawn when its size or the colours change, at most once per frame of
// the screen. Colours come from the style sheet, which also decides on light, dark and print.

import { classes } from "../causes";
import { h } from "../dom";

export interface Colours {
  paper: string;
  raised: string;
  line: string;
  ink: string;
  soft: string;
  link: string;
  retransmission: string;
  ack: string;
  sack: string;
  focus: string;
  font: string;
  cause: (name: string) => string;
  phase: (name: string) => string;
  /** The colour of one of several lines or areas. */
  series: (number: number) => string;
}

export interface Frame {
  pen: CanvasRenderingContext2D;
  width: number;
  height: number;
  colours: Colours;
}

/** Resolves colours of the style sheet for the canvas: `light-dark()` is resolved only in an element. */
class ColourResolver {
  private readonly element = h("span", { hidden: true });
  private readonly cache = new Map<string, string>();
  constructor(parent: HTMLElement) {
    parent.append(this.element);
  }

  clear(): void {
    this.cache.clear();
  }

  colours(): Colours {
    const style = getComputedStyle(this.element);
    const variable = (name: string) => this.resolve("", `var(--${name})`);
    return {
      paper: variable("paper"),
      raised: variable("raised"),
      line: variable("line"),
      ink: variable("ink"),
      soft: variable("soft"),
      link: variable("link"),
      retransmission: this.resolve(classes("retransmission_timeout"), "var(--cause)"),
      ack: this.resolve(classes("server_think"), "var(--cause)"),
      sack: this.resolve(classes("delayed_ack"), "var(--cause)"),
      focus: variable("focus"),
      font: style.fontFamily,
      cause: (name) => this.resolve(classes(name), "var(--cause)"),
      phase: (name) => this.resolve(`phase ${name}`, "var(--cause)"),
      series: (number) => this.resolve(`colour${number}`, "var(--series)"),
    };
  }

  private resolve(kind: string, colour: string): string {
    const key = `${kind} ${colour}`;
    let resolved = this.cache.get(key);
    if (resolved === undefined) {
      this.element.className = kind;
      this.element.style.color = colour;
      resolved = getComputedStyle(this.element).color;
      this.cache.set(key, resolved);
    }
    return resolved;
  }
}

/** A canvas that fills `parent` and calls `draw`; `requestDraw` asks for a new frame. */
export class ChartCanvas {
  readonly canvas: HTMLCanvasElement;
  private readonly resolver: ColourResolver;
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
    this.resolver = new ColourResolver(parent);
    new ResizeObserver(() => this.requestDraw()).observe(parent);
    const recolour = () => {
      this.resolver.clear();
      this.drawFrame();
    };
    for (const query of ["(prefers-color-scheme: dark)", "print", "(forced-colors: active)"]) {
      matchMedia(query).addEventListener("change", recolour);
    }
    addEventListener("beforeprint", recolour);
    addEventListener("afterprint", recolour);
  }

  requestDraw(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.drawFrame();
    });
  }

  private drawFrame(): void {
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
    const colours = this.resolver.colours();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.fillStyle = colours.paper;
    pen.fillRect(0, 0, width, height);
    this.draw({ pen, width, height, colours });
  }
}

/** The size of a chart's text, from the page's. */
export function textSize(): number {
  return 0.75 * parseFloat(getComputedStyle(document.documentElement).fontSize);
}

/** The left and right ends of the plot in charts of a connection, in pixels: all of them have the same time axis. */
export function plotEnds(width: number): [number, number] {
  const text = textSize();
  return [6.4 * text, width - 0.8 * text];
}

/** Truncates a text to a width. */
export function fit(pen: CanvasRenderingContext2D, text: string, width: number): string {
  if (pen.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? "" : `${text.slice(0, low)}…`;
}

/** Black or white, whichever is readable on this colour of a canvas. */
export function readableOn(colour: string): string {
  const [r = 0, g = 0, b = 0] = (colour.match(/[\d.]+/g) ?? []).map(Number);
  const scale = colour.startsWith("color(") ? 255 : 1;
  return (0.299 * r + 0.587 * g + 0.114 * b) * scale > 140 ? "#000" : "#fff";
}
