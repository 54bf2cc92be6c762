// The schema `longhaul.truth/1`, as far as its view needs it.

export interface Truth {
  schema: "longhaul.truth/1";
  seed: number;
  split: "develop" | "report";
  kernel: string;
  programs: Record<string, string>;
  skipped: string[];
  cases: Case[];
  bars: Bars[];
}

export interface Case {
  case: { index: number; knob: string };
  /** Measured with the knob turned, and turned back. */
  turned: Measured;
  back: Measured;
  turns: string;
  expected: string[];
  cost_s: number;
  is_judged: boolean;
  is_still_blamed: boolean;
  judgements: Judgement[];
}

interface Measured {
  duration_s: number;
  bytes: number;
}

/** What is said of one capture of a case. */
export interface Judgement {
  vantage: string;
  variant: string;
  capture: string;
  is_judged: boolean;
  said: string;
  share: number;
  headline: string | null;
  is_right: boolean;
  blames_wrong_party: boolean;
  cost_s: number;
  predicted_s: number | null;
  range_s: [number, number] | null;
}

/** The counts over the judged cases of one place and kind of capture. */
export interface Bars {
  vantage: string;
  variant: string;
  judged: number;
  right: number;
  place_right: number;
  wrong_party: number;
  cost_error: number | null;
  predicted: number;
  prediction_error: number | null;
  ranged: number;
  held: number;
  explained: number;
  conserved: number;
  countable: number;
  byte_exact: number;
}

/** A kind of capture by name: `client`, or `client, begun-late`. */
export function kind({ vantage, variant }: { vantage: string; variant: string }): string {
  return variant === "full" ? vantage : `${vantage}, ${variant}`;
}

/** What is said of one kind of capture of a case. */
export function judgement(one: Case, of: string): Judgement | undefined {
  return one.judgements.find((each) => kind(each) === of);
}

/** The folder of a case, as a name. */
export function name({ case: { index, knob } }: Case): string {
  return `${String(index).padStart(3, "0")}-${knob}`;
}
