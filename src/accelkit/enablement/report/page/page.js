"use strict";
(() => {
  const form = document.getElementById("filter");
  const words = document.getElementById("words");
  const shown = document.getElementById("shown");
  const rows = [...document.querySelectorAll("#matrix tbody tr")];
  const articles = [...document.querySelectorAll("#details article")];
  const perNode = rows.length ? articles.length / rows.length : 0;
  const textOf = (row, index) =>
    [row, ...articles.slice(index * perNode, (index + 1) * perNode)].map((each) => each.textContent).join(" ").toLowerCase();
  const texts = rows.map(textOf);
  const filter = () => {
    const sought = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set([...form.querySelectorAll("[name=outcome]:checked")].map((each) => each.value));
    let count = 0;
    rows.forEach((row, index) => {
      const fits = wanted.has(row.dataset.outcome) && sought.every((word) => texts[index].includes(word));
      row.hidden = !fits;
      articles.slice(index * perNode, (index + 1) * perNode).forEach((each) => { each.hidden = !fits; });
      count += fits ? 1 : 0;
    });
    shown.textContent = `${count} of ${rows.length} nodes`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  // Following a fragment link does not move the keyboard focus.
  const follow = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.matches("article")) target.focus();
  };
  addEventListener("hashchange", follow);
  form.hidden = false;
  filter();
  follow();
})();
