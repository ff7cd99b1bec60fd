// The pages: what each shows of the status and of the other documents. Refuses to know the connection.

import { chart } from "/charts.js";
import { byId, figures, heard, isKnown, jobLink, number, percent, rate, say, show, time, whole } from "/elements.js";

const STALL_SHOWN = 0.05;
/** The milliseconds after which a page reads a document again. */
const HISTORY_EVERY_MS = 5000;
const EVENTS_EVERY_MS = 2000;
const SETTINGS_EVERY_MS = 60000;

const running = (status) => status.iterations.filter((row) => row.phase === "running");
const sum = (items, read) => items.reduce((total, item) => total + read(item), 0);
const trainersOf = (rows) => rows.flatMap((row) => row.clients.map((client) => ({ client, job: row.job })));
const tasksOf = (rows) => rows.flatMap((row) => row.tasks.map((task) => ({ task, job: row.job })));

function links(peer) {
  const counts = Object.entries(peer.links ?? {}).filter(([, count]) => count);
  return counts.map(([name, count]) => `${count} ${name}`).join(", ") || "none";
}

/** The links of a trainer, with the reason why some cross a network. */
const linksOfTrainer = (client) => (client.network_reason ? { text: `${links(client)}: ${client.network_reason}`, kind: "wrap" } : links(client));

function showTrainers(id, rows) {
  show(id, {
    caption: "Trainers",
    columns: ["Trainer", "Job", ["Waits for data", "number"], ["Elements/s", "number"], ["Own time per element", "number"], ["Elements", "number"], "Workers by transport", "Heard"],
    items: trainersOf(rows),
    words: ({ client, job }) => `trainer ${client.id} job ${job}`,
    row: ({ client, job }) => [
      String(client.id),
      jobLink(job),
      number(percent(client.waiting), client.waiting >= STALL_SHOWN ? "warning" : ""),
      number(rate(client.elements_per_s)),
      number(time(client.element_ns)),
      number(whole(client.elements)),
      linksOfTrainer(client),
      heard(client.silent_ms),
    ],
    empty: "No trainer reads.",
  });
}

function showEpochs(id, iterations, jobs) {
  const datasets = new Map(jobs.map((job) => [job.id, job.dataset]));
  const dataset = (row) => datasets.get(row.job) ?? "unknown";
  show(id, {
    caption: "Epochs",
    columns: ["Job", "Dataset", "Epoch", "State", "Delivered splits", ["Lost", "number"], ["Skipped", "number"], ["Workers wanted", "number"]],
    items: iterations,
    words: (row) => `job ${row.job} ${dataset(row)} epoch ${row.repetition} ${row.phase}`,
    row: (row) => {
      const all = row.splits_done + row.splits_leased + sum(row.sources, (source) => source.splits_remaining) + row.splits_lost;
      return [
        jobLink(row.job),
        dataset(row),
        String(row.repetition),
        row.waiting_for_workers ? { text: `${row.phase}, waits for workers`, kind: "fault" } : row.phase,
        all > 0 ? { text: `${row.splits_done} of ${all}`, done: row.splits_done, all } : "not counted",
        number(row.splits_lost, row.splits_lost ? "fault" : ""),
        number(sum(row.skipped, (range) => range.count)),
        number(row.workers_wanted ?? "unknown"),
      ];
    },
    empty: "No job has begun.",
  });
}

function workerState(worker) {
  if (worker.dead) return { text: `dead: ${worker.dead}`, kind: "fault" };
  return worker.draining ? { text: "draining", kind: "warning" } : { text: "alive", kind: "good" };
}

const workerWords = (worker) => `${worker.address} ${workerState(worker).text} ${worker.version} ${worker.tags.join(" ")}`;

function showWorkers(status) {
  show("workers", {
    caption: "Workers",
    columns: ["Address", "State", ["Tasks", "number"], "Readers", "Heard", "Version", "Tags"],
    items: status.workers,
    words: workerWords,
    row: (worker) => [worker.address, workerState(worker), number(worker.tasks), links(worker), heard(worker.silent_ms), worker.version, worker.tags.join(", ")],
    empty: "No worker is registered.",
  });
}

const bottleneck = (task) => (task.bottleneck === "consumer" ? "the readers" : (task.bottleneck ?? "unknown"));

function showTasks(id, rows) {
  show(id, {
    caption: "Tasks",
    columns: ["Worker", "Job", "State", ["Elements/s", "number"], ["Time per element", "number"], "Bottleneck", ["Splits", "number"]],
    items: tasksOf(rows),
    words: ({ task, job }) => `${task.worker_address} job ${job} task ${task.id} ${task.phase} ${bottleneck(task)}`,
    row: ({ task, job }) => [
      task.worker_address,
      jobLink(job),
      { text: task.phase, kind: task.phase.startsWith("failed") ? "fault" : "" },
      number(rate(task.elements_per_s)),
      number(time(task.element_ns)),
      bottleneck(task),
      number(task.splits_leased),
    ],
    empty: "No task runs.",
  });
}

const WAITING = [{ name: "Trainers wait for data", kind: "line-a", read: (point) => point.waiting }];
const RATES = [
  { name: "Elements read per second", kind: "line-a", read: (point) => point.read_per_s },
  { name: "Elements produced per second", kind: "line-b", read: (point) => point.produced_per_s },
];
const WORKERS = [{ name: "Workers", kind: "line-a", read: (point) => point.workers }];

function overview(status, documents) {
  const rows = running(status);
  const rates = (of) => sum(rows, (row) => sum(of(row), (one) => one.elements_per_s));
  figures("figures", [
    ["Workers", String(status.counts.workers)],
    ["Workers wanted", String(status.workers_wanted ?? "unknown")],
    ["Trainers", String(status.counts.clients)],
    ["Jobs", String(status.counts.jobs)],
    ["Produced/s", rate(rates((row) => row.tasks))],
    ["Read/s", rate(rates((row) => row.clients))],
  ]);
  const points = documents.get("/api/v1/history")?.points ?? [];
  chart("chart-waiting", points, WAITING, percent, 0.1);
  chart("chart-rates", points, RATES, rate, 1);
  chart("chart-workers", points, WORKERS, whole, 1);
  showTrainers("trainers", rows);
  showEpochs("jobs", status.iterations, status.jobs);
  showWorkers(status);
  showTasks("tasks", rows);
}

function showStages(rows) {
  // The document begins with the output, and data flows from the sources to the output.
  const stages = rows.flatMap((row) => (row.stages ?? []).toReversed());
  const slowest = Math.max(0, ...stages.map((stage) => stage.busy / Math.max(1, stage.threads)));
  show("job-stages", {
    caption: "Pipeline",
    columns: ["Stage", ["Elements/s", "number"], ["Busy threads", "number"], ["Threads", "number"], ["Load", "number"], ["Waits for it", "number"], ["Workers", "number"]],
    items: stages,
    row: (stage) => {
      const load = stage.busy / Math.max(1, stage.threads);
      const isSlowest = load === slowest && load >= 0.5;
      return [
        `${"\u2003".repeat(stage.depth)}${stage.label}${isSlowest ? " (busiest)" : ""}`,
        number(rate(stage.elements_per_s)),
        number(stage.busy.toFixed(1)),
        number(stage.threads),
        number(percent(load), isSlowest ? "warning" : ""),
        number(percent(stage.waited)),
        number(stage.workers),
      ];
    },
    empty: "The workers have not reported the stages of this job.",
  });
}

function showLost(rows) {
  const ranges = rows.flatMap((row) =>
    [
      ["lost", row.lost],
      ["skipped", row.skipped],
    ].flatMap(([what, found]) => found.map((range) => ({ what, range, epoch: row.repetition }))),
  );
  show("job-lost", {
    caption: "Lost and skipped splits",
    columns: ["What", "Epoch", "Source", "Pass", "Splits", ["Count", "number"]],
    items: ranges,
    row: ({ what, range, epoch }) => {
      const last = range.first + range.count - 1;
      return [
        { text: what, kind: "fault" },
        String(epoch),
        String(range.source),
        String(range.repetition),
        range.count === 1 ? String(range.first) : `${range.first} to ${last}`,
        number(range.count),
      ];
    },
    empty: "No split was lost or skipped.",
  });
}

/** Returns a time of day, with its date unless the date is that of today. */
function moment(date) {
  const isToday = date.toDateString() === new Date().toDateString();
  return isToday ? date.toLocaleTimeString() : date.toLocaleString();
}

function showEvents(id, events) {
  show(id, {
    caption: "Events",
    columns: ["Time", "Event", "Kind", "Job"],
    items: events.toReversed(),
    words: (event) => `${event.kind} ${event.text}`,
    row: (event) => [
      moment(new Date(event.time)),
      { text: event.text, kind: "wrap" },
      { text: event.kind.replaceAll("_", " "), kind: event.fault ? "fault" : "" },
      isKnown(event.job) ? jobLink(event.job) : "",
    ],
    empty: "Nothing has happened yet.",
  });
}

function jobFigures(job, rows) {
  const lost = sum(rows, (row) => row.splits_lost);
  const pairs = [
    ["Trainers", String(sum(rows, (row) => row.clients.length))],
    ["Read/s", rate(sum(trainersOf(rows), ({ client }) => client.elements_per_s))],
    ["Produced/s", rate(sum(tasksOf(rows), ({ task }) => task.elements_per_s))],
    ["Lost splits", String(lost)],
  ];
  if (job) pairs.push(["Dataset", job.dataset], ["Policy", job.policy], ["Exactly once", job.exactly_once ? "yes" : "no"]);
  return pairs;
}

function jobPage(status, documents, id) {
  const job = status.jobs.find((job) => job.id === id);
  const rows = status.iterations.filter((row) => row.job === id);
  say("job-title", job ? `Job ${id}: ${job.name}` : `Job ${id}`);
  say("job-note", job || rows.length ? "" : "The dispatcher does not know this job: it has ended, or never began.");
  figures("job-figures", jobFigures(job, rows));
  const points = documents.get(`/api/v1/history?job=${id}`)?.points ?? [];
  chart("job-chart-waiting", points, WAITING, percent, 0.1);
  chart("job-chart-rates", points, RATES, rate, 1);
  showEpochs("job-epochs", rows, status.jobs);
  showStages(rows);
  showTrainers("job-trainers", rows);
  showTasks("job-tasks", rows);
  showLost(rows);
  showEvents("job-events", (documents.get("/api/v1/events")?.events ?? []).filter((event) => event.job === id));
}

const mebibytes = (bytes) => (isKnown(bytes) ? `${(bytes / (1 << 20)).toFixed(0)} MiB` : "unknown");

function workersPage(status) {
  const paces = new Map();
  for (const { task } of tasksOf(running(status))) {
    const pace = paces.get(task.worker) ?? { busy: 0, rate: 0 };
    pace.rate += task.elements_per_s;
    pace.busy += (task.elements_per_s * (task.element_ns ?? 0)) / 1e9;
    paces.set(task.worker, pace);
  }
  show("all-workers", {
    caption: "Workers",
    columns: ["Address", "State", ["Tasks", "number"], ["Produced/s", "number"], ["Busy tasks", "number"], ["Memory", "number"], ["Shared memory", "number"], ["Python processes", "number"], "Readers by transport", "Heard", "Version", "Tags"],
    items: status.workers,
    words: workerWords,
    row: (worker) => {
      const pace = paces.get(worker.id) ?? { busy: 0, rate: 0 };
      return [
        worker.address,
        workerState(worker),
        number(worker.tasks),
        number(rate(pace.rate)),
        number(pace.busy.toFixed(1)),
        number(mebibytes(worker.load?.memory_bytes)),
        number(mebibytes(worker.load?.shared_memory_bytes)),
        number(worker.load?.python_processes ?? "unknown"),
        links(worker),
        heard(worker.silent_ms),
        worker.version,
        worker.tags.join(", "),
      ];
    },
    empty: "No worker is registered.",
  });
}

function settingsPage(status, documents) {
  const found = documents.get("/api/v1/settings");
  say("settings-version", found ? `The dispatcher has version ${found.version}.` : "");
  show("settings", {
    caption: "Settings",
    columns: ["Setting", "Value", "From"],
    items: found?.settings ?? [],
    row: (setting) => [setting.name, { text: setting.value ?? "not set", kind: "wrap" }, setting.origin],
    empty: "The dispatcher shows no settings.",
  });
}

const EVENTS = ["/api/v1/events", EVENTS_EVERY_MS];

/** The pages by their names: the documents that each needs beside the status, and the function that draws it. */
const PAGES = {
  overview: { title: "Overview", needs: () => [["/api/v1/history", HISTORY_EVERY_MS]], draw: overview },
  job: { title: "Job", needs: (id) => [[`/api/v1/history?job=${id}`, HISTORY_EVERY_MS], EVENTS], draw: jobPage },
  workers: { title: "Workers", needs: () => [], draw: workersPage },
  events: { title: "Events", needs: () => [EVENTS], draw: (_, documents) => showEvents("events", documents.get(EVENTS[0])?.events ?? []) },
  settings: { title: "Settings", needs: () => [["/api/v1/settings", SETTINGS_EVERY_MS]], draw: settingsPage },
};

/** Returns the page of an address such as `#/job/1001`. An unknown address is the overview. */
export function pageOf(hash) {
  const [name, argument] = hash.replace(/^#\//, "").split("/");
  const id = Number(argument);
  if (name === "job" && Number.isSafeInteger(id)) return { name, id, ...PAGES.job };
  return name !== "job" && Object.hasOwn(PAGES, name) ? { name, ...PAGES[name] } : { name: "overview", ...PAGES.overview };
}

/** Shows the section of a page, and marks its link. */
export function turnTo({ name, title, id }) {
  for (const section of document.querySelectorAll("main > .page")) section.hidden = section.id !== `page-${name}`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${title}${isKnown(id) ? ` ${id}` : ""} · Millstream`;
}

export const focusContent = () => byId("content").focus({ preventScroll: true });
