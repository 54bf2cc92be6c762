// The confusion matrix: a row for each knob, a column for each cause that was said. What is right is green and marked.

import { title } from "../causes";
import { h } from "../dom";
import { table, scrollable, type Column } from "../table";
import { counted } from "../units";
import { judgement, type Case } from "./data";
import { section } from "./section";

interface Row {
  knob: string;
  turns: string;
  expected: string[];
  /** How often each cause was said. */
  said: Map<string, number>;
  count: number;
}

export function matrix(judged: Case[], of: string): HTMLElement {
  const rows = new Map<string, Row>();
  for (const one of judged) {
    const found = judgement(one, of);
    if (!found?.is_judged) continue;
    const knob = one.case.knob;
    const row = rows.get(knob) ?? { knob, turns: one.turns, expected: one.expected, said: new Map<string, number>(), count: 0 };
    // An event, such as a reset, is no part of the time: a finding that names it is right.
    const said = found.is_right && !one.expected.includes(found.said) ? (one.expected[0] ?? found.said) : found.said;
    row.said.set(said, (row.said.get(said) ?? 0) + 1);
    row.count += 1;
    rows.set(knob, row);
  }
  // The causes in the order of the knobs: what is right is near the diagonal.
  const all = [...rows.values()];
  const said = new Set(all.flatMap((row) => [...row.said.keys()]));
  const causes = [...new Set([...all.flatMap(({ expected }) => expected), ...said])].filter((cause) => said.has(cause));
  const columns: Column<Row>[] = [
    { head: "knob", class: "sticky", key: ({ knob }) => knob, cell: ({ knob, turns }) => h("span", { class: "knob", title: turns }, knob) },
    { head: "cases", number: true, key: ({ count }) => count, cell: ({ count }) => count },
    ...causes.map((cause): Column<Row> => ({ head: title(cause), class: "said", cell: (row) => entry(row, cause) })),
  ];
  const caption = `The knob that was turned, and the dominant cause that was said, captured at: ${of} (✓ is right)`;
  const view = table(caption, columns, all, { hasVisibleCaption: true });
  view.classList.add("confusion");
  return section("matrix", "What is said", all.length === 0 ? h("p", {}, "Nothing is judged.") : scrollable("Confusion matrix", view));
}

function entry({ said, expected, count, knob }: Row, cause: string): HTMLElement | null {
  const number = said.get(cause);
  if (!number) return null;
  const isRight = expected.includes(cause);
  const cell = h("span", { class: isRight ? "said-right" : "said-wrong", title: `${counted(number, "case")} of ${knob}: ${title(cause)}` }, isRight ? `${number} ✓` : number);
  cell.style.setProperty("--part", String(number / count));
  return cell;
}
