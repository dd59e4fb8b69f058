// The console's pages. What comes from the cluster becomes text nodes, and never markup.
import { WorldMap, node as svgNode, scales, texts } from './map.js';

const $ = (id) => document.getElementById(id);
let token = '';
let here = {}; // the session's user, node and region
let acted = true; // the user has done something since the last request
let page = null; // {name, stop}

for (const kind of ['pointerdown', 'keydown']) addEventListener(kind, () => { acted = true; }, true);

class Refusal extends Error {
  constructor(status, body) {
    super(body.error || 'the node answered ' + status);
    this.status = status;
    this.code = body.code;
  }
}

async function api(path, body) {
  const opt = { headers: {}, credentials: 'same-origin', cache: 'no-store' };
  if (acted) opt.headers['X-Godwit-Act'] = '1';
  acted = false;
  if (body !== undefined) {
    opt.method = 'POST';
    opt.headers['Content-Type'] = 'application/json';
    opt.headers['X-Godwit-Token'] = token;
    opt.body = JSON.stringify(body);
  }
  let r;
  try {
    r = await fetch('api/' + path, opt);
  } catch {
    throw new Error('the node does not answer');
  }
  const out = await r.json().catch(() => ({}));
  if (!r.ok) throw new Refusal(r.status, out);
  return out;
}

// make builds an element: attributes, then children as elements or text.
function make(name, attrs, ...kids) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attrs || {})) {
    if (k === 'on') for (const [ev, fn] of Object.entries(v)) e.addEventListener(ev, fn);
    else if (v === true) e.setAttribute(k, '');
    else if (v !== false && v !== null) e.setAttribute(k, v);
  }
  e.append(...kids.filter((k) => k !== null));
  return e;
}

function say(text) { if ($('status').textContent !== text) $('status').textContent = text; }

// Values.

const yesNo = new Set(['connected', 'rtt_estimated', 'healthy', 'skyline', 'member', 'collector', 'fenced', 'pinned',
  'dry_run', 'candidate', 'follows_load', 'in_force', 'leads_leave']);
const names = new Set(['node', 'peer', 'leader', 'epoch', 'term']);

function bytes(v) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  for (; Math.abs(v) >= 1024 && i < units.length - 1; i++) v /= 1024;
  return (i && Math.abs(v) < 100 ? v.toFixed(1) : Math.round(v)) + ' ' + units[i];
}

function duration(s) {
  if (s < 120) return s.toFixed(s < 10 ? 1 : 0) + ' s';
  if (s < 7200) return Math.round(s / 60) + ' min';
  return s < 172800 ? (s / 3600).toFixed(1) + ' h' : Math.round(s / 86400) + ' days';
}

const isNumber = (v) => v !== null && v !== '' && /^-?[0-9.]+(e[+-]?[0-9]+)?$/i.test(v) && isFinite(v);

// shown is a value as people read it.
function shown(column, v) {
  if (v === null) return '–';
  if (yesNo.has(column) && (v === '0' || v === '1')) return v === '1' ? 'yes' : 'no';
  if (!isNumber(v) || names.has(column)) return v;
  const n = Number(v) || 0; // no -0
  if (/(^|_)bytes$/.test(column)) return bytes(n);
  if (column === 'loss') return (100 * n).toLocaleString('en', { maximumFractionDigits: 2 }) + ' %';
  if (/_s$/.test(column) && !/_per_s$/.test(column)) return duration(n);
  if (Number.isInteger(n)) return Math.abs(n) >= 10000 && Math.abs(n) < 1e15 ? n.toLocaleString('en') : v;
  return n.toLocaleString('en', { maximumFractionDigits: Math.abs(n) < 10 ? 2 : 1 });
}

// title is the name of a column in words.
function title(column) {
  return column.replace(/^rtt/, 'round trip').replace(/_per_s$/, ' a second').replace(/_ms$/, ', ms').replace(/_(s|bytes)$/, '').replace(/_/g, ' ');
}

const sickWords = new Set(['dead', 'sick', 'recovering', 'halted', 'silent', 'off', 'without leader', 'expired']);

// Tables.

// objects are the rows of an answer by their columns.
function objects(t) {
  if (!t || t.error || !t.rows) return [];
  return t.rows.map((r) => Object.fromEntries(t.columns.map((c, i) => [c, r[i]])));
}

// refused is why SQL gave no table.
function refused(t) {
  if ([1142, 1143, 1044, 1045, 1227].includes(t.code)) return 'Your user may not see this: ' + t.error;
  return 'SQL says' + (t.code ? ' (' + t.code + ')' : '') + ': ' + t.error;
}

// picks are what a click on a value of a column does, on any page.
const picks = { row_name: (v) => whyRow(v), table_name: (v) => whyTable(v), node: (v) => whyNode(v), peer: (v) => whyNode(v), leader: (v) => whyNode(v) };

// Grid is a table that is refreshed in place: what has not changed stays, with its focus.
class Grid {
  constructor(opt) {
    this.opt = opt;
    this.sort = opt.sort || null; // {column, down}
    this.note = make('p', { class: 'note' });
    this.body = make('div');
    this.root = make('section', { class: 'card', 'aria-label': opt.title }, make('h2', {}, opt.title), this.note, this.body);
    this.note.textContent = opt.note || '';
    this.note.hidden = !opt.note;
    this.heads = '';
  }

  set(t) {
    this.last = t;
    if (!t) return this.text('warn', 'The node did not answer this in time.');
    if (t.error) return this.text('warn', t.code === 1146 && this.opt.missing || refused(t));
    if (!t.rows?.length) return this.text('note', this.opt.empty || 'Nothing.');
    const raw = this.opt.raw;
    const key = t.columns.join('\n');
    if (this.heads !== key) this.begin(t, key);
    const rows = this.sorted(t);
    while (this.tbody.rows.length > rows.length) this.tbody.deleteRow(-1);
    rows.forEach((r, i) => {
      const tr = this.tbody.rows[i] || this.tbody.insertRow();
      t.columns.forEach((c, j) => {
        const td = tr.cells[j] || tr.insertCell();
        const v = raw ? (r[j] === null ? 'NULL' : r[j])
          : this.opt.yesNo?.includes(c) ? (r[j] === '1' ? 'yes' : 'no') : shown(c, r[j]);
        if (td.dataset.v === v) return;
        td.dataset.v = v;
        td.className = r[j] === null ? 'null' : !raw && c.endsWith('state') && sickWords.has(v) ? 'sick'
          : isNumber(r[j]) && !(yesNo.has(c) && !raw) ? 'num' : v.length > 40 ? 'long' : v.length < 28 ? 'short' : '';
        const pick = raw || r[j] === null ? null : this.opt.pick?.[c] || picks[c];
        if (pick) {
          td.replaceChildren(make('button', { type: 'button', class: 'plain', on: { click: () => pick(v) } }, v));
        } else {
          td.textContent = v;
        }
      });
    });
    const more = t.more ? ' There are more rows.' : '';
    const text = (this.opt.note || '') + more + (t.cut ? ' Long values were cut.' : '');
    if (this.note.textContent !== text) this.note.textContent = text;
    this.note.hidden = !text;
  }

  text(kind, text) {
    this.heads = '';
    const p = this.body.firstChild;
    if (p?.className === kind && p.textContent === text) return;
    this.body.replaceChildren(make('p', { class: kind }, text));
  }

  begin(t, key) {
    this.heads = key;
    this.tbody = make('tbody');
    this.row = make('tr', {}, ...t.columns.map((c) => {
      const text = this.opt.raw ? c : title(c);
      const th = make('th', { scope: 'col' }, make('button', { type: 'button', title: 'Sort', on: { click: () => {
        this.sort = { column: c, down: this.sort?.column === c ? !this.sort.down : true };
        this.mark();
        this.set(this.last);
      } } }, text));
      th.dataset.c = c;
      if (t.rows.some((r) => isNumber(r[t.columns.indexOf(c)])) && !yesNo.has(c)) th.className = 'num';
      return th;
    }));
    this.body.replaceChildren(make('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': this.opt.title },
      make('table', {}, make('thead', {}, this.row), this.tbody)));
    this.mark();
  }

  mark() {
    for (const th of this.row.cells) {
      const on = this.sort?.column === th.dataset.c;
      if (on) th.setAttribute('aria-sort', this.sort.down ? 'descending' : 'ascending');
      else th.removeAttribute('aria-sort');
      const b = th.firstChild, text = this.opt.raw ? th.dataset.c : title(th.dataset.c);
      b.textContent = text + (on ? (this.sort.down ? ' ▼' : ' ▲') : '');
    }
  }

  sorted(t) {
    const i = this.sort ? t.columns.indexOf(this.sort.column) : -1;
    if (i < 0) return t.rows;
    const sign = this.sort.down ? -1 : 1;
    return t.rows.slice().sort((x, y) => {
      const [a, b] = [x[i], y[i]];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (isNumber(a) && isNumber(b) ? a - b : a < b ? -1 : a > b ? 1 : 0);
    });
  }
}

// grids makes the tables of a page: {name: options}.
function grids(list) {
  const out = {};
  for (const [name, opt] of Object.entries(list)) {
    out[name] = new Grid(opt);
    $('tables').append(out[name].root);
  }
  // only: leave out what there is no answer to.
  return (tables, only) => {
    for (const [name, g] of Object.entries(out)) {
      g.root.hidden = !!only && !tables[name];
      if (!g.root.hidden) g.set(tables[name]);
    }
  };
}

function showProblems(t) {
  const rows = objects(t);
  const list = !t || t.error ? [['warn', !t ? 'The node did not answer.' : refused(t)]]
    : rows.length ? rows.map((r) => ['bad', r.problem]) : [['fine', 'The node finds nothing wrong.']];
  const key = JSON.stringify(list);
  const box = $('problems');
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  box.replaceChildren(...list.map(([kind, text]) => make('p', { class: kind }, text)));
}

// refresh asks for a panel again and again, while the page is seen and the user wants it, and it is not busy
// with something else.
function refresh(panel, every, show, busy = () => false) {
  let timer = 0, over = false;
  const box = document.querySelector('.live input');
  const tick = async () => {
    clearTimeout(timer);
    try {
      if (!document.hidden && box.checked && !busy()) {
        const out = await api('panel/' + panel);
        if (over) return;
        if (!busy()) show(out);
        say('');
      }
    } catch (e) {
      if (over) return;
      if (e.status === 401) return loggedOut(e.message);
      say(e.message);
    }
    if (!over) timer = setTimeout(tick, every);
  };
  const wake = () => { if (!over) tick(); };
  box.addEventListener('change', wake);
  document.addEventListener('visibilitychange', wake);
  tick();
  return () => {
    over = true;
    clearTimeout(timer);
    document.removeEventListener('visibilitychange', wake);
  };
}

// Pages.

const noteHere = () => `As node ${here.node} (${here.region}) sees it.`;

let world = null;
const pages = {
  map() {
    let chosen = pages.map.chosen || here.region, latest = null, before = null, newest = null, arrived = 0;
    const seen = new Set();
    let first = true;
    let past = null; // what is shown of another moment
    const again = () => (past ? showPast(past) : latest && show(latest));
    let picked = pages.map.picked || null; // a link, or a node, that is told of instead of the region
    pages.map.picked = null;
    const pick = (what, region) => {
      picked = what;
      chosen = pages.map.chosen = region;
      again();
    };
    const map = new WorldMap($('world'), (region) => pick(null, region), (a, b) => pick({ link: [a, b] }, chosen));
    pages.map.show = (what) => {
      pick(what, chosen);
      $('chosen').scrollIntoView({ block: 'nearest' });
    };
    const colour = $('colour');
    colour.value = pages.map.colour || 'rtt';
    const recolour = () => {
      pages.map.colour = map.colour = colour.value;
      legend(colour.value);
      again();
    };
    colour.addEventListener('change', recolour);
    const tables = grids({
      nodes: { title: 'Nodes', sort: { column: 'node', down: false } },
      links: { title: 'Links of this node', note: noteHere() + ' Bytes are since it started, on the wire and before they were ' +
        'compressed.', empty: 'There is no other node.' },
      round_trips: { title: 'Round trips between regions', note: noteHere(), sort: { column: 'rtt_ms', down: true },
        missing: 'This version of Godwit has no table godwit.round_trips.', empty: 'There is one region.' },
      region_links: { title: 'What regions send each other', note: 'Of all nodes. Loss is the share of packets that were sent again ' +
        'in the last minute; the kernel of Linux counts them. A message is lost when its connection breaks.',
        missing: 'This version of Godwit has no table godwit.region_links.', empty: 'There is one region.' },
      answers: { title: 'Where clients’ statements were answered', note: 'By the client’s region, and by each other region for ' +
        'whose answer a statement waited, or its own. Of all nodes, since they started.', sort: { column: 'statements', down: true },
        missing: 'This version of Godwit has no table godwit.answers.', empty: 'No statement has been counted yet.' },
      groups: { title: 'Groups and their leaders' },
      moves: { title: 'Rows that moved', empty: 'No row has moved yet.' },
      leader_moves: { title: 'Leads that moved', empty: 'No lead has moved yet.' },
    });
    const show = (out) => {
      latest = out;
      const t = out.tables, nodes = objects(t.nodes), groups = objects(t.groups);
      const of = new Map(nodes.map((n) => [n.node, n.region]));
      const regions = spots(out.places, nodes, (name) => groups.filter((g) => of.get(g.leader) === name).length);
      if (out.at !== newest?.at) [before, newest] = [newest, out]; // a resize shows the same again
      map.draw(regions, links(regions, t, before, out), chosen);
      for (const m of objects(t.moves).reverse()) {
        const key = m.at + m.row_name;
        if (!seen.has(key) && !first) map.fly(m.from_region, m.to_region, false);
        seen.add(key);
      }
      for (const m of objects(t.leader_moves).reverse()) {
        const key = 'lead ' + m.at + m.group_name;
        const [a, b] = [of.get(m.from_node) || m.from_region, of.get(m.to_node) || m.to_region];
        if (!seen.has(key) && !first && a !== b) map.fly(a, b, true);
        seen.add(key);
      }
      if (seen.size > 5000) seen.clear();
      first = false;
      showProblems(t.problems);
      if (picked?.link) showLink(picked.link, links(regions, t, before, out), t);
      else if (picked?.node) showNode(picked.node, nodes, groups);
      else showChosen(chosen, nodes, groups, rate(nodes.filter((n) => n.region === chosen), out.at),
        answered(chosen, perSecond(before, out).answers, t.answers));
      tables(t);
    };
    // showPast shows the moment that the nodes have kept, and what has moved in the minute before.
    const showPast = (out) => {
      past = out;
      const [now, earlier] = objects(out.tables.moments).map(momentOf);
      $('problems').replaceChildren();
      $('problems').dataset.key = '';
      if (!now) {
        const [span] = objects(out.tables.span);
        $('moment-note').textContent = out.tables.moments?.error ? refused(out.tables.moments)
          : span?.first ? `Nothing is kept of that time: the oldest moment is ${clock(parseTime(span.first))}.` : 'No moment has been kept yet.';
        tables({}, true);
        return;
      }
      const t = { ...now.tables, moves: out.tables.moves, leader_moves: out.tables.leader_moves }, nodes = objects(t.nodes);
      const sum = (name) => nodes.filter((n) => n.region === name).reduce((n, x) => n + Number(x.leads), 0);
      const then = { at: now.at, tables: t };
      map.draw(spots(latest?.places, nodes, sum), links(spots(latest?.places, nodes, sum), t, earlier, then), chosen);
      $('moment-note').textContent = `The map shows ${clock(now.at)}, ${duration((Date.now() - new Date(now.at)) / 1000)} ago.`;
      for (const m of objects(t.moves).reverse()) map.fly(m.from_region, m.to_region, false);
      const of = new Map(nodes.map((n) => [n.node, n.region]));
      for (const m of objects(t.leader_moves)) if (of.get(m.from_node) !== of.get(m.to_node)) map.fly(of.get(m.from_node), of.get(m.to_node), true);
      const rates = perSecond(earlier, then);
      const mine = [...rates.answers].filter(([key]) => key.startsWith(chosen + '\n')).reduce((n, [, x]) => n + x, 0);
      if (picked?.link) showLink(picked.link, links(spots(latest?.places, nodes, sum), t, earlier, then), t);
      else showLines(chosen, [...(rates.seconds ? [`Its clients made ${shown('', String(mine))} statements a second.`] : []),
        ...[answered(chosen, rates.answers, t.answers, true)].filter(Boolean),
        ...nodes.filter((n) => n.region === chosen).map((n) => `Node ${n.node} was ${n.state}` +
          (n.state === 'live' ? `, and led ${n.leads} group${n.leads === '1' ? '' : 's'}.` : '.'))]);
      tables(t, true);
    };
    const slider = $('moment');
    let asking = 0;
    const wind = () => {
      const back = Number(slider.value);
      slider.setAttribute('aria-valuetext', back ? `${-back} minutes ago` : 'now');
      $('now').disabled = !back;
      clearTimeout(asking);
      if (!back) {
        past = null;
        $('moment-note').textContent = 'The map shows what is now.';
        again();
        return;
      }
      asking = setTimeout(async () => {
        const at = new Date(Date.parse(latest?.at || new Date()) + (Date.now() - (latest ? arrived : Date.now())) + back * 60000);
        try {
          const out = await api('panel/then?at=' + at.toISOString());
          if (page?.name === 'map' && Number(slider.value) === back) showPast(out);
          say('');
        } catch (e) {
          if (e.status === 401) return loggedOut(e.message);
          say(e.message);
        }
      }, 150);
    };
    slider.addEventListener('input', wind);
    $('now').addEventListener('click', () => {
      slider.value = 0;
      wind();
      slider.focus();
    });
    recolour();
    const resize = () => again();
    addEventListener('resize', resize);
    (world ? Promise.resolve(world) : fetch('world.json').then((r) => r.json())).then((w) => map.setLand(world = w));
    const stop = refresh('map', 3000, (out) => {
      arrived = Date.now();
      show(out);
    }, () => Number(slider.value) < 0);
    return () => {
      stop();
      clearTimeout(asking);
      removeEventListener('resize', resize);
    };
  },

  statements() {
    let latest = null;
    const tables = grids({
      statements: { title: 'Statements by shape', sort: { column: 'total_ms', down: true },
        note: 'Choose the text of one to see why it takes as long, and what to do.',
        pick: { digest_text: (text) => whySlow(text, latest) },
        missing: 'This version of Godwit keeps no statistics of statements: it has no table godwit.statements.',
        empty: 'No statement has been counted yet.' },
      running: { title: 'Running now', note: noteHere() + ' Without the privilege PROCESS you see your own sessions only.',
        sort: { column: 'time_s', down: true }, empty: 'None but those of this console.' },
      admission: { title: 'Statements that take turns', note: noteHere() + ' Statements that compute for long need a slot.' },
      fallbacks: { title: 'Left to the other engine', note: noteHere() +
        ' Why SELECTs and changes did not run in Godwit’s own engine.', empty: 'None.' },
    });
    return refresh('statements', 5000, (out) => {
      latest = objects(out.tables.statements);
      tables(out.tables);
      if (pages.statements.next) whySlow(pages.statements.next, latest);
      pages.statements.next = '';
    });
  },

  advice() {
    const tables = grids({
      advice: { title: 'All figures', missing: 'This version of Godwit has no adviser.', empty: 'There is nothing to advise. ' +
        'It takes 20 statements on a table, and something that would save a fifth of their time.' },
    });
    return refresh('advice', 30000, (out) => {
      showAdvice(out.tables.advice);
      tables(out.tables);
    });
  },

  why() {
    $('row').addEventListener('submit', (e) => {
      e.preventDefault();
      const name = e.target.elements.name.value.trim();
      (name.includes('(') ? lookUp : tellTable)(name);
    });
    const led = 'In the groups that this node leads; ask another node for its own.';
    const tables = grids({
      transactions: { title: 'Running transactions', note: led, empty: 'None.' },
      moves: { title: 'Where rows have moved, and why', note: 'The newest 100 that this region has seen.',
        empty: 'No row has moved yet.' },
      heat: { title: 'Hot rows', note: 'Those that this node owns.', empty: 'None.' },
      leader_moves: { title: 'Leads that moved, and why', empty: 'None.' },
      splits: { title: 'Tables that got more shards, and why', empty: 'None.' },
      consistency: { title: 'How transactions cross regions', note: noteHere(), empty: 'No decision yet.' },
      clock_history: { title: 'Changes of the clock mode', empty: 'None.' },
      plan_history: { title: 'How rounds of multi-master tables travel, and why', note: 'Nodes of a group are joined by +, ' +
        'the one that speaks for it has a star, and A>B>C goes over B.', empty: 'No plan has been made.' },
      health_history: { title: 'Nodes that were judged sick, and well again', empty: 'None.' },
      locks: { title: 'Locks', note: led, empty: 'None.', yesNo: ['granted'] },
      tables: { title: 'Tables', note: 'Choose one to see where its rows live, what moves and what it costs.', empty: 'There is none that you may see.' },
    });
    return refresh('why', 5000, (out) => tables(out.tables));
  },

  health() {
    const tables = grids({
      health: { title: 'Organs of the nodes', note: 'A disk that stands still, a damaged file, a clock that is wrong.' },
      nodes: { title: 'Nodes and disks' },
      groups: { title: 'Groups: replicas, lag and leases', note: 'A leader serves as long as its lease lasts.' },
      clock: { title: 'Clocks' },
      replicas: { title: 'Replicas as servers of reads', note: noteHere() },
      jobs: { title: 'Long statements', empty: 'None is running.' },
      epochs: { title: 'Epochs of multi-master tables' },
      backups: { title: 'Backups by schedule', note: 'The newest backup that each has taken, and how many have failed since.',
        empty: 'There is no schedule: CREATE BACKUP SCHEDULE makes one.' },
      certificates: { title: 'Certificates', note: 'A node’s own, the authority’s, and what MySQL clients are shown.',
        missing: 'This version of Godwit has no table godwit.certificates.', empty: 'The nodes have none.' },
    });
    return refresh('health', 5000, (out) => {
      showProblems(out.tables.problems);
      showSigns(out.tables);
      showWaits(out.tables.waits);
      tables(out.tables);
    });
  },

  sql() {
    const form = $('sql'), box = $('statement');
    box.value = pages.sql.text || '';
    form.elements.database.value = pages.sql.database || '';
    let running = false;
    const run = async (explain) => {
      if (running) return;
      running = true;
      for (const id of ['run', 'explain']) $(id).disabled = true;
      $('stop').disabled = false;
      $('result').replaceChildren(make('p', { class: 'note' }, 'Running …'));
      try {
        const out = await api('sql', { statement: box.value, database: form.elements.database.value.trim(), explain,
          changes: form.elements.changes.checked });
        if (page.name === 'sql') showResult(out);
      } catch (e) {
        if (e.status === 401) return loggedOut(e.message);
        if (page.name === 'sql') $('result').replaceChildren(make('p', { class: 'bad' }, e.message));
      } finally {
        running = false;
        if (page?.name === 'sql') {
          for (const id of ['run', 'explain']) $(id).disabled = false;
          $('stop').disabled = true;
        }
      }
    };
    form.addEventListener('submit', (e) => {
      e.preventDefault();
      run(false);
    });
    $('explain').addEventListener('click', () => run(true));
    $('stop').addEventListener('click', () => api('stop', {}).catch((e) => say(e.message)));
    box.addEventListener('keydown', (e) => {
      if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) {
        e.preventDefault();
        run(false);
      }
    });
    if (pages.sql.explain) run(true);
    pages.sql.explain = false;
    return () => { [pages.sql.text, pages.sql.database] = [box.value, form.elements.database.value]; };
  },
};

// showAdvice is a card for each advice: what to do, why, what it gives up, and what follows by region.
function showAdvice(t) {
  const by = new Map();
  for (const r of objects(t)) by.set(r.advice, [...(by.get(r.advice) || []), r]);
  const change = (r, column) => shown(column, r[column]) + ' → ' + shown(column, r[column + '_after']);
  const cards = [...by.values()].map((rows) => {
    const a = rows[0], head = ['Region', 'Statements', 'Median, ms', 'p99, ms', 'Average, ms', 'Round trips', 'WAN bytes'];
    const lines = rows.map((r) => make('tr', {}, ...[r.region, shown('statements', r.statements) + ' ' + r.statement_kind + 's',
      change(r, 'p50_ms'), change(r, 'p99_ms'), change(r, 'avg_ms'), change(r, 'wan_round_trips'), change(r, 'wan_bytes')]
      .map((v) => make('td', { class: 'short' }, v))));
    return make('section', { class: 'card', 'aria-label': 'Advice ' + a.advice },
      make('h2', {}, a.advice + '. ' + a.table_name + ': ' + a.kind),
      make('p', {}, 'It would have saved ' + duration(Number(a.saves_s)) + ': ' + a.why + '.'),
      a.gives_up === null ? '' : make('p', { class: 'warn' }, 'It gives up ' + a.gives_up + '.'),
      ...steps(a.do_this, {}),
      make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'What advice ' + a.advice + ' would do' },
        make('table', {}, make('thead', {}, make('tr', {}, ...head.map((h) => make('th', { scope: 'col' }, h)))),
          make('tbody', {}, ...lines))));
  });
  if (!document.activeElement?.closest('#advice')) $('advice').replaceChildren(...cards);
}

// whySlow says of the statements of one text where their time goes, in each region, and what to do.
async function whySlow(text, statements) {
  const mine = statements.filter((s) => s.digest_text === text);
  const box = $('slow');
  box.replaceChildren(make('p', { class: 'note' }, 'Asking …'));
  box.scrollIntoView({ block: 'nearest' });
  let advice, ways, others = null;
  const { digest } = mine[0] || {};
  try {
    [advice, ways, others] = (await Promise.all([api('panel/advice'), api('panel/map'),
      digest ? api('panel/elsewhere?digest=' + digest) : { tables: {} }])).map((o) => o.tables);
  } catch (e) {
    box.replaceChildren(make('p', { class: 'bad' }, e.message));
    return;
  }
  if (page?.name !== 'statements') return;
  const rtts = objects(ways.round_trips);
  const head = ['Region', 'Statements', 'Median, ms', 'p99, ms', 'Round trips each', 'Waited for the WAN', 'WAN bytes each', 'Retries', 'Memory at most'];
  const lines = mine.map((s) => make('tr', {}, ...[s.region, shown('statements', s.statements), shown('p50_ms', s.p50_ms), shown('p99_ms', s.p99_ms),
    shown('', String(s.wan_round_trips / s.statements)), Math.round(100 * s.crossed_wan / s.statements) + ' %',
    bytes(s.wan_bytes / s.statements), shown('retries', s.retries), bytes(Number(s.max_memory_bytes || 0))].map((v) => make('td', { class: 'short' }, v))));
  const about = objects(advice.advice).filter((a) => a.table_name.split(', ').some((t) => names(text, t)));
  const todo = [...new Set(about.map((a) => a.advice))].map((n) => advised(about.filter((a) => a.advice === n), mine));
  box.replaceChildren(make('section', { class: 'card', 'aria-label': 'Why is it slow' },
    make('h2', {}, 'Why does it take as long?'), make('pre', { tabindex: 0 }, text),
    ...mine.map((s) => make('p', {}, where(s, rtts))),
    make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'By region' }, make('table', {},
      make('thead', {}, make('tr', {}, ...head.map((h) => make('th', { scope: 'col' }, h)))), make('tbody', {}, ...lines))),
    make('h3', {}, 'What it would cost from other regions'), ...elsewhere(others.elsewhere, statements),
    make('h3', {}, 'What to do'),
    ...(todo.length ? todo : [make('p', { class: 'note' }, 'The adviser has nothing for its tables.')]),
    make('p', {}, make('button', { type: 'button', on: { click: () => toSQL(explainable(mine), true, mine[0].schema_name || '') } },
      'Show its plan'))));

  function names(digest, table) {
    const [db, t] = table.split('.'), low = digest.toLowerCase(), q = (n) => '`' + n + '`';
    if (low.includes(q(db) + ' . ' + q(t)) || low.includes(q(db) + '.' + q(t))) return true;
    return low.includes(q(t)) && mine.some((s) => s.schema_name?.toLowerCase() === db);
  }
}

// explainable is a statement of a digest with something in the place of its literals: a plan needs them. The sample has
// one for each, where the digest has dots for several.
function explainable(mine) {
  const sample = mine.map((s) => s.sample).find((x) => x && x.length < 1000) || mine[0].digest_text;
  return sample.replace(/\?(, \.\.\.)?|\.\.\./g, '1');
}

// elsewhere is what a statement would cost in other regions, whether their clients have executed it or not.
function elsewhere(t, statements) {
  if (!t) return [make('p', { class: 'note' }, 'It has no digest, as the node keeps as many as it may.')];
  if (t.error) return [make('p', { class: 'warn' }, t.code === 1146 ? 'This version of Godwit has no table godwit.elsewhere.' : refused(t))];
  const rows = objects(t);
  if (!rows.length) {
    return [make('p', { class: 'note' }, 'That is not known: it takes two regions, and statements on tables (not on views) that are there.')];
  }
  const change = (r, column) => (r[column + '_there'] === null ? 'not known' : shown(column, r[column]) + ' → ' + shown(column, r[column + '_there']));
  const head = ['Clients in', 'if they were in', 'Statements there now', 'Median, ms', 'p99, ms', 'Round trips', 'WAN bytes'];
  const lines = rows.map((r) => {
    const there = statements.filter((s) => s.digest === r.digest && s.region === r.other_region).reduce((n, s) => n + Number(s.statements), 0);
    return make('tr', {}, ...[r.region, r.other_region, shown('statements', String(there)), change(r, 'p50_ms'), change(r, 'p99_ms'),
      change(r, 'wan_round_trips'), change(r, 'wan_bytes')].map((v) => make('td', { class: 'short' }, v)));
  });
  const why = [...new Set(rows.map((r) => r.why_not).filter(Boolean))];
  return [make('p', { class: 'note' }, 'Measured → predicted, on the same rows, while these stay where they are. Rows of REGIONAL BY ROW ' +
    'tables follow who uses them.'), ...why.map((w) => make('p', { class: 'note' }, 'Not known: ' + w + '.')),
    make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'What it would cost from other regions' }, make('table', {},
      make('thead', {}, make('tr', {}, ...head.map((h) => make('th', { scope: 'col' }, h)))), make('tbody', {}, ...lines)))];
}

// where says where the time of a region's statements goes.
function where(s, rtts) {
  const n = Number(s.statements), avg = Number(s.avg_ms), trips = s.wan_round_trips / n, waits = s.replica_wait_ms / n;
  const mine = rtts.filter((r) => r.from_region === s.region || r.to_region === s.region).map((r) => Number(r.rtt_ms));
  const near = Math.min(...mine), far = Math.max(...mine);
  let why = 'It waits for nobody: what is left is computing, and locks that others hold (page Health).';
  if (waits > avg / 2) {
    why = `It waits ${waits.toFixed(1)} ms until replicas here have what it reads.`;
  } else if (mine.length && trips >= 0.25 && trips * near > avg / 3) {
    why = `It makes ${trips.toFixed(1)} round trips to other regions, one after the other; one takes ` +
      (near === far ? `${near.toFixed(0)} ms` : `${near.toFixed(0)} to ${far.toFixed(0)} ms`) + ' from there.';
  } else if (s.retries / n > 0.1) {
    why = `It loses conflicts with others, and is tried again ${(s.retries / n).toFixed(1)} times.`;
  }
  return `${s.region}: ${shown('avg_ms', s.avg_ms)} ms on average. ${why}`;
}

// advised is an advice beside a statement: what to do, and what it would do for the regions that use it.
function advised(rows, mine) {
  const a = rows[0];
  const regions = new Set(mine.map((s) => s.region)), kind = /^\s*select/i.test(mine[0].digest_text) ? 'read' : 'write';
  const effects = rows.filter((r) => regions.has(r.region) && r.statement_kind === kind).map((r) =>
    `${r.region}: the median of ${kind}s goes from ${shown('p50_ms', r.p50_ms)} to ${shown('p50_ms', r.p50_ms_after)} ms`);
  return make('div', { class: 'advised' }, make('p', {}, a.why + '.'),
    make('p', {}, effects.join('; ') + (effects.length ? '.' : '')),
    a.gives_up === null ? '' : make('p', { class: 'warn' }, 'It gives up ' + a.gives_up + '.'), ...steps(a.do_this, { tabindex: 0 }));
}

// steps are the statements of an advice, each with a button: the page SQL executes one at a time.
function steps(text, attributes) {
  const all = (text.match(/(?:`[^`]*`|'(?:[^'\\]|\\.)*'|[^;`'])+/g) || [text]).map((q) => q.trim()).filter(Boolean);
  return all.flatMap((q, i) => [make('pre', attributes, q), make('p', {}, make('button', { type: 'button', on: { click: () => toSQL(q, false) } },
    all.length > 1 ? `Take step ${i + 1} of ${all.length} to the SQL page` : 'Take it to the SQL page'))]);
}

// toSQL opens the page SQL with a statement; explain: its plan is asked for at once. Names without a database are
// those of the one that is given.
function toSQL(text, explain, database = '') {
  pages.sql.text = text;
  pages.sql.database = database;
  pages.sql.explain = explain;
  location.hash = '#sql';
}

// links are the lines of the map: of each pair of regions the round trip, the loss in either direction, and
// the bytes and the statements of clients of one that the other has answered, in a second.
function links(regions, t, before, out) {
  const known = new Set(regions.map((r) => r.name)), by = new Map();
  const get = (a, b) => {
    const k = a < b ? [a, b] : [b, a], key = k.join('\n');
    if (!by.has(key)) by.set(key, { a: k[0], b: k[1], ms: null, loss: null, rate: null, asked: null, cut: false });
    return by.get(key);
  };
  const both = (a, b) => a !== b && known.has(a) && known.has(b);
  for (const r of objects(t.round_trips)) {
    if (both(r.from_region, r.to_region)) get(r.from_region, r.to_region).ms = Math.round(Number(r.rtt_ms));
  }
  const now = perSecond(before, out);
  for (const l of objects(t.region_links)) {
    if (!both(l.from_region, l.to_region)) continue;
    const x = get(l.from_region, l.to_region), rate = now.bytes.get(l.from_region + '\n' + l.to_region);
    if (l.loss !== null) x.loss = Math.max(x.loss || 0, Math.round(10000 * l.loss) / 100);
    if (rate !== undefined) x.rate = (x.rate || 0) + 50 * Math.round(rate / 50);
  }
  for (const r of t.answers?.rows ? by.values() : []) if (now.seconds) r.asked = 0;
  for (const [key, rate] of now.answers) {
    const [client, by] = key.split('\n');
    if (both(client, by)) get(client, by).asked = (get(client, by).asked || 0) + Math.round(10 * rate) / 10;
  }
  for (const l of objects(t.links)) {
    if (!both(l.region, here.region)) continue;
    const x = get(here.region, l.region);
    if (x.ms === null && l.rtt_ms !== null) x.ms = Math.round(Number(l.rtt_ms));
    x.cut = x.cut || l.connected === '0' || l.detour !== null;
  }
  return [...by.values()];
}

// perSecond is what has come since an earlier answer, in a second: bytes by pair of regions, and statements by
// the client's region and the one that has answered. A node that has died takes its counts along.
function perSecond(before, out) {
  const seconds = before ? (new Date(out.at) - new Date(before.at)) / 1000 : 0;
  const rates = (name, from, to, value) => {
    const old = new Map(objects(before?.tables[name]).map((r) => [r[from] + '\n' + r[to], Number(r[value])])), by = new Map();
    if (seconds <= 0.5) return by;
    for (const r of objects(out.tables[name])) {
      const key = r[from] + '\n' + r[to];
      by.set(key, Math.max(0, Number(r[value]) - (old.get(key) || 0)) / seconds);
    }
    return by;
  };
  return { seconds: seconds > 0.5 ? seconds : 0, bytes: rates('region_links', 'from_region', 'to_region', 'wire_bytes'),
    answers: rates('answers', 'client_region', 'answered_by', 'statements') };
}

// answered says in a sentence where the statements of a region's clients are answered, or were.
function answered(region, rates, rows, past) {
  const mine = [...rates].map(([key, n]) => [...key.split('\n'), n]).filter(([client]) => client === region);
  let all = mine.map(([, by, n]) => [by, n]).filter(([, n]) => n > 0), when = past ? 'were answered' : 'are answered now';
  if (!all.length) {
    all = objects(rows).filter((r) => r.client_region === region).map((r) => [r.answered_by, Number(r.statements)]);
    when = past ? 'had been answered' : 'have been answered since the nodes started';
  }
  const sum = all.reduce((n, [, x]) => n + x, 0);
  if (!sum) return null;
  const parts = all.sort((a, b) => b[1] - a[1]).map(([by, n]) => `${(100 * n / sum).toFixed(n === sum ? 0 : 1)} % ` +
    (by === region ? 'in the region itself' : 'by ' + by));
  return `Statements of its clients ${when}: ${parts.join(', ')}.`;
}

function legend(colour) {
  const line = (cls, dash) => svgNode('svg', { width: 26, height: 10, 'aria-hidden': 'true' },
    svgNode('path', { class: 'arc ' + cls + (dash ? ' cut' : ''), d: 'M2 5L24 5', 'stroke-width': 3 }));
  const item = (mark, text) => make('span', {}, mark, text);
  let from = 0;
  const unit = texts[colour];
  const marks = scales[colour].map(([most, cls]) => {
    const text = most === Infinity ? `${unit(from)} or more` : `${colour === 'rtt' ? from : unit(from)} to ${unit(most)}`;
    from = most;
    return item(line(cls), text);
  });
  const dot = (kid) => svgNode('svg', { width: 16, height: 16, viewBox: '-8 -8 16 16', 'aria-hidden': 'true' }, kid);
  const spot = make('span', {}, '① region, and how many groups it leads'), square = make('span', {}, '✕ a node is down');
  $('legend').replaceChildren(...marks, item(line('r0', true), 'cut, or not known'), make('span', {}, 'thicker: more bytes'),
    spot, square, item(dot(svgNode('circle', { class: 'move', r: 4 })), 'row that moves'),
    item(dot(svgNode('path', { class: 'move', d: 'M0-6L6 0L0 6L-6 0Z' })), 'lead that moves'));
}

// spots are the regions of the map.
function spots(places, nodes, leads) {
  return Object.entries(places || {}).sort().map(([name, p]) => {
    const mine = nodes.filter((n) => n.region === name);
    return { name, ...p, nodes: mine.length, dead: mine.filter((n) => n.state !== 'live').length, leads: leads(name) };
  }).filter((r) => r.nodes);
}

// momentOf makes tables of a row of godwit.moments, as if SQL had just given them.
function momentOf(row) {
  const cell = (v) => (v === null ? null : v === true ? '1' : v === false ? '0' : String(v));
  const tables = Object.fromEntries(Object.entries(JSON.parse(row.state)).map(([name, t]) =>
    [name, { columns: t.columns, rows: (t.rows || []).map((r) => r.map(cell)) }]));
  return { at: parseTime(row.at), tables };
}

// parseTime reads a time of the database godwit, which is in UTC.
const parseTime = (text) => new Date(text.replace(' ', 'T').replace(/Z?$/, 'Z'));
const clock = (at) => at.toLocaleTimeString('en-GB');

// rate is how many statements the clients of nodes make in a second, since it was asked last; null: it
// is not known yet.
function rate(nodes, at) {
  const sum = nodes.reduce((n, x) => n + Number(x.statements || 0), 0), key = nodes.map((n) => n.node).join();
  const last = rate.last?.key === key ? rate.last : null, now = new Date(at);
  const s = last ? (now - last.now) / 1000 : 0;
  if (s <= 0.5) {
    if (!last) rate.last = { key, now, sum };
    return last?.value ?? null;
  }
  const value = Math.max(0, (sum - last.sum) / s);
  rate.last = { key, now, sum, value };
  return value;
}

function showChosen(region, nodes, groups, perSecond, answers) {
  const mine = nodes.filter((n) => n.region === region);
  const lines = mine.map((n) => {
    const leads = groups.filter((g) => g.leader === n.node).map((g) => g.name);
    return `Node ${n.node} is ${n.state}` + (n.state === 'live' ? `, ${leads.length ? 'leads ' + leads.join(', ') : 'leads nothing'}, ` +
      `${shown('sessions', n.sessions)} sessions, ${bytes(Number(n.disk_bytes))} on disk, ` +
      `${bytes(Number(n.mem_bytes))} of memory.` : '.');
  });
  if (mine.length && perSecond !== null) lines.unshift(`Its clients make ${shown('', String(perSecond))} statements a second.`);
  if (mine.length && answers) lines.splice(perSecond !== null ? 1 : 0, 0, answers);
  showLines(region, lines);
}

// showLink tells of a link that is chosen.
function showLink([a, b], all, t) {
  const l = all.find((x) => x.a === a && x.b === b);
  if (!l) return showLines(`${a} – ${b}`, ['There is no such link now.']);
  const moved = (rows) => objects(rows).filter((m) => (m.from_region === a && m.to_region === b) || (m.from_region === b && m.to_region === a)).length;
  const peers = objects(t.links).filter((x) => (here.region === a && x.region === b) || (here.region === b && x.region === a));
  showLines(`${a} – ${b}`, [
    l.ms === null ? 'No round trip is known.' : `A round trip takes ${l.ms} ms.`,
    l.loss === null ? 'Loss is not known.' : `${texts.loss(l.loss)} of the packets were lost in the last minute.`,
    l.rate === null ? 'Bytes a second are not known yet.' : `${texts.bytes(l.rate)} go over it, in both directions.`,
    ...(l.asked === null ? [] : [`${texts.asked(l.asked)} statements of clients at one end are answered at the other.`]),
    ...peers.map((p) => `Node ${p.peer} there is ${p.connected === '1' ? 'connected with this node' : 'not connected with this node'}` +
      (p.detour !== null ? `, over node ${p.detour} as the direct way is cut.` : p.relay !== null ? `, and is reached faster over node ${p.relay}.` : '.')),
    `Of the newest moves of rows ${moved(t.moves)} went over it.`]);
}

// showNode tells of a node that is chosen: what it is doing at once, what it finds of itself when it is asked.
async function showNode(id, nodes, groups) {
  const n = nodes.find((x) => x.node === id);
  if (!n) return showLines('Node ' + id, ['There is no such node.']);
  const leads = groups.filter((g) => g.leader === id).map((g) => g.name);
  const lines = [`It is ${n.state}, in ${n.region}, at ${n.address}; SQL clients find it at ${n.sql_address || 'no address'}.`,
    ...(n.state !== 'live' ? [] : [`It has been up for ${duration(Number(n.uptime_s))}, with version ${n.version}.`,
      leads.length ? `It leads ${leads.join(', ')}, and holds ${n.replicas} replicas.` : `It leads nothing, and holds ${n.replicas} replicas.`,
      `${shown('sessions', n.sessions)} sessions, ${bytes(Number(n.disk_bytes))} on disk, ${bytes(Number(n.mem_bytes))} of memory.`])];
  if (showNode.last?.id !== id || Date.now() - showNode.last.at > 5000) {
    showNode.last = { id, at: Date.now(), lines: showNode.last?.id === id ? showNode.last.lines : [] };
    const mine = showNode.last;
    api('panel/node?id=' + encodeURIComponent(id)).then(({ tables: t }) => {
      const sick = objects(t.health).filter((h) => h.state !== 'well'), [c] = objects(t.clock);
      mine.lines = [
        t.health?.error ? refused(t.health) : !t.health?.rows?.length ? 'It does not say how it is.'
          : sick.length ? sick.map((h) => `Its ${h.organ} is ${h.state}: ${h.why}. ${h.what_to_do || ''}`).join(' ') : 'All of its organs are well.',
        ...(c ? [`Its clock (${c.source}) is at most ${shown('', c.bound_ms)} ms off, as it says itself.`] : []),
        ...objects(t.changes).slice(0, 5).map((h) => `${h.at}: its ${h.organ} went from ${h.from_state} to ${h.to_state}: ${h.why}.`)];
      if (page?.name === 'map' && $('chosen').dataset.region === 'Node ' + id) showLines('Node ' + id, [...lines, ...mine.lines]);
    }, (e) => { mine.lines = [e.message]; });
  }
  showLines('Node ' + id, [...lines, ...showNode.last.lines]);
}

// whyNode shows on the map a node that was chosen on any page.
function whyNode(id) {
  if (page?.name === 'map') return pages.map.show({ node: id });
  pages.map.picked = { node: id };
  location.hash = '#map';
}

// showLines tells of what is chosen.
function showLines(region, lines) {
  const box = $('chosen');
  const key = region + JSON.stringify(lines);
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  box.className = lines.length ? 'card' : '';
  // Figures change all the time: only another choice is read out.
  box.setAttribute('aria-live', box.dataset.region === region ? 'off' : 'polite');
  box.dataset.region = region;
  box.replaceChildren(...(lines.length ? [make('h2', {}, region), ...lines.map((l) => make('p', { class: 'note' }, l))] : []));
}

// showSigns says which certificates end soon, and which schedules take no backups.
function showSigns(t) {
  const lines = objects(t.certificates).filter((c) => c.state !== 'good').map((c) => [c.state === 'expired' ? 'bad' : 'warn',
    `The certificate ${c.certificate} of node ${c.node} ` + (c.state === 'expired' ? 'has expired.'
      : `ends in ${duration(Number(c.left_s))}.`) + ' Replace it: docs/security.md says how.']);
  for (const b of objects(t.backups)) {
    const age = b.last_backup_age_s === null ? 'no backup is known' : `the last backup is ${duration(Number(b.last_backup_age_s))} old`;
    if (Number(b.failures) || b.last_status === 'failed' || b.last_status === 'skipped') {
      lines.push(['bad', `Backup schedule ${b.name}: ${Number(b.failures) || 'the last'} failed, ${age}. ${b.last_error || ''}`]);
    } else if (Number(b.last_backup_age_s) > 120 * b.every_minutes) {
      lines.push(['warn', `Backup schedule ${b.name}: ${age}, though there should be one every ${duration(60 * b.every_minutes)}.`]);
    }
  }
  const key = JSON.stringify(lines), box = $('signs');
  if (box.dataset.key === key) return;
  box.dataset.key = key;
  box.replaceChildren(...lines.map(([kind, text]) => make('p', { class: kind }, text)));
}

// showWaits says who waits for whom, as a graph and in sentences.
function showWaits(t) {
  if (!t || t.error) {
    $('waits').dataset.key = '';
    $('waits').replaceChildren(make('p', { class: 'warn' }, t ? refused(t) : 'The node did not answer this in time.'));
    return;
  }
  const waits = objects(t);
  const lines = waits.map((w) => `${w.waiting_txn} (${shown('age_ms', w.age_ms)} ms old) waits for ${w.holding_txn} to use ` +
    `${w.table_name || w.span} in ${w.group_name}.`);
  if (!lines.length) lines.push('Nobody waits for a lock.');
  const key = waits.map((w) => w.waiting_txn + w.holding_txn + w.table_name + w.group_name).join();
  if ($('waits').dataset.key === key && $('waits').childElementCount) return;
  $('waits').dataset.key = key;
  $('waits').replaceChildren(...(waits.length ? [waitGraph(waits)] : []), ...lines.map((l) => make('p', { class: 'note' }, l)));
}

// waitGraph draws transactions as boxes: whoever waits stands to the right of those for whom it waits.
function waitGraph(waits) {
  const holders = new Map(), edges = new Map();
  for (const w of waits) {
    holders.set(w.waiting_txn, (holders.get(w.waiting_txn) || new Set()).add(w.holding_txn));
    if (!holders.has(w.holding_txn)) holders.set(w.holding_txn, new Set());
    const key = w.waiting_txn + '\n' + w.holding_txn;
    edges.set(key, (edges.get(key) || new Set()).add(w.table_name || w.group_name));
  }
  const depths = new Map();
  const depth = (txn, path) => {
    if (path.includes(txn)) return 0; // a circle, until somebody is chosen to give way
    if (!depths.has(txn)) depths.set(txn, Math.max(0, ...[...holders.get(txn)].map((h) => 1 + depth(h, [...path, txn]))));
    return depths.get(txn);
  };
  const rows = [], at = new Map(), wide = 190, gap = 130, high = 30, step = 52;
  for (const txn of holders.keys()) {
    const d = depth(txn, []);
    rows[d] = (rows[d] || 0) + 1;
    at.set(txn, [4 + d * (wide + gap), 20 + (rows[d] - 1) * step]);
  }
  const w = rows.length * (wide + gap) - gap + 8, h = Math.max(...rows.filter(Boolean)) * step + 20;
  const svg = svgNode('svg', { class: 'waits', viewBox: `0 0 ${w} ${h}`, width: w, height: h, role: 'img',
    'aria-label': `Graph of ${holders.size} transactions that wait for each other; the sentences below say the same.` });
  for (const [key, tables] of edges) {
    const [a, b] = key.split('\n').map((txn) => at.get(txn)), right = a[0] > b[0];
    const [x1, y1, x2, y2] = [right ? a[0] : a[0] + wide / 2, right ? a[1] + high / 2 : a[1], right ? b[0] + wide : b[0] + wide / 2,
      right ? b[1] + high / 2 : b[1]];
    const bend = right ? `C${x1 - 40} ${y1} ${x2 + 60} ${y2} ${x2 + 9} ${y2}` : `C${x1} ${y1 - 24} ${x2} ${y2 - 24} ${x2} ${y2 - 9}`;
    const head = right ? `M${x2} ${y2}l10 -5v10Z` : `M${x2} ${y2}l-5 -10h10Z`;
    svg.append(svgNode('path', { class: 'wait', d: `M${x1} ${y1}${bend}` }), svgNode('path', { class: 'head', d: head }),
      svgNode('text', { x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 6, 'text-anchor': 'middle', class: 'of' }, [...tables].join(', ').slice(0, 20)));
  }
  for (const [txn, [x, y]] of at) {
    svg.append(svgNode('rect', { class: holders.get(txn).size ? 'txn' : 'txn first', x, y, width: wide, height: high, rx: 5 }),
      svgNode('text', { x: x + wide / 2, y: y + 20, 'text-anchor': 'middle' }, txn.length > 26 ? txn.slice(0, 25) + '…' : txn));
  }
  return make('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Who waits for whom, as a graph' }, svg);
}

function whyRow(name) {
  whyRow.next = name;
  whyTable.next = '';
  if (page?.name === 'why') lookUp(name);
  else location.hash = '#why';
}

function whyTable(name) {
  [whyTable.next, whyRow.next] = [name, ''];
  if (page?.name === 'why') tellTable(name);
  else location.hash = '#why';
}

// tellTable tells what is known of a table: where its rows live, who uses them, what statements on it cost.
async function tellTable(name) {
  whyTable.next = '';
  const box = $('row-out');
  $('row').elements.name.value = name;
  box.replaceChildren(make('p', { class: 'note' }, 'Asking …'));
  box.scrollIntoView({ block: 'nearest' });
  try {
    const { tables: t } = await api('panel/table?name=' + encodeURIComponent(name));
    const [l] = objects(t.locality), out = [make('h3', {}, 'Table ' + name)];
    if (l) out.push(make('p', {}, Object.entries(l).filter(([c, v]) => v !== null && c !== 'table').map(([c, v]) => `${title(c)}: ${v}`).join('; ') + '.'));
    else out.push(make('p', { class: 'warn' }, t.locality?.error ? refused(t.locality) : 'Its locality is not known.'));
    for (const [key, opt] of Object.entries({
      homes: { title: 'Where its hot rows live, and who uses them', note: 'Those that this node owns.', empty: 'This node owns none that are hot.' },
      moves: { title: 'Where its rows have moved', empty: 'None has moved that this region has seen.' },
      statements: { title: 'Statements that name it', pick: { digest_text: (text) => {
        pages.statements.next = text;
        location.hash = '#statements';
      } }, empty: 'None has been counted.' },
      advice: { title: 'Advice on it', empty: 'There is none.' },
      splits: { title: 'Its shards', empty: 'It has got none by itself.' } })) {
      const g = new Grid(opt);
      g.set(t[key]);
      out.push(g.root);
    }
    box.replaceChildren(...out);
  } catch (e) {
    if (e.status === 401) return loggedOut(e.message);
    box.replaceChildren(make('p', { class: 'bad' }, e.message));
  }
}

// lookUp tells the life of a row.
async function lookUp(name) {
  whyRow.next = '';
  const box = $('row-out');
  $('row').elements.name.value = name;
  $('row').scrollIntoView({ block: 'nearest' });
  try {
    const { tables: t } = await api('panel/row?name=' + encodeURIComponent(name));
    const out = [], [heat] = objects(t.heat), moves = objects(t.moves);
    if (heat) {
      out.push(make('p', {}, `${name} lives in ${heat.home_region}${heat.pinned === '1' ? ', and is pinned there' : ''}.`));
      let by = {};
      try { by = JSON.parse(heat.heat_by_region) || {}; } catch { /* it is shown as it came, below */ }
      const most = Math.max(...Object.values(by), 0.001);
      out.push(make('ul', { class: 'bars' }, ...Object.entries(by).sort((a, b) => b[1] - a[1]).map(([r, v]) =>
        make('li', {}, `${r}: heat ${v.toFixed(1)} `, make('meter', { min: 0, max: most, value: v, 'aria-hidden': 'true' })))));
      if (Number(heat.stays_s) > 0) out.push(make('p', { class: 'note' }, `It stays for ${duration(Number(heat.stays_s))} at least.`));
    } else if (t.heat?.error) {
      out.push(make('p', { class: 'warn' }, refused(t.heat)));
    } else {
      out.push(make('p', { class: 'note' }, `This node does not own ${name}, or nobody has used it lately. ` +
        (moves.length ? `By its last move it lives in ${moves[0].to_region}.` : 'It has not moved since the node started.') +
        ' The table DATABASE.TABLE__homes has the home of every row.'));
    }
    const g = new Grid({ title: 'Its moves', empty: 'None that this region has seen.' });
    g.set(t.moves);
    out.push(g.root);
    box.replaceChildren(...out);
  } catch (e) {
    if (e.status === 401) return loggedOut(e.message);
    box.replaceChildren(make('p', { class: 'bad' }, e.message));
  }
}

// planTree draws a plan whose lines are indented, by spaces or box-drawing characters; null: it is none.
function planTree(lines) {
  const root = { kids: [] }, open = [[-1, root]];
  for (const line of lines) {
    const lead = line.match(/^[\s│├└─]*/)[0].length, text = line.slice(lead).replace(/^-> /, '').trim();
    if (!text) continue;
    while (open[open.length - 1][0] >= lead) open.pop();
    const item = { text, kids: [] };
    open[open.length - 1][1].kids.push(item);
    open.push([lead, item]);
  }
  if (!root.kids.some((k) => k.kids.length)) return null;
  const draw = (item) => make('li', {}, ...(item.kids.length
    ? [make('details', { open: true }, make('summary', {}, item.text), list(item.kids))] : [make('span', {}, item.text)]));
  const list = (kids) => make('ul', {}, ...kids.map(draw));
  const tree = list(root.kids);
  tree.className = 'plan card';
  tree.setAttribute('aria-label', 'Plan');
  return tree;
}

function showResult(out) {
  const box = $('result'), kids = [];
  if (out.error) {
    kids.push(make('p', { class: 'bad' }, (out.code ? out.code + ': ' : '') + out.error));
  } else {
    const facts = [];
    if (out.columns?.length) facts.push(`${out.more ? 'the first ' : ''}${out.rows?.length || 0} rows`);
    else facts.push(`${out.changed ?? 0} rows changed`);
    facts.push(`${out.ms.toFixed(1)} ms`);
    if (out.round_trips != null) facts.push(`${shown('', out.round_trips)} round trips over the WAN, ${bytes(Number(out.wan_bytes || 0))}`);
    if (Number(out.rows_moved)) facts.push(`${out.rows_moved} rows moved`);
    kids.push(make('p', { class: 'fine' }, facts.join(', ') + '.'));
    if (out.columns?.length === 1 && (out.rows || []).some((r) => r[0]?.includes('\n') || /^ *(->|[└├│])/.test(r[0] || ''))) {
      const lines = out.rows.flatMap((r) => (r[0] ?? 'NULL').split('\n'));
      kids.push(planTree(lines) || make('pre', { class: 'card', tabindex: 0 }, lines.join('\n')));
    } else if (out.columns?.length) {
      const g = new Grid({ title: 'Rows', raw: true, empty: 'No rows.' });
      g.set(out);
      kids.push(g.root);
    }
  }
  box.replaceChildren(...kids);
}

// Frame: logging in, going from page to page.

function go() {
  page?.stop?.();
  const name = location.hash.slice(1) in pages ? location.hash.slice(1) : 'map';
  for (const a of $('nav').children) {
    if (a.hash === '#' + name) a.setAttribute('aria-current', 'page');
    else a.removeAttribute('aria-current');
  }
  $('main').replaceChildren($('t-' + name).content.cloneNode(true));
  document.title = document.querySelector('h1').textContent + ' – Godwit console';
  page = { name };
  page.stop = pages[name]();
  $('main').focus({ preventScroll: true });
  scrollTo(0, 0);
  if (name === 'why' && whyRow.next) lookUp(whyRow.next);
  if (name === 'why' && whyTable.next) tellTable(whyTable.next);
}

function loggedIn(id) {
  token = id.token;
  here = id;
  $('who').textContent = `${id.user} at node ${id.node}, ${id.region}`;
  for (const e of [$('nav'), $('leave')]) e.hidden = false;
  addEventListener('hashchange', go);
  go();
}

function loggedOut(why) {
  page?.stop?.();
  page = null;
  token = '';
  removeEventListener('hashchange', go);
  for (const e of [$('nav'), $('leave')]) e.hidden = true;
  $('who').textContent = '';
  $('main').replaceChildren($('t-login').content.cloneNode(true));
  document.title = 'Log in – Godwit console';
  const error = $('login-error');
  error.hidden = !why;
  error.textContent = why || '';
  const form = $('login');
  form.addEventListener('submit', async (e) => {
    e.preventDefault();
    const button = form.querySelector('button');
    button.disabled = true;
    try {
      loggedIn(await api('login', { user: form.elements.user.value, password: form.elements.password.value }));
    } catch (err) {
      error.hidden = false;
      error.textContent = err.message;
      button.disabled = false;
      form.elements.password.focus();
    }
  });
  form.elements.user.focus();
}

const dark = matchMedia('(prefers-color-scheme: dark)');
function theme(kept) {
  const name = kept || (dark.matches ? 'dark' : 'light');
  document.documentElement.dataset.theme = name;
  $('theme').textContent = name === 'dark' ? 'Light' : 'Dark';
  $('theme').setAttribute('aria-label', name === 'dark' ? 'Use light colours' : 'Use dark colours');
}
function kept() {
  try { return localStorage.getItem('godwit-theme'); } catch { return null; }
}
$('theme').addEventListener('click', () => {
  const next = document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark';
  try { localStorage.setItem('godwit-theme', next); } catch { /* it holds until the page is left */ }
  theme(next);
});
dark.addEventListener('change', () => theme(kept()));
theme(kept());
$('leave').addEventListener('click', async () => {
  try { await api('logout', {}); } catch { /* the session had ended */ }
  loggedOut('');
});

try {
  loggedIn(await api('session'));
} catch (e) {
  loggedOut(e.status === 401 ? '' : e.message);
}
