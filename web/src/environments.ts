/** What the targets are: durability, semantics, and their facts side by side. */
import { h, table, ticked, type Child } from "./dom";
import { capital, deviation, duration, number, percent, plural, quantity, size } from "./format";
import type { Facts, Target } from "./data";
import type { Model } from "./state";
import { flushOf } from "./verdict";

const shownTargets = (m: Model): Target[] => m.data.result.targets.filter((t) => m.state.targets.has(t.name) || t.name === m.state.baseline);

export function durability(m: Model): HTMLElement | null {
  const list = shownTargets(m).filter((t) => t.durability);
  if (list.length === 0) return null;
  return h("section", { id: "durability", "aria-labelledby": "durability-title" }, h("h2", { id: "durability-title" }, "Do writes last?"),
    h("p", { class: "lead" }, "The speed of writes is ranked only among targets of the same class. No verdict here says that data are safe: seeing no loss proves nothing."),
    h("ul", { class: "cards" }, list.map((t) => {
      const d = t.durability!;
      const tone = d.verdict === "DISPROVED" ? "more" : d.verdict === "PROPAGATED" ? "same" : "unsure";
      return h("li", { class: `card durable ${tone}` }, h("h3", {}, t.name), h("p", { class: "word" }, d.verdict), h("p", {}, capital(d.text)),
        h("dl", {}, pair("class", flushOf(t)!.words), d.layer && pair("observed down to", d.layer), !!d.cuts && pair("power cuts", d.cuts), !!d.bound && pair("loss rate below", `${percent(d.bound)} (95 % bound)`)),
        !!d.tests?.length && h("ul", { class: "tests" }, d.tests.map((x) => h("li", {}, h("b", {}, testWords[x.name] ?? x.name), `: ${x.verdict}. ${capital(x.text)}`))),
        !!d.settings?.length && h("ul", { class: "tests" }, d.settings.map((x) => h("li", {}, h("span", { class: "mark" }, "! "), ticked(x.text), x.remedy && h("span", { class: "remedy" }, " — ", ticked(x.remedy))))),
        !!d.evidence?.length && h("details", { class: "inner" }, h("summary", {}, "Evidence"), h("ul", {}, d.evidence.map((e) => h("li", {}, e)))));
    })));
}

const testWords: Record<string, string> = { cost: "What a flush costs", watch: "Whether the host is asked to flush" };

const pair = (term: string, value: Child): Child[] => [h("dt", {}, term), h("dd", {}, value)];

const ratings: Record<string, [glyph: string, word: string]> = { good: ["●", "good"], bad: ["✕", "bad"], neutral: ["○", "neutral"] };

export function cards(m: Model): HTMLElement | null {
  const list = shownTargets(m).filter((t) => t.card?.length);
  if (list.length === 0) return null;
  const properties = new Map<string, string>();
  for (const t of list) for (const p of t.card!) if (!properties.has(p.name)) properties.set(p.name, p.title);
  const find = (t: Target, name: string) => t.card!.find((x) => x.name === name);
  // First what tells targets apart or bites somewhere; on the rest all agree, and it only needs to be there.
  const telling = ([name]: [string, string]) => list.some((t) => find(t, name)?.rating === "bad") || new Set(list.map((t) => find(t, name)?.answer).filter((a) => a !== undefined)).size > 1;
  const rows = (some: [string, string][], caption: string) => table({
    head: ["", ...list.map((t) => t.name)],
    rows: some.map(([name, title]): Child[] => [title, ...list.map((t): Child => {
      const p = find(t, name);
      if (!p) return h("span", { class: "muted" }, "–");
      const [glyph, word] = Object.hasOwn(ratings, p.rating) ? ratings[p.rating]! : ratings.neutral!;
      const says = [h("span", { class: `rating ${p.rating === "good" || p.rating === "bad" ? p.rating : "neutral"}`, "aria-hidden": true }, glyph), h("span", { class: "unseen" }, `${word}: `), ` ${p.answer}`];
      return p.detail ? h("details", { class: "tiny" }, h("summary", {}, says), h("p", {}, p.detail)) : h("span", {}, says);
    })]),
  }, caption, "card-table");
  const all = [...properties.entries()];
  const [first, rest] = [all.filter(telling), all.filter((x) => !telling(x))];
  return h("section", { id: "cards", "aria-labelledby": "cards-title" }, h("h2", { id: "cards-title" }, "How files behave"),
    h("p", { class: "lead" }, "These answers were tested, not read in a manual. ● suits a developer, ✕ causes trouble, ○ is neither. Open an answer to see what was tested."),
    first.length > 0 && rows(first, "How files behave in each target"),
    rest.length > 0 && h("details", { class: "inner", open: first.length === 0 }, h("summary", {}, `${plural(rest.length, "property").replace("propertys", "properties")} ${list.length > 1 ? "that agree and cause" : "that cause"} no trouble`), rows(rest, "In what they agree")));
}

function flat(t: Target, emulation: boolean): Map<string, string> {
  const out = new Map<string, string>();
  const put = (key: string, value: unknown) => { if (value !== undefined && value !== null && value !== "" && value !== 0 && value !== false) out.set(key, String(value)); };
  put("spec", t.spec);
  put("mount of", t.of);
  put("opened in", t.open_seconds >= 1 ? duration(t.open_seconds) : t.open_seconds > 0 ? quantity(t.open_seconds, "s") : "");
  put("clock off by", Math.abs(t.clock_off) >= 0.0005 ? deviation(t.clock_off) : "");
  put("emulated CPU", t.emulated ? "yes" : emulation ? "no" : "");
  put("openings that failed", t.retries?.length ?? 0);
  const facts = (side: string, f: Facts) => {
    for (const [k, v] of Object.entries(f)) {
      if (k === "settings" || k === "extra" || k === "emulated") continue;
      const name = `${side} ${k.replace(/_/g, " ").replace("work fs", "work file system").replace("work dir", "work folder")}`;
      if (k === "memory_bytes") put(`${side} memory`, v ? size(Number(v)) : "");
      else if (k === "mhz") put(`${side} clock rate`, v ? `${Math.round(Number(v))} MHz` : "");
      else put(name, Array.isArray(v) ? v.join(" ") : v);
    }
    for (const [k, v] of Object.entries(f.settings ?? {})) put(`${side} setting ${k}`, v);
    for (const [k, v] of Object.entries(f.extra ?? {})) put(`${side} ${k}`, v);
  };
  facts("inside:", t.inside);
  facts("outside:", t.outside);
  if (t.mount) {
    const { settings, command, ...rest } = t.mount;
    for (const [k, v] of Object.entries(rest)) put(`mount: ${k.replace("_", " ")}`, v);
    put("mount: command", command?.join(" "));
    for (const [k, v] of Object.entries(settings ?? {})) put(`mount: setting ${k}`, v);
  }
  return out;
}

/** Facts that answer "what is it?" at a glance; settings, commands and the rest wait below. */
const basic = /^(spec|mount of|opened in|clock off by|emulated CPU|openings that failed|mount: (kind|type|options|server|dir)|inside: (?!(setting|.*\.)).*)$/;

export function facts(m: Model): HTMLElement {
  const list = shownTargets(m);
  const all = list.map((t) => flat(t, list.some((x) => x.emulated)));
  const keys = [...new Set(all.flatMap((f) => [...f.keys()]))];
  // A fact that only some have is shown, but only two different answers to one question are marked.
  const answers = (k: string) => new Set(all.map((f) => f.get(k)).filter((v) => v !== undefined)).size;
  const partial = (k: string) => all.some((f) => !f.has(k));
  const differs = (k: string) => answers(k) > 1;
  const section = h("section", { id: "facts", "aria-labelledby": "facts-title" }, h("h2", { id: "facts-title" }, "What was measured"));
  const rows = (some: string[], caption: string) => table({
    head: ["", ...list.map((x) => x.name)],
    rows: some.map((k): Child[] => [[k, differs(k) && h("span", { class: "differs" }, h("span", { "aria-hidden": true }, " ≠"), h("span", { class: "unseen" }, " (differs)"))],
      ...all.map((f): Child => f.get(k) ?? h("span", { class: "muted" }, "–"))]),
  }, caption, "facts-table");
  const place = h("div", {});
  const only = h("input", { type: "checkbox", checked: list.length > 1 });
  let more = false;
  const draw = () => {
    const kept = keys.filter((k) => !only.checked || list.length < 2 || differs(k) || partial(k));
    const [first, rest] = [kept.filter((k) => basic.test(k)), kept.filter((k) => !basic.test(k))];
    const marked = rest.filter(differs).length;
    const others = h("details", { class: "inner", open: more }, h("summary", {}, `Settings, commands and ${plural(rest.length, "other fact")}${marked ? `, ${number(marked)} of them marked ≠` : ""}`), rows(rest, "Further facts of each target"));
    others.addEventListener("toggle", () => (more = others.open));
    place.replaceChildren(...(first.length ? [rows(first, "Facts of each target")] : []), ...(rest.length ? [others] : []));
  };
  only.addEventListener("change", draw);
  draw();
  section.append(...list.filter((t) => t.error).map((t) => h("div", { class: "finding withheld" }, h("span", { class: "badge", "aria-hidden": true }, "✕"),
    h("div", {}, h("p", {}, h("b", {}, t.name), ": ", t.error!.message), t.error!.evidence && h("pre", { tabindex: 0 }, t.error!.evidence)))));
  if (list.length > 1) {
    section.append(h("p", { class: "lead" }, `Of ${plural(keys.length, "fact")}, ${number(keys.filter(differs).length)} differ between targets and are marked ≠: any of them may explain a ratio.`),
      h("label", { class: "field check" }, only, " Only facts that differ or are not known for all"));
  }
  section.append(place);
  return section;
}
