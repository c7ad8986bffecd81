/** The answer in sentences, and the findings that stand against reading it too simply. */
import { h, ticked } from "./dom";
import { capital, interval, list, percent, plural, ratio } from "./format";
import type { Cell, Finding, Family, Target } from "./data";
import type { Model } from "./state";
import { because } from "./why";
import { marginText, ranked, signOf, signs, tried, unconfirmed, unlikeFlushes, word, type Sign } from "./verdict";

/** A sentence in parts. What all of a family share (base, over, cpu) is said once where there are many. */
interface Sentence {
  target: string; sign: Sign; figure: string; range: string;
  base: string; // " against host"
  over: string; // " on average over 5 workloads"
  cpu: string; // ", on an emulated CPU"
  rest: string; // what the sign means in figures, and which workloads stand out of the mean
  doubt: string; // after the scope
}

/** What stands out of a mean: the workloads of which a cost or a saving is sure, where they are far from it. */
export function apart(cells: Cell[], mean: number): string {
  if (cells.length < 2) return "";
  const far = cells.filter((c) => c.verdict === "DIFFERENT" && c.ratio > 0).sort((a, b) => a.ratio - b.ratio);
  const name = (c: Cell) => (cells.filter((x) => x.kind === c.kind).length > 1 ? c.workload : c.kind);
  const [low, high] = [far[0], far[far.length - 1]];
  if (!low || !high) return "";
  if (high.ratio > 1.15 * low.ratio) return `, ${cells.every((c) => c.verdict === "DIFFERENT") ? "from" : "but"} ${ratio(low.ratio)}× in ${name(low)} to ${ratio(high.ratio)}× in ${name(high)}`;
  return Math.abs(Math.log(high.ratio / mean)) > Math.log(1.15) ? `, but ${ratio(high.ratio)}× in ${name(high)}` : "";
}

/** What a family of workloads says of one candidate. */
function sentence(m: Model, target: string, cells: Cell[], sum: Family | undefined): Sentence {
  // A mount is compared with the environment it is in, where the plan says so.
  const base = cells[0]?.baseline ?? m.state.baseline;
  const bare = { target, figure: "", range: "", base: "", over: "", cpu: "", doubt: "" };
  if (target === base) return { ...bare, sign: "absent", rest: " was measured alone, so there is nothing to compare it with" };
  const left = cells.filter((c) => !ranked(c) || unlikeFlushes(c)).length;
  if (!sum || !(sum.ratio > 0) || !cells.some(ranked)) {
    const why = [...new Set(cells.map(word))];
    return { ...bare, sign: signOf(cells[0]!), rest: `: no figure (${list(why)})` };
  }
  const margin = Math.max(...cells.map((c) => c.margin));
  const same = Math.max(...cells.map((c) => c.same_margin));
  const range = interval(sum.low, sum.high);
  const x = {
    target, figure: `${ratio(sum.ratio)}×`, range, base: ` against ${base}`, cpu: m.target(target)?.emulated ? ", on an emulated CPU" : "", doubt: "",
    over: cells.length > 1 ? ` on average over ${left ? `${cells.length - left} of ` : ""}${plural(cells.length, "workload")}` : "", rest: apart(cells, sum.ratio),
  };
  if (!range) return { ...x, sign: "unsure", doubt: "too few blocks for an interval" };
  // The one cell of a family has a verdict; a mean has only its interval, held against the same margins.
  const one = cells.length === 1 ? signOf(cells[0]!) : undefined;
  const beyond = sum.low > 1 + margin || sum.high < 1 / (1 + margin);
  if (one === "more" || (one === undefined && sum.low > 1 + margin)) return { ...x, sign: "more" };
  if (one === "less" || (one === undefined && sum.high < 1 / (1 + margin))) return { ...x, sign: "less" };
  if (one === "same" || (one === undefined && sum.low > 1 / (1 + same) && sum.high < 1 + same)) return { ...x, sign: "same", rest: `, the same within ${percent(same)}${x.rest}` };
  const crowd = cells.length === 1 ? unconfirmed(cells[0]!) : undefined;
  if (crowd) return { ...x, sign: one!, doubt: crowd };
  if (one === "measured") return { ...x, sign: "measured", doubt: `measured precisely, but too near the edge of ${marginText(cells)} to call it different or the same` };
  return { ...x, sign: "unsure", doubt: beyond ? "a verdict needs more blocks" : sum.low > 1 || sum.high < 1 ? `not beyond ${marginText(cells)}` : "there may be no difference" };
}

/** From so many sentences on, what they share is said once. */
const many = 3;

/** The finding that says what the answer says of a target which did not open, and its remedy. */
const notOpened = "target-failed";
const remedy = (m: Model, t: Target): string | undefined => m.data.result.findings.find((f) => f.code === notOpened && f.targets?.includes(t.name))?.remedy;

/** What could not be opened: said once, and of a mount only where its environment is not at fault. */
function unopened(m: Model, candidates: Target[]): HTMLElement | null {
  const dead = candidates.filter((t) => t.error);
  // A mount that never came to be has only its name to tell where it would have been.
  const home = (t: Target) => t.of ?? (t.name.includes(":") ? t.name.slice(0, t.name.indexOf(":")) : undefined);
  const roots = dead.filter((t) => !dead.some((e) => e.name === home(t)));
  if (roots.length === 0) return null;
  return h("div", { class: "family" }, h("h3", {}, "Not opened"), h("ul", {}, roots.map((t) => {
    const mounts = dead.filter((e) => home(e) === t.name).map((e) => e.name);
    const prefix = `${t.name}: `;
    const why = t.error!.message.startsWith(prefix) ? t.error!.message.slice(prefix.length) : t.error!.message;
    return h("li", { class: "said failed" }, h("span", { class: "glyph", "aria-hidden": true }, signs.failed.glyph),
      h("div", {}, h("p", {}, h("b", {}, t.name), " could not be opened", mounts.length > 0 && `, so neither could ${list(mounts)}`, ": ", ticked(why.replace(/\.$/, "")), "."),
        remedy(m, t) && h("p", { class: "remedy" }, h("b", {}, "Remedy "), ticked(remedy(m, t)!))));
  })));
}

export function answer(m: Model): HTMLElement {
  const { run } = m;
  const cells = m.cells().filter((c) => c.primary);
  const summaries = m.summaries();
  const candidates = m.candidates().filter((t) => m.state.targets.has(t.name));
  const families = m.families.filter((f) => m.state.families.has(f));
  const blocks: HTMLElement[] = families.map((family) => {
    const inFamily = cells.filter((c) => c.family === family);
    const ran = candidates.filter((t) => !t.error && inFamily.some((c) => c.target === t.name && tried(c)));
    const idle = candidates.filter((t) => !t.error && !ran.includes(t)).map((t) => t.name);
    const said = ran.map((t) => sentence(m, t.name, inFamily.filter((c) => c.target === t.name), summaries.find((z) => z.family === family && z.target === t.name)));
    const told = said.filter((x) => x.figure);
    const shared = (part: (x: Sentence) => string) => (told.length >= many && told.every((x) => part(x) === part(told[0]!)) ? part(told[0]!) : undefined);
    const [base, over, cpu, doubt] = [shared((x) => x.base), shared((x) => x.over), shared((x) => x.cpu), shared((x) => x.doubt)];
    const once = told.length >= many ? `${base ?? ""}${over ?? ""}${cpu ?? ""}, ${m.run.scope}${doubt ? `; ${doubt}` : ""}`.replace(/^[ ,]+/, "") : "";
    const reasons = m.rebasedNow ? [] : (m.data.result.why ?? []);
    const reason = (target: string) => {
      const text = because(reasons.filter((w) => w.target === target && inFamily.some((c) => c.workload === w.workload)), inFamily.filter((c) => c.target === target));
      return text && h("span", { class: "reason" }, ` ${text}`);
    };
    const items = said.map((x) => h("li", { class: `said ${x.sign}` },
      h("span", { class: "glyph", "aria-hidden": true }, signs[x.sign].glyph),
      h("p", {}, h("b", {}, x.target), x.figure && " costs ", x.figure && h("strong", {}, x.figure), x.range && [" ", h("span", { class: "range" }, x.range)],
        base === undefined && x.base, over === undefined && x.over, x.rest, cpu === undefined && x.cpu, x.figure && !once && h("span", { class: "scope" }, `, ${m.run.scope}`), x.doubt && doubt === undefined && `; ${x.doubt}`, ".", x.figure && reason(x.target))));
    return h("div", { class: "family" }, h("h3", {}, capital(family)), h("div", {}, once && h("p", { class: "common" }, `${capital(once)}:`), h("ul", {}, items), idle.length > 0 && h("p", { class: "idle" }, `Not run in ${list(idle)}.`)));
  });
  const dead = unopened(m, candidates);
  if (dead) blocks.push(dead);
  if (blocks.length === 0) blocks.push(h("div", {}, h("p", {}, "Nothing was measured.")));
  const level = run.alpha > 0 ? ` The intervals hold at ${percent(1 - run.alpha)}.` : "";
  const note = m.rebasedNow
    ? `Compared with ${m.state.baseline}, recomputed in this page from the trials: the intervals are Student's t on the blocks' log ratios, without the corrections for many cells. The verdicts of the run compare with ${run.baseline}.`
    : `A ratio is cost: 2.00× is twice the time per operation.${level}`;
  return h("section", { id: "answer", "aria-labelledby": "answer-title" },
    h("h2", { id: "answer-title", class: "unseen" }, "The answer"),
    blocks, h("p", { class: m.rebasedNow ? "note recomputed" : "note" }, note),
    !run.finished && h("p", { class: "note alert unfinished" }, "This run did not finish; the report shows the figures so far."));
}

/** Begins a sentence with a capital, unless it begins with a name. */
const begin = (text: string): string => (/^(the|a|an|no|only|this|each) /.test(text) ? capital(text) : text);

const weight: Record<string, number> = { withheld: 0, warning: 1, info: 2 };
const severities: Record<string, { glyph: string; word: string }> = {
  withheld: { glyph: "?", word: "Withheld" }, warning: { glyph: "!", word: "Warning" }, info: { glyph: "i", word: "Note" },
};

/** The answers to a condition that fails a pipeline: what cannot be told has passed nothing. */
const gateStates = {
  no: { glyph: "✓", words: "does not hold", tone: "info" }, unknown: { glyph: "?", words: "cannot be decided", tone: "warning" },
  holds: { glyph: "✕", words: "holds", tone: "withheld" },
} as const;

export function findings(m: Model): HTMLElement | null {
  const all = m.data.result.findings.filter((f) => f.code !== notOpened).sort((a, b) => (weight[a.severity] ?? 1) - (weight[b.severity] ?? 1));
  const gates = m.data.gates ?? [];
  if (all.length === 0 && gates.length === 0) return null;
  const item = (f: Finding) => {
    const s = severities[f.severity] ?? severities.warning!;
    return h("li", { class: `finding ${Object.hasOwn(severities, f.severity) ? f.severity : "warning"}` },
      h("span", { class: "badge", title: s.word }, h("span", { "aria-hidden": true }, s.glyph), h("span", { class: "unseen" }, s.word)),
      h("div", {}, h("p", {}, ticked(begin(f.text))), f.remedy && h("p", { class: "remedy" }, h("b", {}, "Remedy "), ticked(f.remedy))));
  };
  const most = 8;
  return h("section", { id: "findings", "aria-labelledby": "findings-title" },
    h("h2", { id: "findings-title" }, "What needs attention"),
    gates.length > 0 && h("ul", { class: "plain" }, gates.map((g) => h("li", { class: `finding ${gateStates[g.state].tone}` },
      h("span", { class: "badge", "aria-hidden": true }, gateStates[g.state].glyph),
      h("div", {}, h("p", {}, h("code", {}, g.expr), ` ${gateStates[g.state].words}. `, g.text))))),
    h("ul", { class: "plain" }, all.slice(0, most).map(item)),
    all.length > most && h("details", {}, h("summary", {}, `${all.length - most} more`), h("ul", { class: "plain" }, all.slice(most).map(item))));
}
