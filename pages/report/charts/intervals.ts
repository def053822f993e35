/** Estimates with the intervals that other samples of the same kind may give. */

import { axisX, dot, gridX, plot, pointer, ruleX, ruleY, text, tip } from "@observablehq/plot";
import { amount, shortened } from "../format.ts";
import type { Intervals, Span } from "../schema.ts";
import { STYLE, colour, column, framed, letters, ticks } from "./frame.ts";

const ROW = 44;

interface Row {
  span: Span;
  key: string;
}

export function intervals(block: Intervals): HTMLElement {
  const rows = block.rows.map((span, at) => ({ span, key: String(at) }));
  return framed({
    title: block.title,
    note: block.note,
    summary: `${block.title}: ${block.rows.map((span) => about(block, span)).join("; ")}`,
    legend: block.series,
    picture: (width) => picture(block, rows, width),
    columns: [column("", "", true), column("value", block.unit), column("from", block.unit), column("to", block.unit)],
    rows: block.rows.map((span) => [span.label, span.value, span.low, span.high]),
  });
}

function about(block: Intervals, { label, value, low, high }: Span): string {
  const ends = low === null || high === null ? "" : ` (${amount(low, block.unit)} to ${amount(high, block.unit)})`;
  return `${label} ${amount(value, block.unit)}${ends}`;
}

function picture(block: Intervals, rows: Row[], width: number): Element {
  return plot({
    width,
    height: rows.length * ROW + 34,
    marginLeft: 12,
    marginRight: 16,
    marginTop: 4,
    marginBottom: 30,
    style: STYLE,
    x: { label: null, domain: domain(block) },
    y: { type: "band", domain: rows.map((row) => row.key), axis: null },
    marks: [
      gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
      axisX({ ticks: width < 500 ? 4 : 8, tickFormat: ticks(block.unit), tickSize: 0 }),
      ...(block.reference === null ? [] : [ruleX([block.reference], { stroke: "var(--muted)", className: "reference" })]),
      text(rows, {
        y: "key",
        text: (d: Row) => shortened(d.span.label, letters(width) - 12),
        frameAnchor: "left",
        textAnchor: "start",
        dy: -12,
        fill: "var(--ink)",
      }),
      text(rows, {
        y: "key",
        text: (d: Row) => amount(d.span.value, block.unit),
        frameAnchor: "right",
        textAnchor: "end",
        dy: -12,
        fontWeight: 600,
        fill: "var(--ink)",
      }),
      ruleY(rows.filter(({ span }) => span.low !== null && span.high !== null), {
        y: "key",
        x1: (d: Row) => d.span.low,
        x2: (d: Row) => d.span.high,
        stroke: (d: Row) => colour(d.span.series),
        strokeWidth: 4,
        strokeOpacity: 0.45,
        strokeLinecap: "round",
        dy: 7,
        className: "intervals",
      }),
      dot(rows, {
        y: "key",
        x: (d: Row) => d.span.value,
        r: 5,
        fill: (d: Row) => colour(d.span.series),
        dy: 7,
        className: "values",
      }),
      tip(rows, pointer({ y: "key", x: (d: Row) => d.span.value, dy: 7, title: (d: Row) => about(block, d.span) })),
    ],
  });
}

/** From the least end to the greatest, with a little room; shares end at 100 %. */
function domain(block: Intervals): [number, number] {
  const ends = block.rows.flatMap(({ value, low, high }) => [value, low ?? value, high ?? value]);
  if (block.reference !== null) ends.push(block.reference);
  const [low, high] = [Math.min(...ends), Math.max(...ends)];
  const room = 0.08 * (high - low || Math.abs(high) || 1);
  return block.unit === "%" ? [Math.max(0, low - room), Math.min(100, high + room)] : [low - room, high + room];
}
