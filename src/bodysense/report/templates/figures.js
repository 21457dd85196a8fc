// Figures of all reports, drawn as SVG so that styles, dark mode and print apply to them: curves over
// a common axis with zoom and values under the cursor, miniatures of them, scenes that can be turned.
const page = JSON.parse(document.getElementById("data").textContent);
const clamp = (x, low, high) => Math.min(Math.max(x, low), high);
const byId = id => document.getElementById(id);

function make(name, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const key in attributes) node.setAttribute(key, attributes[key]);
  node.append(...children);
  return node;
}

function element(name, className, text = "") {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.textContent = text;
  return node;
}

function readable(value, digits = 4) {
  if (value === null || !Number.isFinite(value)) return "\u2013";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(digits - 2)
    : value.toFixed(clamp(digits - 1 - Math.floor(Math.log10(size || 1)), 0, 5));
  return text.replaceAll("-", "\u2212");
}

// Curves come as 32-bit floats, or as traces: middle, step, and 16-bit multiples of the step.
const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
const floats = (text, start = 0) => Float64Array.from(new Float32Array(bytes(text)), v => start + v);
function decoder(traces) {
  const decoded = new Map();
  return k => {
    if (!decoded.has(k)) {
      const [middle, step, text] = traces[k];
      decoded.set(k, Float64Array.from(new Int16Array(bytes(text)), v => v === -32768 ? NaN : middle + step * v));
    }
    return decoded.get(k);
  };
}

// Round values within a range: multiples of 1, 2 or 5 times a power of ten, or decades.
function ticks(low, high, most, log) {
  if (log) {
    const all = [];
    for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p++)
      for (const f of [1, 2, 5]) all.push([f * 10 ** p, f]);
    const inside = all.filter(([v]) => v >= low * 0.999 && v <= high * 1.001);
    const decades = inside.filter(([, f]) => f === 1);
    const chosen = inside.length <= most ? inside : decades;
    const skip = Math.ceil(chosen.length / most);
    return chosen.filter((_, k) => k % skip === 0).map(([v]) => [v, v >= 1e-3 && v < 1e5 ? String(+v.toPrecision(2)) : v.toExponential(0).replace("-", "\u2212")]);
  }
  const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find(f => f * power >= rough * (1 - 1e-9));
  const decimals = clamp(-Math.floor(Math.log10(step) + 1e-9), 0, 12), all = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
    const value = k * step, plain = decimals < 7 && (Math.abs(value) < 1e6 || step < 1e-2 * Math.abs(value));  // three digits would all be the same
    all.push([value, (plain ? value.toFixed(decimals) : value.toExponential(2)).replace("-", "\u2212")]);
  }
  return all;
}

// Last place in an ascending array that is not beyond a value.
function before(array, value) {
  let low = 0, high = array.length - 1;
  while (high > low) { const middle = (low + high + 1) >> 1; if (array[middle] <= value) low = middle; else high = middle - 1; }
  return low;
}

// The place in an ascending array that is nearest to a value.
function nearest(array, value) {
  const k = before(array, value);
  return k + 1 < array.length && array[k + 1] - value < value - array[k] ? k + 1 : k;
}

// A curve as SVG path data, with a gap where there is no value, and where a piece starts.
function line(x, y, starts, X, Y, { first = 0, last = x.length - 1, log = false, skip = 1 } = {}) {
  const parts = [];
  let drawing = false;
  for (let k = first; k <= last; k++) {
    const v = y[k];
    if (starts?.has(k)) drawing = false;
    if (v === null || !Number.isFinite(v) || (log && v <= 0)) { drawing = false; continue; }
    if ((k >> 1) % skip) continue;  // points come in pairs of low and high
    parts.push((drawing ? "L" : "M") + X(x[k]).toFixed(1) + "," + Y(v).toFixed(1));
    drawing = true;
  }
  return parts.join("");
}

// A band as closed outlines without gaps: along the upper edge, and back along the lower.
function area(x, low, high, starts, X, Y, first = 0, last = x.length - 1) {
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
    if (k > begin && (starts?.has(k) || missing)) { close(k - 1); begin = k; }
    if (missing) begin = k + 1;
  }
  close(last);
  return parts.join("");
}

// What part of the x axis is shown, and where the cursor is; shared by plots that belong together.
class View {
  constructor(low, high) { this.plots = []; this.extent(low, high); }
  extent(low, high) { this.full = [low, high > low ? high : low + 1]; [this.low, this.high] = this.full; this.cursor = null; }
  get zoomed() { return this.low > this.full[0] || this.high < this.full[1]; }
  set(low, high) {
    const least = (this.full[1] - this.full[0]) * 1e-4;
    this.low = clamp(low, this.full[0], this.full[1] - least); this.high = clamp(high, this.low + least, this.full[1]);
    this.draw();
  }
  draw() { this.plots.forEach(plot => plot.draw()); this.changed?.(); }
  point(x, source) {
    if (x === null && this.sticky) return;  // the cursor stays where it was
    this.cursor = x;
    this.plots.forEach(plot => plot.mark(plot === source));
    this.pointed?.(x);
  }
  // A button that appears while a part is shown, and shows all of it again.
  resetBy(button) {
    this.changed = () => { button.hidden = !this.zoomed; };
    button.addEventListener("click", () => this.set(...this.full));
  }
}

// Curves {name, cls, x, y, starts, off, low, high}: low and high are the edges of a band around y.
class Plot {
  constructor(host, { height, x, y, view, label, tips = true }) {
    Object.assign(this, { host, height, x, y, view, tips, series: [], still: [], marks: [], limits: [null, null] });
    view.plots.push(this);
    this.svg = make("svg", { role: "img", "aria-label": label, tabindex: 0, height });
    this.tip = element("div", "tip");
    this.tip.hidden = true;
    host.append(this.svg, this.tip);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(host);
  }

  show(series, { still = [], marks = [], limits = [null, null], unit } = {}) {
    Object.assign(this, { series, still, marks, limits });
    if (unit !== undefined) this.y.unit = unit;
    this.draw();
  }

  get shown() { return this.series.filter(s => !s.off); }

  range() {
    let low = Infinity, high = -Infinity;
    for (const s of this.shown) {
      const [first, last] = this.within(s);
      for (const values of s.low ? [s.y, s.low, s.high] : [s.y])
        for (let k = first; k <= last; k++) {
          const v = values[k];
          if (v === null || !Number.isFinite(v) || (this.y.log && v <= 0)) continue;
          if (v < low) low = v;
          if (v > high) high = v;
        }
    }
    if (low > high) [low, high] = this.y.log ? [0.1, 10] : [-1, 1];
    if (this.y.low !== undefined) low = Math.min(low, this.y.low);
    if (this.y.high !== undefined) high = Math.max(high, this.y.high);
    if (this.y.log) return low * 1.001 < high ? [low / 1.3, high * 1.3] : [low / 3, high * 3];
    const size = Math.max(Math.abs(low), Math.abs(high));  // a constant must not have its rounding errors magnified
    const margin = size < 1e-150 ? 1 : high - low > 1e-9 * size ? 0.06 * (high - low) : 0.1 * size;
    return this.beside(low - margin, high + margin);
  }

  // A range that shows the limits too, where the curves keep within them.
  beside(low, high) {
    const [least, most] = this.limits, ends = [low, high, least, most].filter(v => v !== null);
    const room = 0.07 * (Math.max(...ends) - Math.min(...ends));
    return [least !== null && least <= low ? least - room : low, most !== null && most >= high ? most + room : high];
  }

  within({ x }) { return [before(x, this.view.low), Math.min(before(x, this.view.high) + 1, x.length - 1)]; }

  draw() {
    const width = this.host.clientWidth, height = this.height;
    if (!width) return;
    const [left, right, top, bottom] = [58, width - 8, 8, height - (this.x.label ? 38 : 8)];
    const { low: x0, high: x1 } = this.view, [y0, y1] = this.range();
    const lift = (value, log) => log ? Math.log10(value) : value;
    const scale = (a, b, from, to, log) => {
      const start = lift(a, log), factor = (to - from) / (lift(b, log) - start);
      return value => from + (lift(value, log) - start) * factor;
    };
    const X = scale(x0, x1, left, right, this.x.log), Y = scale(y0, y1, bottom, top, this.y.log);
    Object.assign(this, { X, box: { left, right, top, bottom } });
    this.back = x => { const share = (x - left) / (right - left); return this.x.log ? x0 * (x1 / x0) ** share : x0 + share * (x1 - x0); };
    const parts = [], clip = this.svg.id || (this.svg.id = "plot-" + (Plot.count = (Plot.count || 0) + 1));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const ground = make("g", { "clip-path": `url(#${clip}-clip)` }), ink = make("g", { "clip-path": `url(#${clip}-clip)` });
    parts.push(make("clipPath", { id: `${clip}-clip` }, make("rect", { x: left, y: top - 1, width: right - left, height: bottom - top + 2 })));
    for (const [a, b] of this.still)
      if (b >= x0 && a <= x1) ground.append(make("rect", { class: "still", x: X(a).toFixed(1), width: Math.max(X(b) - X(a), 0.5).toFixed(1), y: top, height: bottom - top }));
    parts.push(ground);
    const limits = this.limits.map((value, k) => value === null || value < y0 || value > y1 ? null : [Y(value), k ? top : bottom]).filter(ends => ends);
    for (const [at, end] of limits)  // the wash below everything, the line above the grid
      ground.append(make("rect", { class: "beyond", x: left, width: right - left, y: Math.min(at, end).toFixed(1), height: Math.abs(end - at).toFixed(1) }));
    for (const [value, text] of ticks(x0, x1, Math.max(3, (right - left) / 80), this.x.log)) {
      parts.push(make("path", { class: "rule", d: `M${X(value).toFixed(1)},${top}V${bottom}` }));
      if (this.x.label) parts.push(make("text", { x: X(value).toFixed(1), y: bottom + 15, "text-anchor": "middle" }, text));
    }
    for (const [value, text] of ticks(y0, y1, Math.max(2, (bottom - top) / 36), this.y.log)) {
      parts.push(make("path", { class: value === 0 ? "zero-line" : "rule", d: `M${left},${Y(value).toFixed(1)}H${right}` }));
      parts.push(make("text", { x: left - 7, y: (Y(value) + 4).toFixed(1), "text-anchor": "end" }, text));
    }
    for (const [at] of limits) parts.push(make("path", { class: "limit", d: `M${left},${at.toFixed(1)}H${right}` }));
    for (const s of this.shown.filter(s => s.low)) ink.append(make("path", { class: "band " + s.cls, d: area(s.x, s.low, s.high, s.starts, X, Y, ...this.within(s)) }));
    for (const s of this.shown) {
      const [first, last] = this.within(s);
      ink.append(make("path", { class: "curve " + s.cls, d: line(s.x, s.y, s.starts, X, Y, { first, last, log: this.y.log }) }));
      if (s.dots) s.x.forEach((x, k) => ink.append(make("circle", { class: "dot " + s.cls, cx: X(x).toFixed(1), cy: Y(s.y[k]).toFixed(1), r: 2.6 })));
    }
    for (const { at, text, left: before } of this.marks) {
      if (at < x0 || at > x1) continue;
      const near = before || X(at) > right - 110;
      ink.append(make("path", { class: "mark", d: `M${X(at).toFixed(1)},${top}V${bottom}` }),
        make("text", { class: "mark-label", x: X(at) + (near ? -5 : 5), y: top + 11, "text-anchor": near ? "end" : "start" }, text));
    }
    parts.push(ink, make("path", { class: "frame", d: `M${left},${top}V${bottom}H${right}` }));
    if (this.x.label) parts.push(make("text", { x: (left + right) / 2, y: height - 5, "text-anchor": "middle" }, this.x.label));
    const unit = this.y.unit ? ` [${this.y.unit}]` : "";
    parts.push(make("text", { transform: `translate(11,${(top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, this.y.label + unit));
    this.line = make("path", { class: "cursor" }); this.selection = make("rect", { class: "box", y: top, height: bottom - top, width: 0 });
    this.svg.replaceChildren(...parts, this.selection, this.line);
    this.mark(false);
  }

  mark(withTip) {
    const x = this.view.cursor, box = this.box;
    const visible = box && x !== null && x >= this.view.low && x <= this.view.high;
    this.line?.setAttribute("d", visible ? `M${this.X(x).toFixed(1)},${box.top}V${box.bottom}` : "");
    this.tip.hidden = !(visible && withTip && this.tips);
    if (this.tip.hidden) return;
    const row = (name, value, cls) => { const div = element("div", cls); div.append(element("i", "", name), element("span", "", value)); return div; };
    const at = s => nearest(s.x, x);
    const shown = this.shown.filter(s => s.name);
    this.tip.replaceChildren(row(this.x.name, (this.x.format ?? (value => readable(value, 5)))(shown.length ? shown[0].x[at(shown[0])] : x) + " " + this.x.unit),
      ...shown.map(s => row(s.name, readable(s.y[at(s)]) + (this.y.unit ? " " + this.y.unit : ""), s.cls)));
    const place = this.X(x), over = place > (box.left + box.right) / 2;
    this.tip.style.left = over ? "" : place + 14 + "px";
    this.tip.style.right = over ? this.host.clientWidth - place + 14 + "px" : "";
    this.tip.style.top = box.top + 6 + "px";
  }

  listen() {
    const svg = this.svg, view = this.view;
    const at = event => clamp(event.clientX - svg.getBoundingClientRect().left, this.box.left, this.box.right);
    let grip = null;
    svg.addEventListener("pointerdown", event => { if (event.button === 0) { grip = at(event); svg.setPointerCapture(event.pointerId); } });
    svg.addEventListener("pointermove", event => {
      const x = at(event);
      if (!view.locked) view.point(this.back(x), this);
      if (grip !== null) { this.selection.setAttribute("x", Math.min(x, grip)); this.selection.setAttribute("width", Math.abs(x - grip)); }
    });
    svg.addEventListener("pointerup", event => {
      const ends = grip === null ? null : [grip, at(event)].sort((a, b) => a - b);
      grip = null;
      if (ends && ends[1] - ends[0] > 6) view.set(this.back(ends[0]), this.back(ends[1])); else this.selection.setAttribute("width", 0);
    });
    svg.addEventListener("pointercancel", () => { grip = null; this.selection.setAttribute("width", 0); });
    svg.addEventListener("pointerleave", () => view.point(null));
    svg.addEventListener("blur", () => view.point(null));
    svg.addEventListener("dblclick", () => view.set(...view.full));
    const zoom = (centre, factor) => view.set(centre - (centre - view.low) * factor, centre + (view.high - centre) * factor);
    svg.addEventListener("wheel", event => {
      if (!event.ctrlKey) return;  // a plain wheel scrolls the page
      event.preventDefault();
      zoom(this.back(at(event)), Math.exp(event.deltaY * 0.002));
    }, { passive: false });
    svg.addEventListener("keydown", event => {
      const centre = view.cursor ?? this.back((this.box.left + this.box.right) / 2), step = event.shiftKey ? 60 : 6;
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        const to = this.X(centre) + (event.key === "ArrowLeft" ? -step : step);
        const beyond = to < this.box.left ? to - this.box.left : to > this.box.right ? to - this.box.right : 0;
        if (beyond && !this.x.log) { const d = this.back(this.box.left + beyond) - view.low; if (view.low + d >= view.full[0] && view.high + d <= view.full[1]) view.set(view.low + d, view.high + d); }
        view.point(this.back(clamp(to, this.box.left, this.box.right)), this);
      } else if (event.key === "+" || event.key === "=") { zoom(centre, 0.7); view.point(centre, this); }
      else if (event.key === "-") { zoom(centre, 1 / 0.7); view.point(centre, this); }
      else if (event.key === "Escape" || event.key === "0") view.set(...view.full);
      else return;
      event.preventDefault();
    });
  }
}

// Buttons that switch curves on and off: [class, name] of each; `off` holds the classes that are off.
function keys(host, kinds, off, changed) {
  const buttons = kinds.map(([kind, name]) => {
    const key = element("button", "key " + kind);
    key.type = "button";
    key.append(element("span", "swatch"), element("span", "name", name), element("output"));
    const mark = () => key.setAttribute("aria-pressed", !off[kind]);
    key.addEventListener("click", () => { off[kind] = !off[kind]; mark(); changed(); });
    mark();
    return key;
  });
  host.append(...buttons);
  return buttons;
}

// Curves {cls, y, low, high} over x without axes; `lines` are drawn across.
function miniature(x, curves, { starts, range, lines = [] } = {}) {
  const known = range ?? curves.flatMap(c => [...c.y, ...(c.low ?? []), ...(c.high ?? [])]).filter(Number.isFinite);
  let least = known.reduce((a, b) => Math.min(a, b), Infinity), most = known.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!(most > least)) { least -= 1; most += 1; }
  const X = value => (value - x[0]) / (x[x.length - 1] - x[0] || 1) * 400, Y = value => 68 - (value - least) / (most - least) * 64;
  const skip = Math.max(1, Math.round(x.length / 800)), paths = lines.map(v => make("path", { class: "range", d: `M0,${Y(v).toFixed(1)}H400` }));
  for (const c of curves) if (c.low) paths.push(make("path", { class: "band " + c.cls, d: area(x, c.low, c.high, starts, X, Y) }));
  for (const c of curves) paths.push(make("path", { class: "curve " + c.cls, d: line(x, c.y, starts, X, Y, { skip }) }));
  return make("svg", { viewBox: "0 0 400 72", preserveAspectRatio: "none", "aria-hidden": "true" }, ...paths);
}

// A button with a miniature for each choice of a list, which it sets.
function thumbnails(host, select, names, remarks, draw, show) {
  host.replaceChildren(...names.map((name, k) => {
    const button = element("button"), head = element("span");
    button.type = "button";
    head.append(element("b", "", name), element("em", "", remarks[k]));
    button.append(head, draw(k));
    button.addEventListener("click", () => { select.value = k; show(); });
    return button;
  }));
}
const markThumbnail = (host, chosen) => [...host.children].forEach((button, k) => button.setAttribute("aria-pressed", k === chosen));

// Turning and zooming a scene by pointer, wheel and keys. `act` are further keys.
function orbit(host, home, draw, act = {}) {
  const view = { ...home }, turn = (yaw, pitch) => { view.yaw += yaw; view.pitch = clamp(view.pitch + pitch, -1.55, 1.55); draw(); };
  const zoom = factor => { view.zoom = clamp(view.zoom * factor, 0.2, 20); draw(); }, reset = () => { Object.assign(view, home); draw(); };
  let grip = null;
  host.addEventListener("pointerdown", event => { grip = [event.clientX, event.clientY]; host.setPointerCapture(event.pointerId); });
  host.addEventListener("pointermove", event => {
    if (!grip) return;
    turn((grip[0] - event.clientX) * 0.008, (event.clientY - grip[1]) * 0.008);
    grip = [event.clientX, event.clientY];
  });
  for (const name of ["pointerup", "pointercancel"]) host.addEventListener(name, () => { grip = null; });
  host.addEventListener("dblclick", reset);
  host.addEventListener("wheel", event => { if (event.ctrlKey) { event.preventDefault(); zoom(Math.exp(-event.deltaY * 0.002)); } }, { passive: false });
  host.addEventListener("keydown", event => {
    const pressed = { ArrowLeft: () => turn(0.1, 0), ArrowRight: () => turn(-0.1, 0), ArrowUp: () => turn(0, 0.1), ArrowDown: () => turn(0, -0.1), "+": () => zoom(1.2), "=": () => zoom(1.2), "-": () => zoom(1 / 1.2), Home: reset, ...act }[event.key];
    if (pressed) { pressed(); event.preventDefault(); }
  });
  new ResizeObserver(draw).observe(host);
  return view;
}
// Side of the floor's cells: a round length.
const gridCell = radius => (power => power * [1, 2, 5, 10].find(f => f * power >= radius / 2 * 0.99))(10 ** Math.floor(Math.log10(radius / 2)));
