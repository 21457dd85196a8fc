// Tables that sort and filter, buttons that copy, and the place in the navigation.
document.querySelectorAll("table.sortable").forEach(table => {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending", key = row => row.cells[column].dataset.sort;
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...body.rows].map(row => [key(row), row]);
    // What has no number goes to the end either way.
    rows.sort(([a], [b]) => a === "" || b === "" ? (a === "") - (b === "") : (up ? 1 : -1) * (a - b));
    body.append(...rows.map(([, row]) => row));
  }));
});

document.querySelectorAll(".parameters").forEach(panel => {
  const search = panel.querySelector("input[type=search]"), boxes = [...panel.querySelectorAll("input[type=checkbox]")];
  const rows = [...panel.querySelectorAll("tbody tr")].map(row => [row, row.cells[0].textContent.toLowerCase()]);
  function filter() {
    const words = search.value.toLowerCase().split(/\s+/), labels = new Set(boxes.filter(box => box.checked).map(box => box.value));
    rows.forEach(([row, text]) => { row.hidden = !(labels.has(row.className) && words.every(word => text.includes(word))); });
  }
  search.addEventListener("input", filter);
  boxes.forEach(box => box.addEventListener("change", filter));
});

document.querySelectorAll("button[data-copy]").forEach(button => button.addEventListener("click", async () => {
  const source = byId(button.dataset.copy);
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {  // not allowed: mark it, so that the keyboard can
    getSelection().selectAllChildren(source);
    button.textContent = "Marked";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}));

{
  const links = [...document.querySelectorAll("nav a")], sections = links.map(link => document.querySelector(link.getAttribute("href")));
  const follow = () => {
    let current = 0;
    sections.forEach((section, k) => { if (section.getBoundingClientRect().top < innerHeight * 0.3) current = k; });
    if (innerHeight + scrollY >= document.documentElement.scrollHeight - 2) current = links.length - 1;
    links.forEach((link, k) => { if (k === current) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current"); });
  };
  addEventListener("scroll", follow, { passive: true });
  follow();
}
document.documentElement.dataset.ready = "true";
