// The page and the widget of a preference experiment: one component, two transports.
// Nothing is loaded from elsewhere, and no text becomes markup unless it is marked.

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const RETRY_SECONDS = [1, 2, 4, 8];
const MESSAGE_SECONDS = 6;
const SETTLE_SECONDS = 0.3;
// Of so many characters a text has no room in half a phone.
const LONG_TEXT = 60;
const REPLY_SECONDS = 30;
// Rows that a phone shows of a table, and how wide it is at most.
const FEW_ROWS = 10, PHONE_WIDTH = 600;
// Keys that a slider takes by itself.
const SLIDING = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"]);
const SVG = "http://www.w3.org/2000/svg";

/** An element with properties, attributes (a-b), listeners (onx) and children. */
function make(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "value" || name === "checked") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function draw(tag, props = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const wait = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
const percent = (share) => Math.round(100 * share);
const letter = (place) => LETTERS[place] ?? `${place + 1}`;

// ---------------------------------------------------------------- transports

/** A call that was refused (status of HTTP), or got no reply in JSON (0). */
class CallError extends Error {
  constructor(message, status, { question = null, needs = null, experiment = null } = {}) {
    super(message);
    this.status = status;
    this.question = question;
    this.needs = needs;
    // The one that is asked about, where the call was about another.
    this.experiment = experiment;
  }

  /** Whether the same call can succeed later. */
  get passes() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

/** Calls that get a question, which is asked in a context. */
const ASKING = new Set(["question", "own", "claim"]);
const WRITES = new Set(["answer", "skip", "undo", "own", "claim"]);

class HttpTransport {
  constructor(token, texts) {
    this.texts = texts;
    this.headers = token ? { Authorization: `Bearer ${token}` } : {};
  }

  async call(name, given) {
    const known = Object.entries(given).filter(([, v]) => v !== null && v !== undefined);
    let url = `api/${name}`;
    const request = { headers: { ...this.headers }, cache: "no-store" };
    // A phone that slept, or has changed its network, may wait for a reply for ever.
    if (name !== "findings") request.signal = AbortSignal.timeout?.(1000 * REPLY_SECONDS);
    if (WRITES.has(name)) {
      request.method = "POST";
      request.headers["Content-Type"] = "application/json";
      request.body = JSON.stringify(Object.fromEntries(known));
    } else if (known.length) url += `?${new URLSearchParams(known.map(([k, v]) => [k, typeof v === "object" ? JSON.stringify(v) : v]))}`;
    let reply, found;
    try {
      reply = await fetch(url, request);
      found = await reply.json();
    } catch {
      throw new CallError(this.texts.say("noConnection"), 0);
    }
    if (!reply.ok) throw new CallError(found.error ?? reply.statusText, reply.status, found);
    return found;
  }
}

class WidgetTransport {
  constructor(model) {
    this.model = model;
    this.open = new Map();
    this.last = 0;
    model.on("msg:custom", ({ id, found, error, status, ...details }) => {
      const waiting = this.open.get(id);
      this.open.delete(id);
      if (error === undefined) waiting?.done(found);
      else waiting?.failed(new CallError(error, status, details));
    });
  }

  call(name, given) {
    // Every view of the widget hears every reply.
    const id = `${Math.random()}-${++this.last}`;
    return new Promise((done, failed) => {
      this.open.set(id, { done, failed });
      this.model.send({ id, call: name, given });
    });
  }
}

/** Answers that are on their way. With a key they survive a reload, and tabs share them. */
class Outbox {
  constructor(key) {
    this.key = key;
    this.kept = [];
  }

  get all() {
    if (this.key === null) return this.kept;
    try {
      return JSON.parse(localStorage.getItem(this.key)) ?? this.kept;
    } catch {
      return this.kept;
    }
  }

  put(given) {
    this.#keep([...this.all, given]);
  }

  remove(given) {
    const same = (one) => ["experiment", "question", "rater"].every((name) => one[name] === given[name]);
    this.#keep(this.all.filter((one) => !same(one)));
  }

  #keep(all) {
    this.kept = all;
    if (this.key === null) return;
    try {
      if (all.length) localStorage.setItem(this.key, JSON.stringify(all));
      else localStorage.removeItem(this.key);
    } catch {
      // A browser without storage still sends while the page is open.
    }
  }
}

/** Seconds for which a question could be seen. */
class Stopwatch {
  constructor() {
    this.restart();
    this.turn = () => {
      if (document.hidden) this.pause();
      else this.from ??= performance.now();
    };
    document.addEventListener("visibilitychange", this.turn);
  }

  restart() {
    this.before = 0;
    this.from = document.hidden ? null : performance.now();
  }

  pause() {
    if (this.from !== null) this.before += performance.now() - this.from;
    this.from = null;
  }

  get seconds() {
    const now = this.from === null ? 0 : performance.now() - this.from;
    return Math.round(this.before + now) / 1000;
  }

  stop() {
    document.removeEventListener("visibilitychange", this.turn);
  }
}

// ------------------------------------------------------------------ contents

const CONTENTS = {
  text: ({ text }) => make("p", { class: "bp-text" }, text),
  markup({ html }) {
    const element = make("div", { class: "bp-markup" });
    element.innerHTML = html;
    // One that waits until it is scrolled to cannot be waited for.
    for (const picture of element.querySelectorAll("img")) picture.loading = "eager";
    return element;
  },
  image: ({ src }, name) =>
    make("img", { class: "bp-image", src, alt: name, draggable: "false" }),
  audio: ({ src }, name) => player("audio", src, name),
  video: ({ src }, name) => player("video", src, name),
  table: ({ rows }, name, texts) =>
    make(
      "table",
      { class: "bp-table", "aria-label": name },
      make("tbody", {}, ...rows.map((row) => tableRow(row, texts))),
    ),
};

/** What a design says that is a table or a text: its values that move, or the text. */
function valueWords(shown) {
  const rows = shown.filter(({ type }) => type === "table").flatMap(({ rows }) => rows.filter((row) => row.differs));
  return [rowWords(rows), ...shown.filter(({ type }) => type === "text").map(({ text }) => text)].filter(Boolean).join(", ");
}

function rowWords(rows) {
  return rows.map(({ name, value, unit }) => `${name} ${value} ${unit}`.trim()).join(", ");
}

/** Goes on with a sound or a film where the slider has brought another one into sight. */
function follow(before, after) {
  const next = [...after.querySelectorAll("audio, video")];
  before.querySelectorAll("audio, video").forEach((medium, i) => {
    if (medium.paused) return;
    medium.pause();
    if (!next[i]) return;
    next[i].currentTime = medium.currentTime;
    // A browser may refuse to play what was not asked for by a tap.
    next[i].play().catch(() => {});
  });
}

function player(tag, src, name) {
  const props = { class: `bp-${tag}`, controls: true, preload: "metadata" };
  return make(tag, { ...props, src, "aria-label": name, playsinline: tag === "video" });
}

function tableRow({ name, value, unit, differs, place, rank }, texts) {
  const amount = make("span", { class: "bp-amount" }, make("span", { class: "bp-value" }, value));
  if (unit) amount.append(make("span", { class: "bp-unit" }, ` ${unit}`));
  if (rank) {
    const mark = { class: "bp-rank", role: "img", "aria-label": texts.say(rank > 0 ? "more" : "less") };
    amount.append(make("span", mark, rank > 0 ? "▲" : "▼"));
  }
  const number = make("td", {}, amount);
  if (place !== null) {
    const bar = make("span", { class: "bp-bar", "aria-hidden": "true" });
    bar.style.setProperty("--place", `${100 * place}%`);
    number.append(bar);
  }
  const row = make("tr", { class: differs ? "bp-differs" : "bp-same" });
  row.append(make("th", { scope: "row" }, name), number);
  return row;
}

const MEDIA = { IMG: "brokenPicture", image: "brokenPicture", AUDIO: "brokenSound", VIDEO: "brokenFilm" };

/** The medium that cannot be shown after an error at an element; null if others are tried. */
function mediumOf(element) {
  if (element.tagName !== "SOURCE") return element.tagName in MEDIA ? element : null;
  const medium = element.parentElement;
  return medium?.networkState === HTMLMediaElement.NETWORK_NO_SOURCE ? medium : null;
}

function contents(shown, name, texts) {
  return shown.map((content) => CONTENTS[content.type](content, name, texts));
}

// --------------------------------------------------------------------- words

/** The texts of a page, in one language. */
class Texts {
  constructor(table) {
    this.table = table;
    this.plural = new Intl.PluralRules(table.lang);
  }

  /** A text, with values in the place of their names. */
  say(key, values = {}) {
    return this.table[key].replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
  }

  /** The text for a number of things, as the language counts. */
  count(key, count) {
    const kind = `${key}.${this.plural.select(count)}`;
    return this.say(kind in this.table ? kind : `${key}.other`, { count });
  }

  option(place) {
    return this.say("option", { option: letter(place) });
  }

  list(places) {
    const names = places.map(letter);
    if (names.length < 2) return names.join("");
    return this.say("and", { first: names.slice(0, -1).join(", "), last: names.at(-1) });
  }

  strength(strength) {
    const distance = Math.abs(strength - 0.5);
    if (distance < 0.03) return this.say("noDifference");
    const key = distance < 0.15 ? "slightlyBetter" : distance < 0.32 ? "clearlyBetter" : "muchBetter";
    return this.say(key, { option: strength > 0.5 ? "A" : "B" });
  }

  /** Where on a line a design is: by its values, or where these are not shown by its share of the way. */
  place(position, shown) {
    return valueWords(shown) || this.say("positionOf", { percent: percent(position) });
  }

  /** An answer in words, with the design of a stop: for the message and the history. */
  answer(said, stop = []) {
    const words = [];
    if (said.winner !== undefined) words.push(this.say("isBetter", { option: letter(said.winner) }));
    if (said.best !== undefined) words.push(this.say("isBest", { option: letter(said.best) }));
    if (said.tie) words.push(this.say("noDifference"));
    if (said.ranking) words.push(said.ranking.map(letter).join(" > "));
    if (said.strength !== undefined) words.push(this.strength(said.strength));
    if (said.position !== undefined) words.push(this.say("stoppedAt", { place: this.place(said.position, stop) }));
    if (said.cannot_compare) words.push(this.say("cannotCompare"));
    if (said.invalid?.length) words.push(this.say("failed", { options: this.list(said.invalid) }));
    const joined = (values) => values.reduce((first, last) => this.say("and", { first, last }));
    if (said.ratings) words.push(this.say("rated", { values: joined(said.ratings.map((r) => (r === null ? "–" : (10 * r).toFixed(1)))) }));
    if (said.levels) words.push(this.say("level", { values: joined(said.levels.map((l) => (l === null ? "–" : `${l + 1}`))) }));
    return words.join(", ");
  }

  whom(name) {
    return name ? this.say("asName", { name }) : this.say("withoutName");
  }
}

/** The places that an answer puts first. */
function firstPlaces(said) {
  if (said.winner !== undefined) return [said.winner];
  if (said.best !== undefined) return [said.best];
  if (said.ranking) return [said.ranking[0]];
  // The one card of a line.
  if (said.position !== undefined) return [0];
  if (said.strength !== undefined && said.strength !== 0.5) return [said.strength > 0.5 ? 0 : 1];
  return [];
}

// ------------------------------------------------------------------ the view

class QuestionView {
  constructor(root, transport, texts, { page }) {
    this.root = root;
    this.transport = transport;
    this.texts = texts;
    this.page = page;
    this.busy = false;
    // How many pictures have not come: nothing is answered about what nobody saw.
    this.unseen = 0;
    // Of the pause in which nothing is answered; null if there is none.
    this.settling = null;
    this.asked = null;
    // The question that was answered or skipped last: what undo takes back.
    this.last = null;
    // Whether what else can be said is unfolded.
    this.saysMore = false;
    this.watch = new Stopwatch();
    this.ended = new AbortController();
    this.place = page ? location.origin + location.pathname : "widget";
    this.outbox = new Outbox(page ? `botorch_pref answers ${this.place}` : null);
    this.loads = 0;
    this.rater = this.#knownRater();
    // What is measured and not chosen, by name; null while nothing was said of it.
    this.context = this.#knownContext();
    // The names that answered in this browser, the latest first; "" for no name.
    this.names = this.#kept("names", []);
    this.#build();
    this.#listen();
  }

  async start() {
    this.busy = true;
    let elsewhere = null;
    for (const given of this.outbox.all) {
      const { refusal } = await this.#deliver(given);
      // What waits for another experiment hinders no answer to this one.
      if (refusal?.experiment) elsewhere = refusal;
      else if (refusal) return this.#complain(refusal);
    }
    await this.load();
    if (elsewhere) this.#warn(elsewhere.message);
  }

  stop() {
    this.watch.stop();
    this.ended.abort();
  }

  // ------------------------------------------------------------- who answers

  #knownRater() {
    if (!this.page) return null;
    return new URLSearchParams(location.search).get("rater") || this.#kept("rater", null);
  }

  /** The context of the address, as of a code that hangs in each room, or the last one. */
  #knownContext() {
    try {
      return JSON.parse(new URLSearchParams(this.page ? location.search : "").get("context")) ?? this.#kept("context", null);
    } catch {
      return null;
    }
  }

  #setContext(context) {
    this.context = context;
    this.#keep("context", context);
    if (this.page) {
      const url = new URL(location.href);
      url.searchParams.delete("context");
      history.replaceState(null, "", url);
    }
    return this.load();
  }

  /** What this browser keeps of the page, over a reload too. */
  #kept(what, otherwise) {
    try {
      return (this.page && JSON.parse(localStorage.getItem(`botorch_pref ${what} ${this.place}`))) || otherwise;
    } catch {
      return otherwise;
    }
  }

  #keep(what, value) {
    if (!this.page) return;
    try {
      localStorage.setItem(`botorch_pref ${what} ${this.place}`, JSON.stringify(value));
    } catch {
      // A browser without storage keeps it while the page is open.
    }
  }

  #setRater(name) {
    const before = this.rater;
    if ((name || null) === before) return;
    this.rater = name || null;
    const stays = this.names.includes(before ?? "") ? ` ${this.texts.say("answersStay", { name: this.texts.whom(before) })}` : "";
    this.#say(`${this.texts.say("answerAsNow", { name: this.texts.whom(name) })}${stays}`);
    this.#keep("rater", this.rater);
    if (this.page) {
      const url = new URL(location.href);
      if (name) url.searchParams.set("rater", name);
      else url.searchParams.delete("rater");
      history.replaceState(null, "", url);
    }
    // An answer that is on its way is that of who gave it; what follows is not.
    if (!this.sending) this.#loadAfter(before);
  }

  /** Loads a question; a name that is new takes over what nobody in particular was asked. */
  #loadAfter(before) {
    return this.load(before === null && this.rater !== null ? "claim" : "question");
  }

  async call(name, given = {}) {
    // A page calls again; a notebook's kernel answers when its cells are done.
    const silence = () => this.#warn(this.texts.say("noReply"));
    const timer = this.page ? null : setTimeout(silence, 1000 * REPLY_SECONDS);
    try {
      const context = ASKING.has(name) ? this.context : null;
      return await this.transport.call(name, { rater: this.rater, context, ...given });
    } finally {
      clearTimeout(timer);
    }
  }

  // ----------------------------------------------------------------- skeleton

  #build() {
    const menuItem = (text, act) =>
      make("button", { type: "button", role: "menuitem", onclick: () => { this.#menu(false); act(); } }, text);
    this.title = make("h1", { class: "bp-title" });
    this.counts = make("p", { class: "bp-counts" });
    this.chip = make("button", { type: "button", class: "bp-chip", hidden: true, onclick: () => this.#askName() });
    this.contextChip = make("button", { type: "button", class: "bp-chip", hidden: true, onclick: async () => {
      const dialog = this.#dialog(this.texts.say("contextNow"), await this.#contextForm(() => dialog.close()));
    } });
    this.menuButton = make("button", {
      type: "button", class: "bp-icon", "aria-label": this.texts.say("menu"), "aria-haspopup": "menu",
      "aria-expanded": "false", onclick: () => this.#menu(this.menu.hidden),
    }, "⋯");
    this.menu = make("div", { class: "bp-menu", role: "menu", hidden: true },
      menuItem(this.texts.say("myDesign"), () => this.#ownDesign()),
      menuItem(this.texts.say("myAnswers"), () => this.#showHistory()),
      menuItem(this.texts.say("myName"), () => this.#askName()),
      menuItem(this.texts.say("keys"), () => this.#showKeys()),
      this.page ? make("a", { role: "menuitem", class: "bp-report-link", href: this.#reportAddress() }, this.texts.say("findings"),
        make("small", {}, this.texts.say("findingsFor"))) : null,
    );
    this.main = make("main", { class: "bp-main", "aria-busy": "true" });
    this.message = make("p", { class: "bp-message", "aria-hidden": "true" });
    this.live = make("p", { class: "bp-live", role: "status", "aria-live": "polite" });
    this.alert = make("p", { class: "bp-alert", role: "alert", hidden: true });
    this.root.replaceChildren(
      make("div", { class: this.page ? "bp" : "bp bp-widget", lang: this.texts.table.lang, dir: this.texts.table.dir, tabindex: this.page ? null : "-1" },
        make("header", { class: "bp-head" },
          make("div", { class: "bp-names" }, this.title, this.counts), this.contextChip, this.chip, this.menuButton, this.menu),
        this.message, this.alert, this.main, this.live),
    );
    this.frame = this.root.firstChild;
  }

  #reportAddress() {
    const token = new URLSearchParams(location.search).get("token");
    return token ? `report?token=${encodeURIComponent(token)}` : "report";
  }

  #menu(open) {
    this.menu.hidden = !open;
    this.menuButton.setAttribute("aria-expanded", `${open}`);
    if (open) this.menu.querySelector("[role=menuitem]").focus();
  }

  #listen() {
    const { signal } = this.ended;
    const target = this.page ? document : this.frame;
    target.addEventListener("keydown", (event) => this.#key(event), { signal });
    document.addEventListener("click", (event) => {
      const path = event.composedPath();
      if (this.menu.hidden || path.includes(this.menu) || path.includes(this.menuButton)) return;
      this.#menu(false);
      // A tap beside the menu closes it, and answers nothing.
      if (path.includes(this.frame)) event.stopPropagation();
    }, { signal, capture: true });
    if (!this.page) return;
    document.addEventListener("visibilitychange", () => {
      if (!document.hidden) this.#refresh();
    }, { signal });
    addEventListener("online", () => this.#refresh(), { signal });
    addEventListener("pageshow", (event) => event.persisted && this.#refresh(), { signal });
  }

  // ---------------------------------------------------------------- questions

  /** Shows the question that is asked now; waits for it, and says so. */
  async load(call = "question") {
    const load = ++this.loads;
    const begun = performance.now();
    this.busy = true;
    this.#counts();
    this.#waiting();
    for (let failures = 0; ; ) {
      try {
        const asked = await this.call(call);
        // Another load has begun since, or all was ended.
        if (load !== this.loads) return;
        this.#connected(true);
        failures = 0;
        call = "question";
        if (asked.question !== null) return this.show(asked);
        this.#waiting((performance.now() - begun) / 1000);
      } catch (error) {
        if (load !== this.loads) return;
        if (!error.passes) return this.#complain(error);
        this.#noReply(error);
        await wait(RETRY_SECONDS[Math.min(failures++, RETRY_SECONDS.length - 1)]);
      }
    }
  }

  /** Looks whether the question on display is still asked. */
  async #refresh() {
    if (this.busy || document.querySelector("dialog[open]")) return;
    try {
      const asked = await this.call("question", { patience: 0 });
      this.#connected(true);
      if (this.busy) return;
      this.last = asked.last;
      if (this.undoButton) this.undoButton.disabled = this.last === null;
      if (asked.question === this.asked?.question && asked.experiment === this.asked?.experiment) return;
      if (asked.question === null) await this.load();
      else this.show(asked);
    } catch {
      // The answer will say so.
    }
  }

  async #counts() {
    // The number of a question need not wait for what was answered.
    this.#count();
    try {
      this.progress = await this.call("progress");
      this.title.textContent = this.progress.name;
      if (this.page) document.title = this.progress.name;
      this.#count();
      this.chip.textContent = this.rater ?? "";
      this.chip.setAttribute("aria-label", this.texts.say("answerAsChange", { name: this.rater }));
      this.chip.hidden = !this.rater;
    } catch {
      // Counts are no reason to stop.
    }
  }

  /** Says that it may be enough and what was found, and asks whether to go on. */
  #askToEnd() {
    const enough = this.progress?.enough;
    if (!this.end || !enough) return this.end?.replaceChildren();
    // Who went on is asked again when there are half as many answers more.
    if (enough.answers < 1.5 * this.#kept("went on", 0)) return this.end.replaceChildren();
    if (this.end.dataset.answers === `${enough.answers}`) return;
    this.end.dataset.answers = enough.answers;
    const goOn = () => { this.#keep("went on", enough.answers); this.end.replaceChildren(); };
    const button = (key, kind, act) => make("button", { type: "button", class: kind, onclick: act }, this.texts.say(key));
    this.end.replaceChildren(...this.#found(enough, "enoughTitle"), make("div", { class: "bp-row" },
      button("enough", "bp-save", () => this.#finish(enough)), button("goOn", "bp-quiet", goOn)));
    // It moves what a finger may be about to tap.
    if (this.asked && this.end.isConnected && !this.busy) this.#settle();
  }

  /** What was found, in words and as it is shown. */
  #found({ answers, chance, shown }, title) {
    const words = [this.texts.say("enoughWords", { count: answers })];
    const sure = chance === null ? "" : this.texts.say("enoughSure", { percent: Math.round(100 * chance) });
    const option = make("div", { class: "bp-mini bp-first" }, ...contents(shown ?? [], this.texts.say(title), this.texts));
    return [make("h2", {}, this.texts.say(title)), make("p", {}, ...words), shown ? option : "", make("p", {}, sure)];
  }

  /** Ends the questions of this person, who may go on whenever she likes. */
  #finish(enough) {
    // What a load under way brings is not shown.
    this.loads += 1;
    this.asked = null;
    const goOn = () => { this.#keep("went on", enough.answers); this.load(); };
    this.main.replaceChildren(make("div", { class: "bp-enough bp-ended", role: "status" }, make("p", { class: "bp-thanks" }, this.texts.say("thanks")), ...this.#found(enough, "enoughTitle").slice(1), make("div", { class: "bp-row" },
      make("button", { type: "button", class: "bp-quiet", onclick: goOn }, this.texts.say("goOn")))));
    if (this.page) scrollTo({ top: 0 });
  }

  /** Shows the introduction to who has not answered or skipped anything. */
  #introduce() {
    if (!this.introduction) return;
    this.introduction.textContent = this.progress?.introduction ?? "";
    this.introduction.hidden = this.last !== null || !this.introduction.textContent;
  }

  #count() {
    if (!this.progress) return;
    this.#introduce();
    this.#askToEnd();
    const { answered, yours, initial } = this.progress;
    const parts = this.asked ? [this.texts.say("question", { number: this.asked.number })] : [];
    parts.push(this.texts.count("answers", answered));
    if (yours !== answered) parts.push(this.texts.say("yours", { count: yours }));
    if (answered < initial) parts.push(this.texts.say("early"));
    this.counts.textContent = answered ? parts.join(" · ") : this.texts.say("firstQuestion");
  }

  show(asked) {
    this.asked = asked;
    this.last = asked.last;
    this.failed = new Set();
    this.values = { ratings: {}, levels: {} };
    this.note = null;
    const kinds = new Set(asked.kinds);
    // What a tap on a card says; undefined for nothing.
    this.tapped = ["winner", "best", "ranking"].find((kind) => kinds.has(kind));
    // The ranking so far; null where none is being made.
    this.order = this.tapped === "ranking" ? [] : null;
    // What compares options: of use while two of them can be judged.
    this.compares = [];
    const measured = Object.entries(asked.context ?? {}).map(([name, value]) => `${name.replaceAll("_", " ")}: ${value}`).join(", ");
    this.contextChip.textContent = measured;
    this.contextChip.setAttribute("aria-label", this.texts.say("contextChange", { values: measured }));
    this.contextChip.hidden = !measured;
    this.watch.restart();
    this.#counts();
    this.#settle();
    const media = asked.shown.some((one) => one.some((c) => c.type !== "table"));
    this.prompt = make("h2", { class: "bp-prompt", tabindex: "-1" }, this.#promptWords());
    this.slider = null;
    // Nine options or more that make a square, as those of a gallery, stand in one.
    const side = Math.sqrt(asked.options.length);
    this.side = side >= 3 && Number.isInteger(side) ? side : null;
    this.cards = asked.positions ? [this.#lineCard(asked)] : asked.shown.map((shown, place) => this.#card(shown, place));
    const long = asked.shown.flat().some((c) => c.type === "text" && c.text.length > LONG_TEXT);
    const group = make("div", { class: `bp-options ${asked.positions ? "bp-line" : `bp-of-${asked.options.length}`} ${media ? "bp-media" : "bp-numbers"} ${long ? "bp-long" : ""} ${this.side ? "bp-square" : ""}`, role: "group", "aria-label": this.texts.say("question", { number: asked.number }), "data-question": asked.question }, ...this.cards);
    group.style.setProperty("--side", this.side);
    const moved = new ResizeObserver(() => group.isConnected && (!this.busy || this.settling) && this.#settle());
    for (const one of group.querySelectorAll("img, video")) moved.observe(one);
    const beside = make("div", { class: "bp-beside" });
    const button = (text, key, act, more = "") =>
      make("button", { type: "button", class: `bp-quiet ${more}`, "aria-keyshortcuts": key, onclick: act }, text, make("kbd", { "aria-hidden": "true" }, key));
    if (kinds.has("tie")) this.compares.push(button(this.texts.say("noDifferenceButton"), "=", () => this.answer({ tie: true }), "bp-says"));
    // Of a line all fails, or nothing.
    this.nothingGood = kinds.has("invalid") && asked.positions ? () => this.answer({ invalid: [0, 1] }) : null;
    if (this.nothingGood) this.compares.push(button(this.texts.say("nothingGoodButton"), "X", this.nothingGood, "bp-says"));
    // What cannot be said while a ranking is under way.
    this.instead = [...this.compares];
    this.rankText = this.rankKey = null;
    if (kinds.has("ranking") && !this.order) {
      this.rankText = make("span", {}, this.texts.say("rankButton"));
      this.rankKey = make("kbd", { "aria-hidden": "true" }, "R");
      this.compares.push(make("button", { type: "button", class: "bp-quiet bp-says", "aria-keyshortcuts": "R", onclick: () => this.#rank() }, this.rankText, this.rankKey));
    }
    beside.append(...this.compares);
    if (kinds.has("cannot_compare")) {
      this.instead.push(button(this.texts.say("cannotCompareButton"), "C", () => this.answer({ cannot_compare: true }), "bp-says"));
      beside.append(this.instead.at(-1));
    }
    this.undoButton = button(this.texts.say("undo"), "U", () => this.undo());
    this.undoButton.disabled = this.last === null;
    const back = make("div", { class: "bp-back" }, this.undoButton, button(this.texts.say("skip"), "S", () => this.skip()));
    this.hint = make("p", { class: "bp-wait", hidden: true });
    this.introduction = make("p", { class: "bp-introduction", hidden: true });
    this.#introduce();
    this.end = make("section", { class: "bp-enough" });
    this.#askToEnd();
    this.main.replaceChildren(this.end, this.introduction, this.prompt, this.hint, this.#shared(asked) ?? "", group, beside, this.#more(kinds) ?? "", back);
    this.#watchMedia(group);
    this.#showOrder();
    this.live.textContent = `${this.said ?? ""} ${this.texts.say("question", { number: asked.number })}. ${this.prompt.textContent}`.trim();
    this.said = null;
    // Of a line the arrows move the slider, whose name is the prompt.
    const first = this.slider ?? this.prompt;
    if (this.page || this.frame.contains(document.activeElement)) first.focus({ preventScroll: true });
    if (this.page) scrollTo({ top: 0 });
  }

  /**
   * Ignores taps for a moment: the second one of a double tap was meant for the question
   * before, and one that a picture overtook for what was there before it came.
   */
  #settle() {
    const { asked, loads } = this, settling = {};
    this.settling = settling;
    this.busy = true;
    this.main.setAttribute("aria-busy", "true");
    setTimeout(() => {
      if (settling !== this.settling || asked !== this.asked || loads !== this.loads) return;
      this.settling = null;
      this.busy = false;
      this.#showBusy();
    }, 1000 * SETTLE_SECONDS);
  }

  #showBusy() {
    this.main.setAttribute("aria-busy", `${this.busy || this.unseen > 0}`);
  }

  /** Waits for pictures before anything is answered; of what cannot be shown nothing is. */
  #watchMedia(group) {
    const { asked } = this;
    const pictures = [...group.querySelectorAll("img")];
    const look = () => {
      if (asked !== this.asked) return;
      this.unseen = pictures.filter((picture) => !picture.complete).length;
      for (const button of this.main.querySelectorAll(".bp-choose, .bp-says, .bp-save")) button.inert = this.unseen > 0;
      this.#showBusy();
    };
    group.addEventListener("load", look, { capture: true });
    // Errors of media do not bubble.
    group.addEventListener("error", ({ target }) => {
      const medium = mediumOf(target);
      if (!medium || asked !== this.asked || this.sending) return;
      const place = this.cards.findIndex((card) => card.contains(medium));
      const message = this.texts.say(MEDIA[medium.tagName], { option: letter(place) });
      this.#complain({ message, question: asked.question });
    }, { capture: true });
    look();
  }

  #card(shown, place) {
    const name = this.texts.option(place);
    const pair = this.asked.options.length === 2;
    const label = make("span", { class: "bp-choose-text" });
    const key = pair ? "←→"[place] : `${place + 1}`;
    const body = make("div", { class: "bp-body", id: `bp-body-${place}` }, ...contents(shown, name, this.texts));
    const choose = this.tapped && make("button", {
      type: "button", class: "bp-choose", "aria-describedby": `bp-body-${place}`,
      onclick: (event) => { event.stopPropagation(); this.#tap(place); },
    }, label, make("kbd", { "aria-hidden": "true" }, key));
    const card = make("article", { class: choose ? "bp-card" : "bp-card bp-still", "aria-label": name },
      make("div", { class: "bp-letter", "aria-hidden": "true" }, letter(place)), body, choose);
    if (!choose) return card;
    // All of a card is its button, but for what can be operated itself.
    card.addEventListener("click", (event) => {
      const own = event.target.closest("audio, video, a, button, input, select, summary, label");
      if (!own && !String(getSelection())) this.#tap(place);
    });
    return card;
  }

  /** The values that all options of a square have, which have no room in each; null without any. */
  #shared({ shown }) {
    const rows = this.side ? shown[0].filter(({ type }) => type === "table").flatMap((table) => table.rows) : [];
    const values = rowWords(rows.filter((row) => !row.differs));
    return values ? make("p", { class: "bp-hint bp-shared" }, this.texts.say("inAll", { values })) : null;
  }

  /** The designs along a line, of which the slider brings one into sight. */
  #lineCard({ shown, positions }) {
    const name = (place) => this.texts.say("positionOf", { percent: percent(positions[place]) });
    const bodies = shown.map((one, place) => make("div", { class: "bp-body", hidden: true }, ...contents(one, name(place), this.texts)));
    const middle = Math.floor((positions.length - 1) / 2);
    const words = make("output", { class: "bp-words", "aria-hidden": "true" });
    const says = shown.some((one) => one.some((c) => c.type === "table" || c.type === "text")) ? "" : name;
    const slider = make("input", { type: "range", class: "bp-dial bp-untouched", min: "0", max: `${positions.length - 1}`, step: "1", value: `${middle}`, "aria-label": this.#promptWords() });
    // Who has not moved it has seen one design.
    const choose = make("button", { type: "button", class: "bp-choose", disabled: true, onclick: () => this.#stop() },
      make("span", { class: "bp-choose-text" }, this.texts.say("moveFirst")), make("kbd", { "aria-hidden": "true" }, "↵"));
    let at = null;
    const turn = () => {
      const before = at;
      at = Number(slider.value);
      bodies.forEach((body, place) => { body.hidden = place !== at; });
      if (before !== null && before !== at) follow(bodies[before], bodies[at]);
      slider.setAttribute("aria-valuetext", this.texts.place(positions[at], shown[at]));
      words.textContent = says ? says(at) : "";
    };
    slider.addEventListener("input", () => {
      slider.classList.remove("bp-untouched");
      choose.disabled = false;
      choose.firstChild.textContent = this.texts.say("bestHere");
      turn();
    });
    this.slider = slider;
    turn();
    return make("article", { class: "bp-card bp-still" }, ...bodies, make("div", { class: "bp-slide" }, slider), words, choose);
  }

  /** Says that the design in sight is the best one, once there were others. */
  #stop() {
    if (this.slider.classList.contains("bp-untouched")) return;
    this.answer({ position: this.asked.positions[Number(this.slider.value)] });
  }

  /** Moves the slider by a key where something else has the focus. */
  #turn(key) {
    const { slider } = this, { direction } = getComputedStyle(slider);
    const right = direction === "rtl" ? -1 : 1;
    const steps = { ArrowLeft: -right, ArrowDown: -1, ArrowRight: right, ArrowUp: 1, Home: -slider.max, End: Number(slider.max) };
    if (!(key in steps)) return null;
    return () => {
      slider.value = `${Number(slider.value) + steps[key]}`;
      slider.dispatchEvent(new Event("input"));
      slider.focus({ preventScroll: true });
    };
  }

  /** Goes to another option of a square by an arrow, from the middle on; Enter takes it. */
  #walk(key) {
    const { side, cards } = this;
    const right = getComputedStyle(this.main).direction === "rtl" ? -1 : 1;
    const steps = { ArrowLeft: [0, -right], ArrowRight: [0, right], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (!side || !this.tapped || !(key in steps)) return null;
    return () => {
      const at = cards.findIndex((card) => card.contains(this.root.getRootNode().activeElement));
      const within = (place) => Math.min(Math.max(place, 0), side - 1);
      const row = within(Math.floor(at / side) + steps[key][0]), column = within((at % side) + steps[key][1]);
      cards[at < 0 ? Math.floor(cards.length / 2) : row * side + column].querySelector(".bp-choose").focus();
    };
  }

  #tap(place) {
    if (this.busy || this.unseen || !this.tapped || this.failed.has(place)) return;
    if (this.#judgeable().length < 2) return;
    if (this.order) return this.#rankNext(place);
    this.answer({ [this.tapped]: place });
  }

  #judgeable() {
    return this.asked.options.map((_, place) => place).filter((place) => !this.failed.has(place));
  }

  // ------------------------------------------------------------------ ranking

  #promptWords() {
    if (this.asked.prompt) return this.asked.prompt;
    if (this.asked.positions) return this.texts.say("stopWhereBest");
    if (this.order) return this.texts.say("inOrder");
    if (this.tapped) return this.texts.say(this.tapped === "winner" ? "whichIsPreferred" : "whichIsBest");
    return this.texts.say(this.asked.kinds.some((kind) => kind === "levels" || kind === "ratings") ? "howGood" : "compareThem");
  }

  /** Whether taps have begun what Undo and Esc take back; where nothing but a ranking is asked for, the first tap begins it. */
  get #ranking() {
    return Boolean(this.order && (this.rankText || this.order.length));
  }

  /** Begins a ranking, or ends one that is under way. */
  #rank() {
    this.order = this.order && this.rankText ? null : [];
    this.prompt.textContent = this.#promptWords();
    if (this.rankText) {
      this.rankText.textContent = this.texts.say(this.order ? "stopRanking" : "rankButton");
      this.rankKey.textContent = this.order ? "Esc" : "R";
    }
    this.#showOrder();
    this.live.textContent = this.order ? `${this.prompt.textContent}. ${this.hint.textContent}` : `${this.texts.say("rankingStopped")} ${this.prompt.textContent}`;
  }

  #rankNext(place) {
    this.order = this.order.includes(place) ? this.order.filter((p) => p !== place) : [...this.order, place];
    const left = this.#judgeable().filter((p) => !this.order.includes(p));
    // Of those that are left the others may have failed since.
    if (left.length <= 1 && this.order.length) return this.answer({ ranking: [...this.order, ...left] });
    this.#showOrder();
    this.live.textContent = this.hint.textContent;
  }

  #showOrder() {
    const begun = this.order?.length ? this.texts.say("rankedSoFar", { order: this.order.map(letter).join(" > ") }) : this.texts.say("nothingSaved");
    const how = this.asked.prompt && !this.order?.length ? `${this.texts.say("inOrder")}. ${begun}` : begun;
    this.hint.textContent = this.rankText && !this.order?.length ? `${how} ${this.texts.say("stopGoesBack")}` : how;
    this.hint.hidden = !this.order;
    for (const one of this.instead) one.hidden = this.#ranking;
    this.main.classList.toggle("bp-ranking", Boolean(this.order));
    this.undoButton.disabled = this.#ranking ? !this.order.length : this.last === null;
    if (!this.tapped) return;
    this.cards.forEach((card, place) => {
      const at = this.order?.indexOf(place) ?? -1;
      card.classList.toggle("bp-ordered", at >= 0);
      const key = this.order ? "isNext" : this.tapped === "winner" ? "isBetter" : "isBest";
      const text = at >= 0 ? `${at + 1}.` : this.texts.say(key, { option: letter(place) });
      card.querySelector(".bp-choose-text").textContent = text;
    });
  }

  // ----------------------------------------------------------------- say more

  #more(kinds) {
    const parts = [];
    const places = this.asked.options.map((_, place) => place);
    if (kinds.has("strength")) parts.push(this.#strength());
    if (kinds.has("levels")) parts.push(this.#perOption(this.texts.say("howGoodLevels", { levels: this.asked.levels }), places, (place) => this.#levels(place)));
    else if (kinds.has("ratings")) parts.push(this.#perOption(this.texts.say("howGood"), places, (place) => this.#rating(place)));
    if (kinds.has("invalid") && !this.nothingGood) parts.push(this.#perOption(this.texts.say("whatFailed"), places, (place) => this.#failure(place), "bp-row"));
    if (!parts.length) return null;
    this.note = make("textarea", { class: "bp-note", rows: "2", maxlength: "2000", placeholder: this.texts.say("noteOptional"), "aria-label": this.texts.say("note") });
    this.saveButton = make("button", { type: "button", class: "bp-save", disabled: true, onclick: () => this.answer({}) }, this.texts.say(this.tapped ? "saveWithoutChoice" : "saveThis"));
    const whole = make("div", { class: "bp-parts" }, ...parts, this.note, this.saveButton);
    if (!this.tapped) return make("div", { class: "bp-more" }, whole);
    // Whoever says more says it of the next question too.
    const kept = { open: this.saysMore, ontoggle: (event) => { this.saysMore = event.target.open; } };
    return make("details", { class: "bp-more", ...kept }, make("summary", {}, this.texts.say("sayMore")), whole);
  }

  #perOption(title, places, control, more = "") {
    return make("fieldset", { class: `bp-part ${more}` }, make("legend", {}, title), ...places.map(control));
  }

  #strength() {
    const words = make("output", { class: "bp-words" }, this.texts.say("noDifference"));
    const slider = make("input", { type: "range", min: "-49", max: "49", value: "0", step: "1", "aria-label": this.texts.say("howMuchBetter"), "aria-valuetext": this.texts.say("noDifference") });
    // To the left, where A is, means that A is better.
    const strength = () => (50 - Number(slider.value)) / 100;
    const save = make("button", { type: "button", class: "bp-save", onclick: () => this.answer({ strength: strength() }) }, this.texts.say("save"));
    this.compares.push(save);
    slider.addEventListener("input", () => {
      words.textContent = this.texts.strength(strength());
      slider.setAttribute("aria-valuetext", words.textContent);
    });
    return make("fieldset", { class: "bp-part" }, make("legend", {}, this.texts.say("howMuchBetter")),
      make("div", { class: "bp-slide" }, make("span", { "aria-hidden": "true" }, "A"), slider, make("span", { "aria-hidden": "true" }, "B")),
      make("div", { class: "bp-slide" }, words, save));
  }

  #rating(place) {
    const words = make("output", { class: "bp-words" }, "–");
    const slider = make("input", { type: "range", min: "1", max: "99", value: "50", step: "1", class: "bp-untouched", "aria-label": this.texts.say("ratingOf", { option: letter(place) }) });
    slider.addEventListener("input", () => {
      slider.classList.remove("bp-untouched");
      this.values.ratings[place] = Number(slider.value) / 100;
      words.textContent = (Number(slider.value) / 10).toFixed(1);
      slider.setAttribute("aria-valuetext", words.textContent);
      this.#canSave();
    });
    return make("div", { class: "bp-slide" }, make("span", { "aria-hidden": "true" }, letter(place)), slider, words);
  }

  #levels(place) {
    const box = make("div", { class: "bp-slide", role: "radiogroup", "aria-label": this.texts.say("levelOf", { option: letter(place) }) }, make("span", { "aria-hidden": "true" }, letter(place)));
    const buttons = Array.from({ length: this.asked.levels }, (_, level) =>
      make("button", { type: "button", class: "bp-level", role: "radio", "aria-checked": "false", onclick: () => {
        const same = this.values.levels[place] === level;
        if (same) delete this.values.levels[place];
        else this.values.levels[place] = level;
        buttons.forEach((b, i) => b.setAttribute("aria-checked", `${!same && i === level}`));
        this.#canSave();
      } }, `${level + 1}`));
    box.append(...buttons);
    return box;
  }

  #failure(place) {
    const button = make("button", { type: "button", class: "bp-toggle", "aria-pressed": "false", onclick: () => {
      if (this.failed.has(place)) this.failed.delete(place);
      else this.failed.add(place);
      const failed = this.failed.has(place);
      button.setAttribute("aria-pressed", `${failed}`);
      this.cards[place].classList.toggle("bp-failed", failed);
      const few = this.#judgeable().length < 2;
      for (const one of this.compares) one.disabled = few;
      this.root.querySelectorAll(".bp-choose").forEach((choose, at) => { choose.disabled = few || this.failed.has(at); });
      if (this.order && few) this.#rank();
      else if (this.order) {
        this.order = this.order.filter((one) => one !== place);
        // The last tap saves a ranking, so one is left to make.
        if (this.order.length === this.#judgeable().length) this.order.pop();
        this.#showOrder();
      }
      this.#canSave();
    } }, this.texts.say("failed", { options: letter(place) }));
    return button;
  }

  #extras() {
    const extras = {};
    if (this.failed.size) extras.invalid = [...this.failed].sort();
    for (const kind of ["ratings", "levels"]) {
      // What failed is not good in any degree.
      const values = this.asked.options.map((_, place) => (this.failed.has(place) ? null : this.values[kind][place] ?? null));
      if (values.some((value) => value !== null)) extras[kind] = values;
    }
    return extras;
  }

  #canSave() {
    this.saveButton.disabled = !Object.keys(this.#extras()).length;
  }

  // ------------------------------------------------------------------ answers

  async answer(said) {
    if (this.busy || this.unseen || !this.asked) return;
    if ((said.tie || said.strength !== undefined) && this.#judgeable().length < 2) return;
    this.busy = true;
    const extras = said.cannot_compare ? {} : this.#extras();
    const note = this.note?.value.trim() || undefined;
    const whole = { ...extras, ...said };
    const { question, experiment } = this.asked;
    const given = { question, experiment, rater: this.rater, ...whole, note, seconds: this.watch.seconds };
    this.outbox.put(given);
    this.main.setAttribute("aria-busy", "true");
    for (const place of firstPlaces(whole)) this.cards[place].classList.add("bp-chosen");
    this.main.classList.add("bp-sending");
    const stop = this.slider ? this.asked.shown[this.slider.value] : [];
    await this.#send(given, this.texts.answer(whole, stop));
  }

  /** Sends an answer, and shows what follows. */
  async #send(given, words) {
    const { next, refusal } = await this.#deliver(given, words);
    this.main.classList.remove("bp-sending", "bp-ranking");
    if (refusal) return this.#complain(refusal);
    if (this.rater !== given.rater) return this.#loadAfter(given.rater);
    return next ? this.show(next) : this.load();
  }

  /** Sends an answer until it is stored or refused; the next question, or the refusal. */
  async #deliver(given, words = this.texts.say("yourAnswer")) {
    this.sending = true;
    for (let failures = 0; ; ) {
      try {
        const { next } = await this.call("answer", given);
        this.last = given.question;
        this.#remember(given.rater ?? "");
        this.#connected(true);
        this.#say(this.texts.say("saved", { words }));
        return this.#delivered(given, { next });
      } catch (error) {
        // The experiment has another answer, or cannot have this one.
        if (error.status === 409 || error.status === 400) {
          this.#say(error.status === 409 ? this.texts.say("answeredBefore") : error.message);
          return this.#delivered(given, {});
        }
        // An old address, or one where something else is served by now: it is kept.
        const kept = this.texts.say("keptHere");
        if (!error.passes) {
          this.#connected(true);
          error.message = `${error.message} ${kept}`;
          return this.#delivered(null, { refusal: error });
        }
        this.#noReply(error, kept);
        const pause = wait(RETRY_SECONDS[Math.min(failures++, RETRY_SECONDS.length - 1)]);
        await Promise.race([pause, new Promise((done) => addEventListener("online", done, { once: true }))]);
      }
    }
  }

  /** Keeps the name of who has answered, the latest first. */
  #remember(name) {
    // Another tab may know others.
    this.names = [name, ...this.#kept("names", this.names).filter((one) => one !== name)];
    this.#keep("names", this.names);
  }

  #delivered(given, found) {
    if (given) this.outbox.remove(given);
    this.sending = false;
    return found;
  }

  async undo() {
    if (this.order?.length) return this.#rankNext(this.order.at(-1));
    if (this.#ranking || this.last === null) return;
    // Named, so that it is undone once where the reply is lost and this is tapped again.
    await this.#act("undo", { question: this.last, experiment: this.asked?.experiment }, this.texts.say("undone"));
  }

  async skip() {
    if (!this.asked) return;
    const { question, experiment } = this.asked;
    await this.#act("skip", { question, experiment }, this.texts.say("skipped"));
  }

  /** A call after which another question is on display. */
  async #act(name, given, words) {
    if (this.busy) return;
    this.busy = true;
    const { rater } = this;
    try {
      const found = await this.call(name, given);
      if (rater !== this.rater) return;
      if (name === "skip") this.last = given.question;
      this.#say(words);
      const next = "next" in found ? found.next : found;
      if (next && next.question !== null) this.show(next);
      else await this.load();
    } catch (error) {
      this.busy = false;
      this.#say(error.message);
      if (this.page) scrollTo({ top: 0 });
      // Something was done elsewhere, under the same name.
      if (!error.passes) await this.#refresh();
    }
  }

  // ----------------------------------------------------------------- messages

  #say(words) {
    clearTimeout(this.fading);
    // What follows at once is read out after it, not instead of it.
    this.said = /[.!?]$/.test(words) ? words : `${words}.`;
    this.live.textContent = words;
    this.message.textContent = words;
    this.fading = setTimeout(() => { this.message.textContent = ""; }, 1000 * MESSAGE_SECONDS);
  }

  #warn(words) {
    // The message is at the top, and the button that was tapped may be at the end.
    if (words && this.alert.hidden && this.page) scrollTo({ top: 0 });
    // What was saved before it is no news beside what is not saved now.
    if (words) this.message.textContent = "";
    if (this.alert.textContent !== words) this.alert.textContent = words;
    this.alert.hidden = !words;
  }

  #connected(yes, more = "") {
    this.#warn(yes ? "" : `${this.texts.say("noConnection")} ${more}`.trim());
  }

  /** Says why a call has to be repeated. */
  #noReply(error, more = "") {
    if (error.status === 503 || error.status === 500) this.#warn(`${error.message} ${more}`.trim());
    else this.#connected(false, more);
  }

  #waiting(waited = 0) {
    this.main.setAttribute("aria-busy", "true");
    const words = waited > 1 ? this.texts.say("beingChosen", { seconds: Math.round(waited) }) : this.texts.say("nextQuestion");
    const note = make("p", { class: "bp-wait" }, words);
    if (waited > 1) this.live.textContent = words;
    const ghost = () => make("div", { class: "bp-card bp-ghost", "aria-hidden": "true" }, make("div", { class: "bp-letter" }), make("div", { class: "bp-body" }), make("div", { class: "bp-choose" }));
    this.main.replaceChildren(note, make("div", { class: "bp-options bp-of-2 bp-numbers" }, ghost(), ghost()));
  }

  /** Asks what is the case now, before the first question. */
  async #askContext() {
    const form = await this.#contextForm(() => {});
    this.main.replaceChildren(make("div", { class: "bp-empty" }, form));
  }

  /** The form of what is measured and not chosen, which loads a question when it is sent. */
  async #contextForm(sent) {
    const { context } = await this.call("form");
    const inputs = context.map((field) => [field, this.#field(field)]);
    for (const [field, { name, set, between }] of inputs) {
      const value = this.context?.[name] ?? field.values?.[0];
      if (value === undefined) between(field.lower, field.upper);
      else set(value);
    }
    return make("form", { class: "bp-form", novalidate: true, onsubmit: (event) => {
      event.preventDefault();
      sent();
      this.#setContext(Object.fromEntries(inputs.map(([, { name, get }]) => [name, get()])));
    } }, make("p", {}, this.texts.say("contextUse")), ...inputs.map(([, { element }]) => element), make("button", { class: "bp-save" }, this.texts.say("save")));
  }

  /** Says why there is no question, and what can be done about it. */
  #complain({ message, question, needs }) {
    if (needs === "context" && this.context === null) return this.#askContext();
    this.busy = false;
    this.asked = null;
    this.main.setAttribute("aria-busy", "false");
    const button = (text, act) => make("button", { type: "button", class: "bp-save", onclick: act }, text);
    const skip = question === null ? null : button(this.texts.say("skipQuestion"), () => this.#act("skip", { question }, this.texts.say("skipped")));
    const name = needs === "context" ? button(this.texts.say("contextNow"), () => this.#askContext()) : needs === "name" ? button(this.texts.say("enterName"), () => this.#askName()) : null;
    this.main.replaceChildren(make("div", { class: "bp-empty" },
      make("p", { role: "alert" }, needs === "name" && !this.rater ? this.texts.say("needsName") : message), name ?? button(this.texts.say("tryAgain"), () => this.start()), ...(skip ? [skip] : [])));
  }

  // --------------------------------------------------------------------- keys

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    // To a notebook letters are commands: x would cut the cell.
    if (!this.page) event.stopPropagation();
    if (event.repeat) return;
    if (event.key === "Escape" && !this.menu.hidden) {
      this.#menu(false);
      return this.menuButton.focus();
    }
    if (event.key === "Escape" && this.order && !this.busy && !this.root.querySelector("dialog[open]")) return this.#rank();
    if (!this.menu.hidden && (event.key === "ArrowDown" || event.key === "ArrowUp")) return this.#walkMenu(event);
    const target = event.composedPath()[0];
    if (target !== this.slider && target.closest?.("input, textarea, select, audio, video, dialog, [role=menu], [contenteditable]")) return;
    // Enter on a button is a tap on it.
    if (this.busy || !this.asked || (event.key === "Enter" && target.closest?.("button, a, summary"))) return;
    const act = target === this.slider && SLIDING.has(event.key) ? null : this.#actOf(event.key);
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  #walkMenu(event) {
    event.preventDefault();
    const items = [...this.menu.querySelectorAll("[role=menuitem]")];
    const step = event.key === "ArrowDown" ? 1 : -1;
    const at = items.indexOf(this.root.getRootNode().activeElement);
    items[(at + step + items.length) % items.length].focus();
  }

  #actOf(key) {
    const size = this.asked.options.length;
    const kinds = this.#ranking ? ["ranking"] : this.asked.kinds;
    const turn = this.slider ? this.#turn(key) : this.#walk(key);
    if (turn) return turn;
    if (this.slider && key === "Enter") return () => this.#stop();
    if (size === 2 && key === "ArrowLeft") return () => this.#tap(0);
    if (size === 2 && key === "ArrowRight") return () => this.#tap(1);
    const place = "123456789".indexOf(key);
    if (key.length === 1 && place >= 0 && place < size) return () => this.#tap(place);
    if ((key === "=" || key === "0") && kinds.includes("tie")) return () => this.answer({ tie: true });
    const letters = { c: kinds.includes("cannot_compare") && (() => this.answer({ cannot_compare: true })), u: () => this.undo(), s: () => this.skip(), x: this.nothingGood, r: this.rankText && (() => this.#rank()) };
    return letters[key.toLowerCase()] || null;
  }

  // ------------------------------------------------------------------ dialogs

  #dialog(title, ...children) {
    const close = () => dialog.close();
    const id = `bp-dialog-${Math.random().toString(36).slice(2)}`;
    const dialog = make("dialog", { class: "bp-dialog", "aria-labelledby": id },
      make("header", {}, make("h2", { id }, title), make("button", { type: "button", class: "bp-icon", "aria-label": this.texts.say("close"), onclick: close }, "✕")),
      ...children);
    dialog.addEventListener("close", () => dialog.remove());
    dialog.addEventListener("click", (event) => event.target === dialog && close());
    this.frame.append(dialog);
    dialog.showModal();
    return dialog;
  }

  #askName() {
    const input = make("input", { type: "text", value: this.rater ?? "", maxlength: "100", autocomplete: "nickname", id: "bp-name", enterkeyhint: "done" });
    const form = make("form", { class: "bp-form", onsubmit: (event) => {
      event.preventDefault();
      dialog.close();
      this.#setRater(input.value.trim());
    } }, make("label", { for: "bp-name" }, this.texts.say("nameUse")), input, make("button", { class: "bp-save" }, this.texts.say("save")), this.#otherNames((name) => { dialog.close(); this.#setRater(name); }));
    const dialog = this.#dialog(this.texts.say("myName"), form);
    input.focus();
  }

  /** Names to go back to, with the answers that were given under them; null if there is none. */
  #otherNames(choose) {
    const others = this.names.filter((name) => name !== (this.rater ?? ""));
    if (!others.length) return null;
    const buttons = others.map((name) => make("button", { type: "button", class: "bp-toggle bp-known", onclick: () => choose(name) }, name || this.texts.say("withoutName")));
    return make("div", { class: "bp-form", role: "group", "aria-label": this.texts.say("otherNames") }, make("span", {}, this.texts.say("otherNamesUse")), make("div", { class: "bp-row" }, ...buttons));
  }

  #showKeys() {
    const say = (key) => this.texts.say(key);
    const keys = [["← →", say("keysSides")], ["← → ↑ ↓", say("keysWalk")], ["Home End", say("keysEnds")], ["↵", say("keysStopHere")], ["1 2 3 …", say("keysNumbers")], ["=", say("noDifference")], ["X", say("nothingGoodButton")], ["C", say("cannotCompare")], ["R", say("keysRank")], ["Esc", say("keysStop")], ["U", say("keysUndo")], ["S", say("keysSkip")]];
    this.#dialog(say("keys"), make("dl", { class: "bp-keys" }, ...keys.flatMap(([key, what]) => [make("dt", {}, make("kbd", {}, key)), make("dd", {}, what)])));
  }

  async #showHistory() {
    const body = make("div", { class: "bp-history" });
    const mine = this.rater ?? "";
    const names = [mine, ...this.names.filter((name) => name !== mine)];
    const given = this.#segments(this.texts.say("answersGiven"), names.map((name) => this.texts.whom(name)), (place) => this.#fillHistory(body, names[place]));
    this.#dialog(this.texts.say("myAnswers"), names.length > 1 ? given.element : null, body);
    given.choose(0);
  }

  async #fillHistory(body, name) {
    const call = this.call("history", { rater: name || null });
    this.history = call;
    body.replaceChildren(make("p", {}, "…"));
    let rows;
    try {
      const { answers } = await call;
      rows = answers.length ? answers.map((one) => this.#past(one)) : [make("p", {}, this.texts.say("noAnswers"))];
    } catch (error) {
      rows = [make("p", { role: "alert" }, error.message)];
    }
    // Another name may have been chosen meanwhile.
    if (this.history === call) body.replaceChildren(...rows);
  }

  #past({ number, shown, titles, said, time }) {
    const first = firstPlaces(said);
    // In brackets the name that the findings have.
    const called = (place) => (said.position === undefined ? `${letter(place)} (${titles[place]})` : titles[place]);
    const minis = shown.map((one, place) =>
      make("div", { class: `bp-mini ${first.includes(place) ? "bp-first" : ""}` }, make("div", { class: "bp-letter" }, called(place)), ...contents(one, this.texts.option(place), this.texts)));
    const when = make("time", { datetime: time }, new Date(time).toLocaleTimeString(this.texts.table.lang, { hour: "2-digit", minute: "2-digit" }));
    return make("section", { class: "bp-past" }, make("h3", {}, `${number}. ${this.texts.answer(said, shown[0])} `, when), make("div", { class: "bp-minis" }, ...minis));
  }

  // --------------------------------------------------------------- own design

  async #ownDesign() {
    if (!this.asked) return;
    let fields;
    try {
      ({ fields } = await this.call("form"));
    } catch (error) {
      return this.#say(error.message);
    }
    const { options } = this.asked;
    const letters = options.map((_, place) => letter(place));
    const inputs = fields.map((field) => this.#field(field));
    const start = (place) => {
      for (const { name, set, between } of inputs) {
        if (place < options.length) set(options[place][name]);
        else between(options[0][name], options[1][name]);
      }
      against.choose(place < options.length ? place : 0);
    };
    // A design between the first two differs from the first, so that they can be compared.
    const from = this.#segments(this.texts.say("startFrom"), [this.texts.say("between"), ...letters], (place) => start(place ? place - 1 : options.length));
    const against = this.#segments(this.texts.say("compareWith"), letters, () => check());
    const hint = make("p", { class: "bp-hint", role: "status" });
    const save = make("button", { class: "bp-save" }, this.texts.say("compare"));
    const check = () => {
      save.disabled = inputs.every((input) => input.looksLike(options[against.chosen()][input.name]));
      hint.textContent = save.disabled ? this.texts.say("asItIs", { option: letters[against.chosen()] }) : "";
    };
    const problem = make("p", { class: "bp-problem", role: "alert", hidden: true });
    // By chance, so that a bias for A is none for a person's own design; sent again, it stays.
    const reversed = Math.random() < 0.5;
    const form = make("form", { class: "bp-form", novalidate: true, onsubmit: async (event) => {
      event.preventDefault();
      if (save.disabled) return;
      // A second tap sends nothing.
      save.disabled = true;
      const own = Object.fromEntries(inputs.map((input) => [input.name, input.get()]));
      problem.hidden = true;
      const pair = [own, options[against.chosen()]];
      if (reversed) pair.reverse();
      try {
        const asked = await this.call("own", { options: pair });
        dialog.close();
        this.#say(this.texts.say("designAmong"));
        if (asked.question === null) await this.load();
        else this.show(asked);
      } catch (error) {
        save.disabled = false;
        problem.textContent = error.message;
        problem.hidden = false;
      }
    }, oninput: () => check() }, from.element, ...inputs.map((input) => input.element), against.element, hint, problem, save);
    const dialog = this.#dialog(this.texts.say("myDesign"), form);
    from.choose(0);
  }

  #segments(title, names, chosen) {
    let current = 0;
    const buttons = names.map((name, place) => make("button", { type: "button", role: "radio", class: "bp-level", "aria-checked": "false", onclick: () => choose(place) }, name));
    const choose = (place) => {
      current = place;
      buttons.forEach((button, i) => button.setAttribute("aria-checked", `${i === place}`));
      chosen(place);
    };
    return { element: make("div", { class: "bp-segments", role: "radiogroup", "aria-label": title }, make("span", { "aria-hidden": "true" }, title), ...buttons), choose, chosen: () => current };
  }

  #field(field) {
    const id = `bp-field-${field.name}`;
    const label = make("label", { for: id }, field.label, field.unit ? make("span", { class: "bp-unit" }, ` ${field.unit}`) : null);
    if (field.type === "choice") {
      const select = make("select", { id, name: field.name }, ...field.values.map((value, i) => make("option", { value: `${i}` }, typeof value === "boolean" ? this.texts.say(value ? "yes" : "no") : `${value}`)));
      const element = make("div", { class: "bp-field" }, label, select);
      const get = () => field.values[Number(select.value)];
      const set = (value) => { select.value = `${field.values.indexOf(value)}`; };
      return { name: field.name, element, get, set, between: (_, b) => set(b), looksLike: (value) => get() === value };
    }
    const { lower, upper, step } = field;
    const place = (v) => field.log ? Math.log(v / lower) / Math.log(upper / lower) : (v - lower) / (upper - lower);
    const value = (p) => field.log ? lower * (upper / lower) ** p : lower + p * (upper - lower);
    const decimals = Math.max(0, Math.ceil(-Math.log10(step) - 1e-9));
    const number = make("input", { type: "number", id, name: field.name, min: `${lower}`, max: `${upper}`, step: "any", inputmode: decimals ? "decimal" : "numeric" });
    const slider = make("input", { type: "range", min: "0", max: "1000", "aria-label": field.label });
    slider.addEventListener("input", () => { number.value = value(Number(slider.value) / 1000).toFixed(decimals); });
    number.addEventListener("input", () => { slider.value = `${1000 * place(Number(number.value))}`; });
    // A value that nobody has changed is sent as it is, and not as it is shown.
    let exact = null;
    const written = (v) => `${Number(v.toFixed(decimals))}`;
    const set = (v) => { exact = v; number.value = written(v); slider.value = `${1000 * place(v)}`; };
    const get = () => number.value === "" ? null : number.value === written(exact) ? exact : Number(number.value);
    const between = (a, b) => {
      const middle = Number(value((place(a) + place(b)) / 2).toFixed(decimals));
      set(written(middle) === written(a) ? b : middle);
    };
    const looksLike = (v) => number.value !== "" && written(Number(number.value)) === written(v);
    return { name: field.name, element: make("div", { class: "bp-field" }, label, number, slider), get, set, between, looksLike };
  }
}

// ---------------------------------------------------------------- the report

class ReportView {
  constructor(root, transport, texts) {
    this.root = root;
    this.texts = texts;
    this.transport = transport;
  }

  async start() {
    const main = make("main", { class: "bp-main bp-report", "aria-busy": "true" }, make("p", { class: "bp-wait" }, "The model is being fitted to all answers …"));
    const token = new URLSearchParams(location.search).get("token");
    const back = make("a", { class: "bp-chip", href: token ? `./?token=${encodeURIComponent(token)}` : "./" }, "Questions");
    const title = make("h1", { class: "bp-title" }, "What was learned");
    this.root.replaceChildren(make("div", { class: "bp bp-wide" }, make("header", { class: "bp-head" }, make("div", { class: "bp-names" }, title, make("p", { class: "bp-counts" }, "for who runs the experiment")), back), main));
    addEventListener("beforeprint", () => this.root.querySelectorAll("details").forEach((fold) => { fold.open = true; }));
    try {
      const found = await this.transport.call("findings", {});
      document.title = "What was learned";
      main.replaceChildren(this.#best(found), ...this.#effects(found), ...this.#progress(found), this.#figure(found), ...this.#raters(found), this.#table(found), this.#summary(found), this.#warnings(found.warnings));
    } catch (error) {
      main.replaceChildren(make("div", { class: "bp-empty" }, make("p", { role: "alert" }, error.message)));
    }
    main.setAttribute("aria-busy", "false");
  }

  #best({ summary, recommended, advice }) {
    const values = Object.fromEntries(summary);
    const shown = recommended.shown ?? [];
    const heads = { "recommended of those shown": "The best of those shown", "recommended of all": "Perhaps better: the best of all designs" };
    let cards = Object.entries(heads).filter(([name]) => name in values).map(([name, head]) => [head, values[name]]);
    if (cards.length === 2 && cards[0][1] === cards[1][1]) cards = [["The best, of those shown and of all designs", cards[0][1]]];
    // A table of numbers has what the words say, but for the name.
    if (cards.length && shown.some((part) => part.type === "table")) cards[0] = [`${cards[0][0]}: ${recommended.name.replaceAll(" ", "\u00a0")}`, null];
    if (advice) cards.push([values.stop ? "Stop" : "Go on", advice]);
    return make("section", { class: "bp-bests" }, ...cards.map(([name, value], i) =>
      make("div", { class: "bp-card bp-first" }, make("h2", {}, name), ...(i ? [] : contents(shown, "The recommended option", this.texts)), value && make("p", {}, `${value}`))));
  }

  /** How the utility changes from the best option shown as one parameter moves. */
  #effects({ effects, legends }) {
    if (!effects.length) return [];
    const legend = make("p", { class: "bp-legend" }, `${legends.effects} The dot is the option itself.`);
    const rows = effects.flatMap((effect) => effect.rows);
    const low = Math.min(0, ...rows.map((row) => row.lower)), high = Math.max(0, ...rows.map((row) => row.upper));
    const panels = effects.map((effect) => make("figure", { class: "bp-effect" }, make("figcaption", {}, effect.parameter, make("small", {}, ` ${effect.caption}`)), this.#effect(effect, low, high)));
    return [make("section", {}, make("h2", {}, "What each parameter does"), make("div", { class: "bp-effects" }, ...panels), legend)];
  }

  #effect({ parameter, rows, is_choice: isChoice, log }, low, high) {
    const width = 170, side = isChoice ? width / (2 * rows.length) : 8, letterWidth = 7;
    // Long names of choices stand in two rows, one lower than the other.
    const inTwo = isChoice && rows.some((row) => row.text.length * letterWidth > 2 * side);
    const bottom = inTwo ? 36 : 22, height = 108 + bottom;
    const scale = (v) => (log ? Math.log(v) : v);
    const ends = isChoice ? [0, rows.length - 1] : [scale(rows[0].value), scale(rows.at(-1).value)];
    const x = (row, i) => side + (((isChoice ? i : scale(row.value)) - ends[0]) / (ends[1] - ends[0] || 1)) * (width - 2 * side);
    const y = (v) => 6 + ((high - v) / (high - low || 1)) * (height - bottom - 12);
    const figure = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", class: "bp-figure" }, draw("title"));
    const best = rows.reduce((a, b) => (b.change > a.change ? b : a));
    figure.firstChild.textContent = `${parameter}: expected best at ${best.text}`;
    figure.append(draw("line", { x1: 0, x2: width, y1: y(0), y2: y(0), class: "bp-grid" }));
    const points = (key) => rows.map((row, i) => `${x(row, i)} ${y(row[key])}`);
    if (isChoice) {
      for (const [i, row] of rows.entries()) {
        figure.append(draw("line", { x1: x(row, i), x2: x(row, i), y1: y(row.lower), y2: y(row.upper), class: "bp-interval" }));
        figure.append(draw("line", { x1: x(row, i) - 6, x2: x(row, i) + 6, y1: y(row.change), y2: y(row.change), class: "bp-line" }));
      }
    } else {
      figure.append(draw("path", { d: `M${[...points("lower"), ...points("upper").reverse()].join(" L")} Z`, class: "bp-band" }));
      figure.append(draw("path", { d: `M${points("change").join(" L")}`, class: "bp-line" }));
    }
    // The option shown, to which changes are relative, has no interval.
    const own = rows.findIndex((row) => row.lower === 0 && row.upper === 0);
    if (own >= 0) figure.append(draw("circle", { cx: x(rows[own], own), cy: y(0), r: 5, class: "bp-mean" }));
    const named = isChoice ? rows.map((row, i) => [row, i, ""]) : [[rows[0], 0, "bp-start"], [rows.at(-1), rows.length - 1, "bp-end"]];
    for (const [row, i, where] of named) {
      const at = where === "bp-start" ? 0 : where === "bp-end" ? width : x(row, i);
      const words = row.text, lower = inTwo && i % 2;
      const beside = isChoice ? Math.min((inTwo ? 4 : 2) * side, 2 * Math.min(at, width - at)) : 105;
      const room = Math.max(3, Math.floor(beside / letterWidth));
      const text = draw("text", { x: at, y: height - (inTwo && !lower ? 20 : 6), class: `bp-axis ${where}` });
      text.textContent = words.length > room ? `${words.slice(0, room - 1)}…` : words;
      figure.append(text);
    }
    return figure;
  }

  /** How far the options of each question are from the reference, and the best one so far. */
  #progress({ asked, options, reference }) {
    const known = new Map(options.map((o) => [o.name, o]));
    const steps = asked.map(({ question, options: names }) => ({ question, shown: names.map((name) => known.get(name)).filter(Boolean) }));
    if (steps.length < 2) return [];
    const best = [];
    for (const { shown } of steps) best.push([...best.slice(-1), ...shown].reduce((a, b) => (b.mean > a.mean ? b : a)));
    const legend = make("p", { class: "bp-legend" }, `Dots are the options of each question, the line is the best one so far with its 95 % interval, all as differences of utility to ${reference}, by the model that has every answer. Where the line has long been flat, more questions bring little.`);
    const place = make("div");
    new ResizeObserver(([{ contentRect }]) => place.replaceChildren(this.#steps(steps, best, contentRect.width))).observe(place);
    return [make("section", {}, make("h2", {}, "Progress over questions"), place, legend)];
  }

  #steps(steps, best, width) {
    const height = 180, bottom = 22, all = steps.flatMap(({ shown }) => shown.map((o) => o.difference));
    const low = Math.min(...all, ...best.map((o) => o.least)), high = Math.max(...all, ...best.map((o) => o.most));
    const first = steps[0].question, last = steps.at(-1).question;
    const x = (question) => 8 + ((question - first) / (last - first)) * (width - 16);
    const y = (v) => 6 + ((high - v) / (high - low || 1)) * (height - bottom - 12);
    const figure = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, role: "img", class: "bp-figure" }, draw("title"));
    figure.firstChild.textContent = "Differences of the options of each question, and of the best one so far.";
    const points = (key) => best.map((o, i) => `${x(steps[i].question)} ${y(o[key])}`);
    figure.append(draw("path", { d: `M${[...points("least"), ...points("most").reverse()].join(" L")} Z`, class: "bp-band" }));
    for (const { question, shown } of steps) figure.append(...shown.map((o) => draw("circle", { cx: x(question), cy: y(o.difference), r: 3, class: "bp-option" })));
    figure.append(draw("path", { d: `M${points("difference").join(" L")}`, class: "bp-line" }));
    for (const [question, at, where] of [[first, 0, "bp-start"], [last, width, "bp-end"]]) {
      const text = draw("text", { x: at, y: height - 4, class: `bp-axis ${where}` });
      text.textContent = `question ${question}`;
      figure.append(text);
    }
    return figure;
  }

  #summary({ tables }) {
    const rows = tables.summary.rows.filter(([name]) => !name.startsWith("recommended"));
    const entries = rows.flatMap(([name, value, meaning]) => [make("dt", {}, name, meaning ? make("small", {}, meaning) : null), make("dd", {}, value || "–")]);
    return make("section", {}, make("details", { class: "bp-more bp-fold" }, make("summary", {}, "Numbers behind this: answers, consistency, and whether to go on"), make("dl", { class: "bp-summary" }, ...entries)));
  }

  #warnings(warnings) {
    const title = make("h2", {}, "Warnings of the models");
    const none = "None since this was started.";
    if (!warnings.length) return make("section", {}, title, make("p", { class: "bp-legend" }, none));
    const rows = warnings.map(({ text, times }) => make("li", {}, make("strong", {}, `${times} ×`), " ", make("code", {}, text)));
    const when = "Since this was started, while questions were chosen and this page was made; all of them are in the log.";
    return make("section", {}, title, make("ul", { class: "bp-warnings" }, ...rows), make("p", { class: "bp-legend" }, when));
  }

  /** What is built of the first rows on a phone, and of all where asked for and on paper. */
  #inShort(rows, build) {
    if (rows.length <= FEW_ROWS || this.root.clientWidth >= PHONE_WIDTH) return [build(rows)];
    const place = make("div", {}, build(rows.slice(0, FEW_ROWS)));
    const all = make("button", { type: "button", class: "bp-quiet bp-all", onclick: () => { place.replaceChildren(build(rows)); all.remove(); } }, `Show all ${rows.length}`);
    addEventListener("beforeprint", () => all.click(), { once: true });
    return [place, all];
  }

  /** Differences with their intervals, and beside them who was better than whom. */
  #figure({ options, duels, reference }) {
    const legend = make("p", { class: "bp-legend" }, make("span", { class: "bp-agrees" }, "as the model has it"), make("span", { class: "bp-upset" }, "the other way round"), make("span", { class: "bp-tied" }, "no difference"));
    const build = (some) => {
      const place = make("div");
      // As wide as there is room, so that it is whole on a phone and can be read there.
      new ResizeObserver(([{ contentRect }]) => place.replaceChildren(this.#differences(some, duels, contentRect.width))).observe(place);
      return place;
    };
    return make("section", {}, make("h2", {}, `Differences to ${reference}, and who was better than whom`), ...this.#inShort(options, build), legend);
  }

  #differences(options, duels, whole) {
    const top = 12, letterWidth = 7;
    const beside = letterWidth * Math.max(...options.map((o) => o.name.length)) + 16;
    // Long names, as of rows of a table, stand above their intervals.
    const above = beside > 0.35 * whole, rowHeight = above ? 44 : 28, left = above ? 0 : beside;
    const arcs = Math.max(92, Math.min(200, 0.25 * whole)), width = whole - left - arcs;
    const room = Math.floor(whole / letterWidth);
    const height = top + rowHeight * options.length + 26;
    const low = Math.min(...options.map((o) => o.least)), high = Math.max(...options.map((o) => o.most));
    const x = (v) => left + 12 + ((v - low) / (high - low || 1)) * (width - 24);
    const y = new Map(options.map((o, i) => [o.name, top + rowHeight * (i + 0.5)]));
    const figure = draw("svg", { viewBox: `0 0 ${whole} ${height}`, width: whole, role: "img", class: "bp-figure" }, draw("title"));
    figure.firstChild.textContent = "Differences of utility with 95 % intervals, the best first; arcs join options that were compared.";
    const text = (props, words) => { const t = draw("text", props); t.textContent = words; return t; };
    for (const option of options) {
      const at = y.get(option.name);
      figure.append(
        text(above ? { x: 0, y: at - 12, class: "bp-name bp-start" } : { x: left - 8, y: at + 4, class: "bp-name" }, option.name.length > room ? `${option.name.slice(0, room - 1)}…` : option.name),
        draw("line", { x1: left, x2: left + width, y1: at, y2: at, class: "bp-grid" }),
        draw("line", { x1: x(option.least), x2: x(option.most), y1: at, y2: at, class: "bp-interval" }),
        draw("circle", { cx: x(option.difference), cy: at, r: 5, class: "bp-mean" }));
    }
    for (const duel of duels) {
      const [from, to] = (duel.tied ?? [duel.better, duel.worse]).map((name) => y.get(name));
      if (from === undefined || to === undefined) continue;
      // The curve goes three quarters as far as its middle points.
      const reach = (14 + (Math.abs(to - from) / (rowHeight * options.length)) * (arcs - 34)) / 0.75;
      const kind = duel.tied ? "bp-tied" : to < from ? "bp-upset" : "bp-agrees";
      const start = left + width + 10;
      figure.append(draw("path", { d: `M${start} ${from} C${start + reach} ${from} ${start + reach} ${to} ${start} ${to}`, class: `bp-arc ${kind}`, "stroke-width": 1 + Math.min(duel.times, 4) / 2 }));
    }
    figure.append(text({ x: left + width / 2, y: height - 4, class: "bp-axis" }, width < 200 ? "difference" : "difference, 95 % intervals"), text({ x: left + width + 10, y: height - 4, class: "bp-axis bp-start" }, "comparisons"));
    return figure;
  }

  #table({ tables, legends }) {
    const { columns, rows } = tables.options;
    const legend = make("p", { class: "bp-legend" }, legends.options);
    return make("section", {}, make("h2", {}, "Options"), ...this.#inShort(rows, (some) => this.#rows(some, ["name", ...columns])), legend);
  }

  #rows(rows, heads) {
    return make("div", { class: "bp-scroll" }, make("table", { class: "bp-data" },
      make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((words, i) => make(i ? "td" : "th", { scope: i ? null : "row", class: words.length > 16 ? "bp-words" : null }, words || "–")))))));
  }

  /** The noise of each rater with its interval, and beside it who agrees with whom. */
  #raters({ raters, agreement, tables, legends, rater_sentences: sentences = [] }) {
    const list = sentences.length ? make("ul", { class: "bp-sentences" }, ...sentences.map((words) => make("li", {}, words))) : "";
    if (!raters.length) return list ? [make("section", {}, make("h2", {}, "Raters"), list)] : [];
    const side = 32, width = 110, top = 12;
    // Of the widest letters there are, as far as there is room: the table has the whole names.
    const wide = (name) => [...name].reduce((sum, c) => sum + (c > "\u2e7f" ? 12 : 8), 0);
    const most = 0.2 * this.root.clientWidth;
    const cut = (name) => { let found = name; while (wide(found) > most) found = [...found].slice(0, -1).join(""); return found === name ? name : `${found}…`; };
    const left = 20 + Math.max(...raters.map((r) => wide(cut(r.rater))));
    const height = top + side * raters.length + 26;
    const low = Math.log(Math.min(...raters.map((r) => r.lower))), high = Math.log(Math.max(...raters.map((r) => r.upper)));
    const x = (v) => left + 12 + ((Math.log(v) - low) / (high - low || 1)) * (width - 24);
    const row = new Map(raters.map((r, i) => [r.rater, i]));
    const y = (i) => top + side * (i + 0.5), start = left + width + 12;
    const text = (props, words) => { const t = draw("text", props); t.textContent = words; return t; };
    const size = start + Math.max(side * raters.length, 66);
    const figure = draw("svg", { viewBox: `0 0 ${size} ${height}`, width: size, role: "img", class: "bp-figure bp-own-size" }, draw("title"));
    figure.firstChild.textContent = "Noise of each rater with 95 % intervals, and agreement of each two of them.";
    figure.append(draw("line", { x1: x(1), x2: x(1), y1: top, y2: height - 26, class: "bp-grid" }));
    for (const [i, rater] of raters.entries()) {
      figure.append(
        text({ x: left - 8, y: y(i) + 4, class: "bp-name" }, cut(rater.rater)),
        draw("line", { x1: x(rater.lower), x2: x(rater.upper), y1: y(i), y2: y(i), class: "bp-interval" }),
        draw("circle", { cx: x(rater.noise), cy: y(i), r: 5, class: "bp-mean" }));
    }
    for (const pair of agreement) {
      const ends = [row.get(pair.first), row.get(pair.second)];
      for (const [i, j] of [ends, [...ends].reverse()]) {
        const colour = pair.agreement < 0 ? "bp-apart" : "bp-alike";
        const cell = draw("rect", { x: start + side * j, y: y(i) - side / 2, width: side, height: side, class: colour, "fill-opacity": 0.6 * Math.abs(pair.agreement) }, draw("title"));
        cell.firstChild.textContent = `${pair.first} and ${pair.second}: ${pair.text}`;
        figure.append(cell, text({ x: start + side * (j + 0.5), y: y(i) + 4, class: "bp-cell" }, pair.agreement.toFixed(2)));
      }
    }
    figure.append(text({ x: left + width / 2, y: height - 4, class: "bp-axis" }, "noise"), text({ x: start, y: height - 4, class: "bp-axis bp-start" }, "agreement"));
    const table = this.#rows(tables.raters.rows, ["rater", ...tables.raters.columns]);
    table.classList.add("bp-raters");
    const legend = make("p", { class: "bp-legend" }, legends.raters);
    return [make("section", {}, make("h2", {}, "Raters"), list, make("div", { class: "bp-scroll" }, figure), table, legend)];
  }
}

// -------------------------------------------------------------- entry points

/** anywidget's protocol. */
function render({ model, el }) {
  const view = new QuestionView(el, new WidgetTransport(model), new Texts(model.get("texts")), { page: false });
  view.start();
  return () => view.stop();
}

export default { render };

const root = document.getElementById("botorch-pref-page");
if (root) {
  const token = new URLSearchParams(location.search).get("token");
  const texts = new Texts(JSON.parse(document.getElementById("botorch-pref-texts").textContent));
  const transport = new HttpTransport(token, texts);
  const report = location.pathname.endsWith("/report");
  (report ? new ReportView(root, transport, texts) : new QuestionView(root, transport, texts, { page: true })).start();
}
