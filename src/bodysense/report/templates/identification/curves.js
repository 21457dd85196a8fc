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
