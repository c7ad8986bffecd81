/** Saving a chart: as SVG that stands alone, with its title and key, and as PNG made from that. */
import { s } from "./dom";

const properties = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "fill-opacity", "opacity", "font-family", "font-size",
  "font-weight", "font-style", "text-anchor", "dominant-baseline", "font-variant-numeric", "visibility", "paint-order", "stroke-linejoin", "stroke-linecap"];

/** What the page has around a drawing and a saved one has inside. */
export interface Caption {
  title: string;
  note: string;
  /** What its colours and shapes mean. */
  key: { icon: SVGSVGElement | null; text: string }[];
  /** Where the figures come from, in one line. */
  source: string;
}

/** Copies an element with every style that reaches it written into attributes. */
function inlined(svg: SVGSVGElement): SVGSVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const to = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  from.forEach((e, i) => {
    const style = getComputedStyle(e);
    for (const p of properties) {
      const v = style.getPropertyValue(p);
      if (v) to[i]!.setAttribute(p, v);
    }
    for (const name of ["class", "style", "tabindex", "role", "aria-roledescription", "aria-hidden"]) to[i]!.removeAttribute(name);
  });
  for (const aid of copy.querySelectorAll("[data-aid]")) aid.remove();
  return copy;
}

/** Moves what an element holds into a group, because a drawing within a drawing is cut or lost by some programs. */
function grouped(svg: SVGSVGElement, transform: string): SVGGElement {
  const g = s("g", { transform });
  for (const a of svg.attributes) if (properties.includes(a.name)) g.setAttribute(a.name, a.value);
  g.append(...svg.childNodes);
  return g;
}

let pen: CanvasRenderingContext2D | null | undefined;

/** How wide a text is, in pixels, in a font as CSS writes it: "600 13px serif". */
export function extent(text: string, font: string): number {
  pen ??= document.createElement("canvas").getContext("2d");
  if (!pen) return text.length * 7.5;
  pen.font = font;
  return pen.measureText(text).width;
}

interface Run { text: string; size: number; weight: number; color: string }

/** Breaks a text between words into lines that fit. */
function broken(run: Run, room: number, family: string): string[] {
  const lines: string[] = [];
  for (const word of run.text.split(/\s+/).filter(Boolean)) {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && extent(longer, `${run.weight} ${run.size}px ${family}`) <= room) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

const edge = 14; // pixels around a saved chart

/**
 * Makes a drawing that stands alone: styles in attributes, because the page's style sheet stays behind and many programs
 * that open SVG know none, and around the chart its title, what its signs mean, and where it comes from.
 */
export function standalone(svg: SVGSVGElement, c: Caption): SVGSVGElement {
  const { width, height } = svg.viewBox.baseVal;
  const body = getComputedStyle(document.body);
  const soft = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim() || body.color;
  const family = body.fontFamily;
  const parts: SVGElement[] = [];
  let y = edge;
  const write = (run: Run, x: number, base: number) => parts.push(s("text", { x, y: base, fill: run.color, "font-family": family, "font-size": run.size, "font-weight": run.weight }, run.text));
  const paragraph = (run: Run) => {
    for (const text of broken(run, width, family)) {
      y += run.size * 1.35;
      write({ ...run, text }, edge, y - run.size * 0.3);
    }
  };
  paragraph({ text: c.title, size: 15, weight: 650, color: body.color });
  paragraph({ text: c.note, size: 12, weight: 400, color: soft });
  let x = 0;
  for (const [i, item] of c.key.entries()) {
    const run = { text: item.text, size: 12, weight: 400, color: soft };
    const wide = (item.icon ? 18 : 0) + extent(item.text, `400 12px ${family}`) + 18;
    if (i === 0 || x + wide - 18 > width) { x = 0; y += 20; }
    if (item.icon) parts.push(grouped(inlined(item.icon), `translate(${edge + x + 7},${y - 5}) scale(0.875)`));
    write(run, edge + x + (item.icon ? 18 : 0), y);
    x += wide;
  }
  y += 12;
  parts.push(grouped(inlined(svg), `translate(${edge},${y})`));
  y += height + 6;
  paragraph({ text: c.source, size: 10.5, weight: 400, color: soft });
  const [w, tall] = [width + 2 * edge, Math.ceil(y) + edge];
  return s("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${w} ${tall}`, width: w, height: tall },
    s("title", {}, c.title), s("rect", { width: w, height: tall, fill: body.backgroundColor }), parts);
}

export const svgText = (svg: SVGSVGElement, c: Caption): string => `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(standalone(svg, c))}\n`;

function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const a = document.createElement("a");
  a.href = url;
  a.download = name.replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 100);
  a.click();
  // The browser has read the blob by then; a revoked address any earlier loses the file in some.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function saveSVG(svg: SVGSVGElement, c: Caption, name: string): void {
  download(new Blob([svgText(svg, c)], { type: "image/svg+xml" }), `${name}.svg`);
}

/** A canvas refuses more pixels than this on a side in at least one browser. */
const mostPixels = 16_000;

export function savePNG(svg: SVGSVGElement, c: Caption, name: string): void {
  const drawing = standalone(svg, c);
  const { width, height } = drawing.viewBox.baseVal;
  const scale = Math.min(2, mostPixels / Math.max(width, height));
  const url = URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(drawing)], { type: "image/svg+xml" }));
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => {
      URL.revokeObjectURL(url);
      if (blob) download(blob, `${name}.png`);
    }, "image/png");
  };
  image.onerror = () => URL.revokeObjectURL(url);
  image.src = url;
}
