// The method: everything that is needed to check and repeat the run.

import { h, type Child } from "../dom";
import { table, scrollable } from "../table";
import { count, dateTime, rate, share, time } from "../units";
import { definitionList } from "./cell-details";
import type { Calibration, Run } from "./data";

export function method(run: Run): HTMLElement {
  const { host } = run;
  return h(
    "section",
    { id: "how", "aria-labelledby": "how-heading" },
    h("h2", { id: "how-heading" }, "Method"),
    run.command && [h("p", {}, "Command to repeat the run:"), h("div", { class: "command" }, h("pre", { tabindex: 0 }, run.command), copy(run.command))],
    definitionList([
      ["Started", dateTime(run.started)],
      ["Machine", [host.cpu, host.kernel && `kernel ${host.kernel}`].filter(Boolean).join(", ")],
      ...run.page.settings,
    ]),
    calibration(run.calibration),
    contenders(run),
    pairs("Programs and their settings", "program", "version and settings", host.tools),
    pairs("TCP settings of the hosts", "sysctl", "value", host.sysctls),
    networks(run),
    h("p", { class: "soft small" }, "Every sample ran on a new testbed: an emulated link between real TCP stacks. Contenders took turns. In the charts, the bar ends at the median, each dot is a sample, the horizontal line is the median’s interval, and the dashed line is the floor."),
  );
}

/** A button that copies a text, if the page has a clipboard. */
function copy(text: string): HTMLElement | null {
  if (!navigator.clipboard) return null;
  const button = h("button", { type: "button", class: "button screen" }, "Copy");
  button.addEventListener("click", () => {
    navigator.clipboard.writeText(text).then(
      () => { button.textContent = "Copied"; },
      () => { button.textContent = "Copy it by hand"; },
    );
  });
  return button;
}

function calibration(measured: Calibration | null): Child {
  if (!measured) return h("p", {}, "The emulator was not calibrated.");
  const us = (microseconds: number) => time(microseconds / 1e6);
  const error = Math.abs(measured.rate_error ?? 0);
  return [
    h("h3", {}, "Accuracy of the emulator on this machine"),
    h("p", {}, `At 1000 packets/s, the median delay error is ${us(measured.delay_error_p50_us)} and the 99th percentile ${us(measured.delay_error_p99_us)}. A rate of ${rate(1e8)} is off by ${error < 0.0001 ? "less than 0.01\u00a0%" : share(error)}. The link carries up to ${count(measured.packets_per_s)} packets/s.${measured.real_time === false ? " The relays ran without real-time priority, so other programs could delay them." : ""}`),
    (measured.delay_errors ?? []).length > 0 && scrollable("Delay error", table("Delay error by packet rate", [
      { head: "packets/s", number: true, cell: (row) => count(row.packets_per_s) },
      { head: "median", number: true, cell: (row) => us(row.p50_us) },
      { head: "99th percentile", number: true, cell: (row) => us(row.p99_us) },
      { head: "maximum", number: true, cell: (row) => us(row.max_us) },
    ], measured.delay_errors, { hasVisibleCaption: true })),
  ];
}

function pairs(caption: string, name: string, value: string, all: Record<string, string>): Child {
  const rows = Object.entries(all);
  if (rows.length === 0) return null;
  return h("details", {}, h("summary", {}, caption), scrollable(caption, table(caption, [{ head: name, cell: ([key]) => h("code", {}, key) }, { head: value, cell: ([, text]) => text.replace(/\t/g, " ") }], rows)));
}

function contenders({ contenders = [] }: Run): Child {
  if (contenders.length === 0) return null;
  return h("details", {}, h("summary", {}, "Contenders"), scrollable("Contenders", table("Contenders", [{ head: "contender", cell: ({ name }) => h("code", {}, name) }, { head: "version", cell: ({ version }) => version }, { head: "what it runs, and what takes its time", cell: ({ about }) => about }], contenders)));
}

function networks(run: Run): Child {
  return h("details", {}, h("summary", {}, "Networks and workloads"),
    scrollable("Networks", table("Networks", [{ head: "network", cell: ({ name }) => name }, { head: "description", cell: ({ description }) => description }, { head: "RTT", number: true, cell: ({ rtt_s }) => time(rtt_s) }], run.networks, { hasVisibleCaption: true })),
    scrollable("Workloads", table("Workloads", [{ head: "workload", cell: ({ name }) => name }, { head: "description", cell: ({ description }) => description }], run.workloads, { hasVisibleCaption: true })));
}
