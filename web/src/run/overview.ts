// The matrix of all results: contenders × (workload on network). Shade and text show a time as a multiple of the fastest of
// its column.

import { h } from "../dom";
import { table, scrollable, type Column } from "../table";
import { factor, time } from "../units";
import { contenderName } from "./workload-results";
import type { Block, Cell } from "./data";

interface Row {
  cells: (Cell | undefined)[];
  any: Cell;
}

/** Null if there is only one block. */
export function overview(blocks: Block[]): HTMLElement | null {
  if (blocks.length < 2) return null;
  // Nothing rests on a disturbed cell, so it is not the fastest either.
  const best = blocks.map(({ rows }) => Math.min(...rows.flatMap(({ cell }) => (cell.disturbed ? [] : (cell.median_s ?? [])))));
  const contenders = new Map<string, Row>();
  blocks.forEach(({ rows }, index) => {
    for (const { cell } of rows) {
      const row = contenders.get(cell.contender) ?? { cells: [], any: cell };
      row.cells[index] = cell;
      contenders.set(cell.contender, row);
    }
  });
  const columns: Column<Row>[] = [
    { head: "contender", class: "sticky", key: ({ any }) => any.contender, cell: ({ any }) => contenderName({ ...any, disturbed: null }) },
    ...blocks.map((block, index): Column<Row> => ({
      head: `${block.workload.name}, ${block.network.name}`,
      number: true,
      axis: () => h("a", { href: `#${block.id}`, class: "screen small", "aria-label": `details of ${block.workload.name} over ${block.network.name}` }, "details"),
      key: ({ cells }) => cells[index]?.median_s,
      cell: ({ cells }) => entry(cells[index], best[index] ?? 0),
    })),
  ];
  const view = table("Median times, and multiples of the fastest", columns, [...contenders.values()], { hasVisibleCaption: true, sort: 1 });
  view.classList.add("matrix");
  const isDisturbed = blocks.some(({ rows }) => rows.some(({ cell }) => cell.disturbed));
  return h("div", {}, scrollable("All results", view), isDisturbed && h("p", { class: "soft small" }, "⚠ disturbed: the machine kept programs or packets waiting, so nothing rests on this time."));
}

function entry(cell: Cell | undefined, best: number): HTMLElement | string {
  if (!cell) return "";
  if (cell.median_s === null) return h("span", { class: `status ${cell.status}`, title: cell.reason }, cell.status);
  if (cell.disturbed) return h("span", { class: "shade disturbed", title: cell.disturbed }, `⚠\u00a0${time(cell.median_s)}`, h("small", {}, "disturbed"));
  const multiple = best > 0 ? cell.median_s / best : 1;
  const shade = h("span", { class: "shade" }, time(cell.median_s), h("small", {}, multiple === 1 ? "fastest" : factor(multiple)));
  shade.style.setProperty("--far", String(Math.min(1, Math.log10(multiple) / 1.5)));
  return shade;
}
