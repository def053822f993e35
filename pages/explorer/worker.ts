/** The worker's side of layout.ts: places scopes, so that the page can be moved meanwhile. */

import { type Problem, solve } from "./layers.ts";

const sizes = new Map<number, { width: number; height: number }>();

self.onmessage = (event: MessageEvent<{ ticket: number; problems: Problem[] }>) => {
  const { ticket, problems } = event.data;
  self.postMessage({ ticket, placed: solve(problems, sizes) });
};
