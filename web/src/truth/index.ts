// The view of `longhaul.truth/1`: how often `haul explain` names the knob that was turned, what it says instead, how often
// its predictions hold, and the cases in which it is most wrong.

import { title } from "../causes";
import { h, type Child } from "../dom";
import { definitionList } from "../run/cell-details";
import { table, scrollable, type Column } from "../table";
import { counted, keepPercents, share, time } from "../units";
import { calibration } from "./calibration";
import { judgement, kind, name, type Bars, type Case, type Judgement, type Truth } from "./data";
import { matrix } from "./matrix";
import { section } from "./section";

/** The kind of capture that is shown first. */
const FIRST = "client";

export function render(root: HTMLElement, truth: Truth): void {
  document.title = `Ground truth, seed ${truth.seed} · Longhaul`;
  const judged = truth.cases.filter(({ is_judged }) => is_judged);
  const kinds = truth.bars.filter(({ judged: count }) => count > 0).map(kind);
  const perKind = h("div");
  const draw = (of: string) => perKind.replaceChildren(matrix(judged, of), calibration(judged, of), worst(judged, of));
  draw(kinds.includes(FIRST) ? FIRST : (kinds[0] ?? FIRST));
  root.append(
    h(
      "main",
      {},
      h(
        "header",
        {},
        h("p", { class: "soft small" }, `Ground truth · seed ${truth.seed}, ${truth.split === "report" ? "to report" : "to develop with"} · ${counted(truth.cases.length, "case")}, ${judged.length} judged · Linux ${truth.kernel}`),
        h("h1", {}, "Does haul explain name the knob that was turned?"),
        answer(truth).map((sentence, index) => h("p", { class: index === 0 ? "answer" : null }, keepPercents(sentence))),
      ),
      section("bars", "By place and kind of capture", barTable(truth.bars)),
      kinds.length > 1 && choice(kinds, draw),
      perKind,
      section("how", "Method", definitionList([
        ["A case", "turns one knob of a real transfer over an emulated link, and measures the same transfer with the knob turned back"],
        ["Judged", "are cases whose knob cost half of the time or more"],
        ["Skipped", truth.skipped.length > 0 ? h("ul", {}, truth.skipped.map((why) => h("li", {}, why))) : "nothing"],
        ["Programs", Object.entries(truth.programs).map(([program, version]) => `${program} ${version}`).join(", ")],
      ])),
    ),
  );
}

function part(count: number, all: number): string {
  return all === 0 ? "–" : share(count / all);
}

/** The result in sentences. */
function answer({ bars, cases }: Truth): string[] {
  const of = bars.find((one) => kind(one) === FIRST) ?? bars[0];
  if (!of || of.judged === 0) return ["No case is judged: in none did the knob cost half of the time."];
  const blamed = cases.filter(({ is_judged, is_still_blamed }) => is_judged && is_still_blamed).length;
  return [
    `Captured at the ${of.vantage}, the dominant cause is the knob in ${of.right} of ${counted(of.judged, "case")} (${part(of.right, of.judged)}). In ${part(of.wrong_party, of.judged)}, the first line confidently blames somebody else.`,
    of.ranged > 0 ? `${part(of.held, of.ranged)} of ${counted(of.ranged, "prediction")} hold the time that was measured without the knob; they say 90 %.` : "Nothing was predicted with an interval.",
    `With the knob turned back, the first line still names its cause in ${blamed} of ${cases.filter(({ is_judged }) => is_judged).length} cases.`,
  ];
}

function barTable(bars: Bars[]): HTMLElement {
  const off = (value: number | null) => (value === null ? "–" : share(value));
  const ratio = (head: string, hint: string, count: (bar: Bars) => number, all: (bar: Bars) => number, extra = false): Column<Bars> => ({
    head,
    hint,
    number: true,
    class: extra ? "extra" : "",
    key: (bar) => (all(bar) === 0 ? null : count(bar) / all(bar)),
    cell: (bar) => [part(count(bar), all(bar)), h("small", { class: "soft" }, ` ${count(bar)}/${all(bar)}`)],
  });
  const view = table<Bars>("Results by place and kind of capture", [
    { head: "capture", class: "sticky", key: kind, cell: kind },
    ratio("right", "the dominant cause is the knob", ({ right }) => right, ({ judged }) => judged),
    ratio("wrong party", "the first line confidently blames somebody else", ({ wrong_party }) => wrong_party, ({ judged }) => judged),
    ratio("place", "the place of the capture is recognised", ({ place_right }) => place_right, ({ judged }) => judged, true),
    { head: "cost off", hint: "median difference between the cause’s time and the knob’s true cost", number: true, key: ({ cost_error }) => cost_error, cell: ({ cost_error }) => off(cost_error) },
    { head: "prediction off", hint: "median difference between predicted and measured time", number: true, key: ({ prediction_error }) => prediction_error, cell: ({ prediction_error, predicted }) => [off(prediction_error), h("small", { class: "soft" }, ` of ${predicted}`)] },
    ratio("in range", "predictions whose interval of 90 % holds the measured time", ({ held }) => held, ({ ranged }) => ranged),
    ratio("adds up", "the causes of each transfer add up to its duration", ({ conserved }) => conserved, ({ explained }) => explained, true),
    ratio("bytes", "all bytes are counted, and none twice", ({ byte_exact }) => byte_exact, ({ countable }) => countable, true),
  ], bars);
  return scrollable("Results by place and kind of capture", view);
}

/** The choice of the kind of capture that the rest of the page is about. */
function choice(kinds: string[], draw: (of: string) => void): HTMLElement {
  const option = (of: string) => h("label", {}, h("input", { type: "radio", name: "kind", value: of, checked: of === FIRST, onchange: () => draw(of) }), ` ${of}`);
  return h("fieldset", { class: "choice screen" }, h("legend", {}, "Below: captures at"), kinds.map(option));
}

/** The wrong cases: those that blame somebody else first, then those in which the knob cost most. */
function worst(judged: Case[], of: string): HTMLElement {
  const wrong = judged.flatMap((one): [Case, Judgement][] => {
    const said = judgement(one, of);
    return said && said.is_judged && !said.is_right ? [[one, said]] : [];
  });
  wrong.sort(([a, x], [b, y]) => Number(y.blames_wrong_party) - Number(x.blames_wrong_party) || b.cost_s - a.cost_s);
  const columns: Column<[Case, Judgement]>[] = [
    { head: "case", class: "sticky", key: ([one]) => name(one), cell: ([one]) => name(one) },
    { head: "turned", class: "extra", cell: ([{ turns }]) => turns },
    { head: "said", key: ([, { said }]) => title(said), cell: ([, { said, share: ofTime }]) => [title(said), h("small", { class: "soft" }, ` ${share(ofTime)}`)] },
    { head: "right", cell: ([{ expected }]) => expected.map(title).join(" or ") },
    { head: "blames somebody else", key: ([, { blames_wrong_party }]) => (blames_wrong_party ? "yes" : "no"), cell: ([, { blames_wrong_party }]) => (blames_wrong_party ? "yes" : "no") },
    { head: "time", number: true, key: ([{ turned }]) => turned.duration_s, cell: ([{ turned }]) => time(turned.duration_s) },
    { head: "without the knob", number: true, key: ([{ back }]) => back.duration_s, cell: ([{ back }]) => time(back.duration_s) },
  ];
  const view = table(`Wrong cases, captured at: ${of}`, columns, wrong, { detail: ([one]) => () => everyCapture(one) });
  const summary = `${wrong.length} of ${counted(judged.filter((one) => judgement(one, of)?.is_judged).length, "case")} are wrong (captured at: ${of}).`;
  return section("worst", "Worst cases", h("p", {}, summary), wrong.length > 0 && scrollable("Wrong cases", view));
}

/** What is said of all captures of a case. */
function everyCapture(one: Case): Child {
  return table<Judgement>(`All captures of ${name(one)}`, [
    { head: "capture", cell: kind },
    { head: "said", cell: ({ said, share: ofTime, is_right }) => `${is_right ? "✓ " : ""}${title(said)}, ${share(ofTime)}` },
    { head: "first line", cell: ({ headline }) => (headline === null ? "healthy" : title(headline)) },
    { head: "predicted", number: true, cell: ({ predicted_s }) => (predicted_s === null ? "–" : time(predicted_s)) },
    { head: "file", class: "extra", cell: ({ capture }) => h("code", {}, capture) },
  ], one.judgements);
}
