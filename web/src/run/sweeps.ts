// Line charts of everything that was varied alone: RTT, rate or loss of the network, or a contender's numeric setting
// (`rclone transfers=4`, `=16`).

import { h } from "../dom";
import { lineChart, type Line } from "../line-chart";
import { share, time } from "../units";
import { label, type Block, type Cell, type Interval, type Network } from "./data";

interface Axis {
  name: string;
  format: (value: number) => string;
}

interface Sweep {
  title: string;
  axis: Axis;
  lines: Line[];
}

function allSweeps(blocks: Block[]): Sweep[] {
  return [...byNetwork(blocks), ...bySetting(blocks)];
}

/** Whether anything was varied alone. */
export function isSwept(blocks: Block[]): boolean {
  return allSweeps(blocks).length > 0;
}

export function sweeps(blocks: Block[]): HTMLElement | null {
  const found = allSweeps(blocks);
  if (found.length === 0) return null;
  return h(
    "section",
    { id: "sweeps", "aria-labelledby": "sweeps-heading" },
    h("h2", { id: "sweeps-heading" }, "How it scales"),
    h("p", { class: "soft" }, "Lines connect medians; bands are the intervals of the medians."),
    found.map((sweep) => lineChart(sweep.title, sweep.axis.name, sweep.axis.format, sweep.lines)),
  );
}

function point(x: number, { median_s, ci95_s }: Cell): { x: number; y: number; band: Interval | null }[] {
  return median_s === null ? [] : [{ x, y: median_s, band: ci95_s }];
}

/** The lines with at least two points. */
function drawable(lines: Line[]): Line[] {
  return lines.filter(({ points }) => points.length > 1);
}

/** The numeric parameters of a network. */
const PARAMETERS: Record<string, Axis & { read: (network: Network) => number | null }> = {
  rtt: { name: "round-trip time", format: time, read: ({ rtt_s }) => rtt_s },
  rate: { name: "rate", format: (value) => `${value >= 1e9 ? value / 1e9 : value / 1e6}\u00a0${value >= 1e9 ? "Gbit/s" : "Mbit/s"}`, read: ({ link }) => quantity(link.rate, { kbit: 1e3, mbit: 1e6, gbit: 1e9, bit: 1 }) },
  loss: { name: "loss", format: share, read: ({ link }) => (link.loss === undefined || link.loss === null ? 0 : quantity(link.loss, { "%": 0.01, "": 1 })) },
};

function quantity(value: unknown, units: Record<string, number>): number | null {
  const parts = /^([\d.]+)\s*([a-z%]*)$/i.exec(String(value ?? ""));
  const unit = units[(parts?.[2] ?? "?").toLowerCase()];
  return parts && unit !== undefined ? Number(parts[1]) * unit : null;
}

function byNetwork(blocks: Block[]): Sweep[] {
  return Object.entries(PARAMETERS).flatMap(([key, { name, format, read }]) => {
    // Networks that differ only in this parameter.
    const families = new Map<string, Block[]>();
    for (const block of blocks) {
      const { [key]: _, seed: __, note: ___, ...rest } = block.network.link;
      const familyKey = JSON.stringify([block.workload.name, Object.entries(rest).sort()]);
      families.set(familyKey, [...(families.get(familyKey) ?? []), block]);
    }
    return [...families.values()].flatMap((family) => {
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
      const shown = drawable(drawn);
      return shown.length === 0 ? [] : [{ title: `${first.workload.name} by ${name}`, axis: { name, format }, lines: [...shown, floor] }];
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
      const drawn = drawable(own.map(({ family, points }) => ({ name: family, points: [...points].sort((a, b) => a.x - b.x) })));
      if (drawn.length === 0) return [];
      const xs = drawn.flatMap(({ points }) => points.map(({ x }) => x));
      const floor = { name: "the floor", floor: true, points: [Math.min(...xs), Math.max(...xs)].map((x) => ({ x, y: block.floor, band: null })) };
      return [{ title: `${block.workload.name} over ${block.network.name} by ${setting}`, axis: { name: setting, format: String }, lines: [...drawn, floor] }];
    });
  });
}
