// Curves over a common time, which the robot follows.
const { start, end, charts, traces, scene } = page, curveTimes = floats(page.time, start), curve = decoder(traces);
const span = new View(start, end);
span.sticky = true;
const plots = charts.map(({ title, curves }, k) => {
  const host = byId("chart-" + k), series = curves.flatMap(({ name, colour, trace, reference }) => [
    ...(reference === null ? [] : [{ cls: `reference c${colour}`, x: curveTimes, y: curve(reference), key: "c" + colour }]),
    { name, cls: "c" + colour, x: curveTimes, y: curve(trace), key: "c" + colour },
  ]);
  const plot = new Plot(host.querySelector(".plot"), { height: 300, x: { name: "time", unit: "s", label: "time [s]" }, y: { label: "" }, view: span, label: `${title} over time`, tips: false });
  const hidden = {}, show = () => plot.show(series.map(s => ({ ...s, off: hidden[s.key] })));
  const buttons = keys(host.querySelector(".keys"), curves.map(({ name, colour }) => ["c" + colour, name]), hidden, show);
  const named = series.filter(s => s.name);
  buttons.forEach((button, j) => {
    button.title = named[j].name;
    const focus = on => { host.classList.toggle("focus", on); plot.svg.querySelectorAll("." + named[j].key).forEach(path => path.classList.toggle("focus", on)); };
    button.addEventListener("pointerenter", () => focus(true));
    button.addEventListener("pointerleave", () => focus(false));
  });
  show();
  return at => buttons.forEach((button, j) => { button.lastElementChild.textContent = readable(named[j].y[nearest(curveTimes, at)]); });
});
let time = start, follow = () => {};
span.pointed = at => { time = at; plots.forEach(values => values(at)); follow(); };

if (scene) {
  const { times, positions, steps, parents, centre, radius } = scene, n = parents.length;
  const canvas = byId("stage"), pen = canvas.getContext("2d"), play = byId("play"), slider = byId("time"), clock = byId("clock"), speed = byId("speed");
  const leaves = parents.map((_, k) => k).filter(k => !parents.includes(k) && parents[k] >= 0);
  const floor = -centre[2] / radius;  // the world's z = 0, in radii of the scene
  const view = orbit(canvas, { yaw: -0.9, pitch: 0.35, zoom: 1 }, draw, { " ": toggle });

  function pose(at) {
    const i = Math.max(0, Math.min(before(times, at), times.length - 2)), j = Math.min(i + 1, times.length - 1);
    const share = j > i ? clamp((at - times[i]) / (times[j] - times[i] || 1), 0, 1) : 0;
    return parents.map((_, k) => [0, 1, 2].map(c => {
      const p = positions[(i * n + k) * 3 + c], q = positions[(j * n + k) * 3 + c];
      return (p + (q - p) * share) / steps;
    }));
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const style = getComputedStyle(document.documentElement), colour = name => style.getPropertyValue(name);
    const cy = Math.cos(view.yaw), sy = Math.sin(view.yaw), cp = Math.cos(view.pitch), sp = Math.sin(view.pitch);
    const scale = 0.5 * Math.min(width, height) * view.zoom, eye = 5;
    const project = ([x, y, z]) => {
      const right = cy * x - sy * y, far = sy * x + cy * y;
      const depth = cp * far - sp * z, up = sp * far + cp * z, near = eye / Math.max(eye + depth, 0.2);
      return [width / 2 + scale * near * right, height / 2 - scale * near * up, near];
    };
    const stroke = (p, q) => {
      const a = project(p), b = project(q);
      pen.beginPath(); pen.moveTo(a[0], a[1]); pen.lineTo(b[0], b[1]); pen.stroke();
    };
    pen.lineCap = pen.lineJoin = "round";

    // The floor, with lines at whole multiples of a round distance in the world.
    const cell = gridCell(radius);
    if (Math.abs(floor) < 3) {
      pen.lineWidth = 1;
      const reach = Math.ceil(1.6 * radius / cell), x0 = Math.round(centre[0] / cell), y0 = Math.round(centre[1] / cell);
      const at = (i, c) => (i * cell - centre[c]) / radius;
      for (let i = -reach; i <= reach; i++) {
        pen.strokeStyle = colour(x0 + i === 0 ? "--axis" : "--grid");
        stroke([at(x0 + i, 0), at(y0 - reach, 1), floor], [at(x0 + i, 0), at(y0 + reach, 1), floor]);
        pen.strokeStyle = colour(y0 + i === 0 ? "--axis" : "--grid");
        stroke([at(x0 - reach, 0), at(y0 + i, 1), floor], [at(x0 + reach, 0), at(y0 + i, 1), floor]);
      }
    }

    const points = pose(time), bones = parents.map((p, k) => [p, k]).filter(([p]) => p >= 0);
    if (Math.abs(floor) < 3) {
      pen.strokeStyle = colour("--shadow"); pen.lineWidth = 5;
      bones.forEach(([p, k]) => stroke([...points[p].slice(0, 2), floor], [...points[k].slice(0, 2), floor]));
    }

    // Where the free ends were during the last second and a half, fading out.
    if (leaves.length <= 6) {
      pen.strokeStyle = colour("--accent"); pen.lineWidth = 1.5; pen.lineCap = "butt";
      let last = null;
      for (let back = 1.5; back >= -1e-9; back -= 0.03) {
        const past = time - Math.max(back, 0);
        if (past < start) continue;
        const next = pose(past);
        if (last) { pen.globalAlpha = 0.6 * (1 - back / 1.5); leaves.forEach(k => stroke(last[k], next[k])); }
        last = next;
      }
      pen.globalAlpha = 1; pen.lineCap = "round";
    }

    const flat = points.map(project), parts = [];
    bones.forEach(([p, k]) => parts.push([Math.min(flat[p][2], flat[k][2]), () => {
      pen.strokeStyle = colour("--bone"); pen.lineWidth = 6 * (flat[p][2] + flat[k][2]) / 2;
      pen.beginPath(); pen.moveTo(flat[p][0], flat[p][1]); pen.lineTo(flat[k][0], flat[k][1]); pen.stroke();
    }]));
    flat.forEach(([x, y, near], k) => parts.push([near + 1e-3, () => {
      pen.beginPath(); pen.arc(x, y, (parents[k] < 0 ? 7 : 5) * near, 0, 2 * Math.PI);
      pen.fillStyle = colour(leaves.includes(k) ? "--accent" : "--panel"); pen.fill();
      pen.strokeStyle = colour(leaves.includes(k) ? "--accent" : "--bone"); pen.lineWidth = 2.5; pen.stroke();
    }]));
    parts.sort((a, b) => a[0] - b[0]).forEach(([, paint]) => paint());

    // Directions of the world, and the size of a cell of the floor.
    pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle"; pen.textAlign = "center";
    [["x", 1, 0, 0, "#d64545"], ["y", 0, 1, 0, "#2f9e5b"], ["z", 0, 0, 1, "#3d7fe0"]].forEach(([name, x, y, z, tint]) => {
      const right = cy * x - sy * y, up = sp * (sy * x + cy * y) + cp * z;
      pen.strokeStyle = pen.fillStyle = tint; pen.lineWidth = 2;
      pen.beginPath(); pen.moveTo(42, height - 42); pen.lineTo(42 + 24 * right, height - 42 - 24 * up); pen.stroke();
      pen.fillText(name, 42 + 33 * right, height - 42 - 33 * up);
    });
    if (Math.abs(floor) < 3) {
      pen.fillStyle = colour("--faint"); pen.textAlign = "right";
      pen.fillText("grid " + +cell.toPrecision(2) + " m", width - 14, height - 16);
    }
  }

  follow = () => {
    slider.value = 1000 * (time - start) / (end - start);
    clock.textContent = time.toFixed(2) + " / " + end.toFixed(2) + " s";
    draw();
  };
  slider.addEventListener("input", () => span.point(start + slider.value / 1000 * (end - start)));

  let stamp = 0;
  function tick(now) {
    if (!span.locked) return;
    const next = time + (now - stamp) / 1000 * speed.value;
    stamp = now;
    span.point(next > end ? start : next);
    requestAnimationFrame(tick);
  }
  function toggle() {
    span.locked = !span.locked;
    play.textContent = span.locked ? "Pause" : "Play";
    if (span.locked) requestAnimationFrame(now => { stamp = now; tick(now); });
  }
  play.addEventListener("click", toggle);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}
span.point(start);
