/** The bar that filters, changes the baseline and the theme. */
import { h } from "./dom";
import { capital } from "./format";
import type { Model, State } from "./state";

function chips(legend: string, names: string[], chosen: () => Set<string>, apply: (s: Set<string>) => void, word = (n: string) => n): HTMLElement {
  return h("fieldset", {}, h("legend", {}, legend), names.map((n) => h("label", { class: "chip" },
    h("input", { type: "checkbox", checked: chosen().has(n), onchange: (e: Event) => {
      const next = new Set(chosen());
      if ((e.target as HTMLInputElement).checked) next.add(n);
      else next.delete(n);
      apply(next);
    } }), h("span", {}, word(n)))));
}

function select<T extends string>(label: string, id: string, options: [value: T, text: string][], value: T, apply: (v: T) => void): HTMLElement {
  const e = h("select", { id, onchange: () => apply(e.value as T) }, options.map(([v, text]) => h("option", { value: v, selected: v === value }, text)));
  return h("label", { class: "field" }, h("span", {}, label), e);
}

export function controls(m: Model): HTMLElement {
  const { state, data } = m;
  const targets = data.result.targets.map((t) => t.name);
  const metrics = [...new Set(data.result.cells.map((c) => c.metric))];
  const fields = h("div", { class: "bar" });
  // The chips follow the baseline, which is no candidate, so the bar is made again when it changes; the focus stays.
  const make = () => {
    const candidates = m.candidates().map((t) => t.name);
    const focus = document.activeElement?.id;
    fields.replaceChildren(...[
      candidates.length > 1 && chips("Targets", candidates, () => state.targets, (s) => m.set({ targets: s })),
      m.families.length > 1 && chips("Families", m.families, () => state.families, (s) => m.set({ families: s }), capital),
      h("div", { class: "selects" },
        metrics.length > 1 && select("Metric", "pick-metric", [["", "what decides"], ["*", "all"], ...metrics.map((x): [string, string] => [x, x])], state.metric, (v) => m.set({ metric: v })),
        targets.length > 1 && select("Baseline", "pick-baseline", targets.map((t): [string, string] => [t, t === m.run.baseline ? `${t} (the run's)` : t]), state.baseline, (v) => { m.set({ baseline: v }); make(); }),
        candidates.length > 1 && select<State["by"]>("Group by", "pick-group", [["workload", "workload"], ["target", "target"]], state.by, (v) => m.set({ by: v })),
        select<State["order"]>("Order", "pick-order", [["plan", "as planned"], ["cost", "by cost"]], state.order, (v) => m.set({ order: v }))),
    ].filter((x): x is HTMLElement => !!x));
    if (focus) document.getElementById(focus)?.focus();
  };
  make();
  // On a small window the bar would be most of it.
  const small = typeof matchMedia === "function" && matchMedia("(max-width: 700px)").matches;
  return h("details", { class: "controls", id: "controls", open: !small }, h("summary", {}, "Filter and compare"), fields);
}

type Theme = "auto" | "light" | "dark";
const themes: Record<Theme, [glyph: string, next: Theme]> = { auto: ["◐", "light"], light: ["○", "dark"], dark: ["●", "auto"] };

/** Themes follow the system until the reader says otherwise; what they say is kept where the browser allows it. */
export function themeButton(): HTMLElement {
  const read = (): Theme => {
    try {
      const v = localStorage.getItem("tare-theme");
      return v === "light" || v === "dark" ? v : "auto";
    } catch {
      return "auto"; // a file opened from disk may have no storage
    }
  };
  let theme = read();
  const b = h("button", { type: "button", class: "theme", id: "theme", onclick: () => {
    theme = themes[theme][1];
    try {
      localStorage.setItem("tare-theme", theme);
    } catch { /* kept for this page only */ }
    show();
  } });
  const show = () => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    b.textContent = `${themes[theme][0]} ${theme}`;
    b.setAttribute("aria-label", `Colours: ${theme}. Change to ${themes[theme][1]}`);
  };
  show();
  return b;
}
