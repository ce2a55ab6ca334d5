// Lines between tokens: on the left those that attend, on the right those that are attended to.

// Fainter lines are not drawn: of one token; of all tokens; of all tokens in several heads, where they would be a fog.
const FAINTEST_OF_TOKEN = 0.004; // a screen shows no fainter ones
const FAINTEST_OF_HEAD = 0.01;
const FAINTEST_OF_HEADS = 0.02;
const BESIDE = 2; // pixels between the lines of one head and the next, where there is room
const LONGEST_CANVAS = 16000; // in pixels; browsers draw nothing on longer ones

const cellOf = (token, other) => (token.side === "from" ? token.index * size + other : other * size + token.index);

function makeLines() {
  new ResizeObserver(() => state.view === "heads" && drawLines(shownMatrices())).observe(document.getElementById("sides"));
}

/** Of the heads whose lines are drawn: [head, weights]. */
function shownMatrices() {
  const heads = [...state.shown].sort((a, b) => a - b);
  return heads.map((head) => [head, matrix(state.layer, head, state.segments)]);
}

VIEWS.heads = () => {
  const matrices = shownMatrices();
  const { token } = state;
  const weightOf = (other) => matrices.reduce((sum, [, each]) => sum + each[cellOf(token, other)], 0) / matrices.length;
  const opposite = token && matrices.length ? tokens.map((_, other) => weightOf(other)) : [];
  markTokens(opposite);
  drawLines(matrices);
  if (!opposite.length) return say("Point at a token, or move to one with Tab, to see its weights alone.");
  const verb = token.side === "from" ? " attends to " : " is attended to by ";
  sayWeights(token.index, verb, opposite, matrices.length > 1 ? ` (mean of ${matrices.length} heads)` : "");
};

function markTokens(opposite) {
  for (const [place, side] of ["from", "to"].entries()) {
    buttonsOf(side).forEach((button, index) => {
      const here = state.token?.side === side;
      button.classList.toggle("chosen", here && state.token.index === index);
      button.classList.toggle("outside", state.segments !== "all" && state.segments[place] !== segmentOf(index));
      button.style.setProperty("--weight", here ? 0 : (opposite[index] ?? 0));
    });
  }
}

function drawLines(matrices) {
  const canvas = document.getElementById("lines");
  const row = document.querySelector("#from li").getBoundingClientRect().height;
  const width = canvas.clientWidth;
  const scale = Math.min(window.devicePixelRatio || 1, LONGEST_CANVAS / (row * size));
  canvas.width = width * scale;
  canvas.height = row * size * scale;
  canvas.style.height = `${row * size}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const faintestOfAll = matrices.length > 1 ? FAINTEST_OF_HEADS : FAINTEST_OF_HEAD;
  const faintest = state.token ? FAINTEST_OF_TOKEN : faintestOfAll;
  let lines = 0;
  const apart = Math.min(BESIDE, (0.7 * row) / matrices.length);
  context.lineWidth = Math.max(apart, 1);
  for (const [rank, [head, weights]] of matrices.entries()) {
    const middle = row / 2 + apart * (rank - (matrices.length - 1) / 2); // or one head's lines would hide another's
    const { colour, dash } = lineStyle(head);
    context.strokeStyle = colour;
    context.setLineDash(dash);
    for (let from = 0; from < size; from++) {
      for (let to = 0; to < size; to++) {
        const weight = weights[from * size + to];
        if (weight < faintest || (state.token && { from, to }[state.token.side] !== state.token.index)) continue;
        context.globalAlpha = Math.min(weight, 1);
        context.beginPath();
        context.moveTo(0, from * row + middle);
        context.lineTo(width, to * row + middle);
        context.stroke();
        lines++;
      }
    }
  }
  const names = matrices.map(([head]) => head).join(", ");
  const which = matrices.length ? `Layer ${state.layer}, ${matrices.length > 1 ? "heads" : "head"} ${names}` : "No head";
  canvas.setAttribute("aria-label", `${which}: ${lines} lines`);
  document.getElementById("drawn").textContent =
    `${which}: ${lines} ${lines === 1 ? "line" : "lines"}, as opaque as their weight; those below ${faintest} are left out.`;
}
