/** Layer by layer in running order: how much signal is left, and where it falls. */

import { axisX, axisY, dot, gridY, link, plot, pointerX, ruleX, ruleY, text, tip } from "@observablehq/plot";
import { amount, shortened } from "../format.ts";
import type { Cell, Layer, Layers } from "../schema.ts";
import { STYLE, column, framed, ticks } from "./frame.ts";

const HEIGHT = 280;

interface Place {
  layer: Layer;
  at: number;
}

export function layers(block: Layers): HTMLElement {
  return framed({
    title: block.title,
    note: block.note,
    summary: `${block.title}: ${block.note}`,
    legend: [],
    picture: (width) => picture(block, width),
    columns: [column("layer", "", true), column("op", "", true), column("inputs", block.unit), column("output", block.unit)],
    rows: block.rows.map((row): Cell[] => [row.label, row.is_float ? `${row.op}, float` : row.op, row.before, row.after]),
  });
}

function picture(block: Layers, width: number): Element {
  const places: Place[] = block.rows.map((layer, at) => ({ layer, at: at + 1 }));
  const first = block.first === null ? undefined : places[block.first];
  const all = block.rows.flatMap((row) => [row.after, ...(row.before === null ? [] : [row.before])]);
  const low = Math.min(0, ...all, block.threshold);
  return plot({
    width,
    height: HEIGHT,
    marginLeft: 58,
    marginRight: 12,
    marginTop: 26,
    marginBottom: 38,
    style: STYLE,
    x: { domain: [0.4, places.length + 0.6], label: "layer in running order" },
    y: { domain: [low, Math.max(...all) * 1.08], label: "signal to noise at its output" },
    marks: [
      gridY({ stroke: "var(--line)", strokeOpacity: 1 }),
      axisY({ ticks: 6, tickFormat: ticks(block.unit), tickSize: 0, labelArrow: "none" }),
      axisX({ ticks: Math.min(places.length, width < 500 ? 5 : 12), tickFormat: whole, tickSize: 0, labelArrow: "none" }),
      ruleY([block.threshold], { stroke: "var(--bad)", strokeDasharray: "5 4", className: "threshold" }),
      ...(first === undefined ? [] : [ruleX([first.at], { stroke: "var(--bad)", strokeOpacity: 0.5, className: "first" })]),
      link(places.filter((d) => d.layer.before !== null), {
        x: "at",
        y1: (d: Place) => d.layer.before,
        y2: (d: Place) => d.layer.after,
        stroke: "var(--muted)",
        strokeOpacity: 0.6,
        className: "change",
      }),
      dot(places, {
        x: "at",
        y: (d: Place) => d.layer.after,
        r: places.length > 120 ? 2.5 : 4,
        fill: (d: Place) => (d.layer.after < block.threshold ? "var(--bad)" : d.layer.is_float ? "var(--series-0)" : "var(--series-1)"),
        className: "layers",
      }),
      ...(first === undefined ? [] : [text([first], { x: "at", y: (d: Place) => d.layer.after, text: (d: Place) => shortened(d.layer.label, 28), dy: -12, textAnchor: first.at > places.length / 2 ? "end" : "start", fill: "var(--bad)", stroke: "var(--panel)", strokeWidth: 3 })]),
      tip(places, pointerX({ x: "at", y: (d: Place) => d.layer.after, title: (d: Place) => tooltip(block, d.layer) })),
    ],
  });
}

const whole = (value: number): string => (Number.isInteger(value) ? String(value) : "");

function tooltip(block: Layers, layer: Layer): string {
  const before = layer.before === null ? "" : `${amount(layer.before, block.unit)} to `;
  return `${layer.label}\n${layer.op}${layer.is_float ? ", computed in float" : ""}\n${before}${amount(layer.after, block.unit)}`;
}
