// Lists of tokens: a button each. Pointing isolates a token for as long as it lasts; a click or a key, until it is left.

const MOST_NAMED = 6; // tokens, with their weights
const LISTS = { from: "from", to: "to", query: "queries" }; // a token's side -> its list
const buttonsOf = (side) => document.getElementById(LISTS[side]).querySelectorAll("button");

function makeTokens() {
  for (const side of Object.keys(LISTS)) {
    const list = document.getElementById(LISTS[side]);
    tokens.forEach((text, index) => {
      const item = list.appendChild(document.createElement("li"));
      const button = item.appendChild(document.createElement("button"));
      button.type = "button";
      button.dir = "auto";
      button.textContent = text;
      button.title = text;
      button.tabIndex = index ? -1 : 0; // Tab goes from list to list, arrows through a list
      button.classList.toggle("second", segmentOf(index) === "B");
      item.classList.toggle("first-of-second", index === second);
      const token = { side, index };
      button.addEventListener("pointerenter", () => change({ token }));
      button.addEventListener("pointerleave", () => change({ token: focusedToken() }));
      button.addEventListener("focus", () => change({ token, query: index }));
      button.addEventListener("blur", () => change({ token: null }));
    });
    list.addEventListener("keydown", (event) => walkTokens(event, side));
  }
}

function focusedToken() {
  for (const side of Object.keys(LISTS)) {
    const index = [...buttonsOf(side)].indexOf(document.activeElement);
    if (index >= 0) return { side, index };
  }
  return null;
}

function walkTokens(event, side) {
  const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  const buttons = [...buttonsOf(side)];
  if (event.key === "Escape") event.target.blur();
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  const next = buttons[buttons.indexOf(event.target) + step];
  if (!next) return;
  event.target.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

/** Says the largest of the weights between a token and the others. */
function sayWeights(index, verb, weights, note = "") {
  const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, MOST_NAMED);
  const listed = order.filter((other) => weights[other] > 0).flatMap((other, i) => [
    i ? ", " : "", other, ` ${weights[other].toFixed(3)}`,
  ]);
  say(index, verb, ...(listed.length ? listed : ["nothing"]), note);
}
