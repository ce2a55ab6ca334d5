// Colours come from the style sheet, which has them for light and for dark.

const DASHES = [[], [6, 3], [2, 3]];
const BORDERS = ["solid", "dashed", "dotted"];

const styleColours = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim().split(/\s+/);

/** How a head's lines look: a colour, and beyond the eighth head also dashes. */
function lineStyle(head) {
  const colours = styleColours("--heads");
  const round = Math.floor(head / colours.length) % DASHES.length;
  return { colour: colours[head % colours.length], dash: DASHES[round], border: BORDERS[round] };
}

// What a number's shade is, of 256: with the square root, so that small ones can be told apart.
const SHADES = {
  "--ramp": (weight) => 255 * Math.sqrt(Math.min(weight, 1)), // from 0 to 1
  "--signs": (value) => 127.5 * (1 + Math.sign(value) * Math.sqrt(Math.min(Math.abs(value), 1))), // from -1 to 1
};

/** The function from a number to its [red, green, blue]. */
function shader(name) {
  const stops = styleColours(name).map((hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const colours = Array.from({ length: 256 }, (_, shade) => {
    const place = (shade / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    return stops[low].map((value, i) => Math.round(value + (place - low) * (stops[low + 1][i] - value)));
  });
  return (value) => colours[Math.round(SHADES[name](value))];
}

/** Paints numbers [height, width] on a canvas of as many pixels, which the style sheet stretches. */
function paint(canvas, values, width, height, name = "--ramp") {
  const colourOf = shader(name);
  canvas.width = width;
  canvas.height = height;
  const context = canvas.getContext("2d");
  const image = context.createImageData(width, height);
  for (let i = 0; i < values.length; i++) {
    image.data.set(colourOf(values[i]), 4 * i);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}

/** Draws the bars that say which colour is which number. */
function drawLegends() {
  drawLegend("legend", "--ramp", [0, 0.01, 0.05, 0.2, 0.5, 1], String);
  const percent = (value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(100 * value)}%`;
  drawLegend("signs-legend", "--signs", [-1, -0.25, -0.05, 0, 0.05, 0.25, 1], percent);
}

function drawLegend(id, name, marked, text) {
  const legend = document.getElementById(id);
  const shade = SHADES[name];
  const least = marked[0];
  const bar = Float32Array.from({ length: 256 }, (_, i) => {
    const part = least + (i / 255) * (1 - least);
    return Math.sign(part) * part ** 2;
  });
  paint(legend.querySelector("canvas"), bar, 256, 1, name);
  legend.querySelector("div")?.remove();
  const scale = legend.appendChild(document.createElement("div"));
  for (const value of marked) {
    const label = scale.appendChild(document.createElement("span"));
    label.textContent = text(value);
    label.style.left = `${shade(value) / 2.55}%`;
  }
}
