/** The explorer's page: what is in a graph, at any depth. */

import "./style.css";
import { pageData } from "../common/data.ts";
import { h } from "../common/dom.ts";
import { App } from "./app.ts";
import type { Document } from "./schema.ts";

const bar = h("div", { class: "failure", role: "alert", hidden: true });

/** Says what went wrong where the reader sees it; the console has the rest. */
function failed(said: string, problem: unknown): void {
  const close = h("button", { class: "quiet", "aria-label": "Close the message", onclick: () => (bar.hidden = true) }, "\u00d7");
  bar.replaceChildren(h("span", {}, `${said}: ${problem instanceof Error ? problem.message : String(problem)}`), close);
  bar.hidden = false;
  if (!bar.isConnected) document.body.append(bar);
}

window.addEventListener("unhandledrejection", ({ reason }) => failed("This could not be shown", reason));
window.addEventListener("error", ({ error, message }) => {
  // A browser's remark on its own timing, after which everything goes on.
  if (!message.startsWith("ResizeObserver loop")) failed("This could not be shown", error ?? message);
});

async function show(): Promise<void> {
  try {
    await new App(await pageData<Document>()).start();
  } catch (problem) {
    failed("This page could not be drawn", problem);
    console.error(problem);
  }
}

void show();
