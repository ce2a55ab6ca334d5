// What is chosen. Only `change` changes it, and has it drawn with the browser's next frame.

const state = {
  view: "heads",
  layer: page.layer,
  head: page.head,
  shown: new Set([page.head]), // the heads whose lines are drawn
  segments: "all",
  token: null, // the one that is isolated: {side: "from", "to" or "query", index}
  query: 0, // the token that was isolated last by a click or a key: whose query is shown while none is
};

const VIEWS = {}; // name -> what draws it
let frame = 0;

function change(parts) {
  Object.assign(state, parts);
  cancelAnimationFrame(frame); // many changes, one drawing
  frame = requestAnimationFrame(draw);
}

function draw() {
  drawControls();
  for (const name of Object.keys(VIEWS)) document.getElementById(name).hidden = name !== state.view;
  document.getElementById("legend").hidden = state.view === "heads";
  document.getElementById("signs-legend").hidden = state.view !== "neurons";
  VIEWS[state.view]();
}

/** Another head becomes the chosen one, and the only one whose lines are drawn. */
function choose(layer, head) {
  if (layer < 0 || layer >= page.layers || head < 0 || head >= page.heads) return;
  const shown = head === state.head ? state.shown : new Set([head]);
  change({ layer, head, shown });
}

/** Says something below the view, and to screen readers: strings as they are, tokens by their numbers. */
function say(...parts) {
  const nodes = parts.map((part) => {
    if (typeof part === "string") return part;
    const token = document.createElement("bdi");
    token.textContent = tokens[part];
    return token;
  });
  document.getElementById("readout").replaceChildren(...nodes);
}
