// The schema `longhaul.run/1` (docs/src/run-json.md), and what a report adds to it under `page`.

import { slug } from "../dom";

export type Interval = [number, number];

export interface Run {
  schema: "longhaul.run/1";
  experiment: string;
  title: string;
  question: string;
  command: string;
  started: string;
  host: { kernel: string; cpu: string; sysctls: Record<string, string>; tools: Record<string, string> };
  calibration: Calibration | null;
  settings: Record<string, string>;
  networks: Network[];
  workloads: Workload[];
  /** Missing in runs of earlier builds, like the next one. */
  contenders?: { name: string; version: string; about: string }[];
  /** What the source measured with, beside this run. */
  conditions?: { about: string; theirs: string; ours: string }[];
  cells: Cell[];
  comparisons: Comparison[];
  claims: Claim[];
  page: Page;
}

export interface Calibration {
  delay_error_p50_us: number;
  delay_error_p99_us: number;
  packets_per_s: number;
  rate_error: number;
  real_time: boolean | null;
  delay_errors: { packets_per_s: number; p50_us: number; p99_us: number; max_us: number }[];
}

export interface Network {
  name: string;
  description: string;
  rtt_s: number;
  link: Record<string, unknown>;
}

export interface Workload {
  name: string;
  description: string;
  steps: number;
  step: string;
}

export interface Cell {
  workload: string;
  network: string;
  contender: string;
  model: boolean;
  status: "ok" | "skipped" | "failed";
  reason: string | null;
  samples_s: number[];
  median_s: number | null;
  ci95_s: Interval | null;
  bytes: number | null;
  requests: number | null;
  methods: Record<string, number> | null;
  protocols: { http: string; tls: string | null; cipher: string | null }[] | null;
  connections: number | null;
  server_cpu_s: number | null;
  round_trips: number | null;
  syns?: { firsts: number; firsts_with_data: number; later: number; later_with_data: number; later_beside?: number } | null;
  floor_s: number;
  ideal_s?: number | null;
  /** The paints of a page in a browser; missing in runs of earlier builds, like the next. */
  fcp_s?: number | null;
  lcp_s?: number | null;
  /** The page load of the sample nearest to the median. */
  page_view?: PageView;
  times_floor: number | null;
  /** What the machine did to each sample; missing in runs of earlier builds, like the next two. */
  machine_samples?: Machine[];
  repeated?: number;
  /** Why the cell is marked: other programs on the machine disturbed it. */
  disturbed?: string | null;
  why: { round: number; seconds: Record<string, number>; answer: string } | null;
}

/** A page load as its client saw it; times are in seconds from the first request. */
export interface PageView {
  fcp_s?: number | null;
  lcp_s?: number | null;
  requests: PageRequest[];
  /** JPEGs in base64, of an unmeasured load. */
  film?: { at_s: number; jpeg: string }[];
}

export interface PageRequest {
  name: string;
  start_s: number;
  head_s: number | null;
  end_s: number | null;
  cached: boolean;
}

export interface Machine {
  client_wait_s: number | null;
  server_wait_s: number | null;
  late_p99_us: number;
  added_s: number;
  disturbed: boolean;
}

export interface Comparison {
  a: string;
  b: string;
  ratio: number;
  ci95: Interval;
  confidence: number;
  differs: boolean;
}

export interface Claim {
  id: string;
  source: string;
  said: string;
  workload: string;
  network: string;
  in_run: boolean;
  refuted_by?: string;
  /** Whether the verdict rests on a model; missing in runs of earlier builds. */
  model?: boolean;
  measured: string;
  ci95: Interval | null;
  confidence: number | null;
  verdict: "reproduced" | "exceeded" | "missed" | "refuted" | "inconclusive" | "not-judged";
}

/** The conclusions in words, and the files next to run.json. */
export interface Page {
  /** The answers, each with its question. */
  answer: { about: string; text: string }[];
  /** The conclusions for each workload on each network. */
  blocks: { workload: string; network: string; sentences: string[] }[];
  /** For each of `cells`: its rank, as `2` or `2–4`, and its files. */
  cells: CellExtras[];
  /** The remedy for each cause. */
  remedies: Record<string, string>;
  /** What was chosen for the whole run, in words: names and values. */
  settings: [string, string][];
}

export interface CellExtras {
  place: string | null;
  capture: string | null;
  slowest: string | null;
  view: string | null;
}

/** A contender's name, with `(model)` if it is one. */
export function label(cell: Cell): string {
  return cell.model ? `${cell.contender} (model)` : cell.contender;
}

/** The name of a cell in comparisons. */
export function path(cell: Cell): string {
  return `${cell.workload}/${cell.network}/${cell.contender}`;
}

/** A workload on a network: the cells that are compared. */
export interface Block {
  id: string;
  workload: Workload;
  network: Network;
  rows: Row[];
  sentences: string[];
  floor: number;
}

/** A cell with its rank and files. */
export interface Row {
  cell: Cell;
  extras: CellExtras;
}

/** The blocks of a run, in its order, without empty ones. */
export function blocks(run: Run): Block[] {
  const rows = new Map<string, Row[]>();
  run.cells.forEach((cell, index) => {
    const extras = run.page.cells[index] ?? { place: null, capture: null, slowest: null, view: null };
    const key = JSON.stringify([cell.workload, cell.network]);
    rows.set(key, [...(rows.get(key) ?? []), { cell, extras }]);
  });
  return run.page.blocks.flatMap(({ workload, network, sentences }) => {
    const group = rows.get(JSON.stringify([workload, network])) ?? [];
    const [work, net] = [run.workloads.find(({ name }) => name === workload), run.networks.find(({ name }) => name === network)];
    if (group.length === 0 || !work || !net) return [];
    return [{ id: slug(workload, network), workload: work, network: net, rows: group, sentences, floor: group[0]?.cell.floor_s ?? 0 }];
  });
}
