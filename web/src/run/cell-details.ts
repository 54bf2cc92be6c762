// The details of one cell: its time by cause with remedies, its samples, requests and captures.

import { causeBar, causeTable } from "../cause-bar";
import { title } from "../causes";
import { h, type Child } from "../dom";
import { bytes, count, counted, share, listInWords, time, times } from "../units";
import { label, type Cell, type Row, type Run } from "./data";

export function cellDetails(run: Run, { cell, extras }: Row): Child {
  return [why(run, cell), facts(cell), files(extras)];
}

function why(run: Run, cell: Cell): Child {
  if (!cell.why) return cell.reason ? h("p", {}, cell.reason) : null;
  const { seconds, answer, round } = cell.why;
  if (Object.keys(seconds).length === 0) return h("p", {}, answer);
  const largest = Object.entries(seconds).sort(([, a], [, b]) => b - a).slice(0, 3);
  const total = Object.values(seconds).reduce((sum, part) => sum + part, 0);
  const remedied = largest.filter(([cause, part], index) => (index === 0 || part >= 0.1 * total) && Object.hasOwn(run.page.remedies, cause));
  return [
    h("p", {}, h("strong", {}, "Where the time went"), ` (sample ${round + 1}, ${time(total)}): ${answer}.`),
    causeBar(seconds),
    h("div", { class: "side-by-side" },
      causeTable(`Time of ${label(cell)} by cause`, seconds),
      remedied.length > 0 && h("div", {}, h("p", {}, h("strong", {}, "What to change")), h("ul", {}, remedied.map(([cause, part]) => h("li", {}, h("strong", {}, `${title(cause)}, ${share(part / total)}: `), `${run.page.remedies[cause] ?? ""}.`))))),
  ];
}

function facts(cell: Cell): Child {
  const protocols = (cell.protocols ?? []).map(({ http, tls, cipher }) => [http, tls, cipher].filter(Boolean).join(", "));
  const methods = Object.entries(cell.methods ?? {}).sort(([, a], [, b]) => b - a).map(([method, number]) => `${count(number)} ${method}`);
  const rows: [string, string | null][] = [
    ["Median", cell.median_s === null ? null : `${time(cell.median_s)}${cell.ci95_s ? `, interval ${times(...cell.ci95_s)}` : ""}`],
    ["Ideal", cell.ideal_s ? `${time(cell.ideal_s)}: handshakes, slow start and dependencies of the page, and its recorded computation and think times` : null],
    ["Samples, in order", cell.samples_s.length > 0 ? cell.samples_s.map(time).join(", ") : null],
    ["Machine", machine(cell)],
    ["Requests", cell.requests === null ? null : `${counted(cell.requests, "request")}${methods.length > 0 ? `: ${listInWords(methods)}` : ""}`],
    ["Protocols", protocols.length > 0 ? protocols.join("; ") : null],
    ["Connections", cell.connections === null ? null : counted(cell.connections, "TCP connection")],
    ["Data in SYNs", fastOpen(cell)],
    ["Bytes on the link", cell.bytes === null ? null : `${bytes(cell.bytes)} in both directions, headers included`],
    ["Server CPU", cell.server_cpu_s === null || cell.server_cpu_s === undefined ? null : `${time(cell.server_cpu_s)}${cell.median_s ? `, ${share(cell.server_cpu_s / cell.median_s)} of one core` : ""}`],
  ];
  return definitionList(rows);
}

/** How much of each sample's time the machine may have added. */
function machine({ machine_samples: samples, samples_s, repeated, disturbed }: Cell): string | null {
  if (!samples || samples.length === 0) return null;
  const parts = samples.map(({ added_s }, index) => share(added_s / (samples_s[index] ?? added_s)));
  const again = repeated ? `; ${counted(repeated, "attempt")} discarded` : "";
  return `may have added ${parts.join(", ")} of the samples' time${again}${disturbed ? "; disturbed: nothing is concluded from this cell" : ""}`;
}

/** The number of SYNs with data (TCP Fast Open), if there are any. */
function fastOpen({ syns }: Cell): string | null {
  if (!syns || syns.firsts_with_data + syns.later_with_data === 0) return null;
  const fallbacks = syns.later_beside ? `; ${syns.later_beside} of these ${syns.later_beside === 1 ? "is a plain fallback" : "are plain fallbacks"} beside an unanswered SYN` : "";
  return `in ${syns.firsts_with_data} of ${syns.firsts} first connections, and ${syns.later_with_data} of ${syns.later} later ones, of all samples${fallbacks}`;
}

/** A list of names and values; rows without a value are omitted. */
export function definitionList(rows: [string, Child][]): HTMLElement | null {
  const present = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return present.length === 0 ? null : h("dl", {}, present.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function files({ capture, slowest, view }: Row["extras"]): Child {
  if (!capture && !view) return null;
  const link = (path: string, text: string) => h("a", { href: path.split("/").map(encodeURIComponent).join("/") }, text);
  const parts: Child[] = [];
  if (view) parts.push(link(view, "packet report"));
  if (capture) parts.push([parts.length > 0 ? "; " : null, link(capture, "capture of the typical sample")]);
  if (slowest) parts.push(["; ", link(slowest, "capture of the slowest sample")]);
  return [
    h("p", {}, h("strong", {}, "Packets: "), parts, "."),
    capture && !view ? h("p", { class: "soft small" }, "For a packet report, run ", h("code", {}, `haul explain ${quoted(capture)} --html page.html`), ` in this report’s folder.`) : null,
  ];
}

function quoted(path: string): string {
  return /^[\w./=,@%+-]+$/.test(path) ? path : `'${path.replace(/'/g, "'\\''")}'`;
}
