"use strict";
(() => {
  const root = document.documentElement;

  const theme = document.getElementById("theme");
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.hidden = false;
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();

  const measurements = document.querySelector(".measurements");
  if (measurements) {
    const choose = () => {
      const { value } = measurements.querySelector("input:checked");
      for (const look of document.querySelectorAll(".look")) look.hidden = look.dataset.look !== value;
    };
    measurements.hidden = false;
    measurements.addEventListener("change", choose);
    addEventListener("afterprint", choose);
    choose();
  }

  for (const film of document.querySelectorAll(".film")) {
    const { columns, rows } = film.dataset;
    const captions = JSON.parse(film.querySelector(".captions").textContent);
    const pixels = film.querySelector(".pixels");
    const slider = film.querySelector("input");
    const play = film.querySelector(".play");
    const caption = film.querySelector(".caption");
    const share = (place, count) => (count > 1 ? (100 * place) / (count - 1) : 0);
    let timer = null;

    const show = () => {
      const frame = Number(slider.value);
      const { label, row, href } = captions[frame];
      pixels.style.backgroundPosition =
        `${share(frame % columns, columns)}% ${share(Math.floor(frame / columns), rows)}%`;
      pixels.setAttribute("aria-label", `Quicklook of ${label}`);
      slider.setAttribute("aria-valuetext", `${label}, ${row}`);
      caption.querySelector("strong").textContent = label;
      caption.querySelector("span").textContent = label === row ? "" : row;
      caption.querySelector("code").textContent = href;
    };
    const stop = () => {
      clearInterval(timer);
      timer = null;
      play.textContent = "Play";
      play.setAttribute("aria-pressed", "false");
    };
    const start = () => {
      timer = setInterval(() => {
        slider.value = (Number(slider.value) + 1) % captions.length;
        show();
      }, 125);
      play.textContent = "Pause";
      play.setAttribute("aria-pressed", "true");
    };
    film.querySelector(".controls").hidden = false;
    slider.addEventListener("input", () => { stop(); show(); });
    play.addEventListener("click", () => (timer === null ? start() : stop()));
    slider.value = 0;
    show();
  }

  addEventListener("beforeprint", () => {
    for (const look of document.querySelectorAll(".look")) look.hidden = false;
    for (const folded of document.querySelectorAll("details:not([open])")) {
      folded.open = true;
      addEventListener("afterprint", () => { folded.open = false; }, { once: true });
    }
  });

  const save = (name, type, text) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };

  for (const button of document.querySelectorAll(".save-table")) {
    const cell = (each) => `"${each.textContent.trim().replaceAll('"', '""')}"`;
    const line = (row) => Array.from(row.cells, cell).join(",");
    button.hidden = false;
    button.addEventListener("click", () => {
      const rows = button.closest("section").querySelectorAll("table.runs tr");
      save("report.csv", "text/csv", `${Array.from(rows, line).join("\n")}\n`);
    });
  }

  for (const button of document.querySelectorAll(".save-figure")) {
    const figure = button.closest("figure");
    button.hidden = false;
    button.addEventListener("click", () => {
      const colours = getComputedStyle(root);
      const drawing = figure.querySelector("svg").outerHTML;
      const text = drawing.replace(/var\((--[\w-]+)\)/g, (_, name) => colours.getPropertyValue(name).trim());
      save(`${figure.id}.svg`, "image/svg+xml", text);
    });
  }

  for (const button of document.querySelectorAll(".copy")) {
    const request = document.querySelector(".request");
    button.hidden = false;
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(request.textContent);
      } catch {
        getSelection().selectAllChildren(request);
        document.execCommand("copy");
      }
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }
})();
