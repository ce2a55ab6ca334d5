// What a weight is made of: the query of one token times the key of each, dimension by dimension; sum; what is added for
// the distance, in some models; softmax over the keys within reach.

const neuronArea = document.getElementById("products");
const neuronCells = makeCells(neuronArea, size, page.headSize, sayNeuron);
let neurons = null; // what is shown

function makeNeurons() {
  document.getElementById("root").textContent = `√${page.headSize}`;
  for (const element of document.querySelectorAll("#neurons .added")) element.hidden = !page.hasAdded;
  for (const id of ["dots", "added", "shares"]) {
    for (let key = 0; key < size; key++) {
      const item = document.getElementById(id).appendChild(document.createElement("li"));
      item.classList.toggle("first-of-second", key === second);
    }
  }
}

/** Makes the two strips and the rows as large as the window lets them be, beside the tokens, the sums and the notes. */
function fitNeurons() {
  const width = (window.innerWidth - document.getElementById("queries").offsetWidth - 280) / 2;
  const dimension = Math.max(3, Math.min(24, Math.floor(width / page.headSize))); // whole pixels
  const row = Math.max(21, Math.min(36, Math.floor((window.innerHeight - 440) / size)));
  const { style } = document.getElementById("vectors");
  style.setProperty("--strip", `${dimension * page.headSize}px`);
  style.setProperty("--row", `${row}px`);
}

/** Whether a token attends to another one in a layer. */
const reaches = (layer, from, to) =>
  page.halfWindows[layer] === null || Math.abs(from - to) <= page.halfWindows[layer];

/** The vectors of a head, a query's products with all keys, their scaled sums, what is added, and the softmax. */
function computeNeurons(layer, head, query) {
  const { headSize } = page;
  const queries = numbers("queries", layer, head);
  const keys = numbers("keys", layer, head);
  const products = keys.map((value, at) => queries[query * headSize + (at % headSize)] * value);
  const dots = tokens.map((_, key) => {
    const row = products.subarray(key * headSize, (key + 1) * headSize);
    return row.reduce((sum, each) => sum + each, 0) / Math.sqrt(headSize);
  });
  const added = page.hasAdded
    ? numbers("added", layer, head).subarray(query * size, (query + 1) * size)
    : new Float32Array(size);
  const scores = dots.map((dot, key) => (reaches(layer, query, key) ? dot + added[key] : -Infinity));
  const largest = Math.max(...scores);
  const exponentials = scores.map((score) => Math.exp(score - largest));
  const total = exponentials.reduce((sum, each) => sum + each, 0);
  const shares = exponentials.map((each) => each / total);
  return { query, queries, keys, products, dots, added, shares };
}

VIEWS.neurons = () => {
  fitNeurons();
  const query = state.token?.index ?? state.query;
  neurons = computeNeurons(state.layer, state.head, query);
  const { queries, keys, products, dots, added, shares } = neurons;
  const { headSize } = page;
  const shown = tokens.map((_, key) => passes(state.segments, query, key) && reaches(state.layer, query, key));
  const rows = (values) => values.map((value, at) => (shown[Math.floor(at / headSize)] ? value : 0));
  const ofVectors = Math.max(furthest(queries), furthest(keys)); // one scale for a head: queries can be compared
  const ofProducts = furthest(products);
  const ofDots = furthest(dots);
  const strip = queries.subarray(query * headSize, (query + 1) * headSize);
  paint(document.getElementById("q"), strip.map((value) => value / ofVectors), headSize, 1, "--signs");
  paint(document.getElementById("k"), rows(keys).map((value) => value / ofVectors), headSize, size, "--signs");
  paint(document.getElementById("qk"), rows(products).map((value) => value / ofProducts), headSize, size, "--signs");
  fillNumbers("dots", dots, shown, 2, shader("--signs"), ofDots);
  fillNumbers("added", added, shown, 2, shader("--signs"), furthest(added));
  fillNumbers("shares", shares, shown, 3, shader("--ramp"), 1);
  document.getElementById("query").textContent = tokens[query];
  document.getElementById("strongest").textContent =
    `The strongest colours are ±${ofVectors.toFixed(2)} in q and k, ±${ofProducts.toFixed(2)} in q × k, ` +
    `±${ofDots.toFixed(2)} in sum / √${headSize}.`;
  markQueries(query, shown);
  neuronArea.setAttribute(
    "aria-label",
    `Layer ${state.layer}, head ${state.head}: ${size} keys of ${headSize} dimensions; arrows walk through them`,
  );
  neuronCells.go(neuronCells.place);
};

/** The largest magnitude; where all is 0, 1, to divide by. */
const furthest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;

const fixed = (value, digits) => value.toFixed(digits).replace("-", "−");

function fillNumbers(id, values, shown, digits, colourOf, largest) {
  [...document.getElementById(id).children].forEach((item, key) => {
    item.textContent = shown[key] ? fixed(values[key], digits) : "";
    item.style.setProperty("--colour", shown[key] ? `rgb(${colourOf(values[key] / largest)})` : "transparent");
  });
}

function markQueries(query, shown) {
  buttonsOf("query").forEach((button, index) => {
    button.classList.toggle("chosen", index === query);
    button.setAttribute("aria-current", index === query);
    button.classList.toggle("outside", !shown[index] && index !== query);
  });
}

function sayNeuron(place) {
  const { query, queries, keys, products, shares } = neurons;
  const shown = (key) => passes(state.segments, query, key);
  if (!place) return sayWeights(query, " attends to ", shares.map((share, key) => (shown(key) ? share : 0)));
  const [key, dimension] = place;
  if (!reaches(state.layer, query, key)) return say(query, " → ", key, ": beyond the window of this layer");
  if (!shown(key)) return say(query, " → ", key, ": not of the chosen segments");
  const at = key * page.headSize + dimension;
  const q = queries[query * page.headSize + dimension];
  say(query, " → ", key, `, dimension ${dimension}: ${fixed(q, 3)} × ${fixed(keys[at], 3)} = ${fixed(products[at], 3)}`);
}
