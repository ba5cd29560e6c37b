// Shows the values of a chart's lines under the pointer, in its legend, and the time beside its title. Lines are
// steps: the path M x y, then H x V y, says where each value begins.
for (const figure of document.querySelectorAll("figure.chart")) {
  const svg = figure.querySelector("svg[data-frame]");
  if (!svg) continue;
  const [left, right, upper, lower] = svg.dataset.frame.split(" ").map(Number);
  const end = Number(svg.dataset.end), top = Number(svg.dataset.top), unit = svg.dataset.unit;
  const start = svg.dataset.start === undefined ? NaN : Number(svg.dataset.start);
  const stepsOf = (path) => {
    const steps = [];
    let x = 0;
    for (const [, command, a, b] of path.getAttribute("d").matchAll(/([MHV])(-?[\d.]+)(?: (-?[\d.]+))?/g)) {
      if (command === "M") steps.push([x = Number(a), Number(b)]);
      if (command === "H") x = Number(a);
      if (command === "V") steps.push([x, Number(a)]);
    }
    return steps;
  };
  const paths = [...svg.querySelectorAll("path.line")];
  const keys = [...figure.querySelectorAll(".key")];
  const lines = keys.map((key) => {
    const path = paths.find((p) => p.dataset.name === key.textContent);
    return path && stepsOf(path);
  });
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
  cursor.setAttribute("class", "cursor");
  svg.append(cursor);
  const time = (s) => {
    const parts = [[86400, "d"], [3600, "h"], [60, "m"]].map(([n, name]) => {
      const count = Math.floor(s / n);
      s -= count * n;
      return count ? count + name : "";
    });
    return parts.join("") || Math.round(s) + "s";
  };
  const write = (v) => {
    if (unit === "percent") return (v * 100).toFixed(v < 0.1 ? 2 : 1) + " %";
    if (unit === "duration") return time(v);
    const binary = unit === "binary", base = binary ? 1024 : 1000;
    const prefixes = binary ? [" B", " KiB", " MiB", " GiB", " TiB", " PiB"] : ["", "k", "M", "G", "T", "P"];
    let i = 0;
    for (; v >= base * (binary || i ? 1 : 10) && i < prefixes.length - 1; i++) v /= base;
    return Number(v.toPrecision(3)) + prefixes[i]; // a pixel says no more
  };
  const shown = document.createElement("b");
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = Math.min(Math.max((event.clientX - box.left) / box.width * svg.viewBox.baseVal.width, left), right);
    cursor.setAttribute("d", `M${x} ${upper}V${lower}`);
    let ground = lower; // on which the next stacked line stands
    keys.forEach((key, i) => {
      if (!lines[i]) return;
      const step = lines[i].findLast(([from]) => from <= x);
      const stacked = key.classList.contains("stacked");
      const below = stacked ? ground : lower;
      if (stacked && step) ground = step[1];
      let value = key.querySelector("b");
      if (!value) key.append(value = document.createElement("b"));
      value.textContent = step ? write((below - step[1]) / (lower - upper) * top) : "";
    });
    const at = (x - left) / (right - left) * end;
    shown.textContent = "at " + (isNaN(start) ? time(at) : new Date((start + at) * 1000).toISOString().slice(0, 16).replace("T", " "));
    figure.querySelector("figcaption").append(shown);
  });
  svg.addEventListener("pointerleave", () => {
    cursor.removeAttribute("d");
    shown.remove();
    for (const key of keys) key.querySelector("b")?.remove();
  });
}
