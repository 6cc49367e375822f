// Elements of the page: found, made and filled.
// Names and messages come from untrusted records, so no script of the page ever parses text as HTML.

/** The element with this id. */
export const $ = (id) => document.getElementById(id);

/** Replace what is in the element with this id. */
export const put = (id, ...content) => $(id).replaceChildren(...content);

/** An HTML element: `element("p", {class: "quiet"}, "text", child)`. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** Replace the rows of the body of the table that the selector finds. */
export const putRows = (selector, rows) => setRows(document.querySelector(selector), rows);

/** Replace the rows of a table's body; each cell gets its column's name, which is shown next to it on a narrow screen. */
export function setRows(table, rows) {
  const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  for (const row of rows) {
    [...row.cells].forEach((cell, index) => {
      if (cell.colSpan === 1) cell.dataset.label = names[index];
      cell.classList.toggle("none", cell.textContent === "-");
    });
  }
  table.tBodies[0].replaceChildren(...rows);
}

/** A bar that fills `share` (0 to 1) of its track; its width is set in a way that the content policy allows. */
export function filling(share, className = "") {
  const bar = element("i", className ? { class: className } : {});
  bar.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return bar;
}
