// The entry point: reads the JSON in the page, and shows the view of its schema.

import "./theme.css";
import * as capture from "./capture/index";
import * as compare from "./compare/index";
import { h } from "./dom";
import * as live from "./live/index";
import * as run from "./run/index";
import * as truth from "./truth/index";

// The program wrote this JSON into this file, so its types are not checked.
const views: Record<string, (root: HTMLElement, data: never) => void> = {
  "longhaul.run/1": run.render,
  "longhaul.compare/1": compare.render,
  "longhaul.live/1": live.render,
  "longhaul.truth/1": truth.render,
  "longhaul.view/1": capture.render,
};

function main(): void {
  const root = document.getElementById("page");
  const data = document.getElementById("data")?.textContent ?? "";
  if (!root) return;
  if (data.trim() === "") {
    root.append(h("main", {}, h("h1", {}, "Empty report"), h("p", {}, "This is the template of Longhaul's reports, without data.")));
    return;
  }
  const read = JSON.parse(data) as { schema?: unknown };
  const view = typeof read.schema === "string" ? views[read.schema] : undefined;
  if (view) {
    view(root, read as never);
  } else {
    root.append(h("main", {}, h("h1", {}, "Unsupported report"), h("p", {}, `This page cannot show the schema “${String(read.schema)}”.`)));
  }
}

main();
