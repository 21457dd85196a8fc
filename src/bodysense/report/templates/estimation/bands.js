// External wrenches, torques and positions with their bands.
class BandPlot extends Plot {
  draw() {
    super.draw();
    if (!this.box || !this.bands) return;
    const [y0, y1] = this.range(), { top, bottom } = this.box;
    const Y = value => bottom + (value - y0) / (y1 - y0) * (top - bottom);
    const ink = this.svg.querySelector(".curve")?.parentNode;
    for (const { x, low, high, starts, cls, off } of this.bands) {
      if (off || !ink) continue;
      const first = before(x, this.view.low), last = Math.min(before(x, this.view.high) + 1, x.length - 1);
      ink.prepend(make("path", { class: "band " + cls, d: area(x, low, high, starts, first, last, this.X, Y) }));
    }
  }
}

// Stretches without a gap as closed outlines: along the upper edge, and back along the lower.
function area(x, low, high, starts, first, last, X, Y) {
  const parts = [];
  let begin = first;
  const close = end => {
    if (end - begin < 1) return;
    let d = "";
    for (let k = begin; k <= end; k++) d += (k === begin ? "M" : "L") + X(x[k]).toFixed(1) + "," + Y(high[k]).toFixed(1);
    for (let k = end; k >= begin; k--) d += "L" + X(x[k]).toFixed(1) + "," + Y(low[k]).toFixed(1);
    parts.push(d + "Z");
  };
  for (let k = first; k <= last; k++) {
    const missing = !Number.isFinite(low[k]) || !Number.isFinite(high[k]);
    if (k > begin && (starts.has(k) || missing)) { close(k - 1); begin = k; }
    if (missing) begin = k + 1;
  }
  close(last);
  return parts.join("");
}

(() => {
  const { start, time, pieces, links, wrenches, touches, joints, units, torques, positions, traces } = page.estimates;
  const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
  const t = Float64Array.from(new Float32Array(bytes(time)), after => start + after), starts = new Set(pieces);
  if (!t.length) return;
  const decoded = new Map();
  function trace(k) {
    if (!decoded.has(k)) {
      const [middle, step, text] = traces[k];
      decoded.set(k, Float64Array.from(new Int16Array(bytes(text)), v => v === -32768 ? NaN : middle + step * v));
    }
    return decoded.get(k);
  }
  const label = "time of the recording [s]", x = { name: "time", unit: "s", label: "", format: value => value.toFixed(3) };

  function fill(plot, curves, options) {
    const curve = ({ name, cls, of: [mean], off }) => ({ name, cls, x: t, y: trace(mean), starts, off });
    const edge = (k, cls, off) => ({ cls: "edge " + cls, x: t, y: trace(k), starts, off });
    plot.bands = curves.map(({ cls, of: [, low, high], off }) => ({ x: t, low: trace(low), high: trace(high), starts, cls, off }));
    plot.show([...curves.flatMap(({ cls, of: [, low, high], off }) => [edge(low, cls, off), edge(high, cls, off)]), ...curves.map(curve)], options);
  }

  function resettable(view, id) {
    const reset = byId(id);
    view.changed = () => { reset.hidden = !view.zoomed; };
    reset.addEventListener("click", () => view.set(...view.full));
  }

  if (links.length) {
    const view = new View(t[0], t[t.length - 1]), link = byId("link"), off = {};
    const force = new BandPlot(byId("force-plot"), { height: 260, x, y: { label: "force", unit: "N" }, view, label: "External force over time" });
    const moment = new BandPlot(byId("moment-plot"), { height: 220, x: { ...x, label }, y: { label: "moment", unit: "N·m" }, view, label: "External moment over time" });
    resettable(view, "wrench-reset");
    const keys = ["x", "y", "z"].map(axis => {
      const key = element("button", "key axis-" + axis);
      key.type = "button";
      key.append(element("span", "swatch"), element("span", "", axis));
      key.addEventListener("click", () => { off[axis] = !off[axis]; show(); });
      return key;
    });
    byId("wrench-keys").append(...keys);
    function show() {
      const k = +link.value, still = touches[k];
      const curves = shift => ["x", "y", "z"].map((axis, j) => ({ name: axis, cls: "axis-" + axis, of: wrenches[k][shift + j], off: off[axis] }));
      keys.forEach((key, j) => key.setAttribute("aria-pressed", !off["xyz"[j]]));
      fill(force, curves(0), { still });
      fill(moment, curves(3), { still });
    }
    link.addEventListener("change", show);
    show();
  }

  if (joints.length) {
    const view = new View(t[0], t[t.length - 1]), joint = byId("joint"), thumbnails = byId("thumbnails");
    const plot = new BandPlot(byId("torque-plot"), { height: 280, x: { ...x, label }, y: { label: "torque" }, view, label: "Torque over time" });
    resettable(view, "torque-reset");
    function show() {
      const j = +joint.value;
      fill(plot, [{ name: "torque", cls: "identified", of: torques[j] }], { unit: units[j] });
      [...thumbnails.children].forEach((button, k) => button.setAttribute("aria-pressed", k === j));
    }
    function small(j) {
      const [y, low, high] = torques[j].map(trace), known = [...low, ...high].filter(Number.isFinite);
      const least = known.reduce((a, b) => Math.min(a, b), Infinity), most = known.reduce((a, b) => Math.max(a, b), -Infinity);
      const X = value => (value - t[0]) / (t[t.length - 1] - t[0] || 1) * 400, Y = value => 66 - (value - least) / (most - least || 1) * 60;
      let d = "", drawing = false;
      y.forEach((v, k) => { if (!Number.isFinite(v)) { drawing = false; return; } d += (drawing && !starts.has(k) ? "L" : "M") + X(t[k]).toFixed(1) + "," + Y(v).toFixed(1); drawing = true; });
      return make("svg", { viewBox: "0 0 400 72", preserveAspectRatio: "none", "aria-hidden": "true", class: "identified" },
        make("path", { class: "band", d: area(t, low, high, starts, 0, t.length - 1, X, Y) }), make("path", { class: "curve", d }));
    }
    thumbnails.append(...joints.map((name, j) => {
      const button = element("button"), head = element("span");
      button.type = "button";
      head.append(element("b", "", name), element("em", "", units[j]));
      button.append(head, small(j));
      button.addEventListener("click", () => { joint.value = j; show(); });
      return button;
    }));
    joint.addEventListener("change", show);
    show();
  }

  if (positions.joints.length) {
    const view = new View(t[0], t[t.length - 1]), moving = byId("moving");
    const place = new BandPlot(byId("position-plot"), { height: 260, x, y: { label: "position" }, view, label: "Position over time" });
    const speed = new BandPlot(byId("velocity-plot"), { height: 200, x: { ...x, label }, y: { label: "velocity" }, view, label: "Velocity over time" });
    resettable(view, "position-reset");
    function show() {
      const j = +moving.value, [q, dq] = positions.curves[j];
      fill(place, [{ name: "position", cls: "identified", of: q }], { unit: positions.units[j] });
      fill(speed, [{ name: "velocity", cls: "identified", of: dq }], { unit: positions.units[j] + "/s" });
    }
    moving.addEventListener("change", show);
    show();
  }
})();
