/**
 * The report page, of a run that is over or (live.ts) of one that goes on. It reads the two data blocks of its own file, and opens with the answer; everything below waits until
 * it is scrolled to or opened.
 */
import "./style.css";
import { answer, findings } from "./answer";
import { comesFrom, drawAll } from "./chart";
import { controls, themeButton } from "./controls";
import { readData, type Data } from "./data";
import { density } from "./density";
import { h, replace, safe } from "./dom";
import { disks } from "./disks";
import { cards, durability, facts } from "./environments";
import { forest } from "./forest";
import { duration, plural } from "./format";
import { groups } from "./groups";
import { follow } from "./live";
import { method, repeat, warnings } from "./method";
import { paid } from "./paid";
import { costModels, sizes } from "./sizes";
import { Model } from "./state";
import { why } from "./why";
import { workloads } from "./workload";

/** What the program and the page must agree on; internal/show/report/html_data.go has the same number. */
const format = 1;

/** The page's parts in order; those that depend on what the reader chose are made again when it changes. */
const parts: { make: (m: Model) => HTMLElement | null; again: boolean; title?: string }[] = [
  { make: answer, again: true },
  { make: findings, again: false, title: "Attention" },
  { make: (m) => (m.data.result.cells.length ? controls(m) : null), again: false },
  { make: forest, again: true, title: "Ratios" },
  { make: why, again: true, title: "Why" },
  { make: workloads, again: true, title: "Workloads" },
  { make: density, again: true, title: "Copies" },
  { make: groups, again: true, title: "Parts" },
  { make: sizes, again: true, title: "Sizes" },
  { make: costModels, again: true, title: "Costs" },
  { make: paid, again: true, title: "Paid for" },
  { make: durability, again: true, title: "Durability" },
  { make: cards, again: true, title: "Behaviour" },
  { make: disks, again: true, title: "Disks" },
  { make: facts, again: true, title: "Facts" },
  { make: warnings, again: false, title: "Warnings" },
  { make: method, again: false, title: "Method" },
  { make: repeat, again: false, title: "Repeat" },
];

/** What the figures are against; where the reader chose it, that the run did not. */
function against(m: Model): string {
  return `${m.state.baseline}${m.rebasedNow ? `, recomputed in the page; the run's own baseline is ${m.run.baseline}` : ""}`;
}

/** The line below the heading. */
function meta(m: Model): string {
  const { run, data } = m;
  const started = data.started ? new Date(data.started) : undefined;
  return [
    `baseline ${against(m)}`, `${plural(run.blocks, "block")} of ${plural(data.result.targets.length, "target")}`, run.scope, run.seconds > 0 && duration(run.seconds).replaceAll(" ", "\u00a0"),
    started && `${started.toISOString().slice(0, 16).replace("T", " ")} UTC`,
  ].filter(Boolean).join(" · ");
}

/** The line below saved charts. */
function source(m: Model): string {
  return [`against ${against(m)}`, m.run.scope, `run ${m.run.id}`, m.data.started?.slice(0, 10), `tare ${m.run.version}`].filter(Boolean).join(" · ");
}

function masthead(m: Model, links: [string, string][]): HTMLElement {
  const { run, data } = m;
  return h("header", { class: "masthead" },
    h("div", { class: "top" }, h("span", { class: "mark-name" }, "tare"), h("span", { class: "version" }, run.version), themeButton()),
    h("h1", {}, data.question || run.name || "What each environment costs"),
    h("p", { class: "meta" }, meta(m)),
    h("nav", { "aria-label": "Parts of this report" }, links.map(([id, title]) => h("a", { href: `#${id}` }, title))));
}

/** Draws a report. With live it says that it is served by a run; was is what the run showed before, whose choices stay. */
export function show(root: HTMLElement, data: Data, live = false, was?: Model): Model {
  const m = new Model(data, was);
  comesFrom(source(m));
  const made = parts.map((p) => ({ ...p, e: p.make(m) }));
  const links = made.flatMap(({ e, title }): [string, string][] => (e && title ? [[e.id, title]] : []));
  replace(root, h("a", { class: "skip", href: "#answer" }, "To the answer"), masthead(m, links), h("main", {}, made.map(({ e }) => e)),
    h("footer", {}, h("p", {}, "Made by tare ", data.result.run.version, live ? ". The run itself serves this page, to this machine only." : ". This file is complete and needs no network.")));
  m.onChange(() => {
    comesFrom(source(m));
    replace(root.querySelector(".masthead .meta")!, meta(m));
    for (const p of made) {
      if (!p.again || !p.e) continue;
      const next = p.make(m);
      const place: HTMLElement = next ?? h("section", { id: p.e.id });
      p.e.replaceWith(place);
      p.e = place;
    }
  });
  return m;
}

function start(): void {
  const root = document.getElementById("page")!;
  let data: ReturnType<typeof readData> = null;
  try {
    data = readData();
  } catch (e) {
    replace(root, h("p", { class: "boot" }, `The data of this report cannot be read; the file is damaged: ${String(e)}`));
    return;
  }
  if (data && "live" in data) {
    follow(root, format, show);
    return;
  }
  if (!data || data.format !== format) {
    replace(root, h("p", { class: "boot" }, data ? "This page and its data are from different versions of tare; make the report again." : "This page has no data; tare report BUNDLE --format html makes a page with data."));
    return;
  }
  document.title = safe(`${data.result.run.name || data.bundle || data.result.run.id} · tare`);
  show(root, data);
  addEventListener("beforeprint", () => drawAll(root));
}

start();
