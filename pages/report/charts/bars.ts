/** Amounts as bars: sizes, times of ops, losses of layers. */

import { axisX, barX, gridX, plot, pointer, text, tip } from "@observablehq/plot";
import { amount, shortened } from "../format.ts";
import type { Bars, Cell } from "../schema.ts";
import { STYLE, colour, column, framed, letters, ticks } from "./frame.ts";

const [HEAD, BAR, GAP] = [18, 12, 8];

interface One {
  row: string;
  label: string;
  at: number;
  value: number;
}

export function bars(block: Bars): HTMLElement {
  const found: One[] = block.rows.flatMap((row, number) =>
    row.values.flatMap((value, at) => (value === null ? [] : [{ row: String(number), label: row.label, at, value }])),
  );
  return framed({
    title: block.title,
    note: block.note,
    summary: `${block.title}: ${block.rows.map((row) => `${row.label} ${row.values.map((v) => amount(v, block.unit)).join(", ")}`).join("; ")}`,
    legend: block.series,
    picture: (width) => picture(block, found, width),
    columns: [column("", "", true), ...block.series.map((name) => column(name, block.unit))],
    rows: block.rows.map((row): Cell[] => [row.label, ...row.values]),
  });
}

function picture(block: Bars, found: One[], width: number): Element {
  const [rows, each] = [block.rows.length, HEAD + BAR * block.series.length + GAP];
  const heads = block.rows.map((row, number) => ({ row: String(number), label: row.label }));
  const least = Math.min(0, ...found.map((one) => one.value));
  const end = Math.max(...found.map((bar) => bar.value), 0) || 1;
  const one = (at: number): One[] => found.filter((bar) => bar.at === at);
  return plot({
    width,
    height: rows * each + 34,
    marginLeft: 8,
    marginRight: 64,
    marginTop: 0,
    marginBottom: 30,
    style: STYLE,
    x: { label: null, domain: [least, end] },
    y: { type: "band", domain: heads.map((head) => head.row), axis: null, padding: 0 },
    marks: [
      gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
      axisX({ ticks: width < 500 ? 4 : 8, tickFormat: ticks(block.unit, end), tickSize: 0 }),
      text(heads, {
        y: "row",
        text: (d) => shortened(d.label, letters(width) - 2),
        frameAnchor: "left",
        textAnchor: "start",
        dy: -(each / 2) + 10,
        fill: "var(--ink)",
      }),
      ...block.series.flatMap((_, at) => [
        barX(one(at), {
          x: "value",
          y: "row",
          fill: colour(at),
          insetTop: HEAD + at * BAR + 1,
          insetBottom: GAP + (block.series.length - 1 - at) * BAR,
          rx: 1.5,
          className: "bars",
        }),
        text(one(at), {
          x: (d: One) => Math.max(d.value, 0),
          y: "row",
          text: (d: One) => amount(d.value, block.unit),
          textAnchor: "start",
          dx: 4,
          dy: HEAD + at * BAR + BAR / 2 - each / 2,
          fill: "var(--muted)",
          fontSize: 11,
        }),
      ]),
      tip(
        found,
        pointer({ x: "value", y: "row", title: (d: One) => `${d.label}\n${block.series[d.at]}: ${amount(d.value, block.unit)}` }),
      ),
    ],
  });
}
