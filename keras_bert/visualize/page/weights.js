// The numbers: a layer is decoded when something of it is drawn for the first time.

const page = JSON.parse(document.getElementById("page").textContent);
const { tokens, second } = page;
const size = tokens.length;

// All numbers that float16 has, by their 16 bits.
const FLOATS = Float32Array.from({ length: 65536 }, (_, bits) => {
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  const magnitude = exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction;
  return bits >> 15 ? -magnitude : magnitude;
});

const decoded = new Map(); // id of an element -> its 16 bits a number

/** Of a head: its "weights" [token, token], its "queries" or its "keys" [token, headSize], row by row. */
function numbers(name, layer, head) {
  const id = `${name}-${layer}`;
  if (!decoded.has(id)) {
    const bytes = atob(document.getElementById(id).textContent);
    const bits = new Uint16Array(bytes.length / 2);
    for (let i = 0; i < bits.length; i++) {
      bits[i] = bytes.charCodeAt(2 * i) | (bytes.charCodeAt(2 * i + 1) << 8);
    }
    decoded.set(id, bits);
  }
  const bits = decoded.get(id);
  const floats = new Float32Array(bits.length / page.heads);
  for (let i = 0; i < floats.length; i++) floats[i] = FLOATS[bits[head * floats.length + i]];
  return floats;
}

const segmentOf = (token) => (second !== null && token >= second ? "B" : "A");

/** Whether a filter, such as "AB", or "all", lets the weights from one token to another through. */
const passes = (filter, from, to) => filter === "all" || filter === segmentOf(from) + segmentOf(to);

/** The weights of a head, row by row; 0 where the filter lets nothing through. */
function matrix(layer, head, filter) {
  const weights = numbers("weights", layer, head);
  for (let from = 0, at = 0; from < size; from++) {
    for (let to = 0; to < size; to++, at++) {
      if (!passes(filter, from, to)) weights[at] = 0;
    }
  }
  return weights;
}
