// The console: one stream of readings, and questions about single batches and requests.
// The token is in this module's memory only; it is sent as a header and never in an address.

import { poolChart, timeline } from "./charts.js";
import { byId, cell, count, el, instant, rows, seconds, setText, share } from "./dom.js";

const API = new URL("console/api/", document.baseURI);
const SAMPLES_MAX = 450;
const RETRY_S = [1, 2, 5, 10];
const LINE_CHARS_MAX = 8 << 20;

let token = "";
let live = null;
let operator = false;
const samples = new Map();

class Refused extends Error {
  constructor(status, detail) {
    super(detail.message ?? `HTTP ${status}`);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = { ...(token ? { authorization: `Bearer ${token}` } : {}), ...options.headers };
  const answer = await fetch(new URL(path, API), { ...options, headers, cache: "no-store", credentials: "omit" });
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, body.error ?? {});
}

// -- the stream -------------------------------------------------------------------------------
async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    held += value;
    if (held.length > LINE_CHARS_MAX) throw new Error("an event is too long");
    let end;
    while ((end = held.indexOf("\n\n")) >= 0) {
      const lines = held.slice(0, end).split("\n");
      held = held.slice(end + 2);
      const kind = lines.find((line) => line.startsWith("event: "));
      const data = lines.find((line) => line.startsWith("data: "));
      if (kind && data) yield [kind.slice(7), JSON.parse(data.slice(6))];
    }
  }
}

async function watch() {
  live?.abort();
  const mine = (live = new AbortController());
  for (let failures = 0; live === mine; failures++) {
    try {
      const answer = await ask("stream", { signal: mine.signal });
      for await (const [kind, data] of events(answer.body)) {
        if (live !== mine) return;
        failures = 0;
        if (kind === "look") show(data);
        else say(`Not current: ${data.error.message}`, true);
      }
      say("The stream ended; opening it again", true);
    } catch (error) {
      if (live !== mine) return;
      if (error instanceof Refused && (error.status === 401 || error.status === 403)) return openDoor(error.message);
      say(`Not connected: ${error.message}`, true);
    }
    const wait = RETRY_S[Math.min(failures, RETRY_S.length - 1)];
    await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
  }
}

function say(text, bad = false) {
  const status = byId("status");
  setText(status, text);
  status.className = bad ? "bad" : "";
}

function openDoor(why) {
  live = null;
  byId("main").hidden = true;
  byId("leave").hidden = true;
  byId("entrance").hidden = false;
  setText(byId("door-why"), token ? why : "");
  say("A token is needed");
  setText(byId("viewer"), "");
  byId("token").focus();
}

// -- a reading --------------------------------------------------------------------------------
function show(look) {
  operator = look.operator;
  document.body.className = operator ? "" : "tenant";
  byId("entrance").hidden = true;
  byId("main").hidden = false;
  byId("leave").hidden = !token;
  setText(byId("viewer"), operator ? "operator" : `tenant ${look.tenant}`);
  say("Live");
  showStages(look);
  if (operator) showPools(look);
  showBatches(look);
  showMissing(look);
}

function showStages(look) {
  const busy = look.stages.filter((s) => s.queued || s.running || s.dead_letters || s.pool?.ready || s.pool?.planned);
  const rest = look.stages.length - busy.length;
  setText(byId("stages-note"), rest ? `${rest} more stages are idle.` : "");
  rows(byId("stages-rows"), busy, (s) => s.stage, (row) => {
    const [name, queued] = [cell(row), cell(row, "n")];
    const [oldest, running, slots, dead, tenants] = ["n operator", "n operator", "n operator", "n operator", "operator"].map((c) => cell(row, c));
    return (s) => {
      setText(name, s.stage);
      setText(queued, count(s.queued));
      setText(oldest, s.queued && s.oldest_age_s !== undefined ? seconds(s.oldest_age_s) : "");
      setText(running, count(s.running));
      setText(slots, s.pool ? `${s.pool.busy} / ${s.pool.ready} / ${s.pool.planned}` : "");
      setText(dead, count(s.dead_letters));
      dead.className = s.dead_letters ? "n operator bad" : "n operator";
      const shown = (s.tenants ?? []).map((one) => `${one.tenant} ${count(one.queued)}`);
      const more = (s.tenants_waiting ?? 0) - shown.length;
      setText(tenants, shown.join(", ") + (more > 0 ? `, and ${more} more` : ""));
    };
  }, operator ? "No stage has work or slots." : "None of your requests waits.");
}

function showPools(look) {
  const planner = look.planner;
  const plan = planner?.plan ?? {};
  let words = planner ? `Planner: ${planner.state}.` : "No planner answers: pools keep their size.";
  if (plan.made_ns) {
    words += ` Plan of ${instant(plan.made_ns).slice(11)}: ${plan.reason}, ${plan.futures} futures, ` +
      `${plan.simulations} simulations, cost ${plan.cost.toFixed(2)} GPU-seconds` +
      (plan.gap ? `, ${plan.gap.toFixed(2)} times the bound.` : ".");
  }
  setText(byId("planner"), words);
  byId("conditions").replaceChildren(
    ...(planner?.conditions ?? []).map((c) => el("li", { class: "warn" }, `${c.stage}: ${c.condition}: ${c.details}`)),
  );
  showHosts(planner?.hosts ?? [], planner?.hosts_all ?? 0);
  const planned = new Map((plan.stages ?? []).map((s) => [s.stage, s]));
  const charts = [];
  for (const s of look.stages) {
    const series = samples.get(s.stage) ?? [];
    const pool = s.pool ?? { busy: s.running, ready: 0, planned: 0 };
    const at_s = look.at_ns / 1e9;
    series.push({ at_s, demand: s.queued + s.running, busy: pool.busy, ready: pool.ready, planned: pool.planned });
    if (series.length > SAMPLES_MAX) series.shift();
    samples.set(s.stage, series);
    const own = planned.get(s.stage);
    if (!own?.slots_wanted && !series.some((one) => one.demand)) continue;
    const ahead = own ? own.slots_by_bin.map((n, i) => [plan.made_ns / 1e9 + (i * plan.bin_ms) / 1000, n]) : [];
    const figure = poolChart(s.stage, series, ahead.filter(([at]) => at < at_s + 600));
    if (own?.why) figure.append(el("p", { class: "note" }, own.why));
    charts.push(figure);
  }
  byId("charts").replaceChildren(...charts);
}

function showHosts(hosts, all) {
  setText(byId("hosts-note"), all > hosts.length ? `${count(all)} worker hosts, ${hosts.length} shown.` : "");
  rows(byId("hosts-rows"), hosts, (h) => h.host, (row) => {
    const [name, state, cores, isolation, slots] = ["", "", "n", "", ""].map((c) => cell(row, c));
    return (h) => {
      setText(name, h.host);
      setText(state, h.state);
      state.className = h.state === "Counted" ? "" : "warn";
      setText(cores, h.cores ? count(h.cores) : "");
      setText(isolation, h.sandbox_mode);
      const used = h.pools.filter((p) => p.desired || p.ready || p.busy);
      const words = used.slice(0, 8).map((p) => `${p.stage} ${p.busy} / ${p.ready} / ${p.desired}`);
      setText(slots, words.join(", ") + (used.length > 8 ? `, and ${used.length - 8} more` : ""));
    };
  }, "No planner that leads has told of its hosts.");
}

function showBatches(look) {
  const more = look.batches_open - look.batches.length;
  setText(byId("batches-note"), `${count(look.batches_open)}${look.batches_cut ? " or more" : ""} open` +
    (more > 0 ? `, the ${look.batches.length} with the earliest deadlines shown` : "") +
    `; ${look.completed.length} completed lately.`);
  rows(byId("batches-rows"), [...look.batches, ...look.completed], (b) => `${b.tenant}:${b.batch_id}`, (row) => {
    const [name, tenant, task, state, progress, ended, slack, delay, unjudged, act] =
      ["id", "operator", "id", "", "", "n", "n", "n", "", ""].map((c) => cell(row, c));
    const meter = el("meter", { min: 0 });
    progress.append(meter);
    let batch = null;
    const button = el("button", { type: "button", onclick: () => openBatch(batch.tenant, batch.batch_id) }, "Open");
    act.append(button);
    return (b) => {
      batch = b;
      const size = b.size || b.submitted;
      setText(name, b.batch_id);
      setText(tenant, b.tenant);
      setText(task, b.task_id);
      setText(state, b.state.toLowerCase());
      meter.max = Math.max(size, 1);
      meter.value = b.ended;
      meter.setAttribute("aria-label", `${b.ended} of ${size} ended`);
      button.setAttribute("aria-label", `Open batch ${b.batch_id}`);
      setText(ended, `${count(b.ended)} / ${count(size)}`);
      const over = b.completed_ns > 0;
      setText(slack, `${b.slack_s >= 0 ? "+" : ""}${seconds(b.slack_s)}${over ? "" : b.deadline_at_risk ? ", at risk" : ""}`);
      slack.className = b.slack_s < 0 ? "n bad" : b.deadline_at_risk && !over ? "n warn" : "n";
      setText(delay, b.expected_delay_s === undefined ? "" : `${seconds(b.expected_delay_s)} of ${seconds(b.delay_budget_s)}`);
      setText(unjudged, Object.entries(b.unjudged).map(([cause, part]) => `${cause} ${share(part)}`).join(", "));
      unjudged.className = unjudged.textContent ? "warn" : "";
    };
  }, "No batch is open, and none was completed lately.");
}

function showMissing(look) {
  rows(byId("missing-rows"), look.tasks, (t) => `${t.tenant}:${t.task_id}`, (row) => {
    const [task, tenant, batches, ended, missing, causes, bias] =
      ["id", "operator", "n", "n", "n", "", "n"].map((c) => cell(row, c));
    return (t) => {
      const lost = Object.values(t.unjudged).reduce((a, b) => a + b, 0);
      setText(task, t.task_id);
      setText(tenant, t.tenant);
      setText(batches, count(t.batches));
      setText(ended, count(t.ended));
      setText(missing, t.ended ? `${count(lost)} (${share(lost / t.ended)})` : "0");
      missing.className = lost ? "n warn" : "n";
      setText(causes, Object.entries(t.unjudged).map(([cause, n]) => `${cause} ${count(n)}`).join(", "));
      setText(bias, t.bias_avoided ? t.bias_avoided.toFixed(3) : "0");
    };
  }, "No task has a batch.");
}

// -- dead letters -----------------------------------------------------------------------------
async function loadLetters() {
  const said = byId("letters-said");
  try {
    const found = await (await ask("dead-letters")).json();
    const letters = found.dead_letters;
    setText(said, `${count(letters.length)}${found.is_cut ? " newest" : ""}`);
    rows(byId("letters-rows"), letters, (one) => one.job_id, (row) => {
      const [died, stage, tenant, batch, request, attempts, error, act] =
        ["", "", "operator", "id", "id", "n", "id", ""].map((c) => cell(row, c));
      const text = el("pre");
      error.append(text);
      let letter = null;
      const button = el("button", { type: "button", onclick: () => replay(letter, button) }, "Replay");
      act.append(button);
      return (one) => {
        letter = one;
        setText(died, instant(one.died_ns));
        setText(stage, one.stage);
        setText(tenant, one.tenant);
        setText(batch, one.batch_id);
        setText(request, one.request_id || `group ${one.group_id}`);
        setText(attempts, count(one.attempts));
        setText(text, one.error);
        button.setAttribute("aria-label", `Replay ${one.request_id || one.group_id}`);
      };
    }, "There are none.");
  } catch (error) {
    setText(said, error.message);
  }
}

async function replay(letter, button) {
  const said = byId("letters-said");
  button.disabled = true;
  try {
    await ask(`dead-letters/${encodeURIComponent(letter.job_id)}/replay`, {
      method: "POST",
      headers: { "x-assay-console": "1" },
    });
    await loadLetters();
    setText(said, `Replayed ${letter.request_id || letter.group_id}`);
    byId("letters-load").focus();
  } catch (error) {
    setText(said, error.message);
    button.disabled = false;
  }
}

// -- one batch, one request -------------------------------------------------------------------
function openBatch(tenant, batchId) {
  byId("lookup-tenant").value = tenant;
  byId("lookup-batch").value = batchId;
  byId("lookup-request").value = "";
  byId("lookup-title").focus();
  lookUp();
}

const owned = (tenant) => (operator && tenant ? `tenant=${encodeURIComponent(tenant)}` : "");

async function lookUp() {
  const tenant = byId("lookup-tenant").value.trim();
  const batchId = byId("lookup-batch").value.trim();
  const requestId = byId("lookup-request").value.trim();
  const said = byId("lookup-said");
  const base = `batches/${encodeURIComponent(batchId)}`;
  byId("found").replaceChildren();
  setText(said, "Looking");
  try {
    if (requestId) {
      const path = `${base}/request?request_id=${encodeURIComponent(requestId)}&${owned(tenant)}`;
      byId("found").replaceChildren(requestPart(await (await ask(path)).json()));
    } else {
      const batch = await (await ask(`${base}?${owned(tenant)}`)).json();
      byId("found").append(batchPart(batch));
      if (operator) await planPart(base, tenant);
      await resultsPart(base, tenant);
    }
    setText(said, "Found");
  } catch (error) {
    setText(said, error.message);
  }
}

function facts(pairs) {
  const body = el("tbody");
  for (const [name, value] of pairs) body.append(el("tr", {}, el("th", { scope: "row" }, name), el("td", {}, String(value))));
  return el("table", {}, body);
}

function batchPart(b) {
  const outcomes = Object.entries(b.outcomes).map(([name, n]) => `${name} ${count(n)}`).join(", ");
  return el("div", {}, el("h3", {}, `Batch ${b.batch_id}`), facts([
    ["Task", b.task_id],
    ["State", b.state.toLowerCase()],
    ["Requests", `${count(b.submitted)} submitted = ${count(b.ended)} ended + ${count(b.queued)} queued + ${count(b.running)} running`],
    ["Outcomes", outcomes || "none yet"],
    ["Opened", instant(b.opened_ns)],
    ["Deadline", `${instant(b.deadline_ns)}, slack ${seconds(b.slack_s)}`],
    ["Bias avoided", b.bias_avoided.toFixed(4)],
  ]));
}

async function planPart(base, tenant) {
  const part = el("div", {}, el("h3", {}, "The plan, explained"));
  byId("found").append(part);
  try {
    const plan = await (await ask(`${base}/plan?${owned(tenant)}`)).json();
    part.append(...plan.explanation.map((line) => el("p", {}, line)));
    const by = new Map();
    for (const s of plan.samples) {
      const one = { at_s: s.at_ns / 1e9, demand: s.busy + s.queued, busy: s.busy, ready: s.ready, planned: s.planned };
      by.set(s.stage, [...(by.get(s.stage) ?? []), one]);
    }
    for (const [stage, series] of by) if (series.length > 1) part.append(poolChart(stage, series));
  } catch (error) {
    part.append(el("p", { class: "note" }, error.message));
  }
}

async function resultsPart(base, tenant, before = null) {
  const kind = byId("lookup-kind").value;
  const at = before === null ? "" : `&before=${before}`;
  const page = await (await ask(`${base}/results?kind=${kind}${at}&${owned(tenant)}`)).json();
  const title = byId("lookup-kind").selectedOptions[0].textContent;
  const part = el("div", {}, el("h3", {}, before === null ? `Results ${title}` : "Older results"));
  part.append(...page.results.map(resultPart));
  if (!page.results.length) part.append(el("p", { class: "note" }, "None here."));
  if (page.before > 0) {
    const more = el("button", { type: "button", onclick: async () => {
      more.disabled = true;
      await resultsPart(base, tenant, page.before).catch((error) => setText(byId("lookup-said"), error.message));
      more.remove();
    } }, "Look further back");
    part.append(more);
  }
  byId("found").append(part);
}

function requestPart(found) {
  const part = el("div", {}, el("h3", {}, `Request ${found.request_id}`));
  const open = found.open;
  if (open) {
    part.append(facts([
      ["State", open.state.toLowerCase()],
      ["Stage", open.stage],
      ["Failed attempts there", open.attempts],
      ["Arrived", instant(open.arrived_ns)],
      ["Queued since", instant(open.enqueued_ns)],
      ["Claimed", instant(open.claimed_ns)],
      ["Worker", open.worker],
      ["Last error", open.error],
    ]));
  }
  if (found.ended) part.append(resultPart(found.ended));
  return part;
}

function resultPart(r) {
  const e = r.evidence;
  const pairs = [
    ["Outcome", r.outcome],
    ["Reward", r.reward === null ? "none" : r.reward],
    ["Attempts", r.attempts],
    ["Verdict", e.verdict],
    ["Tests", e.tests_total ? `${e.tests_passed} of ${e.tests_total}` : ""],
    ["First failed test", e.failed_test ?? ""],
    ["Used", `${seconds(r.cpu_s)} of CPU, ${(r.memory_bytes_peak / 2 ** 20).toFixed(0)} MiB at most`],
    ["Parts", r.components.map((c) => `${c.name} ${c.value} (weight ${c.weight})`).join(", ")],
    ["Judged by", r.pipeline_version],
  ].filter(([, value]) => value !== "");
  const part = el("article", {}, el("h3", {}, r.request_id + (r.group_id ? `, group ${r.group_id}` : "")), facts(pairs));
  for (const [name, text] of [["Extracted", e.extracted], ["Error", e.error], ["Standard error", e.stderr_tail]]) {
    if (text) part.append(el("p", { class: "note" }, name), el("pre", { tabindex: 0 }, text));
  }
  if (r.stages.length) part.append(timeline(r.stages), attempts(r.stages));
  return part;
}

function attempts(stages) {
  const body = el("tbody");
  for (const s of stages) {
    const times = [s.claimed_ns - s.enqueued_ns, s.started_ns - s.claimed_ns, s.finished_ns - s.started_ns];
    body.append(el("tr", {},
      el("th", { scope: "row" }, s.stage),
      el("td", { class: "n" }, count(s.attempts)),
      ...times.map((ns) => el("td", { class: "n" }, seconds(ns / 1e9))),
      el("td", {}, instant(s.finished_ns)),
      el("td", {}, s.worker)));
  }
  const heads = ["Stage", "Attempts", "Waited", "Started in", "Ran", "Finished", "Worker"];
  const head = el("tr", {}, ...heads.map((name, i) => el("th", { scope: "col", class: i > 0 && i < 5 ? "n" : "" }, name)));
  return el("table", {}, el("caption", { class: "hidden" }, "Stages of the request"), el("thead", {}, head), body);
}

// -- start ------------------------------------------------------------------------------------
function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").setAttribute("aria-pressed", String(dark));
}

byId("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme !== "dark"));
byId("leave").addEventListener("click", () => {
  token = "";
  samples.clear();
  live?.abort();
  location.reload();
});
byId("door").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  watch();
});
byId("lookup-form").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  lookUp();
});
byId("letters-load").addEventListener("click", loadLetters);
theme(matchMedia("(prefers-color-scheme: dark)").matches);
watch();
