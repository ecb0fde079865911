"use strict";
// Show a hint below each table that does not fit and can be scrolled.
(() => {
  const boxes = document.querySelectorAll(".scroll");
  const mark = () => boxes.forEach((box) => box.classList.toggle("scrolls", box.scrollWidth > box.clientWidth + 1));
  window.addEventListener("resize", mark);
  mark();
})();
// Show the sample of a point on the map that is selected by pointer, touch or arrow keys.
(() => {
  const holder = document.getElementById("map-data");
  const svg = document.querySelector("#map svg");
  const tip = document.getElementById("tip");
  if (!holder || !svg || !tip) return;
  const data = JSON.parse(holder.textContent);
  const marks = [...svg.querySelectorAll("g.mark-symbol")];
  const group = marks.find((mark) => mark.childElementCount === data.points.length);
  if (!group) return;
  const place = (dot) => /translate\(([-\d.e]+),\s*([-\d.e]+)\)/.exec(dot.getAttribute("transform"));
  const dots = [...group.children].map(place).map((found) => found && [+found[1], +found[2]]);
  const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  ring.setAttribute("class", "ring");
  ring.setAttribute("r", "4");
  let shown = -1;

  function show(i) {
    if (i === shown || !dots[i]) return;
    shown = i;
    ring.setAttribute("cx", dots[i][0]);
    ring.setAttribute("cy", dots[i][1]);
    group.parentNode.append(ring);
    const [arm, text] = data.points[i];
    tip.textContent = `${data.arms[arm]}\n${text}`;
  }

  function nearest(event) {
    const matrix = group.getScreenCTM();
    if (!matrix) return -1;
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
    let best = -1;
    let least = 100;
    dots.forEach((dot, i) => {
      if (!dot) return;
      const far = (dot[0] - at.x) ** 2 + (dot[1] - at.y) ** 2;
      if (far < least) [best, least] = [i, far];
    });
    return best;
  }

  for (const kind of ["pointermove", "pointerdown"]) {
    svg.addEventListener(kind, (event) => {
      const i = nearest(event);
      if (i >= 0) show(i);
    });
  }
  svg.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    show((shown + step + dots.length) % dots.length);
  });
})();
