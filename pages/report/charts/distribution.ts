/** Single measurements as dots, the interval of their median as a bar: whoever looks sees if two really differ. */

import { axisX, dot, gridX, plot, pointer, ruleY, text, tickX, tip } from "@observablehq/plot";
import { amount, shortened } from "../format.ts";
import type { Distribution, Runs } from "../schema.ts";
import { STYLE, colour, column, framed, letters, ticks } from "./frame.ts";

const ROW = 58;
/** Dots are spread over so much of a row, in pixels. */
const SPREAD = 22;
/** What takes so many times as long as the slowest median is told, not drawn. */
const FAR = 2.5;
/** The golden ratio scatters without a pattern, and the same way each time. */
const SCATTER = 0.618034;

interface Dot {
  run: Runs;
  key: string;
  value: number;
  shift: number;
}

export function distribution(block: Distribution): HTMLElement {
  // Labels may be equal; places are not.
  const rows = block.rows.map((run, at) => ({ run, key: String(at) }));
  // What lies far out would squeeze everything else into a line: it is told below the picture.
  const middle = Math.max(...block.rows.map((run) => Math.max(run.median, run.high ?? 0)));
  const end = 1.06 * Math.min(Math.max(middle, ...block.rows.map((run) => run.p99)), FAR * middle);
  const far = block.rows.filter((run) => (run.values.at(-1) ?? 0) > end);
  const beyond = far.map((run) => `${run.label} up to ${amount(run.values.at(-1) ?? 0, block.unit)}`).join(", ");
  return framed({
    title: block.title,
    note: [block.note, beyond && `Beyond the right edge: ${beyond}.`].filter(Boolean).join(" "),
    summary: `${block.title}: ${block.rows.map((run) => about(block, run)).join("; ")}`,
    legend: block.series,
    picture: (width) => picture(block, rows, end, width),
    columns: [
      column("", "", true),
      ...["median", "from", "to", "99 %"].map((title) => column(title, block.unit)),
      column("runs"),
    ],
    rows: block.rows.map((run) => [run.label, run.median, run.low, run.high, run.p99, run.count]),
  });
}

function about(block: Distribution, run: Runs): string {
  const ends = run.low === null || run.high === null ? "" : ` (${amount(run.low, block.unit)} to ${amount(run.high, block.unit)})`;
  return `${run.label} ${amount(run.median, block.unit)}${ends}`;
}

function picture(block: Distribution, rows: { run: Runs; key: string }[], end: number, width: number): Element {
  const dots: Dot[] = rows.flatMap(({ run, key }) =>
    run.values
      .filter((value) => value <= end)
      .map((value, at) => ({ run, key, value, shift: ((at * SCATTER) % 1) * SPREAD - SPREAD / 2 })),
  );
  const known = rows.filter(({ run }) => run.low !== null && run.high !== null);
  const least = Math.min(...block.rows.map((run) => run.values[0] ?? 0));
  return plot({
    width,
    height: rows.length * ROW + 34,
    marginLeft: 8,
    marginRight: 16,
    marginTop: 4,
    marginBottom: 30,
    style: STYLE,
    // From 0, so that a bar twice as far out takes twice as long; unless all lie close together.
    x: { label: null, domain: [least > 0.8 * end ? 0.98 * least : 0, end] },
    y: { type: "band", domain: rows.map((row) => row.key), axis: null },
    marks: [
      gridX({ stroke: "var(--line)", strokeOpacity: 1 }),
      axisX({ ticks: width < 500 ? 4 : 8, tickFormat: ticks(block.unit, end), tickSize: 0 }),
      text(rows, {
        y: "key",
        text: (d) => shortened(d.run.label, letters(width) - 16),
        frameAnchor: "left",
        dy: -20,
        dx: 2,
        fill: "var(--ink)",
        textAnchor: "start",
        className: "labels",
      }),
      text(rows, {
        y: "key",
        text: (d) => amount(d.run.median, block.unit),
        frameAnchor: "right",
        dy: -20,
        fontWeight: 600,
        fill: "var(--ink)",
        textAnchor: "end",
        className: "medians",
      }),
      ...spread(dots),
      ruleY(known, {
        y: "key",
        x1: (d) => d.run.low,
        x2: (d) => d.run.high,
        stroke: (d) => colour(d.run.series),
        strokeWidth: 6,
        strokeLinecap: "round",
        className: "intervals",
        dy: 6,
      }),
      tickX(rows, {
        y: "key",
        x: (d) => d.run.median,
        stroke: "var(--ink)",
        strokeWidth: 2,
        insetTop: 22,
        insetBottom: 6,
        className: "medians",
      }),
      tip(
        rows,
        pointer({ y: "key", x: (d) => d.run.median, dy: 6, maxRadius: 60, title: (d) => tooltip(block, d.run) }),
      ),
    ],
  });
}

/** Dots in three heights: a mark has one offset for all that it draws. */
function spread(dots: Dot[]): ReturnType<typeof dot>[] {
  const heights = [...new Set(dots.map((d) => Math.round(d.shift / 3)))];
  return heights.map((height) =>
    dot(
      dots.filter((d) => Math.round(d.shift / 3) === height),
      {
        x: "value",
        y: "key",
        r: 2,
        fill: (d: Dot) => colour(d.run.series),
        fillOpacity: 0.35,
        dy: 6 + 3 * height,
        className: "runs",
      },
    ),
  );
}

function tooltip(block: Distribution, run: Runs): string {
  return `${run.label}\nmedian ${about(block, run).slice(run.label.length + 1)}\n99 % within ${amount(run.p99, block.unit)}, ${run.count} runs`;
}
