// Tables that a person can sort and open rows of, with the keyboard and a screen reader as well. They are the charts
// here too: a column may draw its value on an axis that all rows share, beside the columns that say it.

import { h, uid, type Child } from "./dom";

export interface Column<Row> {
  head: string;
  /** Drawn beneath the head: an axis. */
  axis?: () => Child;
  /** Right-aligned. */
  number?: boolean;
  /** The class of the column's cells. */
  class?: string;
  /** What the head means. */
  hint?: string;
  cell: (row: Row) => Child;
  /** What rows are sorted by; a column without it cannot be sorted by. Null comes last in either order. */
  key?: (row: Row) => number | string | null | undefined;
}

export interface Options<Row> {
  /** By which column it is sorted at first, or descending with `down`. */
  sort?: number;
  down?: boolean;
  /** What opens below a row; rows of which it is null do not open. */
  detail?: (row: Row) => (() => Child) | null;
  /** A row's class and its id in the page. */
  class?: (row: Row) => string;
  id?: (row: Row) => string;
  /** A caption for everybody, not only for screen readers. */
  shown?: boolean;
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
    h("caption", options.shown ? {} : { class: "unseen" }, caption),
    h("thead", {}, h("tr", {}, heads)),
  );
  columns.forEach((column, place) => {
    if (!column.key) return;
    heads[place]?.querySelector("button")?.addEventListener("click", () => {
      sort(view, columns, heads, drawn, place, heads[place]?.getAttribute("aria-sort") === "ascending");
    });
  });
  if (options.sort === undefined) view.append(...drawn.map(({ body }) => body));
  else sort(view, columns, heads, drawn, options.sort, options.down ?? false);
  return view;
}

/** What may be wider than the window, scrolling by itself, with the keyboard as well. */
export function wide(label: string, ...content: Child[]): HTMLElement {
  return h("div", { class: "wide", role: "region", tabindex: 0, "aria-label": label }, ...content);
}

function drawHead<Row>(column: Column<Row>): HTMLTableCellElement {
  const kind = [column.number ? "number" : "", column.class ?? ""].join(" ").trim();
  const named = column.key ? h("button", { type: "button", title: column.hint }, column.head) : h("span", { title: column.hint }, column.head);
  return h("th", { scope: "col", class: kind || null }, named, column.axis?.());
}

function drawRow<Row>(columns: Column<Row>[], row: Row, options: Options<Row>): HTMLElement {
  const below = options.detail?.(row) ?? null;
  const cells = columns.map((column, place) => {
    const kind = [column.number ? "number" : "", column.class ?? ""].join(" ").trim();
    const cell = place === 0 ? h("th", { scope: "row", class: kind || null }) : h("td", { class: kind || null });
    cell.append(...[column.cell(row)].flat(9).filter((child) => child !== null && child !== undefined && child !== false).map((child) => (child instanceof Node ? child : String(child))));
    return cell;
  });
  const body = h("tbody", { class: options.class?.(row), id: options.id?.(row) }, h("tr", {}, cells));
  if (below) opens(body, cells[0], columns.length, below);
  return body;
}

/** Lets a row open: its head becomes a button. What is below is drawn when it is first asked for. */
function opens(body: HTMLElement, head: HTMLElement | undefined, width: number, below: () => Child): void {
  if (!head) return;
  const id = uid("more");
  const name = [...head.childNodes];
  const button = h("button", { type: "button", class: "opens", "aria-expanded": "false", "aria-controls": id }, ...name);
  head.append(button);
  const more = h("tr", { class: "more", id, hidden: true }, h("td", { colspan: width }));
  body.append(more);
  button.addEventListener("click", () => {
    const open = more.hidden;
    const place = more.firstElementChild;
    if (open && place && !place.hasChildNodes()) place.append(h("div", {}, below()));
    more.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
  });
}

function sort<Row>(view: HTMLTableElement, columns: Column<Row>[], heads: HTMLElement[], drawn: Drawn<Row>[], by: number, down: boolean): void {
  const key = columns[by]?.key;
  if (!key) return;
  const order = [...drawn].sort((a, b) => {
    const [x, y] = [key(a.row), key(b.row)];
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    const more = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
    return down ? -more : more;
  });
  view.append(...order.map(({ body }) => body));
  heads.forEach((head, place) => {
    if (place === by) head.setAttribute("aria-sort", down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  });
}
