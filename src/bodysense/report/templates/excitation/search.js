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
