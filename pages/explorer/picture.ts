/** The drawing as a file of its own: all of the graph with what is open now, in the colours of the screen. */

import { h, s } from "../common/dom.ts";
import { offer } from "../common/files.ts";

/** Longest side of a bitmap, in pixels: browsers draw no larger ones. */
const LONGEST = 8000;
const SHARPNESS = 2;
const FAMILY = "system-ui, sans-serif";
const COLOURS = ["fill", "stroke"];
const KEPT = ["stroke-width", "stroke-dasharray", "opacity", "font-size", "font-weight", "text-anchor", "paint-order", "stroke-linejoin"];

/** Lets the reader save the drawing; null, or why it could not be made. */
export async function save(plane: SVGGElement, size: { width: number; height: number }, name: string, kind: "svg" | "png"): Promise<string | null> {
  const text = standalone(plane, size);
  const vector = new Blob([text], { type: "image/svg+xml" });
  if (kind === "svg") return offer(vector, `${name}.svg`);
  const picture = await bitmap(vector, size);
  return picture === null ? "The browser could not draw so large a picture; save it as SVG." : offer(picture, `${name}.png`);
}

/** SVG without a style sheet: other programs know neither variables nor mixed colours. */
function standalone(plane: SVGGElement, { width, height }: { width: number; height: number }): string {
  const paper = s("rect", { class: "paper", width: "100%", height: "100%", style: "fill:var(--paper)" });
  const [w, h] = [Math.ceil(width), Math.ceil(height)];
  const root = s("svg", { class: "canvas", xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${w} ${h}`, width: w, height: h, style: "visibility:hidden;width:0;height:0" }, paper, plane);
  document.body.append(root);
  const solid = solidColours();
  const found = [...root.querySelectorAll<SVGElement>("rect, path, text")].map((element) => {
    const style = getComputedStyle(element);
    const colours = COLOURS.map((name): [string, string] => [name, solid(style.getPropertyValue(name))]);
    return { element, set: [...colours, ...KEPT.map((name): [string, string] => [name, style.getPropertyValue(name)])] };
  });
  root.remove();
  for (const { element, set } of found) for (const [name, value] of set) if (value !== "" && value !== "none" || name === "fill") element.setAttribute(name, value);
  for (const element of [root, ...root.querySelectorAll("*")]) for (const name of ["class", "style", "data-item"]) element.removeAttribute(name);
  root.setAttribute("font-family", FAMILY);
  return new XMLSerializer().serializeToString(root);
}

/** Colours as every program reads them: what the browser would paint. */
function solidColours(): (colour: string) => string {
  const known = new Map<string, string>();
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  return (colour) => {
    if (colour === "none" || canvas === null) return colour;
    let solid = known.get(colour);
    if (solid === undefined) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, (solid = alpha === 0 ? "none" : `rgb(${red}, ${green}, ${blue})`));
    }
    return solid;
  };
}

async function bitmap(vector: Blob, { width, height }: { width: number; height: number }): Promise<Blob | null> {
  const url = URL.createObjectURL(vector);
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const scale = Math.min(SHARPNESS, LONGEST / Math.max(width, height));
    const canvas = h("canvas", { width: Math.ceil(width * scale), height: Math.ceil(height * scale) });
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done) => canvas.toBlob(done, "image/png"));
  } catch {
    return null;
  } finally {
    URL.revokeObjectURL(url);
  }
}
