/** Observable Plot as this page uses it. */
import * as Plot from "@observablehq/plot";
import { h, s, type Child } from "./dom";
import type { Model } from "./state";
import { shades, symbols } from "./verdict";

export type Figure = SVGSVGElement & Plot.Plot;

/** Plots without Plot's own style element, which the page's policy would refuse; style.css has its rules. */
export function plot(options: Plot.PlotOptions): Figure {
  const svg = Plot.plot({ className: "plot", ...options }) as Figure;
  svg.querySelector("style")?.remove();
  return svg;
}

/** Where a value of a plot stands, in pixels of the drawing; row is the facet when there are several below each other. */
export function place(svg: Figure, x: unknown, y: unknown, row?: string): { x: number; y: number } {
  const at = { x: svg.scale("x")!.apply(x) as number, y: svg.scale("y")!.apply(y) as number };
  const fy = row === undefined ? undefined : svg.scale("fy");
  // Plot draws each facet in the place of the first and moves it: both include the top margin.
  if (fy) at.y += (fy.apply(row) as number) - (fy.range ? Math.min(...(fy.range as number[])) : 0);
  return at;
}

/** A logarithmic axis on the left whose every tick has its label; Plot's own leaves out all but some powers. */
export function logAxis(ticks: number[], text: (v: number) => string): Plot.Markish[] {
  return [Plot.gridY(ticks, { stroke: "var(--line)", strokeOpacity: 1 }), Plot.axisY(ticks, { text: (v: number) => text(v), tickSize: 0, label: null })];
}

/** Colour and shape of each target, the same in every chart. */
export function scales(m: Model, names: string[]): Pick<Plot.PlotOptions, "color" | "symbol"> {
  return {
    color: { type: "ordinal", domain: names, range: names.map((n) => shades[m.at(n) % shades.length]!) },
    symbol: { type: "ordinal", domain: names, range: names.map((n) => symbols[m.at(n) % symbols.length]!) },
  };
}

const paths = ["M-4.5,0a4.5,4.5 0 1,0 9,0a4.5,4.5 0 1,0 -9,0", "M-4,-4h8v8h-8z", "M0,-5l5,9h-10z", "M0,-6l4.5,6l-4.5,6l-4.5,-6z", "M0,-6l1.6,4h4.2l-3.3,2.7l1.2,4.3l-3.7,-2.6l-3.7,2.6l1.2,-4.3l-3.3,-2.7h4.2z",
  "M-1.7,-5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z", "M-1.5,5v-4.5l-3.5,-3l1.8,-2.2l3.2,2.6l3.2,-2.6l1.8,2.2l-3.5,3v4.5z", "M-4.5,-3l1.5,-1.5l3,3l3,-3l1.5,1.5l-3,3l3,3l-1.5,1.5l-3,-3l-3,3l-1.5,-1.5l3,-3z"];

/** An entry of a key: a small drawing about the point 0, 0, at most 8 to each side, and what it means. */
export const keyItem = (text: string, ...shapes: SVGElement[]): HTMLElement =>
  h("li", {}, s("svg", { viewBox: "-8 -8 16 16", width: 14, height: 14, "aria-hidden": true }, shapes), ` ${text}`);

export const swatch = (fill: string, stroke = "none"): SVGElement => s("rect", { x: -7, y: -5, width: 14, height: 10, rx: 2, fill, stroke });

export function key(m: Model, names: string[], more: Child[] = []): HTMLElement {
  return h("ul", {}, names.map((n) => keyItem(n, s("path", { d: paths[m.at(n) % paths.length]!, fill: shades[m.at(n) % shades.length]! }))), more);
}
