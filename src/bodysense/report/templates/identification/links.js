// Links as ellipsoids, seen in parallel projection: the outline of x = c + A u, |u| = 1, is an ellipse.
(() => {
  const { links, points, parents, centre, radius } = page.links, host = byId("scene"), toggle = byId("toggle-prior");
  const HOME = { yaw: -0.9, pitch: 0.3, zoom: 1 };
  let view = { ...HOME }, chosen = null, withPrior = true;
  const svg = make("svg");
  host.append(svg);

  function draw() {
    const width = host.clientWidth, height = host.clientHeight;
    if (!width) return;
    const cy = Math.cos(view.yaw), sy = Math.sin(view.yaw), cp = Math.cos(view.pitch), sp = Math.sin(view.pitch);
    const scale = 0.52 * Math.min(width, height) / radius * view.zoom;
    const turn = ([x, y, z]) => { const far = sy * x + cy * y; return [scale * (cy * x - sy * y), -scale * (sp * far + cp * z), cp * far - sp * z]; };
    const project = p => { const [x, y, depth] = turn(p.map((v, c) => v - centre[c])); return [width / 2 + x, height / 2 + y, depth]; };
    const line = (p, q, cls) => make("path", { class: cls, d: `M${p[0].toFixed(1)},${p[1].toFixed(1)}L${q[0].toFixed(1)},${q[1].toFixed(1)}` });
    const loop = (c, a, b) => { let d = ""; for (let k = 0; k < 48; k++) { const u = Math.cos(k * Math.PI / 24), v = Math.sin(k * Math.PI / 24); d += (k ? "L" : "M") + (c[0] + a[0] * u + b[0] * v).toFixed(1) + "," + (c[1] + a[1] * u + b[1] * v).toFixed(1); } return d + "Z"; };
    // The outline's matrix is B Bᵀ with the projected axes B (2, 3): its Cholesky factor spans it.
    const outline = (c, axes) => {
      const xx = axes.reduce((s, a) => s + a[0] * a[0], 0), xy = axes.reduce((s, a) => s + a[0] * a[1], 0), yy = axes.reduce((s, a) => s + a[1] * a[1], 0);
      const l = Math.sqrt(xx) || 1e-9;
      return loop(c, [l, xy / l], [0, Math.sqrt(Math.max(yy - xy * xy / (l * l), 0))]);
    };
    const parts = [], cell = (p => p * [1, 2, 5, 10].find(f => f * p >= radius / 2))(10 ** Math.floor(Math.log10(radius / 2)));
    const reach = 4, x0 = Math.round(centre[0] / cell), y0 = Math.round(centre[1] / cell);
    for (let k = -reach; k <= reach; k++) {
      parts.push(line(project([(x0 + k) * cell, (y0 - reach) * cell, 0]), project([(x0 + k) * cell, (y0 + reach) * cell, 0]), "floor"));
      parts.push(line(project([(x0 - reach) * cell, (y0 + k) * cell, 0]), project([(x0 + reach) * cell, (y0 + k) * cell, 0]), "floor"));
    }
    const flat = points.map(project);
    parents.forEach((p, k) => { if (p >= 0) parts.push(line(flat[p], flat[k], "bone")); });
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
      parts.push(line(o, [o[0] + x, o[1] + y], "axis-" + name), make("text", { x: o[0] + 1.4 * x, y: o[1] + 1.4 * y + 4, "text-anchor": "middle" }, name));
    });
    parts.push(make("text", { x: width - 8, y: height - 8, "text-anchor": "end" }, "grid " + +cell.toPrecision(2) + " m"));
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(...parts);
  }

  const turnBy = (yaw, pitch) => { view.yaw += yaw; view.pitch = clamp(view.pitch + pitch, -1.55, 1.55); draw(); };
  const zoomBy = factor => { view.zoom = clamp(view.zoom * factor, 0.2, 20); draw(); };
  const home = () => { view = { ...HOME }; draw(); };
  let grip = null;
  host.addEventListener("pointerdown", event => { grip = [event.clientX, event.clientY]; host.setPointerCapture(event.pointerId); });
  host.addEventListener("pointermove", event => {
    if (!grip) return;
    turnBy((grip[0] - event.clientX) * 0.008, (event.clientY - grip[1]) * 0.008);
    grip = [event.clientX, event.clientY];
  });
  for (const name of ["pointerup", "pointercancel"]) host.addEventListener(name, () => { grip = null; });
  host.addEventListener("dblclick", home);
  host.addEventListener("wheel", event => { if (event.ctrlKey) { event.preventDefault(); zoomBy(Math.exp(-event.deltaY * 0.002)); } }, { passive: false });
  host.addEventListener("keydown", event => {
    const act = { ArrowLeft: () => turnBy(0.1, 0), ArrowRight: () => turnBy(-0.1, 0), ArrowUp: () => turnBy(0, 0.1), ArrowDown: () => turnBy(0, -0.1), "+": () => zoomBy(1.2), "=": () => zoomBy(1.2), "-": () => zoomBy(1 / 1.2), Home: home }[event.key];
    if (act) { act(); event.preventDefault(); }
  });
  toggle.addEventListener("click", () => { withPrior = !withPrior; toggle.setAttribute("aria-pressed", withPrior); draw(); });
  document.querySelectorAll("#link-table tbody tr").forEach(row => {
    row.addEventListener("pointerenter", () => { chosen = +row.dataset.link; draw(); });
    row.addEventListener("pointerleave", () => { chosen = null; draw(); });
  });
  new ResizeObserver(draw).observe(host);
  draw();
})();
