// Small charts, as SVG made here.

const SVG = "http://www.w3.org/2000/svg";

function shape(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function picture(width, height, label) {
  const attributes = { class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" };
  const made = shape("svg", { ...attributes, role: "img", "aria-label": label });
  return made;
}

/** A line of values over time, the latest on the right; `n` is how many fit. */
export function line(values, label, n = 60) {
  const chart = picture(n - 1, 20, label);
  const known = values.slice(-n);
  const top = Math.max(1e-9, ...known);
  const begin = n - known.length;
  const points = known.map((value, i) => `${begin + i},${(19 - (18 * value) / top).toFixed(2)}`);
  if (points.length > 1) {
    const ends = [`${begin},20`, ...points, `${n - 1},20`];
    chart.append(shape("polygon", { class: "area", points: ends.join(" ") }));
    chart.append(shape("polyline", { class: "line", points: points.join(" ") }));
  }
  return chart;
}

/** A bar for each round: what was drafted, and the part of it that was kept. */
export function drafts(rounds, n = 60) {
  const known = rounds.slice(-n);
  const last = known.at(-1);
  const told = last ? `${last.drafted} drafted, ${last.accepted} kept in the latest round` : "nothing yet";
  const chart = picture(n * 4, 20, `Draft length of the latest ${known.length} rounds: ${told}`);
  const top = Math.max(4, ...known.map((each) => each.drafted));
  known.forEach(({ drafted, accepted }, i) => {
    const bar = (kind, value) =>
      chart.append(shape("rect", { class: kind, x: i * 4, width: 3, y: 20 - (20 * value) / top, height: (20 * value) / top }));
    if (drafted) bar("bar", drafted);
    if (accepted) bar("kept", accepted);
  });
  return chart;
}
