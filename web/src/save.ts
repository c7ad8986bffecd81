/** Saving a chart: as SVG that stands alone, and as PNG made from that. */

const properties = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-opacity", "fill-opacity", "opacity", "font-family", "font-size",
  "font-weight", "font-style", "text-anchor", "dominant-baseline", "font-variant-numeric", "visibility", "paint-order", "stroke-linejoin", "stroke-linecap"];

/**
 * Copies a drawing with every style that reaches it written into attributes, because the page's style sheet stays behind and
 * many programs that open SVG know none.
 */
export function standalone(svg: SVGSVGElement): SVGSVGElement {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll<SVGElement>("*")];
  const to = [copy, ...copy.querySelectorAll<SVGElement>("*")];
  from.forEach((e, i) => {
    const style = getComputedStyle(e);
    for (const p of properties) {
      const v = style.getPropertyValue(p);
      if (v) to[i]!.setAttribute(p, v);
    }
    for (const name of ["class", "style", "tabindex", "role", "aria-roledescription"]) to[i]!.removeAttribute(name);
  });
  for (const aid of copy.querySelectorAll("[data-aid]")) aid.remove();
  const { width, height } = svg.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [k, v] of Object.entries({ width: "100%", height: "100%", fill: getComputedStyle(document.body).backgroundColor })) paper.setAttribute(k, v);
  copy.prepend(paper);
  return copy;
}

export const svgText = (svg: SVGSVGElement): string => `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(standalone(svg))}\n`;

function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const a = document.createElement("a");
  a.href = url;
  a.download = name.replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 100);
  a.click();
  // The browser has read the blob by then; a revoked address any earlier loses the file in some.
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export function saveSVG(svg: SVGSVGElement, name: string): void {
  download(new Blob([svgText(svg)], { type: "image/svg+xml" }), `${name}.svg`);
}

/** A canvas refuses more pixels than this on a side in at least one browser. */
const mostPixels = 16_000;

export function savePNG(svg: SVGSVGElement, name: string): void {
  const { width, height } = svg.viewBox.baseVal;
  const scale = Math.min(2, mostPixels / Math.max(width, height));
  const url = URL.createObjectURL(new Blob([svgText(svg)], { type: "image/svg+xml" }));
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
