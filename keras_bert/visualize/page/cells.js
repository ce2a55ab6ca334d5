// Pictures made of cells, through which the pointer walks, and with the focus the arrows.

/** Calls `point` with the row and the column of the chosen cell, or with null; where several pictures are, of all. */
function makeCells(area, rows, columns, point) {
  const limits = [rows, columns];
  const pictures = [...area.querySelectorAll(".picture")];
  const marks = pictures.map((picture) => picture.appendChild(document.createElement("div")));
  for (const mark of marks) {
    mark.className = "mark";
    mark.style.height = `${100 / rows}%`;
    mark.style.width = `${100 / columns}%`;
  }
  const cells = { place: null, go };
  const within = (place) => place.map((number, axis) => Math.max(0, Math.min(limits[axis] - 1, number)));

  function go(place) {
    cells.place = place;
    for (const mark of marks) {
      mark.hidden = !place;
      mark.style.top = `${(100 * (place?.[0] ?? 0)) / rows}%`;
      mark.style.left = `${(100 * (place?.[1] ?? 0)) / columns}%`;
    }
    point(place);
  }

  area.addEventListener("pointermove", (event) => {
    const picture = event.target.closest(".picture");
    if (!picture) return go(null);
    const { top, left, width, height } = picture.getBoundingClientRect();
    const parts = [(event.clientY - top) / height, (event.clientX - left) / width];
    go(within(parts.map((part, axis) => Math.floor(part * limits[axis]))));
  });
  area.addEventListener("pointerleave", () => go(null));
  area.addEventListener("focus", () => go(cells.place ?? [0, 0]));
  area.addEventListener("blur", () => go(null));
  area.addEventListener("keydown", (event) => {
    if (event.key === "Escape") area.blur();
    const step = ARROWS[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    go(within((cells.place ?? [0, 0]).map((number, axis) => number + step[axis])));
    marks[0].scrollIntoView({ block: "nearest", inline: "nearest" });
  });
  return cells;
}
