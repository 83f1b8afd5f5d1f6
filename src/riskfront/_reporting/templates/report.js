// Draws the charts and answers the reader. Everything the user named is set as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const tip = document.getElementById("tip");
const views = {};

function facts(list, names, row) {
  list.replaceChildren();
  names.forEach((name, index) => {
    const value = document.createElement("dd");
    value.textContent = row[index];
    if (name === "") {
      value.className = "head";
    } else {
      const term = document.createElement("dt");
      term.textContent = name;
      list.append(term);
    }
    list.append(value);
  });
}

function place(event) {
  const box = tip.getBoundingClientRect();
  const left = event.clientX + 14 + box.width > innerWidth ? event.clientX - 14 - box.width : event.clientX + 14;
  const top = event.clientY + 14 + box.height > innerHeight ? event.clientY - 14 - box.height : event.clientY + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function tooltips(chart) {
  return (handler, event, item, value) => {
    const row = value == null || !item.datum ? undefined : chart.tips.rows[item.datum.i];
    tip.hidden = row === undefined;
    if (row !== undefined) {
      facts(tip.firstElementChild, chart.tips.names, row);
      place(event);
    }
  };
}

// Says how many points the closer view leaves out.
function outside(figure, view) {
  const place = figure.querySelector("[data-outside]");
  return () => {
    if (!place) return;
    const axes = ["x", "y"].map((side) => [view.signal(`${side}axis`), view.scale(side).domain()]);
    const points = view.data("points");
    const out = points.filter((point) => axes.some(([field, [low, high]]) => point[field] < low || point[field] > high));
    place.textContent = out.length ? `(${out.length} of ${points.length} points lie outside)` : "";
  };
}

async function draw(name, chart) {
  const figure = document.getElementById(`figure-${name}`);
  const { view } = await vegaEmbed(figure.querySelector(".chart"), chart.spec, {
    mode: "vega", renderer: "svg", actions: false, defaultStyle: false, logLevel: 1, tooltip: tooltips(chart),
  });
  views[name] = view;
  const kept = figure.querySelector(".kept");
  view.addEventListener("click", (event, item) => {
    const row = item && item.datum ? chart.tips.rows[item.datum.i] : undefined;
    kept.hidden = row === undefined;
    if (row !== undefined) facts(kept.querySelector("dl"), chart.tips.names, row);
  });
  const told = outside(figure, view);
  figure.querySelectorAll("select[data-signal]").forEach((select) => {
    select.addEventListener("change", () => view.signal(select.dataset.signal, select.value).runAsync().then(told));
  });
  figure.querySelectorAll("input[data-near]").forEach((box) => {
    box.addEventListener("change", () => view.signal("near", box.checked).runAsync().then(told));
  });
  told();
  figure.querySelectorAll("input[data-status]").forEach((box) => {
    box.addEventListener("change", () => {
      const shown = view.signal("shown").slice();
      shown[Number(box.dataset.status)] = box.checked;
      view.signal("shown", shown).runAsync();
    });
  });
}

function mix(mixture) {
  const slider = document.getElementById("mix-target");
  const chooser = document.getElementById("mix-objective");
  const show = () => {
    const goal = mixture.objectives[chooser.value];
    slider.max = goal.targets.length - 1;
    const entry = goal.targets[slider.value];
    document.getElementById("mix-side").textContent = goal.side;
    document.getElementById("mix-value").textContent = entry.target;
    slider.setAttribute("aria-valuetext", `${goal.name} ${goal.side} ${entry.target}`);
    document.getElementById("mix-weights").replaceChildren(...entry.weights.map(([row, weight, text]) => {
      const line = document.createElement("tr");
      const name = document.createElement("th");
      name.scope = "row";
      name.textContent = mixture.settings[row];
      const share = document.createElement("td");
      share.className = "n";
      share.dataset.label = "share";
      share.textContent = text;
      const drawn = document.createElement("td");
      drawn.className = "share";
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.width = `${100 * weight}%`;
      drawn.append(bar);
      line.append(name, share, drawn);
      return line;
    }));
    facts(document.getElementById("mix-values"), mixture.names, entry.values);
  };
  slider.addEventListener("input", show);
  chooser.addEventListener("change", () => { slider.value = 0; show(); });
  show();
}

function copies() {
  document.querySelectorAll("button[data-copy]").forEach((button) => {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      let done = true;
      try {
        await navigator.clipboard.writeText(source.textContent);
      } catch {
        const range = document.createRange();
        range.selectNodeContents(source);
        const selection = getSelection();
        selection.removeAllRanges();
        selection.addRange(range);
        done = document.execCommand("copy");
      }
      const said = button.parentElement.querySelector("[role=status]");
      said.textContent = done ? "Copied" : "Selected: press Ctrl+C";
    });
  });
}

copies();
if (data.mixture) mix(data.mixture);
Promise.all(Object.entries(data.charts).map(([name, chart]) => draw(name, chart))).then(() => {
  document.documentElement.dataset.ready = performance.now(); // ms since the page began to load
});
window.riskfrontViews = views;
