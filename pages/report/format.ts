/** Numbers with units, short enough for an axis. */

import type { Unit } from "./schema.ts";

export function amount(value: number | null, unit: Unit): string {
  if (value === null) return "–";
  switch (unit) {
    case "ms":
      return Math.abs(value) > 0 && Math.abs(value) < 0.1 ? `${digits(value * 1000)} µs` : `${digits(value)} ms`;
    case "bytes":
      return bytes(value);
    case "%":
      return `${digits(value)} %`;
    case "points":
      return `${digits(value)} ${Math.abs(value) === 1 ? "point" : "points"}`;
    case "x":
      return `${digits(value)}×`;
    case "dB":
      return `${digits(value)} dB`;
    case "":
      return digits(value);
  }
}

/** Four significant digits, without those that say nothing. */
export function digits(value: number): string {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < 1e-4) return value.toExponential(1);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(size >= 1 ? 4 : 3)));
}

/** Decimal, as everywhere in thinflow: 1 kB is 1000 bytes. */
function bytes(value: number): string {
  const units: [number, string][] = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];
  for (const [factor, name] of units) {
    if (Math.abs(value) >= factor) return `${digits(Number((value / factor).toPrecision(3)))} ${name}`;
  }
  return `${digits(value)} B`;
}

/** A text without its middle where it is longer: both ends of a node's name tell more than the middle. */
export function shortened(text: string, most: number): string {
  if (text.length <= most) return text;
  const half = Math.max(1, Math.floor((most - 1) / 2));
  return `${text.slice(0, half)}…${text.slice(text.length - half)}`;
}
