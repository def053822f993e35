/** Files that a page hands to its reader. */

import { h } from "./dom.ts";

/** Hands the reader a file. */
export function offer(blob: Blob, name: string): null {
  const url = URL.createObjectURL(blob);
  h("a", { href: url, download: name }).click();
  // At once would be before the browser has begun to read it.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  return null;
}

/** What a file of something so named is called, without its suffix. */
export function fileName(name: string, otherwise: string): string {
  return name.replace(/[^\w.-]+/g, "_").slice(0, 80) || otherwise;
}
