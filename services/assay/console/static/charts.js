// Charts as SVG, each with the same numbers in words for those who do not see it.

import { count, el, seconds, svg } from "./dom.js";

const W = 480;
const H = 130;
const LEFT = 34;
const BOTTOM = 18;

function steps(points, x, y, end) {
  let path = "";
  points.forEach(([at, value], i) => {
    path += i ? `H${x(at).toFixed(1)}V${y(value).toFixed(1)}` : `M${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
  });
  return points.length ? `${path}H${x(end).toFixed(1)}` : "";
}

function area(points, x, y, end) {
  const line = steps(points, x, y, end);
  return line && `${line}V${y(0)}H${x(points[0][0]).toFixed(1)}Z`;
}

// One stage: samples [{at_s, demand, busy, ready, planned}], and the plan ahead [[at_s, slots]].
export function poolChart(title, samples, ahead = []) {
  const last = samples[samples.length - 1];
  const end = Math.max(last.at_s, ...ahead.map(([at]) => at));
  const begin = samples[0].at_s;
  const top = Math.max(2, ...samples.map((s) => Math.max(s.ready, s.planned, s.busy)), ...ahead.map(([, n]) => n));
  const most = Math.min(Math.max(top, ...samples.map((s) => s.demand)), 3 * top);
  const x = (at) => LEFT + ((at - begin) / Math.max(end - begin, 1e-9)) * (W - LEFT - 4);
  const y = (n) => 6 + (1 - Math.min(n, most) / most) * (H - BOTTOM - 6);
  const of = (name) => samples.map((s) => [s.at_s, s[name]]);
  const words =
    `Now ${count(last.demand)} wait or run, ${last.busy} slots busy, ${last.ready} ready, ` +
    `${last.planned} planned; at most ${Math.max(...samples.map((s) => s.ready))} ready in ` +
    `${seconds(last.at_s - begin)}.`;
  const planned = [...of("planned"), ...ahead.filter(([at]) => at > last.at_s)];
  const picture = svg(
    "svg",
    { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": `${title}: ${words}` },
    svg("path", { class: "demand", d: area(of("demand"), x, y, last.at_s) }),
    svg("path", { class: "busy", d: area(of("busy"), x, y, last.at_s) }),
    svg("path", { class: "ready", d: steps(of("ready"), x, y, last.at_s) }),
    svg("path", { class: "planned", d: steps(planned, x, y, end) }),
    svg("line", { class: "axis", x1: LEFT, x2: W - 4, y1: y(0), y2: y(0) }),
    svg("line", { class: "now", x1: x(last.at_s), x2: x(last.at_s), y1: 4, y2: y(0) }),
    svg("text", { x: 2, y: 14 }, String(most)),
    svg("text", { x: 2, y: y(0) }, "0"),
    svg("text", { x: LEFT, y: H - 4 }, `-${seconds(last.at_s - begin)}`),
    svg("text", { x: W - 4, y: H - 4, "text-anchor": "end" }, end > last.at_s ? `+${seconds(end - last.at_s)}` : "now"),
  );
  return el("figure", {}, el("figcaption", {}, title), picture, el("p", { class: "note" }, words));
}

// The stages of a request: [{stage, enqueued_ns, claimed_ns, started_ns, finished_ns, ...}].
export function timeline(stages) {
  const begin = Math.min(...stages.map((s) => s.enqueued_ns));
  const end = Math.max(...stages.map((s) => s.released_ns || s.finished_ns || s.claimed_ns || s.enqueued_ns));
  const x = (ns) => 130 + ((ns - begin) / Math.max(end - begin, 1)) * (W - 140);
  const picture = svg("svg", {
    viewBox: `0 0 ${W} ${24 * stages.length + 22}`,
    role: "img",
    "aria-label": `Stages from the first queue to the end, ${seconds((end - begin) / 1e9)}; the table below has the numbers.`,
  });
  stages.forEach((s, i) => {
    const bar = (name, from, to) =>
      picture.append(
        svg("rect", { class: name, x: x(from), y: 24 * i + 5, height: 14, width: Math.max(x(to) - x(from), 0.5) }),
      );
    picture.append(svg("text", { x: 2, y: 24 * i + 16 }, s.stage));
    bar("wait", s.enqueued_ns, s.claimed_ns);
    bar("start", s.claimed_ns, s.started_ns);
    bar("run", s.started_ns, s.finished_ns);
  });
  const bottom = 24 * stages.length + 16;
  picture.append(svg("text", { x: 130, y: bottom }, "0"));
  picture.append(svg("text", { x: W - 4, y: bottom, "text-anchor": "end" }, seconds((end - begin) / 1e9)));
  return picture;
}
