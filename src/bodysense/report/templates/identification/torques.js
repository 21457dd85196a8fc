// Measured against predicted torques.
(() => {
  const { joints, units, recordings, traces } = page.torques;
  if (!recordings.length || !joints.length) return;
  const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
  const decoded = new Map();
  function trace(k) {
    if (!decoded.has(k)) {
      const [middle, step, text] = traces[k];
      decoded.set(k, Float64Array.from(new Int16Array(bytes(text)), v => v === -32768 ? NaN : middle + step * v));
    }
    return decoded.get(k);
  }
  const times = recordings.map(() => null);
  const time = r => times[r] ??= Float64Array.from(new Float32Array(bytes(recordings[r].time)));
  const KINDS = [["measured", "measured"], ["identified", "identified"], ["prior", "before (prior)"], ["raw", "raw, not filtered"]];
  const off = { raw: true };
  const view = new View(0, 1);
  const x = { name: "time", unit: "s", label: "" };
  const upper = new Plot(byId("torque-plot"), { height: 300, x, y: { label: "torque" }, view, label: "Measured and predicted torque over time" });
  const lower = new Plot(byId("residual-plot"), { height: 150, x: { ...x, label: "time [s]" }, y: { label: "residual" }, view, label: "Residual over time" });
  const recording = byId("recording"), joint = byId("joint"), reset = byId("torque-reset"), thumbnails = byId("thumbnails");
  view.changed = () => { reset.hidden = !view.zoomed; };
  reset.addEventListener("click", () => view.set(...view.full));

  const keys = KINDS.map(([kind, name]) => {
    const key = element("button", "key " + kind);
    key.type = "button";
    key.append(element("span", "swatch"), element("span", "", name));
    key.addEventListener("click", () => { off[kind] = !off[kind]; show(); });
    return key;
  });
  byId("torque-keys").append(...keys);

  function show() {
    const r = +recording.value, j = +joint.value, here = recordings[r], t = time(r), entry = here.joints[j];
    const starts = new Set(here.pieces), unit = units[j];
    keys.forEach((key, k) => key.setAttribute("aria-pressed", !off[KINDS[k][0]]));
    const still = entry.still.map(([a, b]) => [t[a], t[b]]);
    const curve = ([cls, name]) => ({ name, cls, x: t, y: trace(entry[cls]), starts, off: off[cls] });
    lower.x.label = here.start ? `time after ${+here.start.toPrecision(6)} s of the recording [s]` : "time [s]";
    upper.show([KINDS[3], KINDS[0], KINDS[2], KINDS[1]].map(curve), { still, unit });
    lower.show([curve(["residual", "residual"])], { still, unit });
    [...thumbnails.children].forEach((button, k) => button.setAttribute("aria-pressed", k === j));
  }

  function small(r, j) {
    const t = time(r), entry = recordings[r].joints[j], curves = ["measured", "identified"].map(kind => [kind, trace(entry[kind])]);
    let low = Infinity, high = -Infinity;
    for (const [, y] of curves) for (const v of y) { if (v < low) low = v; if (v > high) high = v; }
    if (!(high > low)) { low -= 1; high += 1; }
    const span = t[t.length - 1] - t[0] || 1, skip = Math.max(1, Math.round(t.length / 800)), starts = new Set(recordings[r].pieces);
    const svg = make("svg", { viewBox: "0 0 400 72", preserveAspectRatio: "none", "aria-hidden": "true" });
    for (const [kind, y] of curves) {
      let d = "", drawing = false;
      for (let k = 0; k < t.length; k++) {
        if (starts.has(k)) drawing = false;
        if ((k >> 1) % skip || !Number.isFinite(y[k])) continue;  // points come in pairs of low and high
        d += (drawing ? "L" : "M") + ((t[k] - t[0]) / span * 400).toFixed(1) + "," + (70 - (y[k] - low) / (high - low) * 68).toFixed(1);
        drawing = true;
      }
      svg.append(make("path", { class: "curve " + kind, d }));
    }
    return svg;
  }

  function choose() {
    const r = +recording.value, t = time(r);
    view.extent(t[0], t[t.length - 1]);
    view.changed();
    thumbnails.replaceChildren(...joints.map((name, j) => {
      const button = element("button"), head = element("span");
      button.type = "button";
      head.append(element("b", "", name), element("em", "", recordings[r].joints[j].error));
      button.append(head, small(r, j));
      button.addEventListener("click", () => { joint.value = j; show(); });
      return button;
    }));
    show();
  }
  recording.addEventListener("change", choose);
  joint.addEventListener("change", show);
  choose();
})();
