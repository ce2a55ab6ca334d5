// The heat map of the chosen head.

const heat = document.getElementById("heat");
const mapCells = makeCells(document.getElementById("cells"), size, size, sayCell);

function makeMap() {
  for (const id of ["rows", "columns"]) {
    tokens.forEach((text, index) => {
      const label = document.getElementById(id).appendChild(document.createElement("span"));
      label.textContent = text;
      label.title = text;
      label.classList.toggle("second", segmentOf(index) === "B");
    });
  }
}

/** Makes the cells as large as the window lets them be, without their labels and what is below. */
function fitMap() {
  const room = Math.min(window.innerWidth - 200, window.innerHeight - 380);
  const cell = Math.max(14, Math.min(48, Math.floor(room / size))); // pixels a side; 14 leaves labels readable
  document.getElementById("scroll").style.setProperty("--cell", `${cell}px`);
  heat.style.width = heat.style.height = `${cell * size}px`;
}

VIEWS.map = () => {
  fitMap();
  paint(heat, matrix(state.layer, state.head, state.segments), size, size);
  document.getElementById("cells").setAttribute(
    "aria-label",
    `Heat map of layer ${state.layer}, head ${state.head}: ${size} by ${size} weights; arrows walk through them`,
  );
  mapCells.go(mapCells.place);
};

function sayCell(place) {
  ["rows", "columns"].forEach((id, axis) => {
    document.querySelector(`#${id} .on`)?.classList.remove("on");
    if (place) document.getElementById(id).children[place[axis]].classList.add("on");
  });
  if (!place) return say("Point at a cell, or walk there with Tab and the arrows, to read its weight.");
  const [from, to] = place;
  const weight = numbers("weights", state.layer, state.head)[from * size + to];
  const shown = passes(state.segments, from, to) ? weight.toFixed(4) : "not of the chosen segments";
  say(from, " → ", to, `: ${shown}`);
}
