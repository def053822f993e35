/** What is inside a constant: statistics, histogram, a picture of its filters. */

import { bytesOf } from "../common/data.ts";
import { h, s } from "../common/dom.ts";
import type { Model } from "./model.ts";
import { section, table } from "./panel.ts";
import type { Constant } from "./schema.ts";
import { byteText, clean, count, lastPart, shapeText, short } from "./text.ts";
import { valuesView } from "./values.ts";

export function constantView(model: Model, constant: Constant, title: string): HTMLElement {
  const type = clean(`${model.text(constant.dtype)} ${shapeText(model.text(constant.shape))}`);
  const part = section(title, h("p", { class: "type" }, `${type}, ${byteText(constant.bytes)}`));
  part.classList.add("constant");
  if (constant.nonFinite) part.append(h("p", { class: "warning" }, `${count(constant.nonFinite, "value")} not finite (NaN or infinite)`));
  if (constant.histogram !== undefined && constant.min !== undefined && constant.max !== undefined) {
    part.append(histogram(constant.histogram, constant.min, constant.max));
  }
  const rows: [string, string][] = [];
  for (const key of ["min", "max", "mean"] as const) if (constant[key] !== undefined) rows.push([key, short(constant[key])]);
  if (constant.zeros !== undefined) rows.push(["zeros", `${Number((100 * constant.zeros).toPrecision(3))} %`]);
  if (rows.length > 0) part.append(table(rows));
  if (constant.picture !== undefined) part.append(picture(constant.picture));
  if (constant.values !== undefined) part.append(h("p", { class: "values" }, h("code", {}, clean(constant.values))));
  if (constant.numbers !== undefined) part.append(valuesView(constant.numbers, model.text(constant.shape), clean(lastPart(model.name(constant.node)))));
  else if (rows.length > 0) part.append(h("p", { class: "muted" }, "not all numbers are in this page; with ", h("code", {}, "--values"), " they are"));
  if (rows.length === 0 && constant.values === undefined) part.append(h("p", { class: "muted" }, "its values are not in this file"));
  return part;
}

const WIDTH = 280;
const HEIGHT = 56;

function histogram(counts: number[], low: number, high: number): HTMLElement {
  const most = Math.max(1, ...counts);
  const step = WIDTH / Math.max(1, counts.length);
  const bars = counts.map((number, i) => {
    // A bin that holds anything is seen.
    const height = number === 0 ? 0 : Math.max(1, (number / most) * HEIGHT);
    const from = low + ((high - low) * i) / counts.length;
    const bar = s("rect", { x: i * step + 0.5, y: HEIGHT - height, width: Math.max(0.5, step - 1), height });
    bar.append(s("title", {}, `${count(number, "value")} from ${short(from)} to ${short(from + (high - low) / counts.length)}`));
    return bar;
  });
  const chart = s("svg", { class: "histogram", viewBox: `0 0 ${WIDTH} ${HEIGHT + 1}`, role: "img", "aria-label": `Histogram from ${short(low)} to ${short(high)}` }, ...bars);
  if (low < 0 && high > 0) {
    const zero = (WIDTH * -low) / (high - low);
    chart.append(s("path", { class: "zero", d: `M${zero} 0V${HEIGHT}` }));
  }
  return h("figure", {}, chart, h("figcaption", { class: "axis" }, h("span", {}, short(low)), h("span", {}, short(high))));
}

function picture(pixels: NonNullable<Constant["picture"]>): HTMLElement {
  const { width, height, channels } = pixels;
  const canvas = h("canvas", { class: "filters", width, height, role: "img", "aria-label": "Its filters side by side" });
  const bytes = bytesOf(pixels.pixels);
  const image = new ImageData(width, height);
  for (let i = 0; i < width * height; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = bytes[channels === 1 ? i : 3 * i + c] ?? 0;
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d")?.putImageData(image, 0, 0);
  const zoom = Math.max(1, Math.floor(Math.min(WIDTH / width, 220 / height, 8)));
  canvas.style.width = `${Math.min(WIDTH, width * zoom)}px`;
  return h("figure", {}, canvas, h("figcaption", { class: "muted" }, "filters side by side, dark to light from least to most"));
}
