// The view of `longhaul.live/1`, a run in progress: progress, samples, and a button to stop it. At its end the page loads
// the report.

import { h, slug, type Child } from "../dom";
import { stripPlot } from "../run/strip-plot";
import { axis, linear } from "../scale";
import { table, scrollable } from "../table";
import { counted, dateTime, share, time } from "../units";

/** The schema `longhaul.live/1`. */
export interface Live {
  schema: "longhaul.live/1";
  title: string;
  question: string;
  started: string;
  elapsed_s: number;
  stage: "calibrating" | "measuring" | "explaining" | "ended";
  done: number;
  planned: number;
  cells: LiveCell[];
}

interface LiveCell {
  workload: string;
  network: string;
  contender: string;
  model: boolean;
  floor_s: number;
  status: "waiting" | "running" | "done" | "dropped";
  reason: string | null;
  planned: number;
  samples_s: number[];
}

const STAGES = {
  calibrating: "Calibrating the emulator",
  measuring: "Measuring",
  explaining: "Explaining the captures",
  ended: "The run has ended",
};

/** The pause after a failed request, in milliseconds. */
const RETRY_MS = 1000;
/** The number of failed requests after which the program counts as gone. */
const MAX_FAILURES = 5;

export function render(root: HTMLElement, first: Live): void {
  document.title = `${first.title}, in progress · Longhaul`;
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Samples taken" });
  const stage = h("p", { class: "answer", role: "status" });
  const progress = h("p", { class: "soft" });
  const results = h("div");
  root.append(
    h("main", {}, h("p", { class: "soft small" }, `${first.title} · started ${dateTime(first.started)}`), h("h1", {}, first.question || first.title), stage, bar, progress, cancel(), h("h2", {}, "Results so far"), results),
  );
  const shown = new Map<string, { text: string; container: HTMLElement }>();
  const show = (live: Live) => {
    const stageTitle = STAGES[live.stage];
    if (stage.textContent !== stageTitle) stage.textContent = stageTitle;
    bar.value = live.planned > 0 ? live.done / live.planned : 0;
    progress.textContent = remaining(live);
    document.title = `${share(bar.value)} · ${live.title} · Longhaul`;
    for (const cells of blocks(live.cells)) {
      const [cell] = cells;
      if (!cell) continue;
      const key = slug(cell.workload, cell.network);
      const drawn = shown.get(key) ?? { text: "", container: results.appendChild(h("section", { id: key })) };
      const text = JSON.stringify(cells);
      if (text !== drawn.text) drawn.container.replaceChildren(...block(cells));
      shown.set(key, { text, container: drawn.container });
    }
  };
  show(first);
  void poll(show, (message) => {
    stage.textContent = message;
    document.querySelector(".cancel")?.remove();
  });
}

/** Polls the state until the run has ended. */
async function poll(show: (live: Live) => void, onLost: (why: string) => void): Promise<void> {
  for (let version = 0, failures = 0; failures < MAX_FAILURES; ) {
    try {
      const answer = await fetch(`state?after=${version}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(String(answer.status));
      const update = (await answer.json()) as { version: number; live: Live };
      version = update.version;
      failures = 0;
      show(update.live);
      if (update.live.stage === "ended") {
        location.replace("report");
        return;
      }
    } catch {
      failures += 1;
      await new Promise((done) => setTimeout(done, RETRY_MS));
    }
  }
  onLost("The run no longer responds. Its results so far are in its folder.");
}

function remaining({ done, planned, elapsed_s, stage }: Live): string {
  const samples = `${done} of ${counted(planned, "sample")}, ${time(elapsed_s)} elapsed`;
  if (stage !== "measuring" || done < 3 || done >= planned) return samples;
  return `${samples}, about ${time((elapsed_s / done) * (planned - done))} left`;
}

/** Stopping a run takes two clicks, to prevent accidents. */
function cancel(): HTMLElement {
  const container = h("div", { class: "cancel" });
  const button = (text: string, act: () => void) => h("button", { type: "button", class: "button", onclick: act }, text);
  const ask = () => {
    const yes = button("Stop", end);
    container.replaceChildren("Stop the run? Results so far are kept. ", yes, " ", button("Continue", offer));
    yes.focus();
  };
  const offer = () => container.replaceChildren(button("Stop the run…", ask));
  const end = () => {
    container.replaceChildren("Stopping after the current sample…");
    fetch("cancel", { method: "POST" }).then(
      (answer) => { if (!answer.ok) offer(); },
      offer,
    );
  };
  offer();
  return container;
}

function blocks(cells: LiveCell[]): LiveCell[][] {
  const grouped = new Map<string, LiveCell[]>();
  for (const cell of cells) {
    const key = JSON.stringify([cell.workload, cell.network]);
    const group = grouped.get(key);
    if (group) group.push(cell);
    else grouped.set(key, [cell]);
  }
  return [...grouped.values()];
}

function median(values: number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const [low, high] = [sorted[Math.ceil(middle) - 1], sorted[Math.floor(middle)]];
  return low === undefined || high === undefined ? null : (low + high) / 2;
}

function block(cells: LiveCell[]): HTMLElement[] {
  const [first] = cells;
  if (!first) return [];
  const scale = linear(Math.max(first.floor_s, ...cells.flatMap(({ samples_s }) => samples_s)));
  const view = table<LiveCell>(
    `${first.workload} over ${first.network}: times so far`,
    [
      { head: "contender", cell: ({ contender, model }) => [contender, model && [" ", h("span", { class: "tag" }, "model")]] },
      { head: "time per sample", class: "chart", axis: () => axis(scale), cell: (cell) => (cell.status === "dropped" ? dropped(cell) : stripPlot({ ...cell, median_s: median(cell.samples_s), ci95_s: null }, scale)) },
      { head: "median so far", number: true, cell: ({ samples_s }) => { const middle = median(samples_s); return middle === null ? "–" : time(middle); } },
      { head: "samples", number: true, cell: ({ samples_s, planned }) => `${samples_s.length} of ${planned}` },
      { head: "state", class: "state", cell: ({ status }) => h("span", { class: `status ${status}` }, status === "running" ? "● running" : status === "dropped" ? "dropped" : status) },
    ],
    cells,
  );
  view.classList.add("results");
  return [h("h3", {}, first.workload, h("span", { class: "soft" }, " over "), first.network), scrollable(`${first.workload} over ${first.network}`, view)];
}

function dropped({ reason }: LiveCell): Child {
  return h("span", { class: "soft small" }, reason ?? "no reason given");
}
