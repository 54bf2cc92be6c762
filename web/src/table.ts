// Tables with sorting and expandable rows, accessible by keyboard and screen reader. They are also the charts: a column may
// draw its value on an axis that all rows share.

import { h, uid, type Child } from "./dom";

export interface Column<Row> {
  head: string;
  /** An axis below the head. */
  axis?: () => Child;
  /** Right-aligned. */
  number?: boolean;
  /** The class of the column's cells. */
  class?: string;
  /** A tooltip that explains the head. */
  hint?: string;
  cell: (row: Row) => Child;
  /** The sort key; a column without it cannot be sorted. Null is last in both orders. */
  key?: (row: Row) => number | string | null | undefined;
}

export interface Options<Row> {
  /** The initial sort column; descending with `down`. */
  sort?: number;
  down?: boolean;
  /** Details below an expandable row; null if it has none. */
  detail?: (row: Row) => (() => Child) | null;
  /** A row's class and its id in the page. */
  class?: (row: Row) => string;
  id?: (row: Row) => string;
  /** Whether the caption is visible, and not only for screen readers. */
  hasVisibleCaption?: boolean;
}

interface Drawn<Row> {
  row: Row;
  body: HTMLElement;
}

/** A table; the first column heads its rows. */
export function table<Row>(caption: string, columns: Column<Row>[], rows: Row[], options: Options<Row> = {}): HTMLTableElement {
  const drawn = rows.map((row) => ({ row, body: drawRow(columns, row, options) }));
  const heads = columns.map((column) => drawHead(column));
  const view = h(
    "table",
    {},
    h("caption", options.hasVisibleCaption ? {} : { class: "visually-hidden" }, caption),
    h("thead", {}, h("tr", {}, heads)),
  );
  columns.forEach((column, index) => {
    if (!column.key) return;
    heads[index]?.querySelector("button")?.addEventListener("click", () => {
      sort(view, columns, heads, drawn, index, heads[index]?.getAttribute("aria-sort") === "ascending");
    });
  });
  if (options.sort === undefined) view.append(...drawn.map(({ body }) => body));
  else sort(view, columns, heads, drawn, options.sort, options.down ?? false);
  return view;
}

/** A container that scrolls sideways if its content is wider than the window, also by keyboard. */
export function scrollable(label: string, ...content: Child[]): HTMLElement {
  const view = h("div", { class: "wide", role: "region", tabindex: 0, "aria-label": label }, ...content);
  // Fades out at the side where more is.
  const mark = () => {
    const hidden = view.scrollWidth - view.clientWidth;
    view.classList.toggle("more-left", view.scrollLeft > 1);
    view.classList.toggle("more-right", view.scrollLeft < hidden - 1);
  };
  view.addEventListener("scroll", mark, { passive: true });
  new ResizeObserver(mark).observe(view);
  return view;
}

function drawHead<Row>(column: Column<Row>): HTMLTableCellElement {
  const className = [column.number ? "number" : "", column.class ?? ""].join(" ").trim();
  const label = column.key ? h("button", { type: "button", title: column.hint }, column.head) : h("span", { title: column.hint }, column.head);
  return h("th", { scope: "col", class: className || null }, label, column.axis?.());
}

function drawRow<Row>(columns: Column<Row>[], row: Row, options: Options<Row>): HTMLElement {
  const drawDetails = options.detail?.(row) ?? null;
  const cells = columns.map((column, index) => {
    const className = [column.number ? "number" : "", column.class ?? ""].join(" ").trim();
    const cell = index === 0 ? h("th", { scope: "row", class: className || null }) : h("td", { class: className || null });
    cell.append(...[column.cell(row)].flat(9).filter((child) => child !== null && child !== undefined && child !== false).map((child) => (child instanceof Node ? child : String(child))));
    return cell;
  });
  const body = h("tbody", { class: options.class?.(row), id: options.id?.(row) }, h("tr", {}, cells));
  if (drawDetails) makeExpandable(body, cells[0], columns.length, drawDetails);
  return body;
}

/** Makes a row expandable: its head becomes a button. The details are drawn on first use. */
function makeExpandable(body: HTMLElement, head: HTMLElement | undefined, width: number, drawDetails: () => Child): void {
  if (!head) return;
  const id = uid("more");
  const name = [...head.childNodes];
  const button = h("button", { type: "button", class: "opens", "aria-expanded": "false", "aria-controls": id }, ...name);
  head.append(button);
  const details = h("tr", { class: "more", id, hidden: true }, h("td", { colspan: width }));
  body.append(details);
  button.addEventListener("click", () => {
    const open = details.hidden;
    const cell = details.firstElementChild;
    if (open && cell && !cell.hasChildNodes()) cell.append(h("div", {}, drawDetails()));
    details.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
  });
}

function sort<Row>(view: HTMLTableElement, columns: Column<Row>[], heads: HTMLElement[], drawn: Drawn<Row>[], by: number, down: boolean): void {
  const key = columns[by]?.key;
  if (!key) return;
  const sorted = [...drawn].sort((a, b) => {
    const [x, y] = [key(a.row), key(b.row)];
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return down ? -order : order;
  });
  view.append(...sorted.map(({ body }) => body));
  heads.forEach((head, index) => {
    if (index === by) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}
