// The page loads of a workload on a network as their clients saw them, side by side on one time axis: the waterfall of
// each contender's typical load, with its paints, and pictures of the page.

import { h, s, type Child } from "../dom";
import { axis, linear, type Scale } from "../scale";
import { counted, time } from "../units";
import { label, type Block, type Cell, type PageRequest, type PageView } from "./data";

/** The height of a request, in pixels. */
const ROW = 9;

/** The waterfalls of a block, or nothing if its contenders loaded no page. */
export function pageViews(block: Block): Child {
  const loads = block.rows.flatMap(({ cell }) => (cell.page_view && cell.page_view.requests.length > 0 ? [{ cell, view: cell.page_view }] : []));
  if (loads.length === 0) return null;
  loads.sort((a, b) => (a.cell.median_s ?? 0) - (b.cell.median_s ?? 0));
  const last = Math.max(...loads.flatMap(({ view }) => [...view.requests.map(({ end_s, start_s }) => end_s ?? start_s), ...paints(view).map(([, at]) => at)]));
  const scale = linear(last);
  const content = h("div");
  const draw = () => {
    if (content.childElementCount === 0) content.append(h("div", { class: "page-views" }, loads.map(({ cell, view }) => pageView(cell, view, scale))));
  };
  return h("details", { class: "page-loads", ontoggle: draw }, h("summary", {}, `Waterfalls of ${counted(loads.length, "page load")}`), legend(loads.some(({ view }) => paints(view).length > 0)), content);
}

function legend(hasPaints: boolean): HTMLElement {
  const parts: [string, string][] = [["wait", "waiting"], ["receive", "receiving"], ["cached", "from the cache"]];
  const marks: Child = hasPaints ? h("li", {}, h("span", { class: "paint-sign", "aria-hidden": "true" }), "first and largest contentful paint") : null;
  return h("div", { class: "legend small" }, h("ul", {}, parts.map(([phase, text]) => h("li", {}, h("span", { class: `swatch phase ${phase}`, "aria-hidden": "true" }), text)), marks));
}

/** The times of the paints, with their names. */
function paints(view: PageView): [string, number][] {
  const all: [string, number | null | undefined][] = [["first contentful paint", view.fcp_s], ["largest contentful paint", view.lcp_s]];
  return all.flatMap(([name, at]): [string, number][] => (at === null || at === undefined ? [] : [[name, at]]));
}

function pageView(cell: Cell, view: PageView, scale: Scale): HTMLElement {
  const end = Math.max(...view.requests.map(({ end_s, start_s }) => end_s ?? start_s));
  const cached = view.requests.filter((request) => request.cached).length;
  const facts = [
    cached > 0 ? `${counted(view.requests.length, "request")}, ${cached} of them from the cache` : counted(view.requests.length, "request"),
    `last byte at ${time(end)}`,
    ...paints(view).map(([name, at]) => `${name} at ${time(at)}`),
  ];
  return h(
    "figure",
    {},
    h("figcaption", {}, h("strong", {}, label(cell)), h("span", { class: "soft small" }, ` ${facts.join("; ")}`)),
    axis(scale),
    waterfall(view, scale),
    film(cell, view),
  );
}

function waterfall(view: PageView, scale: Scale): SVGSVGElement {
  const height = ROW * view.requests.length;
  const grid = scale.ticks.map((mark) => s("line", { x1: `${scale.at(mark)}%`, x2: `${scale.at(mark)}%`, y1: 0, y2: height, class: "grid" }));
  const marks = paints(view).map(([name, at]) => s("line", { x1: `${scale.at(at)}%`, x2: `${scale.at(at)}%`, y1: 0, y2: height, class: "paint" }, s("title", {}, `${name}: ${time(at)}`)));
  const name = `Waterfall of ${counted(view.requests.length, "request")}`;
  return s("svg", { class: "strip requests", role: "img", "aria-label": name, height }, grid, view.requests.map((request, index) => bars(request, index * ROW, scale)), marks);
}

function bars(request: PageRequest, y: number, scale: Scale): SVGGElement {
  const end = request.end_s ?? request.head_s ?? request.start_s;
  const head = Math.min(request.head_s ?? end, end);
  const part = (from: number, to: number, phase: string) => {
    const [left, right] = [scale.at(from), scale.at(to)];
    return s("rect", { x: `${left}%`, width: `${Math.max(0.15, right - left)}%`, y: y + 1, height: ROW - 2, class: `phase ${phase}` });
  };
  const said = request.end_s === null || request.end_s === undefined ? "not finished" : time(end);
  const parts = request.cached ? [part(request.start_s, end, "cached")] : [part(request.start_s, head, "wait"), part(head, end, "receive")];
  return s("g", {}, s("title", {}, `${request.name}: ${time(request.start_s)} to ${said}`), parts);
}

function film(cell: Cell, view: PageView): Child {
  const pictures = view.film ?? [];
  if (pictures.length === 0) return null;
  const name = `Pictures of an unmeasured load by ${label(cell)}, before the measured one`;
  return [
    h("p", { class: "soft small" }, `${name}:`),
    h(
      "ol",
      { class: "film", "aria-label": name, tabindex: 0 },
      pictures.map(({ at_s, jpeg }) => h("li", {}, h("img", { src: `data:image/jpeg;base64,${jpeg}`, alt: `The page after ${time(at_s)}` }), h("span", { class: "soft small" }, time(at_s)))),
    ),
  ];
}
