// Creates elements without a framework, since a report is drawn once. Text is inserted as text nodes, so it cannot become
// markup, and styles through the object model, because the Content Security Policy forbids `style` attributes.

export type Child = Node | string | number | null | undefined | false | Child[];
type Value = string | number | boolean | null | undefined | ((event: Event) => void);
export type Props = Record<string, Value>;

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element. Functions (`on…`) become listeners; `true` an empty attribute; null and `false` are omitted. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), props, children);
}

/** An SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], props, children);
}

function fill<E extends Element>(element: E, props: Props, children: Child[]): E {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

/** Appends children, without null, undefined and `false`. */
export function append(element: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child instanceof Node ? child : String(child));
  }
}

let ids = 0;

/** A unique id. */
export function uid(prefix: string): string {
  ids += 1;
  return `${prefix}-${ids}`;
}

/** Names as an id and URL fragment. */
export function slug(...names: string[]): string {
  return names.map((name) => encodeURIComponent(name).replace(/[%'()*!~.]/g, "_")).join("/");
}
