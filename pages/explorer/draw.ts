/** Draws the part of a scene that is in view, as SVG: sharp on paper, and coloured by the style sheet.
 *
 * Only what lies in the window and half a window around it is in the document; far out, boxes become one path for each
 * colour. So the time does not grow with the graph.
 */

import { s } from "../common/dom.ts";
import { isFlat } from "./columns.ts";
import type { Item } from "./model.ts";
import { type Link, type Placing, type Scene, turned } from "./scene.ts";
import { FUSED, SMALL, TITLE } from "./boxes.ts";
import { cutOff, fitted, textWidth } from "./text.ts";

/** How a box looks besides its category. */
export interface Look {
  fill?: string;
  /** Colour of text on the fill. */
  ink?: string;
  /** A value at the corner. */
  value?: string;
  /** "same", "changed", "only"; "hit". */
  mark?: string;
}

export interface Window {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface Emphasis {
  selected: Item | null;
  /** Links along which the selected item's values come and go. */
  into: Set<Link>;
  outOf: Set<Link>;
  /** The line that was clicked. */
  line: Link | undefined;
}

/** Below this size of a pixel boxes are plain areas, below the other they have no text. */
const FAR = 0.16;
const SMALLEST_TEXT = 0.6;
/** Pixels of a title from afar; one that would be smaller than the first is shortened, to the second, if letters enough stay. */
const SMALL_TITLE = 5.2;
const READABLE_TITLE = 6.5;
const LEAST_LETTERS = 5;
/** Pixels of the smallest title that is drawn from afar. */
const LEAST_TITLE = 3.6;
const MANY = 1500;
/** Of the corners of lines that go to another column. */
const RADIUS = 8;

export function drawn(scene: Scene, view: Window, scale: number, look: (item: Item) => Look, emphasis: Emphasis): SVGGElement {
  const root = s("g", {});
  const places = scene.places.filter((p) => p.x < view.right && p.x + p.width > view.left && p.y < view.bottom && p.y + p.height > view.top);
  const links = scene.links.filter((link) => crosses(link, view));
  const far = scale < FAR || places.length > MANY;
  const frames = places.filter((place) => place.expanded);
  // Lines over the ground of scopes, but below their titles.
  root.append(...frames.map(ground));
  root.append(far ? merged(links, scene.across, emphasis, scale) : lines(links, scene.across, emphasis, scale));
  root.append(...frames.map((place) => scopeFrame(place, look(place.item), emphasis, scale)));
  const leaves = places.filter((place) => !place.expanded);
  if (far) root.append(areas(leaves, look, emphasis));
  else root.append(...leaves.map((place) => boxElement(place, look(place.item), emphasis, scale)));
  return root;
}

function crosses(link: Link, view: Window): boolean {
  const { points } = link;
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (let i = 0; i < points.length; i += 2) {
    [left, right] = [Math.min(left, points[i]!), Math.max(right, points[i]!)];
    [top, bottom] = [Math.min(top, points[i + 1]!), Math.max(bottom, points[i + 1]!)];
  }
  return bottom >= view.top && top <= view.bottom && right >= view.left - 20 && left <= view.right + 20;
}

/** A curve through the points that leaves and reaches each one upright; level, where values go from left to right. */
export function pathOf(points: number[], across = false, shorter = 0): string {
  const at = across ? turned(points) : points;
  const to = (x: number, y: number) => (across ? `${round(y)} ${round(x)}` : `${round(x)} ${round(y)}`);
  const [down, over] = across ? ["H", "V"] : ["V", "H"];
  let path = `M${to(at[0]!, at[1]!)}`;
  const end = at.length - 2;
  for (let i = 2; i <= end; i += 2) {
    const [x0, y0, x1] = [at[i - 2]!, at[i - 1]!, at[i]!];
    const y1 = at[i + 1]! - (i === end ? shorter * Math.sign(at[i + 1]! - y0 || 1) : 0);
    const middle = (y0 + y1) / 2;
    const straight = Math.abs(x1 - x0) < 0.5;
    // Before and after a level stretch, which goes to another column, the corners are round.
    if (i < end && isFlat(at, i)) {
      const [y, radius] = [y1 - RADIUS * Math.sign(y1 - y0 || 1), Math.min(RADIUS, Math.abs(at[i + 2]! - x1) / 2)];
      path += straight ? `${down}${round(y)}` : `C${to(x0, middle)} ${to(x1, middle)} ${to(x1, y)}`;
      path += `Q${to(x1, y1)} ${to(x1 + radius * Math.sign(at[i + 2]! - x1), y1)}`;
    } else if (isFlat(at, i - 2)) {
      const next = at[i + 3] ?? y1;
      const radius = Math.min(RADIUS, Math.abs(x1 - x0) / 2);
      path += `${over}${round(x1 - radius * Math.sign(x1 - x0))}Q${to(x1, y1)} ${to(x1, y1 + RADIUS * Math.sign(next - y1 || 1))}`;
    } else if (straight) path += `${down}${round(y1)}`;
    else path += `C${to(x0, middle)} ${to(x1, middle)} ${to(x1, y1)}`;
  }
  return path;
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function headOf(points: number[], across: boolean): string {
  const [x, y] = [points[points.length - 2]!, points[points.length - 1]!];
  const back = points[points.length - (across ? 2 : 1)]! >= points[points.length - (across ? 4 : 3)]! ? -7 : 7;
  if (across) return `M${round(x + back)} ${round(y - 4)}V${round(y + 4)}L${round(x)} ${round(y)}Z`;
  return `M${round(x - 4)} ${round(y + back)}H${round(x + 4)}L${round(x)} ${round(y)}Z`;
}

function linkClass(link: Link, emphasis: Emphasis): string {
  const way = emphasis.line === link ? " chosen" : emphasis.into.has(link) ? " into" : emphasis.outOf.has(link) ? " out-of" : "";
  return `link${link.control ? " control" : ""}${link.tensors.length > 1 ? " several" : ""}${way}`;
}

/** Lines that are still seen from afar. */
function linkGroup(scale: number): SVGGElement {
  return s("g", { class: "links", style: `--width:${round(Math.max(1.2, 0.75 / scale))}px` });
}

function lines(links: Link[], across: boolean, emphasis: Emphasis, scale: number): SVGGElement {
  const root = linkGroup(scale);
  for (const link of links) {
    const group = s("g", { class: linkClass(link, emphasis) });
    group.append(s("path", { d: pathOf(link.points, across, link.arrow ? 6 : 0) }));
    if (link.arrow) group.append(s("path", { class: "head", d: headOf(link.points, across) }));
    root.append(group);
  }
  if (scale < SMALLEST_TEXT) return root;
  for (const { points, label, row } of links) {
    if (label === "") continue;
    if (across) {
      root.append(s("text", { class: "shape", x: round(Math.min(points[0]!, points[2]!) + 6), y: round(points[1]! - 4) }, label));
      continue;
    }
    const down = points[3]! >= points[1]!;
    root.append(s("text", { class: "shape", x: round(points[0]! + 6), y: round(points[1]! + (down ? 15 + 11 * row : -8 - 11 * row)) }, label));
  }
  return root;
}

function merged(links: Link[], across: boolean, emphasis: Emphasis, scale: number): SVGGElement {
  const byClass = new Map<string, string[]>();
  for (const link of links) {
    const name = linkClass(link, emphasis);
    const { points } = link;
    const path = points.length > 4 ? pathOf(points, across) : `M${round(points[0]!)} ${round(points[1]!)}L${round(points[2]!)} ${round(points[3]!)}`;
    byClass.set(name, [...(byClass.get(name) ?? []), path]);
  }
  const root = linkGroup(scale);
  for (const [name, paths] of byClass) root.append(s("g", { class: name }, s("path", { d: paths.join("") })));
  return root;
}

function areas(places: Placing[], look: (item: Item) => Look, emphasis: Emphasis): SVGGElement {
  const byLook = new Map<string, { look: Look; category: string; paths: string[] }>();
  const root = s("g", { class: "areas" });
  for (const place of places) {
    const found = look(place.item);
    const chosen = emphasis.selected === place.item ? " selected" : "";
    const key = `cat-${place.box.category}${found.mark ? ` ${found.mark}` : ""}${chosen}|${found.fill ?? ""}`;
    const entry = byLook.get(key) ?? { look: found, category: key.split("|")[0]!, paths: [] };
    entry.paths.push(`M${round(place.x)} ${round(place.y)}h${round(place.width)}v${round(place.height)}h${-round(place.width)}z`);
    byLook.set(key, entry);
  }
  for (const { look: found, category, paths } of byLook.values()) {
    root.append(s("path", { class: `area ${category}`, d: paths.join(""), style: found.fill ? `fill:${found.fill}` : undefined }));
  }
  return root;
}

function ground({ x, y, width, height, depth }: Placing): SVGRectElement {
  return s("rect", { class: `ground depth-${depth % 4}`, x: round(x), y: round(y), width: round(width), height: round(height), rx: 10 });
}

function scopeFrame(place: Placing, look: Look, emphasis: Emphasis, scale: number): SVGGElement {
  const { item, x, y, width, height, box } = place;
  const group = s("g", {
    class: `box frame${look.mark ? ` ${look.mark}` : ""}${emphasis.selected === item ? " selected" : ""}`,
    transform: `translate(${round(x)} ${round(y)})`,
    "data-item": item,
  });
  group.append(s("rect", { class: "card", width: round(width), height: round(height), rx: 10 }));
  // Far out the title grows as far as the frame has room, so that one sees where one is.
  const size = scale < SMALLEST_TEXT ? Math.min(11 / scale, (width / Math.max(1, textWidth(box.title, TITLE))) * 10, 32) : 12.5;
  if (size * scale >= 5) {
    group.append(s("text", { class: "title", x: 14 + (size - 12.5) / 2, y: 8 + size, style: `font-size:${round(size)}px` }, `\u25be ${box.title}`));
  }
  if (scale >= SMALLEST_TEXT) {
    const caption = place.left > 0 ? `${place.left.toLocaleString("en")} more are not drawn` : cutOff(box.caption, SMALL, width - 28);
    group.append(s("text", { class: place.left > 0 ? "subtitle left-out" : "subtitle", x: 14, y: 35 }, caption));
  }
  return group;
}

function boxElement(place: Placing, look: Look, emphasis: Emphasis, scale: number): SVGGElement {
  const { item, x, y, width, height, box } = place;
  const round_ends = box.category === "end";
  const group = s("g", {
    class: `box cat-${box.category}${look.mark ? ` ${look.mark}` : ""}${look.fill ? " tinted" : ""}${emphasis.selected === item ? " selected" : ""}`,
    transform: `translate(${round(x)} ${round(y)})`,
    style: look.fill ? `--fill:${look.fill};--on-fill:${look.ink ?? "inherit"}` : undefined,
    "data-item": item,
  });
  if (box.category === "scope") group.append(s("rect", { class: "card behind", x: 4, y: 4, width, height, rx: 8 }));
  group.append(s("rect", { class: "card", width, height, rx: round_ends ? height / 2 : box.category === "scope" ? 8 : 6 }));
  if (!round_ends && box.category !== "scope") group.append(s("path", { class: "bar", d: `M5 0A6 6 0 0 0 0 6V${height - 6}A6 6 0 0 0 5 ${height}Z` }));
  // A colour of an overlay is that of the whole.
  if (!look.fill) box.fused.forEach(({ category }, i) => group.append(s("path", { class: `fused cat-${category}`, d: footOf(place, i) })));
  if (scale >= SMALLEST_TEXT) words(group, place, look);
  else bigTitle(group, place, scale);
  return group;
}

/** The band of what is fused into a box, right of its bar; the last one has the corner of the box. */
function footOf({ box: { fused }, width, height }: Placing, number: number): string {
  const [top, corner] = [height - FUSED * (fused.length - number), number === fused.length - 1 ? 6 : 0];
  return `M5 ${top}H${width - 0.5}V${top + FUSED - corner - 0.5}a${corner} ${corner} 0 0 1 ${-corner} ${corner}H5Z`;
}

/** From afar, the name alone, as large as the box allows; shortened where it could not be read, but never to nothing. */
function bigTitle(group: SVGGElement, { box, width, height }: Placing, scale: number): void {
  const [wish, room] = [Math.min(height * 0.55, 11 / scale), width * 0.86];
  const whole = Math.min((room / Math.max(1, textWidth(box.title, TITLE))) * 12.5, wish);
  const size = whole * scale >= SMALL_TITLE ? whole : Math.max(whole, Math.min(READABLE_TITLE / scale, wish));
  const text = size > whole ? fitted(box.title, TITLE, (room * 12.5) / size) : box.title;
  const [said, by] = text.length < LEAST_LETTERS && whole * scale >= LEAST_TITLE ? [box.title, whole] : [text, size];
  if (by * scale < LEAST_TITLE) return;
  group.append(s("text", { class: "title middle", x: width / 2 + 1.5, y: height / 2 + by * 0.35, style: `font-size:${round(by)}px` }, said));
}

function words(group: SVGGElement, { box, width, height }: Placing, look: Look): void {
  group.append(s("title", {}, box.name)); // while the pointer rests on it
  const center = box.category === "end";
  const x = center ? width / 2 : box.category === "scope" ? 26 : 14;
  const where = center ? " middle" : "";
  if (box.category === "scope") group.append(s("path", { class: "twist", d: "M12 17l5 4-5 4z" }));
  group.append(s("text", { class: `title${where}`, x, y: 19 }, box.title));
  if (box.subtitle !== "") group.append(s("text", { class: `subtitle${where}`, x, y: 35 }, box.subtitle));
  if (box.chip !== "") {
    const room = textWidth(box.chip, SMALL) + 8;
    group.append(s("rect", { class: "chip", x: width - room - 7, y: 7, width: room, height: 16, rx: 4 }));
    group.append(s("text", { class: "chip-text", x: width - room / 2 - 7, y: 19 }, box.chip));
  }
  box.rows.forEach(({ name, shape }, i) => {
    const top = box.subtitle === "" ? 27.5 : 42.5;
    const y = top + (box.category === "scope" ? 8 : 13.5) + 15 * i;
    if (i === 0 && box.category !== "scope") group.append(s("path", { class: "rule", d: `M10 ${top}H${width - 8}` }));
    group.append(s("text", { class: "row", x, y }, name), s("text", { class: "row row-shape", x: width - 10, y }, shape));
  });
  box.fused.forEach(({ title }, i) => group.append(s("text", { class: "fused-text", x, y: height - FUSED * (box.fused.length - i) + 13 }, title)));
  if (look.value !== undefined) {
    const room = textWidth(look.value, SMALL) + 10;
    group.append(s("rect", { class: "value", x: width - Math.min(room, 26), y: -15, width: room, height: 16, rx: 8 }));
    group.append(s("text", { class: "value-text", x: width - Math.min(room, 26) + room / 2, y: -3 }, look.value));
  }
}
