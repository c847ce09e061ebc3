"use strict";
// Two things that a page cannot do by itself: sort a table, and open what made a number. Without this it is whole.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id)?.textContent ?? "{}");
  const { cells, curves } = read("evidence"), measured = read("measured");

  const maker = (space) => (tag, attributes = {}, ...children) => {
    const made = document.createElementNS(`http://www.w3.org/${space}`, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  };
  const make = maker("1999/xhtml"), draw = maker("2000/svg");

  // ------------------------------------------------------------ sorting

  const key = (row, place) => {
    const text = row.children[place]?.textContent.trim() ?? "";
    return place === 0 ? text : parseFloat(text.replaceAll(",", "").replace("−", "-"));
  };

  // What has no number stays last, whichever way; what is equal stays as it was.
  const compare = (one, other, sign) => {
    if (typeof one === "string") return sign * one.localeCompare(other, "en");
    if (Number.isNaN(one) || Number.isNaN(other)) return Number.isNaN(one) - Number.isNaN(other);
    return sign * (one - other);
  };

  const sort = (table, header, order) => {
    const place = [...header.parentNode.children].indexOf(header);
    const ways = place === 0 ? ["ascending", "descending"] : ["descending", "ascending"];
    const way = ways[ways.indexOf(header.getAttribute("aria-sort")) + 1];  // at last as it was
    for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
    if (way) header.setAttribute("aria-sort", way);
    for (const [body, rows] of order) {
      const sign = way === "ascending" ? 1 : -1;
      const sorted = way ? [...rows].sort((a, b) => compare(key(a, place), key(b, place), sign)) : rows;
      body.append(...sorted);
    }
  };

  for (const table of document.querySelectorAll("table")) {
    const rows = (body) => [...body.rows].filter((row) => !row.querySelector("[colspan]"));
    const order = new Map([...table.tBodies].map((body) => [body, rows(body)]));
    const all = [...order.values()].flat();
    // Lines that belong together, as ours and the published below it, stay together.
    if (all.some((row) => !row.children[0].textContent) || !all.length) continue;
    for (const header of table.querySelectorAll("thead th")) {
      const button = make("button", { type: "button" }, make("span", {}, ...header.childNodes));
      button.addEventListener("click", () => sort(table, header, order));
      header.replaceChildren(button);
    }
  }

  // ------------------------------------------------------------ what made a number

  const command = (id) => make("code", {}, `harness show ${id}`);

  const listed = (caption, headings, lines) => make("table", {},
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...headings.map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...lines.map((line) => make("tr", {}, ...line.map((text) => make("td", {}, text))))));

  const took = (run) => {
    const [seconds, memory] = measured[run] ?? [];
    return [seconds === undefined ? "" : `${seconds} s`, memory ? `${memory} MiB` : ""];
  };

  // Losses (dashed) and scores, each between its own least and largest; a line for each seed.
  const drawn = (runs) => {
    const found = runs.map((run) => curves[run]).filter(Boolean);
    if (!found.length) return [];
    const [width, height, left, top] = [420, 110, 52, 8];
    const line = (values, [least, most], dashes) => {
      const at = (value, i) => [left + (width * (i + .5)) / values.length,
        top + height * (1 - (value - least) / (most - least || 1))].map((x) => x.toFixed(1)).join(" ");
      const points = values.map((value, i) => [value, i]).filter(([value]) => value !== null);
      return draw("path", { d: points.map(([v, i], n) => (n ? "L" : "M") + at(v, i)).join(""), fill: "none",
        stroke: dashes ? "var(--quiet)" : "var(--link)", "stroke-width": 1.5, "stroke-dasharray": dashes });
    };
    const range = (which) => {
      const values = found.flatMap((curve) => curve[which]).filter((value) => value !== null);
      return values.length ? [Math.min(...values), Math.max(...values)] : null;
    };
    const [losses, scores] = [range(0), range(1)];
    const epochs = found[0][2].map(([stage, count]) => `${count} of ${stage}`).join(", ");
    const said = (name, [least, most]) => `${name} between ${least} and ${most}`;
    const text = [said("Loss (dashed)", losses), ...(scores ? [said("selection metric × 100", scores)] : [])].join("; ");
    const label = (x, y, anchor, value) => draw("text", { x, y, "text-anchor": anchor }, String(value));
    const parts = [
      draw("path", { d: `M${left} ${top}V${top + height}H${left + width}`, fill: "none", stroke: "var(--line)" }),
      ...found.map((curve) => line(curve[0], losses, "4 3")),
      ...(scores ? found.map((curve) => line(curve[1], scores, "")) : []),
      ...(scores ? [label(left - 4, top + 8, "end", scores[1]), label(left - 4, top + height, "end", scores[0])] : []),
      label(left + width + 4, top + 8, "start", losses[1]), label(left + width + 4, top + height, "start", losses[0]),
    ];
    const svg = draw("svg", { viewBox: `0 0 ${left + width + 52} ${height + 2 * top}`, role: "img", "aria-label": text },
      ...parts);
    return [make("h3", {}, "Learning curves"), svg, make("p", {}, `${text}. A line is a seed; epochs: ${epochs}.`)];
  };

  const dialog = make("dialog", { "aria-labelledby": "opened" });
  document.body.append(dialog);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  const open = (id, value) => {
    const { name, metric, setting, seeds, trials } = cells[id], [row, student, init, task] = name;
    const close = make("button", { type: "button", class: "close" }, "Close");
    close.addEventListener("click", () => dialog.close());
    const where = [student, init && `init ${init}`, task].filter(Boolean).join(", ");
    dialog.replaceChildren(
      close,
      make("h2", { id: "opened" }, `${row}: ${value}`),
      make("p", {}, where, make("br"), command(id)),
      ...(setting ? [make("p", {}, `Chosen setting: ${setting}`)] : []),
      ...(seeds.length ? [make("h3", {}, "Seeds"), make("div", { class: "scroll", tabindex: 0 }, listed(
        "The runs whose mean it is", ["Seed", `Dev ${metric}`, "Best epoch", "Time", "Peak memory", "Run"],
        seeds.map(([run, seed, score, epoch]) => [String(seed), score, String(epoch), ...took(run), command(run)])))] : []),
      ...(trials.length ? [make("h3", {}, "Search"), make("div", { class: "scroll", tabindex: 0 }, listed(
        "The settings that were tried", ["Setting", "Selection", "Outcome", "Time", "Run"],
        trials.map(([run, what, score, became]) => [what, score, became, took(run)[0], command(run)])))] : []),
      ...drawn(seeds.map(([run]) => run)),
    );
    dialog.showModal();
  };

  for (const cell of document.querySelectorAll("[data-cell]")) {
    if (!cell.textContent || !cells[cell.dataset.cell]) continue;
    const button = make("button", { type: "button", "aria-haspopup": "dialog" }, ...cell.childNodes);
    button.addEventListener("click", () => open(cell.dataset.cell, cell.textContent));
    cell.replaceChildren(button);
    cell.removeAttribute("title");
  }
  document.documentElement.classList.add("on");
})();
