// One workload on one network: its table is its chart, fastest first, and a row opens to say where its time went.

import { causeBar } from "../bar";
import { h, type Child } from "../dom";
import { axis, linear, logarithmic, type Scale } from "../scale";
import { table, wide, type Column } from "../table";
import { count, counted, factor, time } from "../units";
import { detail } from "./cell";
import { comparisons } from "./comparisons";
import { label, type Block, type Cell, type Row, type Run } from "./data";
import { strip } from "./strip";

/** Whether bars begin at zero or, by ratios, at the floor. */
export type Reading = "linear" | "ratios";

export function block(run: Run, own: Block, reading: Reading): HTMLElement {
  const heading = `${own.id}-heading`;
  return h(
    "section",
    { id: own.id, class: "block", "aria-labelledby": heading },
    h("h3", { id: heading }, own.workload.name, h("span", { class: "soft" }, " over "), own.network.name),
    h("p", { class: "soft small" }, `${own.workload.description}; ${own.network.description}. Floor (the minimum that physics allows): ${time(own.floor)}.`),
    own.sentences.map((sentence) => h("p", {}, sentence)),
    wide(`Results of ${own.workload.name} over ${own.network.name}`, drawTable(run, own, reading)),
    comparisons(run, own),
  );
}

function scaleOf(own: Block, reading: Reading): Scale {
  const shown = own.rows.flatMap(({ cell }) => [...cell.samples_s, ...(cell.ci95_s ?? [])]);
  const high = Math.max(own.floor, ...shown);
  return reading === "ratios" && own.floor > 0 ? logarithmic(Math.min(own.floor, ...shown), high) : linear(high);
}

function drawTable(run: Run, own: Block, reading: Reading): HTMLTableElement {
  const scale = scaleOf(own, reading);
  const some = (has: (cell: Cell) => boolean) => own.rows.some(({ cell }) => has(cell));
  const number = (head: string, hint: string, value: (row: Row) => number | null, say: (value: number) => string): Column<Row> => ({
    head,
    hint,
    number: true,
    class: "extra",
    key: value,
    cell: (row) => orDash(value(row), say),
  });
  const columns: Column<Row>[] = [
    { head: "contender", key: ({ cell }) => label(cell), cell: ({ cell }) => name(cell) },
    {
      head: "time per sample",
      class: "chart",
      axis: () => axis(scale),
      cell: ({ cell }) => (cell.status === "ok" ? strip(cell, scale) : unmeasured(cell, scale)),
    },
    { head: "median", number: true, key: ({ cell }) => cell.median_s, cell: ({ cell }) => orDash(cell.median_s, time) },
  ];
  if (own.rows.some(({ beside }) => beside.place !== null)) {
    columns.push({ head: "rank", hint: "2–4: the samples do not decide between these ranks", number: true, class: "extra", key: ({ beside }) => (beside.place === null ? null : Number.parseInt(beside.place, 10)), cell: ({ beside }) => beside.place ?? "–" });
  }
  columns.push({ head: "× floor", hint: "the median as a multiple of the floor", number: true, key: ({ cell }) => cell.times_floor, cell: ({ cell }) => orDash(cell.times_floor, factor) });
  columns.push(number("round trips", "the median divided by the RTT of the network", ({ cell }) => cell.round_trips, (trips) => (trips < 10 ? trips.toFixed(1) : count(trips))));
  if (some(({ requests }) => requests !== null)) columns.push(number("requests", "HTTP requests", ({ cell }) => cell.requests, count));
  if (some(({ connections }) => connections !== null)) columns.push(number("connec\u00adtions", "TCP connections", ({ cell }) => cell.connections, count));
  if (some(({ why }) => hasCauses(why))) {
    columns.push({ head: "where the time went", class: "where", cell: ({ cell }) => (cell.why && hasCauses(cell.why) ? causeBar(cell.why.seconds) : cell.status === "ok" ? "–" : "") });
  }
  const view = table(`${own.workload.name} over ${own.network.name}: times by contender`, columns, own.rows, {
    sort: 2,
    detail: (row) => () => detail(run, row),
    class: ({ cell }) => `cell ${cell.status}`,
  });
  view.classList.add("results");
  return view;
}

function hasCauses(why: Cell["why"]): boolean {
  return why !== null && why !== undefined && Object.keys(why.seconds).length > 0;
}

function orDash(value: number | null, say: (value: number) => string): string {
  return value === null ? "–" : say(value);
}

/** A contender's name, told apart in words where it is a model. */
export function name(cell: Cell): Child {
  return [cell.contender, cell.model ? [" ", h("span", { class: "tag", title: "Replays the requests of a client that cannot run here" }, "model")] : null];
}

/** What stands in place of a bar; a cell that failed shows the samples before it did. */
function unmeasured(cell: Cell, scale: Scale): Child {
  const before = cell.samples_s.length > 0;
  return [
    h("span", { class: `status ${cell.status}` }, cell.status === "skipped" ? "skipped" : "failed"),
    h("span", { class: "soft small" }, ` ${cell.reason ?? "no reason given"}${before ? `; ${counted(cell.samples_s.length, "sample")} before that` : ""}`),
    before ? strip({ ...cell, median_s: null, ci95_s: null, floor_s: null }, scale) : null,
  ];
}
