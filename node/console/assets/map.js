// The map: land, links between regions, regions, and rows and leads that move.
const NS = 'http://www.w3.org/2000/svg';
const WIDTH = 1000;

export function node(name, attrs = {}, ...kids) {
  const e = document.createElementNS(NS, name);
  for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
  e.append(...kids);
  return e;
}

const rad = Math.PI / 180;

// project is Natural Earth's projection (Savric, Jenny, Patterson), 1000 units wide.
function project([lon, lat]) {
  const p = lat * rad, p2 = p * p, p4 = p2 * p2;
  const x = lon * rad * (0.8707 - 0.131979 * p2 + p4 * (-0.013791 + p4 * (0.003971 * p2 - 0.001529 * p4)));
  const y = p * (1.007226 + p2 * (0.015085 + p4 * (-0.044475 + 0.028874 * p2 - 0.005916 * p4)));
  return [500 + x * 182.79, 260 - y * 182.79];
}

function path(points) {
  return points.map(([x, y], i) => (i ? 'L' : 'M') + x.toFixed(1) + ' ' + y.toFixed(1)).join('');
}

// arc is the shortest way over the globe, in pieces that do not cross the edge of the map.
function arc(a, b) {
  const xyz = ([lon, lat]) => [Math.cos(lat * rad) * Math.cos(lon * rad), Math.cos(lat * rad) * Math.sin(lon * rad),
    Math.sin(lat * rad)];
  const u = xyz(a), v = xyz(b);
  const w = Math.acos(Math.max(-1, Math.min(1, u[0] * v[0] + u[1] * v[1] + u[2] * v[2])));
  if (w < 1e-6) return [[project(a), project(b)]];
  const out = [[]];
  let last = null;
  for (let i = 0; i <= 64; i++) {
    const s = Math.sin((1 - i / 64) * w) / Math.sin(w), t = Math.sin((i / 64) * w) / Math.sin(w);
    const [x, y, z] = [0, 1, 2].map((k) => s * u[k] + t * v[k]);
    const lon = Math.atan2(y, x) / rad, lat = Math.atan2(z, Math.hypot(x, y)) / rad;
    if (last !== null && Math.abs(lon - last) > 180) {
      out[out.length - 1].push(project([last > 0 ? 180 : -180, lat]));
      out.push([project([last > 0 ? -180 : 180, lat])]);
    }
    out[out.length - 1].push(project([lon, lat]));
    last = lon;
  }
  return out;
}

// scales are the bounds of the colours: milliseconds, shares in percent, bytes or statements a second.
export const scales = {
  rtt: [[50, 'r1'], [100, 'r2'], [200, 'r3'], [Infinity, 'r4']],
  loss: [[0.1, 'r1'], [1, 'r2'], [5, 'r3'], [Infinity, 'r4']],
  bytes: [[1024, 'r1'], [10240, 'r2'], [102400, 'r3'], [Infinity, 'r4']],
  asked: [[1, 'r1'], [10, 'r2'], [100, 'r3'], [Infinity, 'r4']],
};

// fields are what each colour shows of a link, texts how a value is written.
const fields = { rtt: 'ms', loss: 'loss', bytes: 'rate', asked: 'asked' };
const short = (v) => (v < 10 ? Math.round(10 * v) / 10 : Math.round(v)).toLocaleString('en');
export const texts = {
  rtt: (v) => v.toFixed(0) + ' ms', loss: (v) => (v < 1 ? Math.round(100 * v) / 100 : short(v)) + ' %',
  bytes: (v) => (v < 1024 ? short(v) + ' B/s' : v < 1 << 20 ? short(v / 1024) + ' KiB/s' : short(v / (1 << 20)) + ' MiB/s'),
  asked: (v) => short(v) + '/s',
};

function stepOf(colour, v) {
  return v === null ? 'r0' : scales[colour].find(([most]) => v < most)[1];
}

// press has a part of the map be a button.
function press(g, pick) {
  g.addEventListener('click', pick);
  g.addEventListener('keydown', (e) => {
    if (e.key === 'Enter' || e.key === ' ') {
      e.preventDefault();
      pick();
    }
  });
}

export class WorldMap {
  // choose is called with the name of a region that the user picks, link with the two of a link.
  constructor(svg, choose, link) {
    this.svg = svg;
    this.choose = choose;
    this.link = link;
    this.colour = 'rtt'; // a key of scales
    this.land = node('g');
    this.arcs = node('g');
    this.flights = node('g', { 'aria-hidden': 'true' });
    this.spots = node('g');
    svg.append(this.land, this.arcs, this.flights, this.spots);
    this.ways = new Map();
    this.flying = [];
    this.drawn = '';
    this.box = [0, 0, WIDTH, 470];
    this.calm = matchMedia('(prefers-reduced-motion: reduce)');
  }

  setLand(world) {
    const d = [];
    for (const r of world.rings) {
      const points = [];
      for (let i = 0, x = 0, y = 0; i < r.length; i += 2) {
        // A step of more than half of the way around is one over the edge of the map.
        x += r[i] - (i ? 3600 * Math.round(r[i] / 3600) : 0);
        y += r[i + 1];
        points.push([x / 10, y / 10]);
      }
      // What leaves the map on one side comes in on the other.
      const lons = points.map((p) => p[0]), over = Math.max(...lons) > 180 ? -360 : Math.min(...lons) < -180 ? 360 : 0;
      for (const by of over ? [0, over] : [0]) d.push(path(points.map(([lon, lat]) => project([lon + by, lat]))) + 'Z');
    }
    this.land.append(node('path', { class: 'land', d: d.join('') }));
  }

  // draw shows regions [{name, lat, lon, leads, nodes, dead}] and links [{a, b, ms, rate, cut}].
  draw(regions, links, chosen) {
    const width = this.svg.clientWidth || WIDTH;
    const key = JSON.stringify([regions, links, chosen, width, this.colour]);
    if (key === this.drawn) return;
    this.drawn = key;
    this.at = new Map(regions.map((r) => [r.name, project([r.lon, r.lat])]));
    this.ways.clear();
    for (const l of links) this.ways.set(l.a + '\n' + l.b, arc(this.place(regions, l.a), this.place(regions, l.b)));
    this.fit(width, links);
    const k = this.box[2] / width; // units a pixel
    const { region: focus, link: line } = document.activeElement?.dataset || {};
    this.arcs.replaceChildren(...links.map((l) => this.drawLink(l, k)));
    this.taken = regions.map((r) => { // no label covers a region
      const [x, y] = this.at.get(r.name);
      return [x - 14 * k, y - 14 * k, x + 14 * k, y + 14 * k];
    });
    const marks = regions.map((r) => this.drawRegion(r, k, r.name === chosen));
    for (const l of links) {
      if (l[fields[this.colour]] !== null && (l.a === chosen || l.b === chosen)) this.label(l, k);
    }
    this.spots.replaceChildren(...marks);
    if (focus) this.spots.querySelector(`[data-region="${CSS.escape(focus)}"]`)?.focus();
    if (line) this.arcs.querySelector(`[data-link="${CSS.escape(line)}"]`)?.focus();
  }

  place(regions, name) {
    const r = regions.find((x) => x.name === name);
    return [r.lon, r.lat];
  }

  // fit shows what has regions: all of the width if a link crosses its edge.
  fit(width, links) {
    const aspect = width < 640 ? 0.72 : 0.44;
    const points = [...this.at.values()];
    for (const l of links) for (const piece of this.ways.get(l.a + '\n' + l.b)) points.push(...piece);
    if (!points.length) points.push([0, 60], [1000, 420]);
    const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
    const pad = width < 640 ? 70 : 60;
    let [x0, x1, y0, y1] = [Math.min(...xs) - pad, Math.max(...xs) + pad, Math.min(...ys) - pad, Math.max(...ys) + pad];
    let w = Math.max(x1 - x0, (y1 - y0) / aspect, 220);
    w = Math.min(w, WIDTH);
    const h = Math.min(w * aspect, 490);
    const x = Math.max(0, Math.min(WIDTH - w, (x0 + x1) / 2 - w / 2));
    const y = Math.max(-10, Math.min(480 - h, (y0 + y1) / 2 - h / 2));
    this.box = [x, y, w, h];
    this.svg.setAttribute('viewBox', this.box.map((v) => v.toFixed(1)).join(' '));
  }

  drawLink(l, k) {
    const wide = (1.4 + Math.min(4, Math.log10(1 + (l.rate || 0) / 300))) * k;
    const facts = [l.ms === null ? 'no round trip known' : texts.rtt(l.ms)];
    if (l.loss !== null) facts.push(texts.loss(l.loss) + ' of the packets lost');
    if (l.rate !== null) facts.push(texts.bytes(l.rate));
    if (l.asked !== null) facts.push(texts.asked(l.asked) + ' statements answered at the other end');
    const d = this.ways.get(l.a + '\n' + l.b).map(path).join(''), text = `${l.a} – ${l.b}: ${facts.join(', ')}`;
    // A line is thin: what lies beside it counts as it.
    const g = node('g', { class: 'link', tabindex: 0, role: 'button', 'data-link': l.a + ' – ' + l.b, 'aria-label': 'Link ' + text },
      node('path', { class: 'arc ' + stepOf(this.colour, l[fields[this.colour]]) + (l.cut ? ' cut' : ''), 'stroke-width': wide.toFixed(2), d }),
      node('path', { class: 'near', 'stroke-width': (16 * k).toFixed(2), d }), node('title', {}, text));
    press(g, () => this.link(l.a, l.b));
    return g;
  }

  // label writes on a link what its colour shows, where nothing else is.
  label(l, k) {
    const pieces = this.ways.get(l.a + '\n' + l.b);
    const all = pieces.flat();
    const text = texts[this.colour](l[fields[this.colour]]);
    const w = text.length * 6.4 * k, h = 13 * k;
    for (const f of [0.5, 0.4, 0.6, 0.3, 0.7, 0.22, 0.78]) {
      const [x, y] = all[Math.floor(f * (all.length - 1))];
      if (this.free([x - w / 2, y - h, x + w / 2, y + 3 * k])) {
        this.arcs.append(node('text', { class: 'rtt', x: x.toFixed(1), y: y.toFixed(1), 'font-size': (11.5 * k).toFixed(2),
          'stroke-width': (3 * k).toFixed(2) }, text));
        return;
      }
    }
  }

  free(b) {
    const [x, y, w, h] = this.box;
    if (b[0] < x || b[1] < y || b[2] > x + w || b[3] > y + h) return false;
    if (this.taken.some((t) => b[0] < t[2] && t[0] < b[2] && b[1] < t[3] && t[1] < b[3])) return false;
    this.taken.push(b);
    return true;
  }

  drawRegion(r, k, chosen) {
    const [x, y] = this.at.get(r.name);
    const down = r.dead > 0;
    const sub = (down ? `${r.dead} of ${r.nodes} down` : r.nodes === 1 ? '1 node' : r.nodes + ' nodes') +
      (r.known ? '' : ', place unknown');
    const g = node('g', { class: 'region' + (down ? ' down' : '') + (chosen ? ' chosen' : ''), tabindex: 0, role: 'button',
      'aria-pressed': chosen, 'data-region': r.name,
      'aria-label': `Region ${r.name}: ${sub}, leads ${r.leads} groups` });
    const size = 10 * k;
    // A region with a dead node is a square: its shape says so, too.
    g.append(down
      ? node('rect', { class: 'spot', x: x - size, y: y - size, width: 2 * size, height: 2 * size, 'stroke-width': 3 * k })
      : node('circle', { class: 'spot', cx: x, cy: y, r: size, 'stroke-width': 3 * k }));
    g.append(node('text', { class: 'count', x, y: y + 4 * k, 'font-size': 11 * k }, down ? '✕' : String(r.leads)));
    const small = this.svg.clientWidth < 640, two = !small || down, f = small ? 11 : 13;
    const w = Math.max(r.name.length * f * 0.58, two ? sub.length * 6.2 : 0) * k, h = (two ? 28 : 15) * k;
    const spots = [[x + 15 * k, y - 12 * k, 'start'], [x - 15 * k, y - 12 * k, 'end'], [x, y + 13 * k, 'middle'],
      [x, y - 14 * k - h, 'middle'], [x + 15 * k, y + 6 * k, 'start'], [x - 15 * k, y + 6 * k, 'end']];
    const box = ([sx, sy, a]) => {
      const left = a === 'start' ? sx : a === 'end' ? sx - w : sx - w / 2;
      return [left, sy, left + w, sy + h];
    };
    const [sx, sy, anchor] = spots.find((s) => this.free(box(s))) || spots[0];
    g.append(node('text', { x: sx, y: sy + 12 * k, 'text-anchor': anchor, 'font-size': f * k, 'font-weight': 650,
      'stroke-width': 3 * k }, r.name));
    if (two) g.append(node('text', { class: 'sub', x: sx, y: sy + 25 * k, 'text-anchor': anchor, 'font-size': 11 * k,
      'stroke-width': 3 * k }, sub));
    press(g, () => this.choose(r.name));
    return g;
  }

  // fly shows something on its way between regions: a row is a dot, a lead a diamond.
  fly(from, to, lead) {
    if (this.calm.matches || this.flying.length > 60) return;
    const way = this.ways.get(from + '\n' + to) || this.ways.get(to + '\n' + from);
    if (!way) return;
    let points = way.flat();
    if (!this.ways.has(from + '\n' + to)) points = points.slice().reverse();
    const k = this.box[2] / (this.svg.clientWidth || WIDTH), s = (lead ? 6 : 3.6) * k;
    const mark = lead ? node('path', { class: 'move', d: `M0 ${-s}L${s} 0L0 ${s}L${-s} 0Z` })
      : node('circle', { class: 'move', r: s });
    this.flights.append(mark);
    this.flying.push({ mark, points, begin: performance.now() + Math.random() * 900 });
    if (this.flying.length === 1) requestAnimationFrame((t) => this.step(t));
  }

  step(now) {
    this.flying = this.flying.filter((f) => {
      const t = (now - f.begin) / 1400;
      if (t >= 1) {
        f.mark.remove();
        return false;
      }
      const [x, y] = f.points[Math.floor(Math.max(0, t) * (f.points.length - 1))];
      f.mark.setAttribute('transform', `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      return true;
    });
    if (this.flying.length) requestAnimationFrame((t) => this.step(t));
  }
}
