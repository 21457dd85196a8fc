// A designed motion joint by joint, within its limits, and the clearance over time.
(() => {
  const { joints, units, limits, uses, trajectories, traces } = page.motion;
  const trace = decoder(traces), times = trajectories.map(() => null), time = r => times[r] ??= floats(trajectories[r].time);
  const view = new View(0, 1), x = { name: "time", unit: "s", label: "" }, names = ["position", "speed", "acceleration", "torque"];
  const plots = names.map((name, k) => new Plot(byId(name + "-plot"), {
    height: k === 3 ? 190 : 160, x: k === 3 ? { ...x, label: "time [s]" } : x, y: { label: name }, view, label: `${name} over time`,
  }));
  const clearance = page.clearance && new Plot(byId("clearance-plot"), {
    height: 220, x: { ...x, label: "time [s]" }, y: { label: "distance", unit: "mm" }, view, label: "Smallest distance over time",
  });
  const trajectory = byId("trajectory"), joint = byId("joint"), small = byId("thumbnails");
  view.resetBy(byId("motion-reset"));

  function show() {
    const r = +trajectory.value, j = +joint.value;
    plots.forEach((plot, k) => plot.show([{ name: names[k], cls: "identified", x: time(r), y: trace(trajectories[r].joints[j][k]) }], { unit: units[j][k], limits: limits[j][k] }));
    markThumbnail(small, j);
  }

  function choose() {
    const r = +trajectory.value, t = time(r);
    view.extent(t[0], t[t.length - 1]);
    view.changed();
    thumbnails(small, joint, joints, uses, j => miniature(t, [{ cls: "identified", y: trace(trajectories[r].joints[j][0]) }], { range: limits[j][0], lines: limits[j][0] }), show);
    if (clearance) {
      const here = page.clearance.trajectories[r];
      clearance.show([{ name: "distance", cls: "identified", x: floats(here.time), y: floats(here.distance) }], { limits: [page.clearance.margin, null] });
    }
    show();
  }
  trajectory.addEventListener("change", choose);
  joint.addEventListener("change", show);
  choose();
})();

// How the best value fell over the time of the search.
(() => {
  const { seconds, values, start, criterion, total } = page.search;
  if (!seconds.length) return;
  const log = values.every(v => v > 0) && !(start !== null && start <= 0);
  const x = [], y = [];  // a staircase: a value holds until the next one
  seconds.forEach((at, k) => { if (k) { x.push(at); y.push(values[k - 1]); } x.push(at); y.push(values[k]); });
  x.push(Math.max(total, seconds[seconds.length - 1]));
  y.push(values[values.length - 1]);
  const plot = new Plot(byId("search-plot"), { height: 240, x: { name: "time", unit: "s", label: "time [s]" }, y: { label: criterion, log }, view: new View(0, x[x.length - 1]), label: "Best criterion over the time of the search" });
  const series = [{ name: criterion, cls: "identified", x, y }];
  if (start !== null) series.push({ name: "random motion", cls: "prior", x: [0, x[x.length - 1]], y: [start, start] });
  plot.show(series);
})();
