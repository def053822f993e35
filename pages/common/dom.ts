/** Elements made without a framework. Text is always set as text: names of a model may hold anything. */

type Child = Node | string | null | undefined | false;

export interface Properties {
  class?: string;
  id?: string;
  title?: string;
  [attribute: string]: string | number | boolean | undefined | ((event: Event) => void);
}

/** An HTML element; `onclick: f` listens, other properties are attributes, false and undefined are left out. */
export function h<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  decorate(element, properties, children);
  return element;
}

/** An SVG element, like `h`. */
export function s<K extends keyof SVGElementTagNameMap>(
  tag: K,
  properties: Properties = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  decorate(element, properties, children);
  return element;
}

function decorate(element: Element, properties: Properties, children: Child[]): void {
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined && child !== false) element.append(child);
}
