/** The samples that a model was judged on, as cards. */

import { h, s } from "../../common/dom.ts";
import type { Answer, Frame, Sample, Samples } from "../schema.ts";

export function samples(block: Samples): HTMLElement {
  const cards = block.items.map((item) => card(item, block.models));
  return h(
    "div",
    { class: "samples" },
    block.note !== "" && h("p", { class: "about" }, block.note),
    h("ul", { class: "cards" }, ...cards),
  );
}

function card(item: Sample, models: string[]): HTMLElement {
  const answers = item.answers.flatMap((answer, at) => [
    h("dt", {}, item.boxes.length > 0 && h("span", { class: `key model-${at}` }), models[at] ?? ""),
    h("dd", { class: answer.tone }, mark(answer), answer.text),
  ]);
  return h(
    "li",
    {},
    preview(item),
    h("p", { class: "name", title: item.name }, item.name),
    h("dl", {}, ...(item.label === "" ? [] : [h("dt", {}, "label"), h("dd", {}, item.label)]), ...answers),
  );
}

/** In a letter, so that nobody needs the colour. */
function mark({ tone }: Answer): HTMLElement | null {
  const marks = { good: ["✓", "right"], bad: ["✗", "wrong"], warn: ["≠", "another answer"], "": null }[tone];
  return marks && h("span", { role: "img", "aria-label": marks[1] }, `${marks[0]} `);
}

function preview(item: Sample): Element | null {
  if (item.picture.startsWith("data:image/")) {
    const picture = h("img", { src: item.picture, alt: `sample ${item.name}` });
    return item.boxes.length ? h("div", { class: "framed" }, picture, frames(item.boxes)) : picture;
  }
  return item.wave.length ? waveform(item) : null;
}

/** Boxes over a picture that fills its frame, of which they are shares. */
function frames(boxes: Frame[]): SVGSVGElement {
  const rects = boxes.map(({ ends: [top = 0, left = 0, bottom = 0, right = 0], model, text }) =>
    s(
      "rect",
      { class: `model-${model}`, x: left, y: top, width: Math.max(right - left, 0), height: Math.max(bottom - top, 0) },
      s("title", {}, text),
    ),
  );
  return s("svg", { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" }, ...rects);
}

function waveform(item: Sample): SVGSVGElement {
  const high = item.wave.map(([, top], at) => `${at},${(-top).toFixed(3)}`);
  const low = item.wave.map(([bottom], at) => `${at},${(-bottom).toFixed(3)}`).reverse();
  return s(
    "svg",
    {
      class: "wave",
      viewBox: `0 -1 ${Math.max(item.wave.length - 1, 1)} 2`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `waveform of ${item.name}`,
    },
    s("polygon", { points: [...high, ...low].join(" ") }),
  );
}
