/** The trade-off: what each candidate costs across, how good it is upwards, the best ones joined by a line. */

import { axisX, axisY, dot, gridX, gridY, line, plot, pointer, ruleX, ruleY, text, tip } from "@observablehq/plot";
import { h } from "../../common/dom.ts";
import { shortened } from "../format.ts";
import type { Axis, Cell, Point, Scatter } from "../schema.ts";
import { STYLE, column, framed, ticks } from "./frame.ts";

const HEIGHT = 320;
/** Two pictures stand side by side from so many pixels on. */
const WIDE = 620;
const STATES: Record<Point["state"], string> = {
  chosen: "shipped",
  front: "on the front: nothing else is better in all",
  fits: "beaten by another",
  misfit: "over the budget",
};

export function scatter(block: Scatter): HTMLElement {
  const costs = block.costs.map((_, at) => at).filter((at) => block.points.some((p) => number(p.costs[at])));
  const chosen = h("select", { "aria-label": "Upwards" }, ...block.gains.map((axis, at) => h("option", { value: at }, axis.title)));
  const pictures = (width: number): Element => {
    const each = width >= WIDE && costs.length > 1 ? Math.floor((width - 16) / 2) : width;
    const gain = Number(chosen.value);
    return h("div", { class: "panels" }, ...costs.map((cost) => picture(block, cost, gain, each)));
  };
  const figure = framed({
    title: block.title,
    note: block.note,
    summary: `${block.title}: ${block.points.map((point) => [point.label, ...point.about].join(", ")).join("; ")}`,
    legend: [],
    picture: pictures,
    columns: [
      column("", "", true),
      ...[...block.costs, ...block.gains].map((axis) => column(axis.title, axis.unit)),
      column("state"),
    ],
    rows: block.points.map((p): Cell[] => [p.label, ...p.costs, ...p.gains, STATES[p.state]]),
  });
  const place = figure.querySelector(".picture");
  chosen.addEventListener("change", () => place?.replaceChildren(pictures(place.clientWidth)));
  const head = h("div", { class: "keys" }, key(block));
  if (block.gains.length > 1) head.append(h("label", {}, "upwards: ", chosen));
  place?.before(head);
  return figure;
}

/** What the marks mean, of those that occur. */
function key(block: Scatter): HTMLElement {
  const states = (Object.keys(STATES) as Point["state"][]).filter((s) => block.points.some((p) => p.state === s));
  return h("ul", { class: "legend" }, ...states.map((state) => h("li", {}, h("span", { class: `dot ${state}` }), STATES[state])));
}

interface Placed {
  point: Point;
  x: number;
  y: number;
}

const number = (value: number | null | undefined): value is number => typeof value === "number";

function picture(block: Scatter, cost: number, gain: number, width: number): Element {
  const [across, upwards] = [block.costs[cost], block.gains[gain]];
  if (across === undefined || upwards === undefined) return h("p");
  const points: Placed[] = block.points.flatMap((point) => {
    const [x, y] = [point.costs[cost], point.gains[gain]];
    return number(x) && number(y) ? [{ point, x, y }] : [];
  });
  const style = (state: Point["state"]): Placed[] => points.filter((p) => p.point.state === state);
  const front = climbing(points.filter((p) => p.point.state === "front" || p.point.state === "chosen"), upwards);
  const widest = Math.max(...points.map((p) => p.x), across.bound ?? 0);
  const least = Math.min(...points.map((p) => p.x));
  // One that takes a hundred times as long would press all others to the left edge.
  const isWide = least > 0 && widest > 20 * least;
  return plot({
    width,
    height: HEIGHT,
    marginLeft: 58,
    marginRight: 24,
    marginTop: 26,
    marginBottom: 40,
    style: STYLE,
    x: { ...(isWide ? { type: "log", domain: [0.7 * least, 1.2 * widest] } : { domain: [0, 1.08 * widest || 1] }), label: across.title },
    y: { ...range(points.map((p) => p.y), upwards), label: upwards.title, reverse: upwards.down },
    marks: [
      gridX({ ...(isWide ? { ticks: magnitudes(0.7 * least, 1.2 * widest) } : {}), stroke: "var(--line)", strokeOpacity: 1 }),
      gridY({ stroke: "var(--line)", strokeOpacity: 1 }),
      axisX({ ticks: isWide ? magnitudes(0.7 * least, 1.2 * widest) : width < 420 ? 3 : 5, tickFormat: ticks(across.unit, widest), tickSize: 0, labelArrow: "none" }),
      axisY({ ticks: 6, tickFormat: ticks(upwards.unit), tickSize: 0, labelArrow: "none" }),
      ...[across, upwards].flatMap((axis) => bound(axis, axis === across)),
      line(front, { x: "x", y: "y", stroke: "var(--good)", strokeWidth: 1.5, curve: "step-after", className: "front" }),
      dot(style("misfit"), { x: "x", y: "y", r: 4, stroke: "var(--muted)", strokeDasharray: "2 2", fill: "var(--panel)", className: "candidates" }),
      dot(style("fits"), { x: "x", y: "y", r: 4, fill: "var(--muted)", fillOpacity: 0.55, className: "candidates" }),
      dot(style("front"), { x: "x", y: "y", r: 5, fill: "var(--good)", className: "candidates" }),
      dot(style("chosen"), { x: "x", y: "y", r: 7, fill: "var(--series-1)", stroke: "var(--ink)", className: "candidates" }),
      ...names(points, widest, width),
      tip(points, pointer({ x: "x", y: "y", title: (d) => [d.point.label, ...d.point.about].join("\n") })),
    ],
  });
}

/** Ticks of a logarithmic axis: powers of ten, with as few between them as make three. */
function magnitudes(low: number, high: number): number[] {
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const powers = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i));
  const all = [[1], [1, 3], [1, 2, 5]].map((steps) => powers.flatMap((power) => steps.map((step) => step * power)).filter((at) => at >= low && at <= high));
  return all.find((found) => found.length >= 3) ?? all[2]!;
}

/** Names of the best, to the side where there is room. */
function names(points: Placed[], widest: number, width: number): ReturnType<typeof text>[] {
  const shown = apart(points.filter((p) => p.point.state === "chosen" || p.point.state === "front"), widest, width);
  const side = (textAnchor: "start" | "end"): ReturnType<typeof text> =>
    text(shown.filter((p) => (p.x > 0.6 * widest ? "end" : "start") === textAnchor), {
      x: "x",
      y: "y",
      text: (d: Placed) => shortened(d.point.label, 22),
      dy: -12,
      textAnchor,
      fill: "var(--ink)",
      stroke: "var(--panel)",
      strokeWidth: 3,
      fontSize: 11,
    });
  return [side("start"), side("end")];
}

/** A line that is not to be crossed. */
function bound(axis: Axis, isAcross: boolean): ReturnType<typeof ruleX>[] {
  if (axis.bound === null) return [];
  const style = { stroke: "var(--bad)", strokeDasharray: "5 4", strokeWidth: 1.5, className: "budget" };
  return [isAcross ? ruleX([axis.bound], style) : ruleY([axis.bound], style)];
}

/** Of the front what is better than all that costs less: others are there for what this picture does not show. */
function climbing(points: Placed[], upwards: Axis): Placed[] {
  const sign = upwards.down ? -1 : 1;
  let best = -Infinity;
  return [...points].sort((a, b) => a.x - b.x).filter(({ y }) => sign * y > best && ((best = sign * y), true));
}

/** Labels that do not lie on each other: the shipped one first. */
function apart(points: Placed[], widest: number, width: number): Placed[] {
  const kept: Placed[] = [];
  const span = Math.max(...points.map((p) => p.y)) - Math.min(...points.map((p) => p.y)) || 1;
  for (const one of [...points].sort((a, b) => Number(b.point.state === "chosen") - Number(a.point.state === "chosen"))) {
    const near = (p: Placed): boolean =>
      (Math.abs(p.x - one.x) / widest) * width < 110 && (Math.abs(p.y - one.y) / span) * HEIGHT < 22;
    if (!kept.some(near)) kept.push(one);
  }
  return kept;
}

/** Ends of the axis with room for what lies on them, and its bound. */
function range(values: number[], axis: Axis): { domain: [number, number] } {
  const all = axis.bound === null ? values : [...values, axis.bound];
  const [low, high] = [Math.min(...all), Math.max(...all)];
  const room = 0.12 * (high - low || Math.abs(high) || 1);
  return { domain: [low - room, high + room] };
}
