/** The report's page: draws a document block by block, and knows nothing of the command that wrote it. */

import "./style.css";
import { pageData } from "../common/data.ts";
import { h } from "../common/dom.ts";
import { offer } from "../common/files.ts";
import { draw } from "./blocks/draw.ts";
import type { ReportDocument, Section } from "./schema.ts";

async function show(): Promise<void> {
  const found = await pageData<ReportDocument>();
  const main = h("main", {}, heading(found), contents(found.sections));
  document.body.append(main);
  main.append(...found.sections.map(section));
  main.append(footer(found));
  // What the address names was not there when the browser looked for it.
  const wanted = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (wanted) wanted.scrollIntoView();
}

function heading(found: ReportDocument): HTMLElement {
  return h(
    "header",
    { class: `head ${found.tone}` },
    h("h1", {}, found.title),
    h("p", { class: "verdict" }, found.verdict),
    found.unfinished !== "" && h("p", { class: "unfinished", role: "status" }, found.unfinished),
  );
}

function contents(sections: Section[]): HTMLElement | null {
  if (sections.length < 3) return null;
  const links = sections.map(({ id, title }) => h("li", {}, h("a", { href: `#${id}` }, title)));
  return h("nav", { "aria-label": "Sections" }, h("ul", {}, ...links));
}

function section({ id, title, blocks }: Section): HTMLElement {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), ...blocks.map(draw));
}

function footer(found: ReportDocument): HTMLElement {
  return h(
    "footer",
    {},
    h("span", {}, `thinflow ${found.version}`),
    h("button", { type: "button", class: "quiet", onclick: () => download(found) }, "Save the data as JSON"),
  );
}

function download(found: ReportDocument): void {
  offer(new Blob([JSON.stringify(found.data, null, 2)], { type: "application/json" }), "report.json");
}

void show();
