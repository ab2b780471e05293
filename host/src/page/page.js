"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const main = document.getElementById("main"), nav = document.getElementById("nav"), search = document.getElementById("search");
  const CHUNK = 400; // lines of a text that are shown at a time

  const el = (tag, props = {}, ...children) => {
    const node = tag === "svg" || SVG.has(tag)
      ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(props)) {
      if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
      else if (value !== null && value !== undefined) node.setAttribute(key, value);
    }
    node.append(...children.filter(child => child !== null && child !== undefined));
    return node;
  };
  const SVG = new Set(["svg", "g", "rect", "text", "line", "path", "title"]);
  const link = (text, go) => el("button", { class: "link", type: "button", onclick: go }, text);
  const ms = value => value === undefined || value === null ? "" : value.toFixed(3) + " ms";
  const bytes = n => n < 10240 ? n + " B" : n < 10485760 ? (n / 1024).toFixed(0) + " KiB" : (n / 1048576).toFixed(0) + " MiB";
  const table = (heads, rows) => el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map(head => el("th", { scope: "col", class: head.endsWith("#") ? "n" : null }, head.replace("#", ""))))),
    el("tbody", {}, ...rows.map(row => el("tr", {}, ...row.map((cell, i) =>
      el("td", { class: heads[i].endsWith("#") ? "n" : null }, cell === null || cell === undefined ? "" : cell))))));

  // Highlighting: words of the languages, strings, numbers.
  const TOKEN = /("(?:[^"\\]|\\.)*")|\b(def|return|class|with|for|in|if|else|while|lambda|None|True|False|from|import|as)\b|([RTI]\.[\w.]+)|\b(\d[\w.]*)\b/g;
  const paint = (line, into) => {
    let done = 0;
    for (const match of line.matchAll(TOKEN)) {
      into.append(line.slice(done, match.index));
      into.append(el("span", { class: match[1] ? "s" : match[4] ? "num" : "w" }, match[0]));
      done = match.index + match[0].length;
    }
    into.append(line.slice(done));
  };
  // A text of any length: more lines are added on request.
  const code = (text, classOf = () => "ctx", from = []) => {
    const lines = text.split("\n"), origins = new Map(from), pre = el("pre", { class: "lines", tabindex: "0" });
    let shown = 0;
    const more = el("button", { type: "button" });
    const add = () => {
      for (const [i, line] of lines.slice(shown, shown + CHUNK).entries()) {
        const origin = origins.get(shown + i);
        const span = el("span", { class: classOf(line) + (origin ? " made" : ""), title: origin });
        paint(line || " ", span);
        pre.append(span);
      }
      shown = Math.min(shown + CHUNK, lines.length);
      more.textContent = `show ${Math.min(CHUNK, lines.length - shown)} more of ${lines.length - shown} lines`;
      more.hidden = shown === lines.length;
    };
    more.addEventListener("click", add);
    add();
    return el("div", {}, pre, more);
  };
  const ofDiff = line => line[0] === "+" ? "plus" : line[0] === "-" ? "minus" : line[0] === "@" ? "at" : "ctx";
  const folded = (title, make, open = false) => {
    const node = el("details", {}, el("summary", {}, ...title));
    node.addEventListener("toggle", () => { if (node.open && node.childElementCount === 1) node.append(make()); });
    if (open) { node.open = true; node.append(make()); }
    return node;
  };

  // The verdicts of a validation; a page of an older run has none.
  const validation = data.validation || [];
  const different = validation.filter(it => it.verdict === "different" || it.verdict === "checker_failed");
  const verdictOf = pass => validation.filter(it => it.step === pass.step && it.pass === pass.pass);
  const bindingOf = it => it.binding ? `first in ${it.binding.name || "the result"} of ${it.binding.function}: ${it.binding.text}` : "";
  const detailsOf = it => it.error || it.order || it.assertion || it.signature || bindingOf(it);

  const byName = new Map(data.functions.map(it => [it.name, it]));
  const sections = {
    Summary: () => {
      let last = -1; // the rows are in the order of the passes
      const steps = data.summary.map(step => {
        const at = step.bindings ? data.passes.findIndex((pass, i) => i > last && pass.pass === step.pass) : -1;
        last = Math.max(last, at);
        const name = "\u00a0".repeat(2 * (step.nesting || 0)) + step.text;
        return [at >= 0 ? link(name, () => go("Passes", at)) : name, step.plugin, step.outcome,
          ms(step.time_ms), ms(step.verify_ms),
          step.bindings ? `${step.bindings.before} → ${step.bindings.after}` : "", step.reason];
      });
      return [el("p", { class: "soft" }, ...data.pipeline.split(",").flatMap((pass, i) => i ? [",", el("wbr"), pass] : [pass]), `; passhost ${data.passhost}`),
        different.length ? el("p", { class: "bad" }, `${different.length} of ${validation.length} validated passes changed values; see Validation.`) : null,
        data.failed ? el("p", { class: "bad" }, "The run failed; see Diagnostics.") : null,
        data.left_out.steps ? el("p", { class: "soft" }, `${data.left_out.steps} more steps are not shown`) : null,
        table(["step", "plugin", "outcome", "time#", "verification#", "bindings#", "why"], steps)];
    },
    Plan: () => [table(["#", "step", "plugin", "why"], data.plan.map((line, i) =>
      [String(i + 1), "\u00a0".repeat(2 * line.depth) + line.text, line.plugin, line.reason]))],
    Timeline: () => [timeline()],
    Passes: wanted => data.passes.map((pass, i) => passOf(pass, i === wanted)),
    Functions: wanted => [callGraph(), ...data.functions.map(it => functionOf(it, it.name === wanted))],
    Counts: () => [data.counts.length
      ? table(["pass", "what", "count#"], data.counts.map(it => [it.pass, it.name, String(it.value)]))
      : el("p", {}, "No pass counted anything.")],
    Diagnostics: () => data.diagnostics.length
      ? data.diagnostics.map(it => el("div", {}, ...whereOf(it), said(it)))
      : [el("p", {}, "No pass said anything.")],
    Validation: () => [validation.length
      ? table(["pass", "plugin", "contract", "verdict", "what", "where"], validation.map(it => {
        const at = data.passes.findIndex(pass => pass.step === it.step && pass.pass === it.pass);
        const name = `${it.step} ${it.pass}`;
        return [at >= 0 ? link(name, () => go("Passes", at)) : name, it.plugin, it.tolerance,
          el("span", { class: different.includes(it) ? "bad" : null }, it.word), it.what, detailsOf(it)];
      }))
      : el("p", {}, "The run was not validated; --validate does so.")],
  };

  // What a pass said, and links to the pass and to the function.
  const said = it => el("pre", { class: it.level === "error" ? "bad" : "" }, it.rendered);
  const isOf = (it, pass) => it.pass === pass.pass && (!it.position || it.position === pass.step);
  const whereOf = it => {
    const at = data.passes.findIndex(pass => isOf(it, pass));
    return [at >= 0 ? link(it.pass, () => go("Passes", at)) : it.pass || null, it.function ? " in " : null,
      byName.has(it.function) ? link(it.function, () => go("Functions", it.function)) : it.function || null]
      .filter(Boolean);
  };

  const passOf = (pass, open) => {
    // Counts are those of the whole run.
    const calls = data.passes.filter(it => it.pass === pass.pass).length;
    const inAll = calls > 1 ? ` (in all ${calls} calls of the pass)` : "";
    const changed = pass.changes.length;
    const title = [el("strong", {}, `${pass.step}  ${pass.pass}`), ` `, el("span", { class: "soft" },
      `${pass.plugin}; ${changed ? `${changed} function${changed > 1 ? "s" : ""} changed` : "unchanged"}; ` +
      `${pass.bindings[0]} → ${pass.bindings[1]} bindings; ${bytes(pass.bytes[0])} → ${bytes(pass.bytes[1])}`)];
    return folded(title, () => el("div", {}, ...data.counts.filter(it => it.pass === pass.pass)
      .map(it => el("p", { class: "soft" }, `${it.name}: ${it.value}${inAll}`)),
      ...verdictOf(pass).map(it => el("p", { class: different.includes(it) ? "bad" : "soft" }, `${it.word}: ${it.what}`)),
      ...data.diagnostics.filter(it => isOf(it, pass)).map(said),
      ...pass.changes.map(it => folded(
        [el("code", {}, it.function), ` ${it.kind} `, el("span", { class: "soft" }, `+${it.plus} −${it.minus}`)],
        () => el("div", {}, code(it.diff, ofDiff, it.from), it.more ? el("p", {}, `${it.more} more lines are not shown`) : null),
        pass.changes.length === 1))), open);
  };

  const functionOf = (it, open) => folded([el("code", {}, it.name), " ", el("span", { class: "soft" },
    `${it.kind}${it.private ? ", private" : ""}, ${it.bindings} bindings`)],
    () => el("div", { id: "f-" + it.name }, it.flow.length ? flowOf(it) : null, code(it.text, undefined, it.from)), open);

  const nameOf = span => span.args && span.args.plugin && !span.args.pass ? `${span.name} ${span.args.plugin}` : span.name;
  const timeline = () => {
    const spans = data.timeline.filter(it => it.ph === "X");
    const threads = [...new Set(spans.map(it => it.tid))].sort((a, b) => a - b);
    const end = Math.max(1, ...spans.map(it => it.ts + it.dur)), width = 1000, row = 20;
    let y = 0;
    const svg = el("svg", { viewBox: "0 0 1000 100", role: "img", "aria-label": "Where the time went" });
    for (const thread of threads) {
      const own = spans.filter(it => it.tid === thread).sort((a, b) => a.ts - b.ts || b.dur - a.dur), open = [];
      let deepest = 0;
      svg.append(el("text", { x: 0, y: y + 14 }, thread === 1 ? "run" : `functions ${thread - 1}`));
      // Of very many spans, those that are too short to be seen are left out.
      for (const it of own) {
        while (open.length && open[open.length - 1] <= it.ts) open.pop();
        const depth = open.length;
        open.push(it.ts + it.dur);
        if (own.length > 2000 && it.dur < end / 2000) continue;
        deepest = Math.max(deepest, depth);
        const x = it.ts / end * width, w = Math.max(1, it.dur / end * width);
        const what = nameOf(it), name = `${what} ${(it.dur / 1000).toFixed(3)} ms`;
        svg.append(el("g", {}, el("rect", { class: "bar", x, y: y + 18 + depth * row, width: w, height: row - 3, rx: 2, opacity: 1 - depth * 0.15 },
          el("title", {}, name)), w > 60 ? el("text", { x: x + 4, y: y + 31 + depth * row }, what.slice(0, w / 7)) : null));
      }
      y += 26 + (deepest + 1) * row;
    }
    svg.setAttribute("viewBox", `0 0 ${width} ${Math.max(y, 40)}`);
    const longest = [...spans].sort((a, b) => b.dur - a.dur).slice(0, 30);
    return el("div", {}, svg, el("h2", {}, "Longest"), table(["what", "kind", "begin#", "time#"],
      longest.map(it => [nameOf(it), it.cat, ms(it.ts / 1000), ms(it.dur / 1000)])));
  };

  // A picture of boxes in columns: `nodes` with column, `edges` between their positions.
  const picture = (nodes, edges, label) => {
    const columns = new Map(), w = 190, h = 26;
    for (const node of nodes) {
      const column = columns.get(node.column) || 0;
      node.x = node.column * (w + 50); node.y = column * (h + 10);
      columns.set(node.column, column + 1);
    }
    const width = Math.max(...nodes.map(it => it.x)) + w + 2, height = Math.max(...nodes.map(it => it.y)) + h + 2;
    const svg = el("svg", { width, height, viewBox: `-1 -1 ${width} ${height}`, role: "group", "aria-label": label });
    for (const [from, to] of edges) {
      const a = nodes[from], b = nodes[to], x1 = a.x + w, y1 = a.y + h / 2, x2 = b.x, y2 = b.y + h / 2;
      svg.append(el("path", { class: "edge", d: `M${x1} ${y1} C${x1 + 25} ${y1} ${x2 - 25} ${y2} ${x2} ${y2}` }));
    }
    for (const node of nodes) {
      const act = node.go;
      svg.append(el("g", { tabindex: act ? "0" : null, role: act ? "button" : null, onclick: act, onkeydown: event => { if (event.key === "Enter") act(); } },
        el("rect", { class: "node" + (node.on ? " on" : ""), x: node.x, y: node.y, width: w, height: h, rx: 5 }, el("title", {}, node.text)),
        el("text", { x: node.x + 8, y: node.y + 17 }, node.text.length > 27 ? node.text.slice(0, 26) + "…" : node.text)));
    }
    return el("div", { class: "scroll" }, svg);
  };

  const callGraph = () => {
    const MOST = 250, names = data.functions.slice(0, MOST).map(it => it.name), at = new Map(names.map((name, i) => [name, i]));
    const column = new Map(), called = new Set(data.functions.flatMap(it => it.calls));
    let level = names.filter(name => !called.has(name));
    if (!level.length) level = names.slice(0, 1);
    for (let depth = 0; level.length && depth < names.length; depth++) {
      level.forEach(name => column.set(name, depth));
      level = [...new Set(level.flatMap(name => byName.get(name).calls))].filter(name => at.has(name) && !column.has(name));
    }
    const nodes = names.map(name => ({ text: name, column: column.get(name) || 0, go: () => go("Functions", name) }));
    const edges = names.flatMap((name, i) => byName.get(name).calls.filter(to => at.has(to)).map(to => [i, at.get(to)]));
    return folded([`call graph of ${data.functions.length} functions`, data.functions.length > MOST ? `, the first ${MOST}` : ""],
      () => picture(nodes, edges, "Call graph"));
  };

  // What a binding uses and what uses it, some steps far.
  const flowOf = it => {
    const users = it.flow.map(() => []);
    it.flow.forEach(([, , uses], i) => uses.forEach(use => users[use].push(i)));
    const holder = el("div", {});
    const draw = center => {
      const column = new Map([[center, 0]]), MOST = 120, FAR = 4;
      for (const [next, step] of [[i => it.flow[i][2], -1], [i => users[i], 1]]) {
        let level = [center];
        for (let depth = 1; depth <= FAR && column.size < MOST; depth++) {
          level = [...new Set(level.flatMap(next))].filter(i => !column.has(i)).slice(0, MOST - column.size);
          level.forEach(i => column.set(i, depth * step));
        }
      }
      const shown = [...column.keys()], place = new Map(shown.map((i, at) => [i, at])), first = Math.min(...column.values());
      const nodes = shown.map(i => ({ text: `${it.flow[i][0]} = ${it.flow[i][1].replace("relax.", "R.")}`, column: column.get(i) - first, on: i === center, go: () => draw(i) }));
      const edges = shown.flatMap(i => it.flow[i][2].filter(use => place.has(use)).map(use => [place.get(use), place.get(i)]));
      holder.replaceChildren(el("p", { class: "soft" }, `around ${it.flow[center][0]}; choose a box to move`), picture(nodes, edges, "Dataflow"));
    };
    it.draw = draw;
    return folded(["dataflow"], () => { draw(it.flow.length - 1); return holder; });
  };

  const found = text => {
    const wanted = text.toLowerCase(), MOST = 100, rows = [];
    const has = name => name.toLowerCase().includes(wanted);
    data.passes.forEach((it, i) => {
      if (has(it.pass)) rows.push(["pass", link(`${it.step} ${it.pass}`, () => go("Passes", i)), it.plugin]);
    });
    data.functions.filter(it => has(it.name)).forEach(it => rows.push(["function", link(it.name, () => go("Functions", it.name)), it.kind]));
    for (const it of data.functions) {
      for (let i = 0; i < it.flow.length && rows.length < MOST; i++) {
        if (has(it.flow[i][0])) rows.push(["variable", link(it.flow[i][0], () => showVariable(it, i)), `${it.flow[i][1]} in ${it.name}`]);
      }
    }
    return [el("p", { class: "soft", role: "status" }, `${rows.length}${rows.length >= MOST ? " or more" : ""} found`),
      table(["kind", "name", "where"], rows.slice(0, MOST))];
  };
  const showVariable = (it, i) => {
    const view = flowOf(it);
    main.replaceChildren(el("h2", {}, it.flow[i][0]), view);
    view.open = true;
    view.dispatchEvent(new Event("toggle"));
    setTimeout(() => it.draw(i), 0);
  };

  let current = "Summary";
  // Marks the button of the section that is shown; what a search found belongs to none.
  const mark = name => {
    for (const button of nav.children) button.setAttribute("aria-current", String(button.textContent === name));
  };
  const go = (name, wanted) => {
    current = name;
    mark(name);
    main.replaceChildren(el("h2", {}, name), ...sections[name](wanted).filter(Boolean));
    const open = wanted !== undefined && main.querySelector("details[open]:not(:first-of-type)");
    // The header stays at the top, over what is there.
    if (open) open.scrollIntoView({ block: "start" }); else scrollTo(0, 0);
    if (!document.activeElement || document.activeElement === document.body) main.focus({ preventScroll: true });
  };
  for (const name of Object.keys(sections)) nav.append(el("button", { type: "button", onclick: () => go(name) }, name));
  search.addEventListener("input", () => {
    if (!search.value) return go(current);
    mark(null);
    main.replaceChildren(el("h2", {}, "Search"), ...found(search.value));
  });
  document.getElementById("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  });
  document.addEventListener("keydown", event => {
    if (event.target === search) { if (event.key === "Escape") { search.value = ""; go(current); search.blur(); } return; }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { search.focus(); event.preventDefault(); }
    const at = Number(event.key) - 1, names = Object.keys(sections);
    if (at >= 0 && at < names.length) go(names[at]);
    if (event.key === "j" || event.key === "k") {
      const all = [...main.querySelectorAll("summary, button, [tabindex='0']")], i = all.indexOf(document.activeElement);
      const next = all[event.key === "j" ? Math.min(i + 1, all.length - 1) : Math.max(i - 1, 0)];
      if (next) next.focus();
    }
  });
  document.getElementById("input").title = "Keys: / search, 1 to 8 sections, j and k next and previous, Enter opens";
  go("Summary");
})();
