// External wrenches, torques and positions with their bands.
(() => {
  const { start, time, pieces, links, wrenches, contacts, joints, units, torques, positions, traces } = page.estimates;
  const t = floats(time, start), starts = new Set(pieces), trace = decoder(traces);
  if (!t.length) return;
  const label = "time of the recording [s]", x = { name: "time", unit: "s", label: "", format: value => value.toFixed(3) };
  const curve = (name, cls, [mean, low, high], off) => ({ name, cls, x: t, y: trace(mean), low: trace(low), high: trace(high), starts, off });
  function view(reset) {
    const made = new View(t[0], t[t.length - 1]);
    made.resetBy(byId(reset));
    return made;
  }

  if (links.length) {
    const both = view("wrench-reset"), link = byId("link"), off = {}, axes = ["x", "y", "z"].map(axis => ["axis-" + axis, axis]);
    const force = new Plot(byId("force-plot"), { height: 260, x, y: { label: "force", unit: "N" }, view: both, label: "External force over time" });
    const moment = new Plot(byId("moment-plot"), { height: 220, x: { ...x, label }, y: { label: "moment", unit: "N·m" }, view: both, label: "External moment over time" });
    keys(byId("wrench-keys"), axes, off, show);
    function show() {
      const k = +link.value, still = contacts[k];
      const curves = shift => axes.map(([cls, axis], j) => curve(axis, cls, wrenches[k][shift + j], off[cls]));
      force.show(curves(0), { still });
      moment.show(curves(3), { still });
    }
    link.addEventListener("change", show);
    show();
  }

  if (joints.length) {
    const joint = byId("joint"), small = byId("thumbnails");
    const plot = new Plot(byId("torque-plot"), { height: 280, x: { ...x, label }, y: { label: "torque" }, view: view("torque-reset"), label: "Torque over time" });
    function show() {
      const j = +joint.value;
      plot.show([curve("torque", "identified", torques[j])], { unit: units[j] });
      markThumbnail(small, j);
    }
    thumbnails(small, joint, joints, units, j => miniature(t, [curve("", "identified", torques[j])], { starts }), show);
    joint.addEventListener("change", show);
    show();
  }

  if (positions.joints.length) {
    const both = view("position-reset"), moving = byId("moving");
    const place = new Plot(byId("position-plot"), { height: 260, x, y: { label: "position" }, view: both, label: "Position over time" });
    const speed = new Plot(byId("velocity-plot"), { height: 200, x: { ...x, label }, y: { label: "velocity" }, view: both, label: "Velocity over time" });
    function show() {
      const j = +moving.value, [q, dq] = positions.curves[j];
      place.show([curve("position", "identified", q)], { unit: positions.units[j] });
      speed.show([curve("velocity", "identified", dq)], { unit: positions.units[j] + "/s" });
    }
    moving.addEventListener("change", show);
    show();
  }
})();
