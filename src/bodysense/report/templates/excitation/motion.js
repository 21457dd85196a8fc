// A designed motion joint by joint, within its limits, and the clearance over time.
const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
const floats = text => Float64Array.from(new Float32Array(bytes(text)));

class LimitPlot extends Plot {
  range() {
    const [low, high] = super.range(), [least, most] = this.limits ?? [null, null];
    const ends = [low, high, least, most].filter(v => v !== null), span = Math.max(...ends) - Math.min(...ends);
    return [least !== null && least <= low ? least - 0.07 * span : low, most !== null && most >= high ? most + 0.07 * span : high];
  }

  draw() {
    super.draw();
    if (!this.box || !this.limits) return;
    const [y0, y1] = this.range(), { left, right, top, bottom } = this.box, [least, most] = this.limits;
    const Y = value => clamp(bottom + (value - y0) / (y1 - y0) * (top - bottom), top, bottom);
    const ground = this.svg.querySelector("g"), ink = this.svg.querySelector(".curve")?.parentNode ?? null;
    const band = (from, to, at) => {  // the wash below everything, the line above the grid
      ground.append(make("rect", { class: "beyond", x: left, width: right - left, y: from.toFixed(1), height: Math.max(0, to - from).toFixed(1) }));
      this.svg.insertBefore(make("path", { class: "limit", d: `M${left},${at.toFixed(1)}H${right}` }), ink);
    };
    if (most !== null && most <= y1) band(top, Y(most), Y(most));
    if (least !== null && least >= y0) band(Y(least), bottom, Y(least));
  }
}

(() => {
  const { joints, units, limits, uses, trajectories, traces } = page.motion;
  const decoded = new Map();
  function trace(k) {
    if (!decoded.has(k)) {
      const [middle, step, text] = traces[k];
      decoded.set(k, Float64Array.from(new Int16Array(bytes(text)), v => v === -32768 ? NaN : middle + step * v));
    }
    return decoded.get(k);
  }
  const view = new View(0, 1), x = { name: "time", unit: "s", label: "" };
  const names = ["position", "speed", "acceleration", "torque"];
  const plots = names.map((name, k) => new LimitPlot(byId(name + "-plot"), {
    height: k === 3 ? 190 : 160, x: k === 3 ? { ...x, label: "time [s]" } : x, y: { label: name }, view, label: `${name} over time`,
  }));
  const clearance = page.clearance && new LimitPlot(byId("clearance-plot"), {
    height: 220, x: { ...x, label: "time [s]" }, y: { label: "distance", unit: "mm" }, view, label: "Smallest distance over time",
  });
  const trajectory = byId("trajectory"), joint = byId("joint"), reset = byId("motion-reset"), thumbnails = byId("thumbnails");
  view.changed = () => { reset.hidden = !view.zoomed; };
  reset.addEventListener("click", () => view.set(...view.full));
  const time = trajectories.map(() => null);

  function show() {
    const r = +trajectory.value, j = +joint.value, t = time[r] ??= floats(trajectories[r].time);
    plots.forEach((plot, k) => {
      plot.limits = limits[j][k];
      plot.show([{ name: names[k], cls: "identified", x: t, y: trace(trajectories[r].joints[j][k]) }], { unit: units[j][k] });
    });
    [...thumbnails.children].forEach((button, k) => button.setAttribute("aria-pressed", k === j));
  }

  function small(r, j) {
    const y = trace(trajectories[r].joints[j][0]), [least, most] = limits[j][0], span = most - least || 1;
    const place = value => (66 - (value - least) / span * 60).toFixed(1);
    let d = "";
    for (let k = 0; k < y.length; k += 3) d += (k ? "L" : "M") + (k / (y.length - 1) * 400).toFixed(1) + "," + place(y[k]);
    return make("svg", { viewBox: "0 0 400 72", preserveAspectRatio: "none", "aria-hidden": "true" },
      make("path", { class: "range", d: `M0,${place(most)}H400M0,${place(least)}H400` }), make("path", { class: "curve identified", d }));
  }

  function choose() {
    const r = +trajectory.value, t = time[r] ??= floats(trajectories[r].time);
    view.extent(t[0], t[t.length - 1]);
    view.changed();
    thumbnails.replaceChildren(...joints.map((name, j) => {
      const button = element("button"), head = element("span");
      button.type = "button";
      head.append(element("b", "", name), element("em", "", uses[j]));
      button.append(head, small(r, j));
      button.addEventListener("click", () => { joint.value = j; show(); });
      return button;
    }));
    if (clearance) {
      const here = page.clearance.trajectories[r];
      clearance.limits = [page.clearance.margin, null];
      clearance.show([{ name: "distance", cls: "identified", x: floats(here.time), y: floats(here.distance) }]);
    }
    show();
  }
  trajectory.addEventListener("change", choose);
  joint.addEventListener("change", show);
  choose();
})();
