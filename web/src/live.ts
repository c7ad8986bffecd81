/**
 * The page of a run that goes on: progress above, and below the report, which grows. It asks its server every few seconds,
 * and not at all while nobody sees it: what a browser does on the machine that measures is measured, too.
 */
import { forget } from "./chart";
import { learn, type Data, type Trials } from "./data";
import { h, replace } from "./dom";
import { duration, list, plural } from "./format";
import type { Model } from "./state";

export interface Progress {
  phase: "starting" | "opening" | "calibrating" | "measuring" | "ended" | "stopped";
  now: string; elapsed_s: number; left_s: number; poll_ms: number;
  workloads: { label: string; blocks: number; settled: boolean }[];
  log: { at_s: number; text: string }[];
}
export interface Answer { format: number; progress: Progress; report: number; data?: Data; trials?: Trials }
type Show = (root: HTMLElement, data: Data, live: boolean, was?: Model) => Model;

const words: Record<Progress["phase"], string> = {
  starting: "Starting", opening: "Opening the environments", calibrating: "Finding how much work a trial takes", measuring: "Measuring",
  ended: "The run is over", stopped: "The run stopped before its end",
};
const over = (p: Progress) => p.phase === "ended" || p.phase === "stopped";
const clock = (s: number) => `${Math.floor(s / 60)}:${String(Math.floor(s % 60)).padStart(2, "0")}`;

/** How far the run is, from 0 to 1; undefined while nothing can be said. */
export function done(p: Progress): number | undefined {
  if (over(p)) return 1;
  return (p.phase === "measuring" || p.phase === "calibrating") && p.left_s > 0 ? p.elapsed_s / (p.elapsed_s + p.left_s) : undefined;
}

/** The line that a reader who looks up now wants to see. */
export function headline(p: Progress): string {
  const parts = [words[p.phase], !over(p) && p.now, clock(p.elapsed_s), !over(p) && p.left_s >= 1 && `about ${duration(p.left_s)} left`];
  return parts.filter(Boolean).join(" · ");
}

function panel(p: Progress, said: string, looks: number[] | undefined, paused: boolean, pause: () => void): HTMLElement[] {
  const share = done(p);
  const counted = p.workloads.filter((w) => w.blocks > 0);
  const out: HTMLElement[] = [
    h("p", { class: "headline" }, h("span", { class: `lamp ${over(p) ? "still" : ""}`, "aria-hidden": true }), headline(p)),
    h("progress", { max: 1, value: share ?? null, "aria-label": "Progress of the run" }),
  ];
  if (said) out.push(h("p", { class: "problem", role: "alert" }, said));
  // Whoever watches until a sign pleases them has looked too often: the error level pays for the plan's looks only.
  if (looks && !over(p)) out.push(h("p", { class: "muted" }, looks.length ? `The signs below are provisional. tare decides only after ${list(looks.map(String))} blocks.` : "The signs below are provisional until the run is over."));
  if (counted.length) {
    const settled = p.workloads.filter((w) => w.settled).length;
    out.push(h("details", { class: "inner" }, h("summary", {}, `${settled} of ${plural(p.workloads.length, "workload")} decided`),
      h("ul", { class: "advance" }, p.workloads.map((w) => h("li", {}, h("span", {}, w.label), h("span", { class: "muted" }, w.settled ? `${plural(w.blocks, "block")}, decided` : plural(w.blocks, "block")))))));
  }
  if (p.log.length) {
    out.push(h("details", { class: "inner" }, h("summary", {}, "What happened"),
      h("ol", { class: "log" }, p.log.map((l) => h("li", {}, h("span", { class: "muted" }, clock(l.at_s)), " ", l.text)))));
  }
  if (!over(p)) out.push(h("button", { type: "button", id: "pause", "aria-pressed": paused ? "true" : "false", onclick: pause }, paused ? "Resume updates" : "Pause updates"));
  return out;
}

const nameOf = (d: HTMLDetailsElement) => {
  const up = d.parentElement?.closest("[data-workload], [data-chart], section");
  return JSON.stringify([up?.getAttribute("data-workload") ?? up?.getAttribute("data-chart") ?? up?.id, d.dataset.workload ?? d.firstElementChild?.textContent?.replace(/\d+/g, "#")]);
};

/** Draws anew and puts back what the reader had opened, where they were, and what had the keyboard. */
export function redraw(inside: HTMLElement, draw: () => void): void {
  const open = new Map([...inside.querySelectorAll("details")].map((d) => [nameOf(d), d.open]));
  const focus = inside.contains(document.activeElement) ? document.activeElement : null;
  const chart = focus?.closest("figure")?.getAttribute("data-chart");
  const blocks = () => [...inside.querySelectorAll<HTMLElement>("section[id], details[data-workload]")];
  const anchor = blocks().filter((e) => e.getBoundingClientRect().top <= 80).at(-1);
  const key = anchor && (anchor.id || anchor.dataset.workload);
  const top = anchor?.getBoundingClientRect().top ?? 0;
  forget(inside);
  draw();
  for (const d of inside.querySelectorAll("details")) {
    const was = open.get(nameOf(d));
    if (was !== undefined && was !== d.open) d.open = was;
  }
  const same = key && blocks().find((e) => (e.id || e.dataset.workload) === key);
  if (same) scrollBy({ top: same.getBoundingClientRect().top - top, behavior: "instant" });
  if (focus?.id) document.getElementById(focus.id)?.focus({ preventScroll: true });
  else if (chart) inside.querySelector<SVGElement>(`figure[data-chart="${CSS.escape(chart)}"] svg`)?.focus({ preventScroll: true });
}

export function follow(root: HTMLElement, format: number, show: Show): void {
  const bar = h("section", { id: "live", "aria-label": "The run" });
  const body = h("div", { id: "report" });
  replace(root, bar, body);
  let model: Model | undefined;
  let version = 0;
  let last: Progress = { phase: "starting", now: "", elapsed_s: 0, left_s: 0, poll_ms: 2000, workloads: [], log: [] };
  let said = "";
  let paused = false;
  let misses = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let asking = false;
  let shown = "";

  const paint = () => {
    const next = JSON.stringify([last, said, paused, version > 0]);
    if (next === shown) return;
    shown = next;
    bar.className = over(last) || said ? "" : "running";
    redraw(bar, () => replace(bar, panel(last, said, model && (model.data.looks ?? []), paused, () => { paused = !paused; paint(); if (!paused) void ask(); })));
    document.title = over(last) ? "over · tare" : `${Math.round(100 * (done(last) ?? 0))} % · tare`;
  };
  // Whoever reads a value would lose it with the chart below the pointer.
  const reading = () => paused || !!body.querySelector(".tip:not([hidden])");

  async function ask(): Promise<void> {
    if (asking) return;
    asking = true;
    clearTimeout(timer);
    let again = last.poll_ms;
    try {
      const r = await fetch(`/state?after=${version}`, { cache: "no-store" });
      if (r.status === 401 || r.status === 403) {
        said = "This browser no longer has access. The report below is the last one it received.";
        again = 0;
      } else if (!r.ok) {
        throw new Error(String(r.status));
      } else {
        const a = (await r.json()) as Answer;
        if (a.format !== format) {
          said = "This page and the run are from different builds of tare: open the link again.";
          again = 0;
        } else {
          misses = 0;
          said = "";
          last = a.progress;
          if (a.data && a.trials && !(reading() && !over(a.progress))) {
            const data = a.data;
            learn(a.trials);
            redraw(body, () => { model = show(body, data, true, model); });
            version = a.report;
          }
          if (over(last) && version === a.report) again = 0;
        }
      }
    } catch {
      misses++;
      if (misses > 2) said = "The run does not answer: it has ended or was killed. The report below is the last one received.";
      again = Math.min(30000, last.poll_ms * misses);
      if (misses > 10) again = 0;
    }
    asking = false;
    paint();
    if (again > 0 && !document.hidden) timer = setTimeout(() => void ask(), again);
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(timer);
    else if (!over(last)) void ask();
  });
  paint();
  void ask();
}
