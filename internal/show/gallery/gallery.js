// Search and filters of the index. The data are rows of data/*.js, which ran before; every text is put in as text.
"use strict";
(() => {
  const all = (globalThis.tareGallery ?? []).slice().sort((a, b) => (a.d < b.d ? 1 : a.d > b.d ? -1 : a.i < b.i ? 1 : -1));
  const at = (id) => document.getElementById(id);
  const list = at("list"), words = at("words"), more = at("more"), older = at("older");
  const step = 100;
  const facets = [
    { key: "e", none: "any environment" },
    { key: "w", none: "any workload" },
    { key: "p", none: "any processor" },
    { key: "k", none: "any kernel" },
  ];
  const signs = [["more", "▲", "cost more"], ["less", "▼", "cost less"], ["same", "=", "cost the same"], ["unsure", "~", "without such a verdict"]];
  let shown = step;
  let found = all;

  const h = (tag, attributes, ...children) => {
    const e = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
    e.append(...children);
    return e;
  };

  for (const r of all) {
    for (const f of facets) r[f.key] ??= [];
    r.text = [r.t, r.h, r.r, r.i, r.d, ...r.e, ...r.w, ...r.p, ...r.k].join(" ").toLowerCase();
  }

  for (const f of facets) {
    f.select = at(`pick-${f.key}`);
    const counts = new Map();
    for (const r of all) for (const name of r[f.key]) counts.set(name, (counts.get(name) ?? 0) + 1);
    f.select.append(h("option", { value: "" }, f.none));
    for (const name of [...counts.keys()].sort((a, b) => a.localeCompare(b, "en"))) {
      f.select.append(h("option", { value: name }, `${name} (${counts.get(name)})`));
    }
  }

  const row = (r) => {
    const tags = h("p", { class: "tags" });
    for (const name of r.e) tags.append(h("span", { class: "tag env" }, name));
    for (const name of r.w) tags.append(h("span", { class: "tag" }, name));
    const counts = h("span", { class: "counts" });
    signs.forEach(([name, sign, title], i) => {
      if (r.v[i] > 0) counts.append(h("span", { class: name, title }, `${sign} ${r.v[i]}`));
    });
    const main = h("div", {}, h("h2", {}, h("a", { href: `results/${r.i}.html` }, r.t)));
    if (r.h) main.append(h("p", { class: "headline" }, r.h));
    if (r.n) main.append(h("p", { class: "alert" }, r.n));
    main.append(tags);
    return h("li", { class: "result" }, main,
      h("p", { class: "side" }, h("time", {}, r.d.slice(0, 10)), counts,
        h("span", { class: "machine" }, r.p.join(", ")), h("span", { class: "machine" }, r.k.join(", "))));
  };

  const draw = () => {
    list.replaceChildren(h("ol", { class: "results" }, ...found.slice(0, shown).map(row)));
    more.hidden = found.length <= shown;
    more.textContent = `Show ${Math.min(step, found.length - shown)} more`;
  };

  const plural = (n) => `${n.toLocaleString("en")} result${n === 1 ? "" : "s"}`;

  // Draws what the reader asks for, and keeps that in the address, so that it can be passed on.
  const find = () => {
    const asked = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const picked = facets.filter((f) => f.select.value !== "");
    found = all.filter((r) => asked.every((w) => r.text.includes(w)) && picked.every((f) => r[f.key].includes(f.select.value)));
    shown = step;
    const any = asked.length > 0 || picked.length > 0;
    at("count").textContent = any ? `${found.length.toLocaleString("en")} of ${plural(all.length)}` : plural(all.length);
    at("clear").hidden = !any;
    if (older) older.hidden = any;
    const state = new URLSearchParams();
    if (words.value.trim()) state.set("q", words.value.trim());
    for (const f of picked) state.set(f.key, f.select.value);
    const hash = state.toString();
    if (location.hash.slice(1) !== hash) history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
    draw();
  };

  const restore = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    words.value = state.get("q") ?? "";
    for (const f of facets) {
      const value = state.get(f.key) ?? "";
      f.select.value = [...f.select.options].some((o) => o.value === value) ? value : "";
    }
    find();
  };

  words.addEventListener("input", find);
  for (const f of facets) f.select.addEventListener("change", find);
  at("clear").addEventListener("click", () => {
    words.value = "";
    for (const f of facets) f.select.value = "";
    find();
    words.focus();
  });
  more.addEventListener("click", () => {
    shown += step;
    draw();
  });
  addEventListener("hashchange", restore);
  at("find").hidden = false;
  restore();
})();
