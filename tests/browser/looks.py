"""Scripts that look at a whole page: text that hardly stands out, and what is cut off at the side."""

FAINT = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], back) => [r, g, b].map((c, i) => c * a + back[i] * (1 - a));
  const luminance = (rgb) => {
    const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const [r, g, b] = rgb.map((c) => linear(c / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parent = (element) => element.parentElement ?? element.getRootNode().host ?? null;
  const lineage = (element) => (element ? [...lineage(parent(element)), element] : []);
  const faint = [];
  const look = (root) => {
    for (const element of root.querySelectorAll("*")) {
      if (element.shadowRoot) look(element.shadowRoot);
      const texts = [...element.childNodes].filter((node) => node.nodeType === 3);
      const words = texts.map((node) => node.data.trim()).join(" ");
      const box = element.getBoundingClientRect();
      const off = "[disabled], [aria-disabled=true], .fa-off, style, script, title, option, annotation";
      if (!words || box.width < 2 || box.height < 2 || element.closest(off)) continue;
      const style = getComputedStyle(element);
      if (style.visibility !== "visible" || style.fontFamily.includes("Material Symbols")) continue;
      let back = [255, 255, 255];
      let opacity = 1;
      for (const each of lineage(element)) {
        const own = getComputedStyle(each);
        opacity *= Number(own.opacity);
        back = over(rgba(own.backgroundColor), back);
      }
      if (opacity === 0) continue;
      const color = rgba(element instanceof SVGElement ? style.fill : style.color);
      const front = over([...color.slice(0, 3), color[3] * opacity], back);
      const [low, high] = [luminance(front), luminance(back)].sort((a, b) => a - b);
      const ratio = (high + 0.05) / (low + 0.05);
      const size = parseFloat(style.fontSize);
      const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
      if (ratio < (large ? 3 : 4.5)) {
        const where = element.closest("[data-testid]")?.dataset.testid ?? element.className;
        const colors = [front, back].map((color) => color.map(Math.round)).join(" on ");
        faint.push(`${ratio.toFixed(2)} ${where}: ${words.slice(0, 50)} (${colors})`);
      }
    }
  };
  look(document);
  return [...new Set(faint)];
}"""
"""Texts whose contrast is below that of WCAG 2.1, level AA: 4.5, or 3 for large ones."""

CUT_OFF = """async (patience = 10000) => {
  const main = document.querySelector('[data-testid=stMain]');
  const scrolls = (e) =>
    e !== main && (getComputedStyle(e).overflowX !== 'visible' || scrolls(e.parentElement));
  const cutOff = () => [...main.querySelectorAll('*')].filter((e) => {
    const box = e.getBoundingClientRect();
    return box.width > 2 && box.right > main.clientWidth + 1 && !scrolls(e.parentElement);
  });
  const end = performance.now() + patience; // tables and figures take their place some moments later
  while (cutOff().length && performance.now() < end) await new Promise((done) => setTimeout(done, 200));
  return cutOff().map((e) => e.outerHTML.slice(0, 80));
}"""
"""What reaches past the right edge of the page and cannot be scrolled to, after so many ms."""
