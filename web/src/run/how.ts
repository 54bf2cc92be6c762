// How it was done: enough to doubt it, and to do it again.

import { h, type Child } from "../dom";
import { table, wide } from "../table";
import { count, moment, rate, share, time } from "../units";
import { definitions } from "./cell";
import type { Calibration, Run } from "./data";

export function how(run: Run): HTMLElement {
  const { host } = run;
  return h(
    "section",
    { id: "how", "aria-labelledby": "how-heading" },
    h("h2", { id: "how-heading" }, "How it was done"),
    run.command && [h("p", {}, "The command that makes it again:"), h("div", { class: "command" }, h("pre", { tabindex: 0 }, run.command), copy(run.command))],
    definitions([
      ["Begun", moment(run.started)],
      ["Machine", [host.cpu, host.kernel && `kernel ${host.kernel}`].filter(Boolean).join(", ")],
      ...Object.entries(run.settings).map(([name, value]): [string, Child] => [name, value]),
    ]),
    calibration(run.calibration),
    pairs("Programs and their settings", "program", "version and settings", host.tools),
    pairs("Settings of TCP on the run's hosts", "sysctl", "value", host.sysctls),
    networks(run),
    h("p", { class: "soft small" }, "Every sample ran in a world of its own, over an emulated link between real TCP stacks; rivals took turns. The bar ends at the median; each dot is a sample; the line across is the interval of the median; the dashed line is the floor."),
  );
}

/** A button that copies a text, where a page may. */
function copy(text: string): HTMLElement | null {
  if (!navigator.clipboard) return null;
  const button = h("button", { type: "button", class: "button screen" }, "Copy");
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(text).then(
      () => { button.textContent = "Copied"; },
      () => { button.textContent = "Select it by hand, please"; },
    );
  });
  return button;
}

function calibration(measured: Calibration | null): Child {
  if (!measured) return h("p", {}, "How true the emulated link is was not measured.");
  const us = (microseconds: number) => time(microseconds / 1e6);
  const off = Math.abs(measured.rate_error ?? 0);
  return [
    h("h3", {}, "How true the emulated link is on this machine"),
    h("p", {}, `At 1000 packets a second half of them came less than ${us(measured.delay_error_p50_us)} late, and 99 % less than ${us(measured.delay_error_p99_us)}. A rate of ${rate(1e8)} was off by ${off < 0.0001 ? "less than 0.01\u00a0%" : share(off)}. The link carries ${count(measured.packets_per_s)} packets a second.${measured.real_time === false ? " The relays did not run in real time, so other programs could keep them waiting." : ""}`),
    (measured.delay_errors ?? []).length > 0 && wide("How late packets came", table("How late packets came, by packets a second", [
      { head: "packets/s", number: true, cell: (row) => count(row.packets_per_s) },
      { head: "median", number: true, cell: (row) => us(row.p50_us) },
      { head: "99 %", number: true, cell: (row) => us(row.p99_us) },
      { head: "worst", number: true, cell: (row) => us(row.max_us) },
    ], measured.delay_errors, { shown: true })),
  ];
}

function pairs(caption: string, name: string, value: string, all: Record<string, string>): Child {
  const rows = Object.entries(all);
  if (rows.length === 0) return null;
  return h("details", {}, h("summary", {}, caption), wide(caption, table(caption, [{ head: name, cell: ([key]) => h("code", {}, key) }, { head: value, cell: ([, text]) => text.replace(/\t/g, " ") }], rows)));
}

function networks(run: Run): Child {
  return h("details", {}, h("summary", {}, "Networks and workloads"),
    wide("Networks", table("Networks", [{ head: "network", cell: ({ name }) => name }, { head: "is", cell: ({ description }) => description }, { head: "round trip", number: true, cell: ({ rtt_s }) => time(rtt_s) }], run.networks, { shown: true })),
    wide("Workloads", table("Workloads", [{ head: "workload", cell: ({ name }) => name }, { head: "is", cell: ({ description }) => description }], run.workloads, { shown: true })));
}
