/** What all charts have in common: a title, a picture as wide as there is room, and the figures as a table.
 *
 * Observable Plot draws them: real SVG, so that a report prints sharply and colours follow the page's; scales, ticks
 * and tooltips that need no code here. It and what it uses of d3 are most of this page's script, which the build keeps
 * far below what plotly or vega-lite with its runtime would add; uPlot is smaller, but draws on a canvas, which prints
 * as pixels and cannot be read by anything but eyes.
 */

import { h, s } from "../../common/dom.ts";
import { amount, digits } from "../format.ts";
import { folded, plain, scrolling } from "../blocks/table.ts";
import type { Cell, Column, Unit } from "../schema.ts";

/** Below so many pixels a chart cannot be read. */
const NARROWEST = 260;

export interface Chart {
  title: string;
  note: string;
  /** What a picture says, for those who cannot see it. */
  summary: string;
  /** Colours of the page: name and number of a series; empty if there is one only. */
  legend: string[];
  /** The picture at a width in pixels. */
  picture(width: number): Element;
  columns: Column[];
  rows: Cell[][];
}

export function framed(chart: Chart): HTMLElement {
  const place = h("div", { class: "picture" });
  const figure = h(
    "figure",
    {},
    chart.title !== "" && h("figcaption", {}, chart.title),
    chart.legend.length > 1 && legend(chart.legend),
    place,
    chart.note !== "" && h("p", { class: "about" }, chart.note),
    folded("These figures as a table", scrolling(plain(chart.columns, chart.rows), chart.title)),
  );
  let last = 0;
  const redraw = (): void => {
    const width = Math.max(NARROWEST, Math.floor(place.clientWidth));
    if (width === last || !place.isConnected) return;
    last = width;
    const picture = chart.picture(width);
    picture.setAttribute("role", "img");
    picture.setAttribute("aria-label", chart.summary);
    place.replaceChildren(picture);
  };
  new ResizeObserver(redraw).observe(place);
  return figure;
}

function legend(names: string[]): HTMLElement {
  const items = names.map((name, at) => {
    const swatch = s("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, s("rect", { width: 10, height: 10, rx: 2, fill: colour(at) }));
    return h("li", {}, swatch, name);
  });
  return h("ul", { class: "legend" }, ...items);
}

/** The colour of a series; the same one in every chart of a page. */
export function colour(series: number): string {
  return `var(--series-${series % 6})`;
}

export function column(title: string, unit: Unit = "", code = false): Column {
  return { title, unit, code };
}

/** Ticks of an axis in a unit, all in the same one: microseconds where the axis ends below half a millisecond. */
export function ticks(unit: Unit, end = Infinity): (value: number) => string {
  if (unit === "ms" && end < 0.5) return (value) => `${digits(value * 1000)} µs`;
  // What the axis counts is written beside it.
  if (unit === "points") return digits;
  return unit === "ms" ? (value) => `${digits(value)} ms` : (value) => amount(value, unit);
}

/** Letters that fit into a width at the size of a chart's text. */
export function letters(width: number): number {
  return Math.max(8, Math.floor(width / 6.6));
}

export const STYLE = { fontFamily: "inherit", fontSize: "12px", overflow: "visible", background: "none" };
