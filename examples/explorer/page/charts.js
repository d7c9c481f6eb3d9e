// Bars. A table or sentence next to each has the same content, so they are hidden from screen readers.

const SVG = 'http://www.w3.org/2000/svg';

/** Returns an element of a page with its content. */
export function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** Returns an element of a drawing with its content. */
export function shape(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fill(made, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Returns a bar whose length is a share from 0 to 1. */
export function bar(share, kind) {
  const length = Math.max(share > 0 ? 0.5 : 0, Math.min(share, 1) * 100);
  return shape('svg', { viewBox: '0 0 100 6', preserveAspectRatio: 'none', height: 10, 'aria-hidden': 'true' },
    shape('rect', { class: 'track', width: 100, height: 6 }),
    shape('rect', { class: kind, width: length, height: 6 }));
}

const ROW = 34;

/**
 * Returns a drawing of the given width with each node's operations in a row, one piece for each shard. A piece has a
 * number of operations, a kind, a label, and a short label that is drawn on it.
 */
export function map(rows, width) {
  const names = Math.min(130, width / 4);
  const room = width - names;
  const most = Math.max(1, ...rows.map((row) => row.sum));
  const drawing = shape('svg', { viewBox: `0 0 ${width} ${rows.length * ROW}`, 'aria-hidden': 'true' });
  rows.forEach((row, number) => {
    const top = number * ROW + 4;
    drawing.append(shape('text', { class: 'name', x: 0, y: top + 17 }, shorten(row.name, Math.floor(names / 9))));
    drawing.append(shape('rect', { class: 'track', x: names, y: top, width: room, height: 24, rx: 3 }));
    let left = names;
    for (const piece of row.pieces) {
      const length = (piece.number / most) * room;
      drawing.append(shape('rect', { class: piece.kind, x: left, y: top, width: Math.max(length - 1.5, 0.5), height: 24, rx: 3 },
        shape('title', {}, piece.label)));
      if (length > 26) drawing.append(shape('text', { class: 'on', x: left + 7, y: top + 16.5 }, piece.short));
      left += length;
    }
  });
  return drawing;
}

function shorten(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
