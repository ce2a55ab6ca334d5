// The bar of controls, the keys, and the start.

const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
const byId = (id) => document.getElementById(id);

function makeControls() {
  page.texts.forEach((text, i) => {
    const line = byId("texts").appendChild(document.createElement("span"));
    line.dir = "auto";
    if (second !== null) line.appendChild(document.createElement("b")).textContent = `${"AB"[i]} `;
    line.append(text);
  });
  for (const [id, count] of [["layer", page.layers], ["head", page.heads]]) {
    for (let i = 0; i < count; i++) byId(id).add(new Option(i, i));
    byId(id).addEventListener("change", () => choose(Number(byId("layer").value), Number(byId("head").value)));
  }
  byId("pairs").hidden = second === null;
  byId("segments").addEventListener("change", (event) => change({ segments: event.target.value }));
  for (const button of byId("views").children) {
    button.addEventListener("click", () => change({ view: button.dataset.view, token: null }));
  }
  for (let head = 0; head < page.heads; head++) {
    const chip = addChip(head, `Lines of head ${head}`, () => {
      const shown = new Set(state.shown);
      if (!shown.delete(head)) shown.add(head);
      change({ shown });
    });
    chip.addEventListener("dblclick", () => change({ head, shown: new Set([head]) }));
    chip.appendChild(document.createElement("i"));
  }
  const everyHead = Array.from({ length: page.heads }, (_, head) => head);
  addChip("all", "Lines of all heads", () => change({ shown: new Set(everyHead) }));
  addChip("one", "Lines of the chosen head only", () => change({ shown: new Set([state.head]) }));
}

function addChip(text, label, act) {
  const chip = byId("chips").appendChild(document.createElement("button"));
  chip.type = "button";
  chip.textContent = text;
  chip.title = label;
  chip.setAttribute("aria-label", label);
  chip.addEventListener("click", act);
  return chip;
}

function drawControls() {
  byId("layer").value = state.layer;
  byId("head").value = state.head;
  for (const button of byId("views").children) button.setAttribute("aria-pressed", button.dataset.view === state.view);
  byId("chips").hidden = state.view !== "heads";
  for (let head = 0; head < page.heads; head++) {
    const chip = byId("chips").children[head];
    const { colour, border } = lineStyle(head);
    chip.setAttribute("aria-pressed", state.shown.has(head));
    chip.firstElementChild.style.borderTop = `4px ${border} ${colour}`;
  }
}

document.addEventListener("keydown", (event) => {
  const step = ARROWS[event.key];
  if (!step || event.target.tagName === "SELECT" || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  choose(state.layer + step[0], state.head + step[1]);
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  drawLegends();
  change({});
});

window.addEventListener("resize", () => change({}));

makeControls();
makeTokens();
makeLines();
makeMap();
makeGrid();
makeNeurons();
drawLegends();
change({});
