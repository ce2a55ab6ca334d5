// All layers and heads as pictures, each drawn when it comes into sight.

const LARGEST_PICTURE = 96; // pixels a side; of the weights that share a pixel, the largest shows
const waiting = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    waiting.unobserve(target);
    drawPicture(target);
  }
});
let picturesOf = null; // what the pictures were drawn for

const pictureButton = (layer, head) => document.querySelector(`td button[data-layer="${layer}"][data-head="${head}"]`);

function makeGrid() {
  const [thead, tbody] = ["thead", "tbody"].map((name) => document.querySelector(`#table ${name}`));
  document.getElementById("table").style.setProperty("--across", page.heads);
  const titles = thead.insertRow();
  const title = (row, scope, text) => {
    const cell = row.appendChild(document.createElement("th"));
    cell.scope = scope;
    cell.textContent = text;
  };
  title(titles, "col", "");
  for (let head = 0; head < page.heads; head++) title(titles, "col", head);
  for (let layer = 0; layer < page.layers; layer++) {
    const row = tbody.insertRow();
    title(row, "row", layer);
    for (let head = 0; head < page.heads; head++) {
      const button = row.insertCell().appendChild(document.createElement("button"));
      button.type = "button";
      button.dataset.layer = layer;
      button.dataset.head = head;
      button.setAttribute("aria-label", `Layer ${layer}, head ${head}`);
      button.appendChild(document.createElement("canvas"));
      button.addEventListener("click", () => {
        change({ view: "heads", layer, head, shown: new Set([head]) });
        document.querySelector("[data-view=heads]").focus(); // the picture is about to disappear
      });
    }
  }
}

VIEWS.grid = () => {
  const now = `${state.segments} ${styleColours("--ramp")}`;
  const inTable = document.activeElement?.closest("td");
  for (const button of document.querySelectorAll("td button")) {
    const current = button === pictureButton(state.layer, state.head);
    button.tabIndex = current ? 0 : -1;
    button.setAttribute("aria-current", current);
    if (current && inTable) button.focus();
    if (now !== picturesOf) waiting.observe(button.firstChild);
  }
  picturesOf = now;
  say(`Layer ${state.layer}, head ${state.head}`);
};

function drawPicture(canvas) {
  const { layer, head } = canvas.parentNode.dataset;
  const weights = matrix(Number(layer), Number(head), state.segments);
  const side = Math.min(size, LARGEST_PICTURE);
  const picture = new Float32Array(side * side);
  const place = Uint16Array.from({ length: size }, (_, i) => Math.floor((i * side) / size));
  for (let from = 0, at = 0; from < size; from++) {
    for (let to = 0; to < size; to++, at++) {
      const pixel = place[from] * side + place[to];
      if (weights[at] > picture[pixel]) picture[pixel] = weights[at];
    }
  }
  paint(canvas, picture, side, side);
}
