"""What of a page is hard to read."""

LOW_CONTRAST = """
const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
const linear = (share) => share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
const behind = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const found = numbers(getComputedStyle(at).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
const low = [];
for (const node of document.querySelectorAll('body *')) {
  const texts = [...node.childNodes].filter((each) => each.nodeType === 3);
  const own = texts.map((each) => each.textContent).join('').trim();
  if (!own || !node.getClientRects().length || ['SCRIPT', 'OPTION', 'NOSCRIPT'].includes(node.tagName)) continue;
  const drawn = node instanceof SVGElement;
  const front = light(numbers(getComputedStyle(node)[drawn ? 'fill' : 'color']));
  const back = light(behind(drawn ? node.closest('svg').parentElement : node));
  const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
  if (ratio < 4.5) low.push(`${node.tagName} ${own.slice(0, 40)}: ${ratio.toFixed(2)}`);
}
return low;
"""
"""JavaScript: the contrast of every text with what is behind it, by the formula of WCAG 2; lists those below 4.5."""
