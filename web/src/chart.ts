/**
 * The frame around every chart: a caption, a tool bar that saves it, a table behind it, and values by pointer or arrow
 * keys. A chart is drawn when it comes near the window, and again when its width changes.
 */
import { append, h, replace, s, table, type Child, type Grid } from "./dom";
import { savePNG, saveSVG, type Caption } from "./save";

/** A value of a chart that can be pointed at, in the drawing's pixels: near its point, or anywhere in its box. */
export interface Spot { x: number; y: number; text: string; box?: { x: number; y: number; width: number; height: number } }
export interface Drawing { svg: SVGSVGElement; spots: Spot[] }

export interface ChartSpec {
  title: string;
  /** What the chart is of, where the page says so around it; a saved file begins with it. */
  subject?: string;
  note?: Child;
  /** Name of a saved file, without its ending. */
  file: string;
  /** What each colour or shape means; drawn above the chart. */
  key?: Child;
  /** The same for a chart whose signs the page explains elsewhere; only in saved files. */
  savedKey?: () => HTMLElement;
  draw: (width: number) => Drawing;
  table: () => Grid;
  /** About how high it will be, so that the page does not jump when it is drawn. */
  height?: number;
  className?: string;
}

/** Where the figures of this page come from, for saved charts. */
let source = "";
export function comesFrom(text: string): void { source = text; }

interface Pending { figure: HTMLElement; draw: () => void }
const pending = new Map<Element, Pending>();
const drawn = new WeakMap<Element, () => void>();

const near = typeof IntersectionObserver === "undefined" ? undefined : new IntersectionObserver((entries) => {
  for (const e of entries) if (e.isIntersecting) pending.get(e.target)?.draw();
}, { rootMargin: "400px 0px" });
const widths = typeof ResizeObserver === "undefined" ? undefined : new ResizeObserver((entries) => {
  for (const e of entries) drawn.get(e.target)?.();
});

/** Draws what is still waiting inside an element: paper has no scroll bar. */
export function drawAll(inside: Element): void {
  for (const p of [...pending.values()]) if (inside.contains(p.figure) && p.figure.offsetParent !== null) p.draw();
}

/** Stops watching charts that are about to leave the page. */
export function forget(inside: Element): void {
  for (const [figure] of [...pending]) if (inside.contains(figure)) { pending.delete(figure); near?.unobserve(figure); }
  for (const stage of inside.querySelectorAll(".stage")) widths?.unobserve(stage);
}

export function chart(spec: ChartSpec): HTMLElement {
  const stage = h("div", { class: "stage" });
  if (spec.height) stage.style.minHeight = `${spec.height}px`;
  const live = h("div", { class: "unseen", "aria-live": "polite" });
  const behind = h("details", { class: "behind" }, h("summary", {}, "Table"));
  behind.addEventListener("toggle", () => {
    if (behind.open && behind.childElementCount === 1) behind.append(table(spec.table(), spec.title));
  });
  let last: Drawing | undefined;
  let width = 0;
  const draw = () => {
    const room = Math.floor(stage.clientWidth);
    if (room < 50 || room === width) return;
    width = room;
    last = spec.draw(room);
    stage.style.minHeight = "";
    last.svg.classList.add("chart");
    replace(stage, last.svg);
    explore(stage, live, last, spec.title);
    pending.delete(figure);
    near?.unobserve(figure);
  };
  const caption = (): Caption => {
    // Only what is in the page has styles to take along.
    const extra = spec.savedKey?.();
    if (extra) { extra.classList.add("unseen"); figure.append(extra); }
    const key = [...figure.querySelectorAll(":scope > .key li, :scope > .unseen li")].map((li) => ({ icon: li.querySelector("svg"), text: li.textContent!.trim() }));
    queueMicrotask(() => extra?.remove());
    return { title: spec.subject ? `${spec.subject}: ${spec.title}` : spec.title, note: figure.querySelector(".chart-note")?.textContent ?? "", key, source };
  };
  const save = (how: (svg: SVGSVGElement, c: Caption, name: string) => void) => () => {
    draw();
    if (last) how(last.svg, caption(), `tare-${spec.file}`);
  };
  const figure = h("figure", { class: `chart-frame ${spec.className ?? ""}`, "data-chart": spec.file },
    h("figcaption", {}, h("span", { class: "chart-title" }, spec.title), spec.note && h("span", { class: "chart-note" }, spec.note)),
    spec.key && h("div", { class: "key" }, spec.key),
    stage, live,
    h("div", { class: "tools" },
      h("button", { type: "button", onclick: save(saveSVG), "aria-label": `Save “${spec.title}” as SVG` }, "SVG"),
      h("button", { type: "button", onclick: save(savePNG), "aria-label": `Save “${spec.title}” as PNG` }, "PNG"), behind));
  pending.set(figure, { figure, draw });
  drawn.set(stage, () => { if (last) draw(); });
  if (near) near.observe(figure);
  else queueMicrotask(draw);
  widths?.observe(stage);
  return figure;
}

/** Lets pointer and arrow keys walk over the values of a drawing. */
function explore(stage: HTMLElement, live: HTMLElement, d: Drawing, title: string): void {
  const { svg, spots } = d;
  svg.setAttribute("role", "group");
  svg.setAttribute("aria-roledescription", "chart");
  svg.setAttribute("aria-label", spots.length ? `${title}: ${spots.length} values; read them with the arrow keys, or in the table below` : title);
  if (spots.length === 0) return;
  svg.setAttribute("tabindex", "0");
  const ring = s("circle", { r: 7, class: "ring", visibility: "hidden", "data-aid": "" });
  svg.append(ring);
  const tip = h("div", { class: "tip", "aria-hidden": true });
  tip.hidden = true;
  append(stage, [tip]);
  let at = -1;
  const hide = () => { at = -1; tip.hidden = true; ring.setAttribute("visibility", "hidden"); };
  const show = (i: number, aloud: boolean) => {
    if (i === at) return;
    at = i;
    const p = spots[i]!;
    replace(tip, p.text.split("\n").map((line) => h("div", {}, line)));
    tip.hidden = false;
    ring.setAttribute("cx", String(p.x));
    ring.setAttribute("cy", String(p.y));
    ring.setAttribute("visibility", "visible");
    const room = stage.clientWidth;
    tip.style.left = `${Math.max(0, Math.min(room - tip.offsetWidth, p.x - tip.offsetWidth / 2))}px`;
    tip.style.top = p.y - tip.offsetHeight - 14 >= 0 ? `${p.y - tip.offsetHeight - 14}px` : `${p.y + 16}px`;
    if (aloud) live.textContent = p.text.replace(/\n/g, ", ");
  };
  svg.addEventListener("pointermove", (e) => {
    const box = svg.getBoundingClientRect();
    const x = e.clientX - box.left;
    const y = e.clientY - box.top;
    let best = -1;
    let distance = 40 ** 2;
    spots.forEach((p, i) => {
      if (p.box) {
        if (x >= p.box.x && x < p.box.x + p.box.width && y >= p.box.y && y < p.box.y + p.box.height) best = i;
        return;
      }
      const dd = (p.x - x) ** 2 + (p.y - y) ** 2;
      if (dd < distance) { distance = dd; best = i; }
    });
    if (best >= 0) show(best, false);
    else hide();
  });
  svg.addEventListener("pointerleave", hide);
  svg.addEventListener("blur", hide);
  const step: Record<string, (i: number) => number> = {
    ArrowRight: (i) => i + 1, ArrowDown: (i) => i + 1, ArrowLeft: (i) => i - 1, ArrowUp: (i) => i - 1,
    PageDown: (i) => i + 10, PageUp: (i) => i - 10, Home: () => 0, End: () => spots.length - 1,
  };
  svg.addEventListener("keydown", (e) => {
    if (e.key === "Escape") return hide();
    const f = step[e.key];
    if (!f || e.altKey || e.ctrlKey || e.metaKey) return;
    e.preventDefault();
    // From nothing, a step forward begins at the first value and a step back at the last.
    const from = at < 0 && f(0) < 0 ? spots.length : at;
    show(Math.max(0, Math.min(spots.length - 1, f(from))), true);
  });
}
