"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = id => document.getElementById(id);
  const sizes = data.limits.map(limit => limit.values.length);
  const state = { at: sizes.map(size => Math.floor((size - 1) / 2)), pick: 0, objective: 0 };

  const number = value => {
    if (value === null || value === undefined) return "not known";
    if (Number.isInteger(value) || Math.abs(value) >= 1e4) return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
    return String(Number(value.toPrecision(4)));
  };
  const percent = value => `${Number((100 * value).toPrecision(Math.abs(value) >= 0.1 ? 2 : 1))} %`;
  const flat = at => at.reduce((sum, place, which) => sum * sizes[which] + place, 0);
  const chosen = at => data.chosen[flat(at)];
  const why = at => data.reasons[data.why[flat(at)]];
  const moved = (which, place) => state.at.map((old, index) => (index === which ? place : old));
  const join = parts => (parts.length < 2 ? parts.join("") : `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}`);
  const make = (tag, attributes, text) => {
    const svg = ["svg", "line", "path", "circle", "text", "title", "rect"].includes(tag);
    const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const row = (name, value, more) => {
    const line = make("tr");
    line.append(make("th", { scope: "row" }, name));
    const cell = make("td", {}, value);
    if (more) cell.append(" ", make("span", { class: "margin" }, more));
    line.append(cell);
    return line;
  };
  const shownFor = (limit, value) => (limit.percent ? `${number(100 * value)}\u00a0%` : number(value));
  const short = value => String(Number(value.toPrecision(3)));
  const margin = (limit, away) => (limit.percent ? `${short(100 * away)} points` : short(away));
  const bound = text => text.replace(/ %/g, "\u00a0%"); // a number and its sign stay on one line
  const capital = text => text.charAt(0).toUpperCase() + text.slice(1);

  // the value of the present objective at a combination: what the setting in use has, or the best of the front
  const objectiveAt = at => {
    const front = chosen(at);
    if (!front.length) return null;
    const values = front.map(one => one[1 + state.objective]).filter(value => value !== null);
    if (!values.length) return null;
    return data.objectives[state.objective].maximize ? Math.max(...values) : Math.min(...values);
  };

  const SAME = "changes nothing";
  const compare = (from, to) => {
    const goal = data.objectives[state.objective];
    if (from === null || to === null) return "";
    if (from === to) return SAME;
    const better = goal.maximize ? to > from : to < from;
    const share = from === 0 ? null : Math.abs(to - from) / Math.abs(from);
    const amount = share === null ? number(Math.abs(to - from)) : percent(share);
    if (!better && !goal.maximize && share > 1) return `takes ${short(to / from)} times the ${goal.name}`;
    if (goal.maximize) return better ? `raises ${goal.name} by ${amount}` : `lowers ${goal.name} by ${amount}`;
    return better ? `saves ${amount} of the ${goal.name}` : `raises the ${goal.name} by ${amount}`;
  };

  // the certified values in a direction, nearest first, with what moving there brings
  const steps = (which, direction) => {
    const found = [];
    for (let place = state.at[which] + direction; place >= 0 && place < sizes[which]; place += direction) {
      if (!chosen(moved(which, place)).length) continue;
      found.push({ place, words: compare(objectiveAt(state.at), objectiveAt(moved(which, place))), shown: data.limits[which].shown[place] });
    }
    return found;
  };

  // "One more point of error (6 %) saves 12 % of the cost."
  const wordsOfMove = (which, move) => {
    const limit = data.limits[which];
    if (!limit.percent) return `At ${move.shown} it ${move.words}.`;
    const points = short(100 * Math.abs(limit.values[move.place] - limit.values[state.at[which]])), one = points === "1";
    const verb = one ? move.words : move.words.replace(/^(\w+)s\b/, "$1");
    return limit.values[move.place] > limit.values[state.at[which]]
      ? `${one ? "One" : points} more point${one ? "" : "s"} of ${limit.name} (${move.shown}) ${verb}.`
      : `${one ? "One point" : `${points} points`} less of ${limit.name} (${move.shown}) ${verb}.`;
  };

  const wordsOfStep = which => {
    const parts = [], looser = steps(which, 1), tighter = steps(which, -1), brings = move => move.words && move.words !== SAME;
    if (!chosen(state.at).length) return [looser.length ? `Nothing is certified here. The next value that is: ${looser[0].shown}.` : "Nothing is certified at any looser value."];
    const gain = looser.find(brings), price = tighter.findIndex(brings);
    const free = price < 0 ? tighter[tighter.length - 1] : tighter[price - 1];
    if (gain) parts.push(wordsOfMove(which, gain));
    else if (looser.length) parts.push("Looser values change nothing.");
    if (free) parts.push(`${data.limits[which].sign === "<=" ? "Down" : "Up"} to ${free.shown} nothing changes.`);
    if (price >= 0) parts.push(wordsOfMove(which, tighter[price]));
    else if ((free ? free.place : state.at[which]) > 0) parts.push("Nothing tighter is certified.");
    return parts;
  };

  const showSliders = () => data.limits.forEach((limit, which) => {
    const input = $(`limit-${which}`), output = $(`value-${which}`), held = chosen(state.at).length > 0;
    input.value = state.at[which];
    output.textContent = limit.shown[state.at[which]];
    output.classList.toggle("none", !held);
    input.setAttribute("aria-valuetext", `${limit.side} ${limit.shown[state.at[which]]}${held ? "" : ", nothing is certified here"}`);
    document.querySelectorAll(`[data-limit="${which}"] .cells i`).forEach((cell, place) => {
      const count = chosen(moved(which, place)).length;
      cell.classList.toggle("none", count === 0);
      cell.classList.toggle("here", place === state.at[which]);
      cell.title = limit.shown[place] + (count ? "" : `: nothing is certified. ${why(moved(which, place))}`);
    });
    $(`next-${which}`).textContent = bound(wordsOfStep(which).join(" "));
  });

  const showVerdict = front => {
    const box = $("verdict"), held = front.length > 0;
    const kind = !held ? "nothing" : data.guaranteed ? "certified" : "unguaranteed";
    box.className = `verdict ${kind}`;
    $("badge").textContent = { nothing: "✗ Nothing certified at these limits", certified: "✓ Certified", unguaranteed: "⚠ Not guaranteed" }[kind];
    const limits = [...data.limits.map((limit, which) => limit.words[state.at[which]]), ...data.fixed];
    $("sentence").textContent = held
      ? bound(`${data.guaranteed ? `With ${data.confidence} confidence, ` : "NO GUARANTEE: it only looks as if "}${join(limits)}.`)
      : "Nothing could be certified at these limits.";
    $("buys").textContent = held
      ? capital(data.objectives.map((goal, place) => `${goal.label} ${number(front[state.pick][1 + place])}`).join(", ")) +
        `; ${data.counts[flat(state.at)] === 1 ? "one setting is" : `${data.counts[flat(state.at)].toLocaleString("en-US")} settings are`} certified here.`
      : why(state.at);
    $("covered").hidden = !held || !data.covered;
    $("covered").textContent = data.covered;
  };

  const showSetting = front => {
    const held = front.length > 0;
    $("found").hidden = !held;
    $("why").hidden = held;
    $("why").textContent = held ? "" : why(state.at) || "Nothing is certified here: move a limit to a looser value.";
    document.querySelectorAll("[data-copy=setting], [data-copy=command]").forEach(button => { button.disabled = !held; });
    if (!held) return;
    const one = front[state.pick], setting = data.settings[one[0]];
    $("rule").hidden = !setting.rule;
    $("rule").textContent = setting.rule;
    $("config").replaceChildren(...setting.rows.map(([name, value]) => row(name, value)));
    const lines = data.objectives.map((goal, place) => row(goal.label, number(one[1 + place])));
    const goals = data.objectives.length;
    data.measures.forEach((name, place) => {
      const value = one[1 + goals + place], which = data.limits.findIndex(limit => limit.index === place);
      if (which < 0) return lines.push(row(name, number(value)));
      const limit = data.limits[which], at = limit.values[state.at[which]];
      const inside = value === null ? "" : `${margin(limit, Math.abs(at - value))} inside the limit of ${bound(limit.shown[state.at[which]])}`;
      return lines.push(row(name, value === null ? "not known" : shownFor(limit, value), inside));
    });
    $("measured").replaceChildren(...lines);
  };

  // names may hold what a shell would run
  const quoted = text => (/["$`\\!]/.test(text) ? `'${text.replace(/'/g, "'\\''")}'` : `"${text}"`);

  const command = () => {
    const front = chosen(state.at), goals = data.objectives;
    let choice = "";
    if (goals.length > 1 && state.pick > 0 && front.length) {
      const here = front[state.pick], others = front.filter(one => one !== here);
      const best = goals.find((goal, place) => others.every(one => (goal.maximize ? here[1 + place] > one[1 + place] : here[1 + place] < one[1 + place])));
      // no other setting of the front is as good in every objective
      const asGood = goals.map((goal, place) => (here[1 + place] === null ? "" : `${goal.name} ${goal.maximize ? ">=" : "<="} ${here[1 + place]}`));
      choice = best ? best.name : asGood.filter(Boolean).join(", ");
    }
    const values = data.limits.map((limit, which) => limit.values[state.at[which]]);
    if (data.python) {
      const at = data.limits.map((limit, which) => `${JSON.stringify(limit.name)}: ${values[which]}`).join(", ");
      return `certificate = frontier.choose({${at}}${choice ? `, ${JSON.stringify(choice)}` : ""})`;
    }
    const limits = data.limits.map((limit, which) => ` --limit ${quoted(`${limit.name} ${limit.sign} ${values[which]}`)}`);
    return `${data.choose}${limits.join("")}${choice ? ` --choose ${quoted(choice)}` : ""}${data.into}`;
  };

  const hash = () => `#${data.limits.map((limit, which) => `${encodeURIComponent(limit.name)}=${limit.values[state.at[which]]}`).join("&")}${state.pick ? `&pick=${state.pick + 1}` : ""}`;

  const readHash = () => {
    for (const part of location.hash.slice(1).split("&")) {
      const cut = part.lastIndexOf("=");
      if (cut < 1) continue;
      let name;
      try { name = decodeURIComponent(part.slice(0, cut).replace(/\+/g, " ")); } catch { continue; } // not of this page
      const value = Number(part.slice(cut + 1));
      const which = data.limits.findIndex(limit => limit.name === name);
      if (which >= 0 && Number.isFinite(value)) {
        const away = data.limits[which].values.map(other => Math.abs(other - value));
        state.at[which] = away.indexOf(Math.min(...away));
      } else if (name === "pick" && value >= 1) state.pick = value - 1;
    }
  };

  const ticks = (low, high) => {
    if (!(high > low)) return [low];
    const raw = (high - low) / 5, size = 10 ** Math.floor(Math.log10(raw));
    const gap = [1, 2, 5, 10].map(k => k * size).find(one => one >= raw);
    const found = [];
    for (let at = Math.ceil(low / gap) * gap; at <= high + gap * 1e-9; at += gap) found.push(Number(at.toPrecision(12)));
    return found;
  };

  const plot = (box, points, options) => {
    const width = Math.max(box.clientWidth, 280), height = 240, left = 58, right = 18, top = 26, bottom = 30;
    const known = points.filter(point => point.y !== null);
    const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    if (!known.length) { box.replaceChildren(make("p", { class: "note" }, "Nothing is certified along this limit.")); return; }
    const span = (values, zero) => {
      let low = Math.min(...values), high = Math.max(...values);
      if (zero && low > 0 && low < 0.6 * high) low = 0;
      const pad = (high - low || Math.abs(high) || 1) * 0.06;
      return [zero && low === 0 ? 0 : low - pad, high + pad];
    };
    const [x0, x1] = span(points.map(point => point.x)), [y0, y1] = span(known.map(point => point.y), true);
    const X = x => left + ((x - x0) / (x1 - x0)) * (width - left - right), Y = y => height - bottom - ((y - y0) / (y1 - y0)) * (height - top - bottom);
    svg.append(make("text", { x: 0, y: 10 }, options.across));
    for (const y of ticks(y0, y1)) {
      svg.append(make("line", { class: "rule", x1: left, x2: width - right, y1: Y(y), y2: Y(y) }));
      svg.append(make("text", { x: left - 8, y: Y(y) + 4, "text-anchor": "end" }, number(y)));
    }
    for (const x of ticks(Math.max(x0, Math.min(...points.map(point => point.x))), x1)) svg.append(make("text", { x: X(x), y: height - 8, "text-anchor": "middle" }, options.shown(x)));
    if (options.line) {
      const path = known.map((point, place) => (place ? `H${X(point.x)}V${Y(point.y)}` : `M${X(point.x)} ${Y(point.y)}`)).join("");
      svg.append(make("path", { class: "line", d: path }));
    }
    for (const point of points) {
      const y = point.y === null ? height - bottom : Y(point.y);
      const dot = make("circle", { class: `dot${point.y === null ? " none" : ""}`, cx: X(point.x), cy: y, r: 4.5 });
      const hit = make("circle", { class: "hit", cx: X(point.x), cy: y, r: 14 });
      hit.append(make("title", {}, point.title));
      hit.addEventListener("click", point.go);
      svg.append(dot, hit);
    }
    const here = points.find(point => point.here);
    if (here && here.y !== null) {
      svg.append(make("line", { class: "cross", x1: X(here.x), x2: X(here.x), y1: Y(here.y), y2: height - bottom }));
      svg.append(make("circle", { class: "here", cx: X(here.x), cy: Y(here.y), r: 7.5 }));
      const end = X(here.x) > width - 90;
      svg.append(make("text", { class: "at", x: X(here.x) + (end ? -12 : 12), y: Y(here.y) - 9, "text-anchor": end ? "end" : "start" }, number(here.y)));
    }
    box.replaceChildren(svg);
    box.setAttribute("aria-label", options.label(here));
  };

  const showCurves = () => document.querySelectorAll("[data-curve]").forEach(box => {
    const which = Number(box.dataset.curve), limit = data.limits[which], goal = data.objectives[state.objective];
    const points = limit.values.map((value, place) => {
      const y = objectiveAt(moved(which, place));
      return { x: value, y, here: place === state.at[which], title: `${limit.name} ${limit.side} ${limit.shown[place]}: ${y === null ? `nothing certified. ${why(moved(which, place))}` : `${goal.label} ${number(y)}`}`, go: () => set(which, place) };
    });
    points.sort((a, b) => (limit.sign === "<=" ? a.x - b.x : b.x - a.x));
    plot(box, points, {
      line: true,
      across: goal.label,
      shown: x => shownFor(limit, x),
      label: here => `${goal.label} of the best certified setting against the limit on ${limit.name}, ${points.filter(point => point.y !== null).length} of ${points.length} values certified.` +
        (here && here.y !== null ? ` With ${limit.name} ${limit.side} ${limit.shown[state.at[which]]}: ${number(here.y)}.` : ""),
    });
  });

  const showFront = front => {
    if (data.objectives.length < 2) return;
    $("front").hidden = front.length < 2;
    const words = one => data.objectives.map((goal, place) => `${goal.label} ${number(one[1 + place])}`).join(", ");
    $("options").replaceChildren(...front.map((one, place) => {
      const label = make("label"), input = make("input", { type: "radio", name: "pick", value: place });
      input.checked = place === state.pick;
      input.addEventListener("change", () => { state.pick = place; show(); });
      const text = make("div");
      text.append(make("b", {}, words(one)), " ", make("span", {}, data.settings[one[0]].rows.map(([name, value]) => `${name} = ${value}`).join(", ")));
      label.append(input, text);
      return label;
    }));
    plot($("scatter"), front.map((one, place) => ({ x: one[1], y: one[2], here: place === state.pick, title: words(one), go: () => { state.pick = place; show(); } })), {
      line: false,
      across: `${data.objectives[1].label}, against ${data.objectives[0].label}`,
      shown: number,
      label: () => `${data.objectives[1].label} against ${data.objectives[0].label}, ${front.length} settings.`,
    });
    $("scatter").setAttribute("role", "img");
  };

  const show = () => {
    const front = chosen(state.at);
    state.pick = Math.min(state.pick, Math.max(front.length - 1, 0));
    showSliders();
    showVerdict(front);
    showSetting(front);
    showFront(front);
    showCurves();
    $("command").textContent = front.length ? command() : "Nothing is certified here.";
    try { history.replaceState(null, "", hash()); } catch { /* a page inside a page keeps its address */ }
  };
  const set = (which, place) => { state.at[which] = place; state.pick = 0; show(); };

  const copy = async kind => {
    const front = chosen(state.at);
    const text = { setting: () => data.settings[front[state.pick][0]].json, command, link: () => location.href.split("#")[0] + hash() }[kind]();
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = make("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    $("copied").textContent = "Copied";
    setTimeout(() => { $("copied").textContent = ""; }, 2500);
  };

  data.limits.forEach((limit, which) => $(`limit-${which}`).addEventListener("input", event => set(which, Number(event.target.value))));
  document.querySelectorAll("[data-copy]").forEach(button => button.addEventListener("click", () => copy(button.dataset.copy)));
  if ($("objective")) $("objective").addEventListener("change", event => { state.objective = Number(event.target.value); show(); });
  window.addEventListener("hashchange", () => { readHash(); show(); });
  let width = 0;
  window.addEventListener("resize", () => { if (window.innerWidth !== width) { width = window.innerWidth; showCurves(); showFront(chosen(state.at)); } });
  // begin where something is certified, in the middle of what is
  const places = flatPlace => {
    let rest = flatPlace;
    return [...sizes].reverse().map(size => { const place = rest % size; rest = Math.floor(rest / size); return place; }).reverse();
  };
  const held = data.chosen.map((front, place) => (front.length ? places(place) : null)).filter(Boolean);
  if (held.length) {
    const middle = sizes.map((size, which) => held.reduce((sum, at) => sum + at[which], 0) / held.length);
    const away = held.map(at => at.reduce((sum, place, which) => sum + ((place - middle[which]) / sizes[which]) ** 2, 0));
    state.at = held[away.indexOf(Math.min(...away))];
  }
  readHash();
  show();
  document.documentElement.dataset.ready = performance.now();
})();
