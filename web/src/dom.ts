/**
 * Making elements. Everything foreign becomes a text node or an attribute of a known harmless name; nothing in this page
 * parses markup, and the page's security policy would refuse it.
 */
export type Child = Node | string | number | null | undefined | false | Child[];
type Value = string | number | boolean | null | undefined | ((e: never) => void);
export type Attributes = Record<string, Value>;

// Control characters and those that turn the direction of writing could make a name look like another text.
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
const unsafe = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]/g;

/** Shows what must not be obeyed as the sign for "no character". Line ends and tabs stay. */
export const safe = (text: string): string => text.replace(unsafe, "\ufffd");

function fill<E extends Element>(e: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") e.addEventListener(name.replace(/^on/, ""), value as EventListener);
    else e.setAttribute(name, value === true ? "" : safe(String(value)));
  }
  append(e, children);
  return e;
}

export function append(e: Node, children: Child[]): void {
  for (const c of children) {
    if (c === null || c === undefined || c === false) continue;
    if (Array.isArray(c)) append(e, c);
    else e.appendChild(c instanceof Node ? c : document.createTextNode(safe(String(c))));
  }
}

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, children);
}

export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

export function replace(e: Element, ...children: Child[]): void {
  e.replaceChildren();
  append(e, children);
}

/** A text of the program's, in which commands stand between backticks. A figure is not parted from its unit. */
export const ticked = (text: string): Child[] => text.replace(/(\d) (?=%|[kMG]?i?B\b|[nµm]?s\b)/g, "$1\u00a0").split("`").flatMap((part, i, all): Child[] => (i % 2 === 1 && i < all.length - 1 ? [h("code", {}, part)] : whole(i % 2 === 1 ? `\`${part}` : part)));

export interface Grid {
  head: string[];
  rows: Child[][];
  /** Columns from this one on hold figures and are set flush right; none by default. */
  figures?: number;
}

/** A plain table; the first column is the row's heading. */
export function table(g: Grid, caption: string, className = ""): HTMLElement {
  const align = (i: number) => (g.figures !== undefined && i >= g.figures ? "figure" : null);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    h("table", { class: className },
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, g.head.map((t, i) => h("th", { scope: "col", class: align(i) }, t)))),
      h("tbody", {}, g.rows.map((r) => h("tr", {}, r.map((c, i) => (i === 0 ? h("th", { scope: "row" }, c) : h("td", { class: align(i) }, c))))))));
}

/** Divides text at the options of commands; every second part is one. */
export const options = (text: string): string[] => text.split(/((?<![\w-])--[a-z][a-z-]*)/);

/** A browser breaks a line between the two hyphens of an option. */
const whole = (text: string): Child[] => options(text).map((part, i) => (i % 2 === 1 ? h("span", { class: "option" }, part) : part));
