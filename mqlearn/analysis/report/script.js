"use strict";
// Moves the maps of a figure to another checkpoint; every text and colour comes ready from the page.
for (const figure of document.querySelectorAll(".checkpoints")) {
  const data = JSON.parse(figure.querySelector("script.data").textContent);
  const slider = figure.querySelector("input[type=range]");
  const runs = [...figure.querySelectorAll("figure.run")];
  const readings = figure.querySelectorAll("output.k");
  const rows = [...figure.querySelectorAll("table.states tbody tr")];
  const form = (k) => k.toLocaleString("en-US");

  function paint(run, view, content) {
    const image = view.querySelector("img");
    if (image) {
      image.src = content;
      return;
    }
    const [letters, words] = content;
    const texts = words.split(" ");
    for (const shape of view.querySelectorAll("[data-i]")) {
      const i = Number(shape.dataset.i);
      const level = letters[i] === "." ? -1 : letters.charCodeAt(i) - 48;
      if (shape.tagName === "text") {
        shape.textContent = texts[i];
        shape.setAttribute("class", "value " + (level > data.ramp.length / 2 ? "on-dark" : "on-light"));
        continue;
      }
      shape.setAttribute("fill", level < 0 ? "none" : data.ramp[level]);
      const title = shape.querySelector("title");
      title.textContent = title.textContent.replace(/: [^:]*$/, ": " + texts[i]);
    }
  }

  function show(c) {
    slider.value = c;
    slider.setAttribute("aria-valuetext", "k = " + form(data.iteration[c]));
    for (const reading of readings) reading.textContent = form(data.iteration[c]);
    runs.forEach((run, r) => {
      for (const kind of Object.keys(data.runs[r])) {
        const view = run.querySelector(".view." + kind);
        if (view) paint(run, view, data.runs[r][kind][c]);
      }
      run.querySelector(".largest").textContent = data.largest[r][c];
    });
    for (const row of rows) {
      const x = Number(row.firstElementChild.textContent);
      [...row.children].slice(1).forEach((cell, r) => {
        cell.textContent = data.runs[r].states[c][1].split(" ")[x];
      });
    }
    figure.querySelector(".back").disabled = c === 0;
    figure.querySelector(".on").disabled = c === data.iteration.length - 1;
  }

  slider.addEventListener("input", () => show(Number(slider.value)));
  figure.querySelector(".back").addEventListener("click", () => show(Math.max(0, Number(slider.value) - 1)));
  figure.querySelector(".on").addEventListener("click", () => {
    show(Math.min(data.iteration.length - 1, Number(slider.value) + 1));
  });
  for (const radio of figure.querySelectorAll("input[type=radio]")) {
    radio.addEventListener("change", () => figure.classList.toggle("by-action", radio.value === "actions"));
  }
  // A reload may keep the place of the slider, or the choice, where the maps are at their first state.
  figure.querySelector("input[value=states]")?.click();
  show(data.iteration.length - 1);
  window.addEventListener("beforeprint", () => show(data.iteration.length - 1));
}

// On paper nothing can be opened: numbers and sources are printed, and closed again afterwards.
let opened = [];
window.addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const one of opened) one.open = true;
});
window.addEventListener("afterprint", () => {
  for (const one of opened) one.open = false;
});
