/** Names, shapes and numbers as they are shown. */

/** A name on one line: control characters as their symbols, lone surrogates and bidi controls as a box. */
export function clean(name: string): string {
  return name
    .replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/\u007f/g, "\u2421")
    .replace(/[\u0080-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]|\p{Surrogate}/gu, "\u25a1");
}

/** With U+FFFD for half a surrogate pair, which an address cannot hold. */
export function wellFormed(name: string): string {
  return name.replace(/\p{Surrogate}/gu, "\ufffd");
}

/** The last part of a name with scopes; a name that ends in a slash is shown whole. */
export function lastPart(name: string): string {
  return name.slice(name.lastIndexOf("/", name.length - 2) + 1);
}

/** The ends of names, of as many parts as tell each from the others. */
export function distinctEnds(names: string[]): string[] {
  const parts = names.map((name) => Math.max(1, name.split("/").length));
  const ends = names.map((name) => lastPart(name) || name);
  for (let count = 2; count <= 64; count++) {
    const seen = new Map<string, Set<string>>();
    names.forEach((name, i) => seen.set(ends[i]!, (seen.get(ends[i]!) ?? new Set()).add(name)));
    const unclear = names.flatMap((_, i) => (seen.get(ends[i]!)!.size > 1 && count <= parts[i]! ? [i] : []));
    if (unclear.length === 0) break;
    for (const i of unclear) ends[i] = names[i]!.split("/").slice(-count).join("/");
  }
  return ends;
}

/** "1,224,224,3" as 1×224×224×3; a scalar and an unknown rank in words. */
export function shapeText(shape: string): string {
  if (shape === "") return "scalar";
  if (shape === "*") return "any rank";
  return shape.replaceAll(",", "\u00d7");
}

/** The numbers of "1,224,224,3"; NaN for those that are not known. */
export function sizesOf(shape: string): number[] {
  return shape === "" ? [] : shape.split(",").map(Number);
}

/** Three digits and a prefix: 1234567 as 1.23 M. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size === 0) return "0";
  const units: [number, string][] = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]];
  for (const [unit, sign] of units) if (size >= unit * 0.9995) return digits(value / unit) + sign;
  return digits(value);
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e4) return String(Number(value.toPrecision(3)));
  return value.toExponential(2);
}

/** Bytes with binary prefixes. */
export function byteText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [size, unit] = [bytes, 0];
  while (size >= 1023.5 && unit < units.length - 1) [size, unit] = [size / 1024, unit + 1];
  return `${Number(size.toPrecision(3))} ${units[unit]!}`;
}

/** Milliseconds in the unit in which they are read. */
export function timeText(millis: number): string {
  const units: [number, string][] = [[1e3, "s"], [1, "ms"], [1e-3, "\u00b5s"]];
  // Below a microsecond are the means of a clock that ticks in them.
  const [size, unit] = units.find(([one]) => Math.abs(millis) >= one * 0.9995) ?? (millis === 0 ? units[1]! : units[2]!);
  return `${millis === 0 ? "0" : digits(millis / size)} ${unit}`;
}

/** A value of an overlay with its unit. */
export function amount(value: number, unit: string | undefined): string {
  if (unit === "bytes") return byteText(value);
  if (unit === "ms") return timeText(value);
  const text = short(value);
  return unit ? `${text}${/ [TGMk]$/.test(text) ? "" : " "}${unit}` : text;
}

/** 1 node, 2 nodes. */
export function count(number: number, word: string): string {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

const canvas = typeof OffscreenCanvas === "undefined" ? undefined : new OffscreenCanvas(1, 1).getContext("2d");
const widths = new Map<string, number>();

/** Width of a text in pixels. */
export function textWidth(text: string, font: string): number {
  if (canvas === null || canvas === undefined) return text.length * 6.6;
  const key = font + text;
  let width = widths.get(key);
  if (width === undefined) {
    canvas.font = font;
    widths.set(key, (width = canvas.measureText(text).width));
  }
  return width;
}

/** The text as far as it fits, with an ellipsis in its middle: both ends of a name tell something. */
export function fitted(text: string, font: string, room: number): string {
  if (textWidth(text, font) <= room) return text;
  let [low, high] = [1, Math.min(text.length, 120)];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(shortened(text, middle), font) <= room) low = middle;
    else high = middle - 1;
  }
  return shortened(text, low);
}

/** The text as far as it fits, with an ellipsis at its end: for sentences and lists. */
export function cutOff(text: string, font: string, room: number): string {
  if (textWidth(text, font) <= room) return text;
  let length = Math.min(text.length, 120);
  while (length > 1 && textWidth(`${text.slice(0, length)}\u2026`, font) > room) length--;
  return `${text.slice(0, length).replace(/[\s,]+$/, "")}\u2026`;
}

function shortened(text: string, length: number): string {
  const head = Math.ceil(length / 2);
  return `${text.slice(0, head)}\u2026${text.slice(text.length - (length - head))}`;
}
