// The matrix: contenders × (workload on network). A shade says how far a time is from the best of its column, and so
// do the words in it.

import { h } from "../dom";
import { table, wide, type Column } from "../table";
import { factor, time } from "../units";
import { name } from "./block";
import type { Block, Cell } from "./data";

interface Row {
  cells: (Cell | undefined)[];
  any: Cell;
}

/** Nothing, where one block says it all. */
export function overview(blocks: Block[]): HTMLElement | null {
  if (blocks.length < 2) return null;
  const best = blocks.map(({ rows }) => Math.min(...rows.flatMap(({ cell }) => cell.median_s ?? [])));
  const contenders = new Map<string, Row>();
  blocks.forEach(({ rows }, place) => {
    for (const { cell } of rows) {
      const row = contenders.get(cell.contender) ?? { cells: [], any: cell };
      row.cells[place] = cell;
      contenders.set(cell.contender, row);
    }
  });
  const columns: Column<Row>[] = [
    { head: "contender", class: "sticky", key: ({ any }) => any.contender, cell: ({ any }) => name(any) },
    ...blocks.map((block, place): Column<Row> => ({
      head: `${block.workload.name}, ${block.network.name}`,
      number: true,
      axis: () => h("a", { href: `#${block.id}`, class: "screen small", "aria-label": `details of ${block.workload.name} over ${block.network.name}` }, "details"),
      key: ({ cells }) => cells[place]?.median_s,
      cell: ({ cells }) => entry(cells[place], best[place] ?? 0),
    })),
  ];
  const view = table("Median times, and multiples of the fastest", columns, [...contenders.values()], { shown: true, sort: 1 });
  view.classList.add("matrix");
  return wide("All results", view);
}

function entry(cell: Cell | undefined, best: number): HTMLElement | string {
  if (!cell) return "";
  if (cell.median_s === null) return h("span", { class: `status ${cell.status}`, title: cell.reason }, cell.status);
  const times = best > 0 ? cell.median_s / best : 1;
  const shade = h("span", { class: "shade" }, time(cell.median_s), h("small", {}, times === 1 ? "fastest" : factor(times)));
  shade.style.setProperty("--far", String(Math.min(1, Math.log10(times) / 1.5)));
  return shade;
}
