// What was varied with all else the same: the round-trip time, the rate or the loss of the network, or a number that a
// contender was given (`rclone transfers=4`, `=16`). Each becomes a chart of lines with bands: how does it scale?

import { h } from "../dom";
import { lines, type Line } from "../lines";
import { share, time } from "../units";
import { label, type Block, type Cell, type Interval, type Network } from "./data";

interface Axis {
  name: string;
  say: (value: number) => string;
}

interface Sweep {
  title: string;
  axis: Axis;
  lines: Line[];
}

function all(blocks: Block[]): Sweep[] {
  return [...byNetwork(blocks), ...bySetting(blocks)];
}

/** Whether anything was varied with all else the same. */
export function isSwept(blocks: Block[]): boolean {
  return all(blocks).length > 0;
}

export function sweeps(blocks: Block[]): HTMLElement | null {
  const found = all(blocks);
  if (found.length === 0) return null;
  return h(
    "section",
    { id: "sweeps", "aria-labelledby": "sweeps-heading" },
    h("h2", { id: "sweeps-heading" }, "How it scales"),
    h("p", { class: "soft" }, "Lines connect medians; bands are the intervals of the medians."),
    found.map((sweep) => lines(sweep.title, sweep.axis.name, sweep.axis.say, sweep.lines)),
  );
}

function point(x: number, { median_s, ci95_s }: Cell): { x: number; y: number; band: Interval | null }[] {
  return median_s === null ? [] : [{ x, y: median_s, band: ci95_s }];
}

/** Whether there is a line to draw at all. */
function worth(lines: Line[]): Line[] {
  return lines.filter(({ points }) => points.length > 1);
}

/** What of a network is a number that may be varied. */
const VARIED: Record<string, Axis & { read: (network: Network) => number | null }> = {
  rtt: { name: "round-trip time", say: time, read: ({ rtt_s }) => rtt_s },
  rate: { name: "rate", say: (value) => `${value >= 1e9 ? value / 1e9 : value / 1e6}\u00a0${value >= 1e9 ? "Gbit/s" : "Mbit/s"}`, read: ({ link }) => quantity(link.rate, { kbit: 1e3, mbit: 1e6, gbit: 1e9, bit: 1 }) },
  loss: { name: "loss", say: share, read: ({ link }) => (link.loss === undefined || link.loss === null ? 0 : quantity(link.loss, { "%": 0.01, "": 1 })) },
};

function quantity(value: unknown, units: Record<string, number>): number | null {
  const parts = /^([\d.]+)\s*([a-z%]*)$/i.exec(String(value ?? ""));
  const unit = units[(parts?.[2] ?? "?").toLowerCase()];
  return parts && unit !== undefined ? Number(parts[1]) * unit : null;
}

function byNetwork(blocks: Block[]): Sweep[] {
  return Object.entries(VARIED).flatMap(([key, { name, say, read }]) => {
    // Networks that are the same but for this one thing.
    const alike = new Map<string, Block[]>();
    for (const block of blocks) {
      const { [key]: _, seed: __, note: ___, ...rest } = block.network.link;
      const same = JSON.stringify([block.workload.name, Object.entries(rest).sort()]);
      alike.set(same, [...(alike.get(same) ?? []), block]);
    }
    return [...alike.values()].flatMap((family) => {
      const steps = family.flatMap((block) => {
        const x = read(block.network);
        return x === null ? [] : [{ x, block }];
      }).sort((a, b) => a.x - b.x);
      const [first] = family;
      if (!first || new Set(steps.map(({ x }) => x)).size < 2) return [];
      const names = [...new Set(steps.flatMap(({ block }) => block.rows.map(({ cell }) => label(cell))))];
      const drawn = names.map((contender) => ({
        name: contender,
        points: steps.flatMap(({ x, block }) => block.rows.filter(({ cell }) => label(cell) === contender).flatMap(({ cell }) => point(x, cell))),
      }));
      const floor = { name: "the floor", floor: true, points: steps.map(({ x, block }) => ({ x, y: block.floor, band: null })) };
      const shown = worth(drawn);
      return shown.length === 0 ? [] : [{ title: `${first.workload.name} by ${name}`, axis: { name, say }, lines: [...shown, floor] }];
    });
  });
}

function bySetting(blocks: Block[]): Sweep[] {
  return blocks.flatMap((block) => {
    const families = new Map<string, { setting: string; family: string; points: Line["points"] }>();
    for (const { cell } of block.rows) {
      const settings = [...cell.contender.matchAll(/ ([\w-]+)=(\d+)(?= |$)/g)];
      for (const [text, setting = "", value] of settings) {
        const family = label(cell).replace(text, "");
        const key = JSON.stringify([family, setting]);
        const known = families.get(key) ?? { setting, family, points: [] };
        known.points.push(...point(Number(value), cell));
        families.set(key, known);
      }
    }
    const settings = [...new Set([...families.values()].map(({ setting }) => setting))];
    return settings.flatMap((setting) => {
      const own = [...families.values()].filter((family) => family.setting === setting);
      const drawn = worth(own.map(({ family, points }) => ({ name: family, points: [...points].sort((a, b) => a.x - b.x) })));
      if (drawn.length === 0) return [];
      const xs = drawn.flatMap(({ points }) => points.map(({ x }) => x));
      const floor = { name: "the floor", floor: true, points: [Math.min(...xs), Math.max(...xs)].map((x) => ({ x, y: block.floor, band: null })) };
      return [{ title: `${block.workload.name} over ${block.network.name} by ${setting}`, axis: { name: setting, say: String }, lines: [...drawn, floor] }];
    });
  });
}
