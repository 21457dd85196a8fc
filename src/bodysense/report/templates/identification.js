// Measured against predicted torques.
(() => {
  const { joints, units, recordings, traces } = page.torques;
  if (!recordings.length || !joints.length) return;
  const trace = decoder(traces), times = recordings.map(() => null);
  const time = r => times[r] ??= floats(recordings[r].time);
  const KINDS = [["measured", "measured"], ["identified", "identified"], ["prior", "before (prior)"], ["raw", "raw, not filtered"]];
  const off = { raw: true }, view = new View(0, 1), x = { name: "time", unit: "s", label: "" };
  const upper = new Plot(byId("torque-plot"), { height: 300, x, y: { label: "torque" }, view, label: "Measured and predicted torque over time" });
  const lower = new Plot(byId("residual-plot"), { height: 150, x: { ...x, label: "time [s]" }, y: { label: "residual" }, view, label: "Residual over time" });
  const recording = byId("recording"), joint = byId("joint"), small = byId("thumbnails");
  view.resetBy(byId("torque-reset"));
  keys(byId("torque-keys"), KINDS, off, show);

  function show() {
    const r = +recording.value, j = +joint.value, here = recordings[r], t = time(r), entry = here.joints[j];
    const starts = new Set(here.pieces), unit = units[j], still = entry.still.map(([a, b]) => [t[a], t[b]]);
    const curve = ([cls, name]) => ({ name, cls, x: t, y: trace(entry[cls]), starts, off: off[cls] });
    lower.x.label = here.start ? `time after ${+here.start.toPrecision(6)} s of the recording [s]` : "time [s]";
    upper.show([KINDS[3], KINDS[0], KINDS[2], KINDS[1]].map(curve), { still, unit });
    lower.show([curve(["residual", "residual"])], { still, unit });
    markThumbnail(small, j);
  }

  function choose() {
    const r = +recording.value, t = time(r), starts = new Set(recordings[r].pieces);
    view.extent(t[0], t[t.length - 1]);
    view.changed();
    thumbnails(small, joint, joints, recordings[r].joints.map(entry => entry.error),
      j => miniature(t, ["measured", "identified"].map(cls => ({ cls, y: trace(recordings[r].joints[j][cls]) })), { starts }), show);
    show();
  }
  recording.addEventListener("change", choose);
  joint.addEventListener("change", show);
  choose();
})();

// Links as ellipsoids, seen in parallel projection: the outline of x = c + A u, |u| = 1, is an ellipse.
(() => {
  const { links, points, parents, centre, radius } = page.links, host = byId("scene"), toggle = byId("toggle-prior");
  let chosen = null, withPrior = true;
  const svg = make("svg");
  host.append(svg);
  const view = orbit(host, { yaw: -0.9, pitch: 0.3, zoom: 1 }, draw);

  function draw() {
    const width = host.clientWidth, height = host.clientHeight;
    if (!width) return;
    const cy = Math.cos(view.yaw), sy = Math.sin(view.yaw), cp = Math.cos(view.pitch), sp = Math.sin(view.pitch);
    const scale = 0.52 * Math.min(width, height) / radius * view.zoom;
    const turn = ([x, y, z]) => { const far = sy * x + cy * y; return [scale * (cy * x - sy * y), -scale * (sp * far + cp * z), cp * far - sp * z]; };
    const project = p => { const [x, y, depth] = turn(p.map((v, c) => v - centre[c])); return [width / 2 + x, height / 2 + y, depth]; };
    const stroke = (p, q, cls) => make("path", { class: cls, d: `M${p[0].toFixed(1)},${p[1].toFixed(1)}L${q[0].toFixed(1)},${q[1].toFixed(1)}` });
    const loop = (c, a, b) => { let d = ""; for (let k = 0; k < 48; k++) { const u = Math.cos(k * Math.PI / 24), v = Math.sin(k * Math.PI / 24); d += (k ? "L" : "M") + (c[0] + a[0] * u + b[0] * v).toFixed(1) + "," + (c[1] + a[1] * u + b[1] * v).toFixed(1); } return d + "Z"; };
    // The outline's matrix is B Bᵀ with the projected axes B (2, 3): its Cholesky factor spans it.
    const outline = (c, axes) => {
      const xx = axes.reduce((s, a) => s + a[0] * a[0], 0), xy = axes.reduce((s, a) => s + a[0] * a[1], 0), yy = axes.reduce((s, a) => s + a[1] * a[1], 0);
      const l = Math.sqrt(xx) || 1e-9;
      return loop(c, [l, xy / l], [0, Math.sqrt(Math.max(yy - xy * xy / (l * l), 0))]);
    };
    const parts = [], cell = gridCell(radius);
    const reach = 4, x0 = Math.round(centre[0] / cell), y0 = Math.round(centre[1] / cell);
    for (let k = -reach; k <= reach; k++) {
      parts.push(stroke(project([(x0 + k) * cell, (y0 - reach) * cell, 0]), project([(x0 + k) * cell, (y0 + reach) * cell, 0]), "floor"));
      parts.push(stroke(project([(x0 - reach) * cell, (y0 + k) * cell, 0]), project([(x0 + reach) * cell, (y0 + k) * cell, 0]), "floor"));
    }
    const flat = points.map(project);
    parents.forEach((p, k) => { if (p >= 0) parts.push(stroke(flat[p], flat[k], "bone")); });
    flat.forEach(p => parts.push(make("circle", { class: "joint", cx: p[0].toFixed(1), cy: p[1].toFixed(1), r: 3.5 })));
    links.map((link, k) => [link, k, link.identified ? project(link.identified.centre) : link.prior ? project(link.prior.centre) : null])
      .filter(([, , c]) => c).sort((a, b) => b[2][2] - a[2][2]).forEach(([link, k, c]) => {
        const group = make("g", { class: `state-${link.state}${chosen !== null && chosen !== k ? " dim" : ""}` });
        group.append(make("title", {}, link.name));
        if (withPrior && link.prior) {
          const b = project(link.prior.centre), axes = link.prior.axes.map(turn);
          group.append(make("path", { class: "before", d: outline(b, axes) }), make("circle", { class: "before-centre", cx: b[0].toFixed(1), cy: b[1].toFixed(1), r: 2 }));
        }
        if (link.identified) {
          const axes = link.identified.axes.map(turn);
          group.append(make("path", { class: "body", d: outline(c, axes) }));
          for (const [i, j] of [[0, 1], [1, 2], [0, 2]]) group.append(make("path", { class: "ring", d: loop(c, axes[i], axes[j]) }));
          group.append(make("circle", { class: "centre", cx: c[0].toFixed(1), cy: c[1].toFixed(1), r: 3 }));
        }
        if (chosen === k) group.append(make("text", { x: c[0] + 9, y: c[1] - 7 }, link.name));
        parts.push(group);
      });
    [["x", [1, 0, 0]], ["y", [0, 1, 0]], ["z", [0, 0, 1]]].forEach(([name, axis]) => {
      const [x, y] = turn(axis).map(v => v / scale * 24), o = [40, height - 40];
      parts.push(stroke(o, [o[0] + x, o[1] + y], "axis-" + name), make("text", { x: o[0] + 1.4 * x, y: o[1] + 1.4 * y + 4, "text-anchor": "middle" }, name));
    });
    parts.push(make("text", { x: width - 8, y: height - 8, "text-anchor": "end" }, "grid " + +cell.toPrecision(2) + " m"));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(...parts);
  }

  toggle.addEventListener("click", () => { withPrior = !withPrior; toggle.setAttribute("aria-pressed", withPrior); draw(); });
  document.querySelectorAll("#link-table tbody tr").forEach(row => {
    row.addEventListener("pointerenter", () => { chosen = +row.dataset.link; draw(); });
    row.addEventListener("pointerleave", () => { chosen = null; draw(); });
  });
  draw();
})();

// The choice of the cut-off, and what the residuals look like.
(() => {
  const { cutoff, residuals, units } = page.curves, percent = { label: "relative error", unit: "%" };
  if (cutoff) {
    const { tried, errors, chosen } = cutoff, first = tried[0], last = tried[tried.length - 1];
    const plot = new Plot(byId("cutoff-plot"), { height: 230, x: { name: "cut-off", unit: "Hz", label: "cut-off [Hz]", log: true }, y: percent, view: new View(first / 1.1, Math.max(last, chosen) * 1.1), label: "Error against cut-off" });
    plot.show([{ name: "error", cls: "identified", x: tried, y: errors, dots: true }], { marks: [{ at: chosen, text: `chosen: ${readable(chosen, 3)} Hz` }] });
  }
  if (!residuals) return;
  const { lags, autocorrelation, frequencies, residual, torque, correlationTime } = residuals, joint = byId("residual-joint");
  const left = new Plot(byId("autocorrelation-plot"), { height: 240, x: { name: "lag", unit: "s", label: "lag [s]" }, y: { label: "autocorrelation", low: -0.2, high: 1 }, view: new View(lags[0], lags[lags.length - 1]), label: "Autocorrelation of residuals" });
  const right = new Plot(byId("spectrum-plot"), { height: 240, x: { name: "frequency", unit: "Hz", label: "frequency [Hz]", log: true }, y: { label: "amplitude", log: true }, view: new View(frequencies[0], frequencies[frequencies.length - 1]), label: "Spectra of torque and residual" });
  function show() {
    const j = +joint.value;
    left.show([...autocorrelation.map((y, k) => ({ cls: "others", x: lags, y, off: k === j })), { name: "autocorrelation", cls: "identified", x: lags, y: autocorrelation[j] }],
      { marks: correlationTime ? [{ at: correlationTime, text: `correlated for ${readable(correlationTime, 3)} s` }] : [] });
    right.show([{ name: "torque", cls: "measured", x: frequencies, y: torque[j] }, { name: "residual", cls: "identified", x: frequencies, y: residual[j] }],
      { unit: units[j] + "/√Hz", marks: page.curves.band.map(([at, text], k) => ({ at, text, left: k > 0 })) });
  }
  joint.addEventListener("change", show);
  show();
})();
