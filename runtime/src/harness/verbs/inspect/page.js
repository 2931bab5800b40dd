'use strict';
const sheet = JSON.parse(document.getElementById('data').textContent);
const at = (id) => document.getElementById(id);
const make = (tag, classes, text) => {
  const element = document.createElement(tag);
  if (classes) element.className = classes;
  if (text !== undefined) element.textContent = text;
  return element;
};

// ---- Lines of the author's, each with the rows of every pane that were made of it.
const keyOf = ([file, line]) => file + ':' + line;
const hueOf = ([file, line]) => (file * 77 + line * 47) % 360;
const costs = new Map(sheet.lines.map((cost) => [keyOf([cost.file, cost.line]), cost]));
const rowsOf = new Map();
const linesOf = new Map(); // an element to its chain of lines, innermost first
const all = { source: [], ir: [], ptx: [], sass: [] };

function link(pane, element, chain) {
  all[pane].push(element);
  if (!chain) return;
  linesOf.set(element, chain);
  element.classList.add('linked');
  element.style.setProperty('--hue', hueOf(chain[0]));
  for (const line of chain) {
    const key = keyOf(line);
    if (!rowsOf.has(key)) rowsOf.set(key, { source: [], ir: [], ptx: [], sass: [] });
    rowsOf.get(key)[pane].push(element);
  }
}

const chainOf = (place) => (place === null || place === undefined ? null : sheet.places[place]);

// ---- Panes.
const mostOwn = Math.max(1, ...sheet.lines.map((cost) => cost.own.sass || cost.own.ptx));
const hasSass = sheet.sass.length > 0;
const advised = new Set(
  sheet.accesses.filter((a) => chainOf(a.place) && (a.advice.length || a.conflicts)).map((a) => keyOf(chainOf(a.place)[0])),
);
for (const local of sheet.totals.local) if (chainOf(local.place)) advised.add(keyOf(chainOf(local.place)[0]));

function costCell(value, title, classes) {
  const cell = make('span', 'cost ' + (classes || ''), value || '');
  cell.title = title;
  return cell;
}

function sourceRow(file, line) {
  const cost = costs.get(keyOf([file, line]));
  const row = make('div', 'row' + (cost ? '' : ' bare'));
  row.append(make('span', 'number', line));
  const tally = cost ? cost.all : {};
  const own = cost ? cost.own.sass || cost.own.ptx : 0;
  const count = costCell(hasSass ? tally.sass : tally.ptx, 'instructions, with what it calls; the bar shows its own', 'heat');
  count.style.setProperty('--part', Math.round((100 * own) / mostOwn) + '%');
  row.append(
    count,
    costCell(tally.alive, 'registers alive, at most', 'small'),
    costCell(tally.global_bytes, 'bytes of global memory a warp, in ' + tally.sectors + ' sectors', 'bytes'),
    costCell(tally.conflicts, 'wavefronts by bank conflicts', 'small bad conflicts'),
    make('span', 'mark', advised.has(keyOf([file, line])) ? '!' : ''),
    make('span', 'text', sheet.files[file].lines[line - 1] || ''),
  );
  link('source', row, cost ? [[file, line]] : null);
  return row;
}

function fold(pane, file, from, to) {
  const button = make('div', 'row fold', '... ' + (to - from + 1) + ' lines without code');
  button.onclick = () => {
    const rows = [];
    for (let line = from; line <= to; line++) rows.push(sourceRow(file, line));
    button.replaceWith(...rows);
  };
  pane.append(button);
}

function fillSource() {
  const pane = at('source');
  // A column that no line fills takes room from the text.
  const has = (figure) => sheet.lines.some((cost) => cost.all[figure] > 0);
  const columns = ['line', 'instructions', 'alive'];
  for (const [figure, name] of [['global_bytes', 'bytes'], ['conflicts', 'conflicts']]) {
    if (has(figure)) columns.push(name);
    else pane.classList.add('without-' + name);
  }
  if (!advised.size) pane.classList.add('without-marks');
  sheet.files.forEach((file, number) => {
    const coded = sheet.lines.filter((cost) => cost.file === number).map((cost) => cost.line);
    if (!coded.length) return;
    const head = make('div', 'head', file.name);
    head.append(make('span', 'names', columns.join(', ')));
    pane.append(head);
    const isNear = (line) => coded.some((c) => line >= c - 3 && line <= c + 3);
    const last = Math.max(file.lines.length, coded[coded.length - 1]);
    let hidden = 0;
    for (let line = 1; line <= last + 1; line++) {
      if (line <= last && !isNear(line)) {
        hidden++;
        continue;
      }
      if (hidden) fold(pane, number, line - hidden, line - 1);
      hidden = 0;
      if (line <= last) pane.append(sourceRow(number, line));
    }
  });
}

function fillTexts() {
  const texts = [
    ['ir', 'tile IR', sheet.ir, (row, index) => [index + 1, row.text]],
    ['ptx', 'PTX', sheet.ptx, (row) => [row.line, row.text]],
    ['sass', 'machine code', sheet.sass, (row) => [row.offset.toString(16), row.text]],
  ];
  for (const [name, title, rows, cells] of texts) {
    const pane = at(name);
    const head = make('div', 'head', title);
    if (name === 'sass') head.append(make('span', 'names', '   offset, registers alive'));
    pane.append(head);
    rows.forEach((row, index) => {
      const element = make('div', 'row');
      const [number, text] = cells(row, index);
      element.append(make('span', 'number', number));
      if (name === 'sass') element.append(costCell(row.alive, 'registers alive', 'small'));
      element.append(make('span', 'text', text));
      link(name, element, chainOf(row.place));
      pane.append(element);
    });
    if (!rows.length) pane.append(make('p', 'fold', 'none: see the notes above'));
  }
}

// Machine instructions of each row of PTX.
const sassOfPtx = new Map();
sheet.sass.forEach((row, index) => {
  if (row.ptx === null) return;
  if (!sassOfPtx.has(row.ptx)) sassOfPtx.set(row.ptx, []);
  sassOfPtx.get(row.ptx).push(index);
});

// ---- Highlights: what the pointer is over, and what is selected.
let pinned = null;
let hot = [];
let pinnedRows = [];
let exact = [];

const everyRow = (line) => {
  const rows = rowsOf.get(keyOf(line));
  return rows ? Object.values(rows).flat() : [];
};

function paint(rows, old, name, property, line) {
  for (const row of old) row.classList.remove(name);
  for (const row of rows) {
    row.classList.add(name);
    row.style.setProperty(property, hueOf(line));
  }
  return rows;
}

function hover(line) {
  hot = paint(line ? everyRow(line) : [], hot, 'hot', '--hot', line);
}

function exactly(pane, index) {
  for (const row of exact) row.classList.remove('exact');
  exact = [];
  if (pane === 'sass' && sheet.sass[index].ptx !== null) {
    exact = [all.sass[index], all.ptx[sheet.sass[index].ptx]];
  } else if (pane === 'ptx') {
    exact = [all.ptx[index], ...(sassOfPtx.get(index) || []).map((i) => all.sass[i])];
  }
  for (const row of exact) row.classList.add('exact');
}

const fragment = ([file, line]) => '#' + encodeURI(sheet.files[file].name + ':' + line);

function unfold([file, line]) {
  if (rowsOf.get(keyOf([file, line]))?.source.length) return;
  for (const button of document.querySelectorAll('#source .fold')) button.click();
}

function select(line, from) {
  pinned = line;
  if (line) unfold(line);
  pinnedRows = paint(line ? everyRow(line) : [], pinnedRows, 'pinned', '--pin', line);
  describe(line);
  if (!line) {
    exactly();
    history.replaceState(null, '', location.pathname + location.search);
    return;
  }
  history.replaceState(null, '', fragment(line));
  const rows = rowsOf.get(keyOf(line)) || {};
  for (const pane of Object.keys(all)) {
    if (pane === from || at(pane).hidden) continue;
    const first = (pane !== 'source' && exact.find((row) => row.parentElement.id === pane)) || (rows[pane] || [])[0];
    if (first) first.scrollIntoView({ block: 'center', inline: 'nearest' });
  }
}

const lineName = ([file, line]) => sheet.files[file].name + ':' + line;

function describe(line) {
  const box = at('details');
  box.replaceChildren();
  if (!line) {
    box.append(make('p', '', 'Point at a line to see what was made of it; click to keep it. ? lists the keys.'));
    return;
  }
  const cost = costs.get(keyOf(line));
  const title = make('p');
  title.append(make('code', '', lineName(line)));
  box.append(title);
  if (cost) {
    const kinds = Object.entries(cost.all.work).sort((a, b) => b[1] - a[1]);
    const words = kinds.map(([name, count]) => count + ' ' + name).join(', ');
    const figures = [
      cost.all.sass + ' machine instructions (' + cost.own.sass + ' of its own' + (words ? ': ' : '') + words + ')',
      cost.all.ptx + ' of PTX',
      cost.all.ir + ' of IR',
      cost.all.alive + ' registers alive',
    ];
    if (cost.all.global_bytes) figures.push(cost.all.global_bytes + ' bytes of global memory a warp in ' + cost.all.sectors + ' sectors');
    if (cost.all.wavefronts) figures.push(cost.all.wavefronts + ' wavefronts of shared memory, ' + cost.all.conflicts + ' by bank conflicts');
    box.append(make('p', '', figures.join('; ')));
  }
  const isHere = (place) => chainOf(place) && keyOf(chainOf(place)[0]) === keyOf(line);
  for (const local of sheet.totals.local.filter((l) => isHere(l.place))) {
    box.append(make('p', 'advice', 'registers spilled here: ' + local.stores + ' stores, ' + local.loads + ' loads of local memory'));
  }
  const seen = new Set();
  for (const access of sheet.accesses.filter((a) => isHere(a.place) && !a.is_free)) {
    const said = [access.op + ': ' + access.cost, ...access.advice];
    if (seen.has(said.join())) continue;
    seen.add(said.join());
    said.forEach((text, index) => box.append(make('p', index ? 'advice' : '', text)));
  }
}

function listen() {
  const rowAt = (event) => event.target.closest && event.target.closest('.row.linked');
  at('code').addEventListener('mouseover', (event) => {
    const row = rowAt(event);
    const chain = row && linesOf.get(row);
    hover(chain ? chain[0] : null);
    if (!pinned) describe(chain ? chain[0] : null);
  });
  at('code').addEventListener('mouseleave', () => hover(null));
  at('code').addEventListener('click', (event) => {
    const row = rowAt(event);
    const chain = row && linesOf.get(row);
    if (!chain) return;
    const pane = row.parentElement.id;
    exactly(pane, all[pane].indexOf(row));
    select(chain[0], pane);
  });
}

// ---- Keys.
const order = sheet.lines.map((cost) => [cost.file, cost.line]);
const byHeat = [...sheet.lines].sort((a, b) => b.own.sass - a.own.sass || b.own.ptx - a.own.ptx).map((cost) => [cost.file, cost.line]);

function step(list, by) {
  if (!list.length) return;
  const now = pinned ? list.findIndex((line) => keyOf(line) === keyOf(pinned)) : -1;
  const next = now < 0 ? (by > 0 ? 0 : list.length - 1) : (now + by + list.length) % list.length;
  show('code');
  exactly();
  select(list[next]);
}

function show(view) {
  for (const main of document.querySelectorAll('main')) main.hidden = main.id !== view;
  for (const button of document.querySelectorAll('#views button')) button.classList.toggle('on', button.dataset.view === view);
  at('panes').hidden = view !== 'code';
  if (view === 'memory') drawMemory();
  if (view === 'layouts') drawTile();
}

function togglePane(name, on) {
  const box = document.querySelector('[data-pane=' + name + ']');
  box.checked = on === undefined ? !box.checked : on;
  at(name).hidden = !box.checked;
}

let matches = [];
let match = -1;
function search(text) {
  for (const row of document.querySelectorAll('.row.found')) row.classList.remove('found', 'current');
  const wanted = text.toLowerCase();
  matches = wanted ? Object.values(all).flat().filter((row) => row.textContent.toLowerCase().includes(wanted)) : [];
  matches = matches.filter((row) => row.isConnected && !row.parentElement.hidden);
  for (const row of matches) row.classList.add('found');
  match = -1;
  at('found').textContent = wanted ? matches.length + ' found' : '';
}

function nextMatch(by) {
  if (!matches.length) return;
  if (match >= 0) matches[match].classList.remove('current');
  match = (match + by + matches.length) % matches.length;
  matches[match].classList.add('current');
  matches[match].scrollIntoView({ block: 'center', inline: 'nearest' });
  at('found').textContent = match + 1 + ' of ' + matches.length;
}

const keys = {
  j: () => step(order, 1),
  k: () => step(order, -1),
  h: () => step(byHeat, 1),
  H: () => step(byHeat, -1),
  n: () => nextMatch(1),
  N: () => nextMatch(-1),
  2: () => togglePane('ir'),
  3: () => togglePane('ptx'),
  4: () => togglePane('sass'),
  c: () => show('code'),
  m: () => show('memory'),
  l: () => show('layouts'),
  '?': () => at('help').showModal(),
  '/': () => at('search').focus(),
  Escape: () => select(null),
};

function listenToKeys() {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.id === 'search') {
      if (event.key === 'Enter') nextMatch(event.shiftKey ? -1 : 1);
      if (event.key === 'Escape') event.target.blur();
      return;
    }
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
  at('search').addEventListener('input', (event) => search(event.target.value));
  at('help-button').onclick = keys['?'];
  for (const button of document.querySelectorAll('#views button')) button.onclick = () => show(button.dataset.view);
  for (const box of document.querySelectorAll('[data-pane]')) box.onchange = () => togglePane(box.dataset.pane, box.checked);
  window.addEventListener('hashchange', openFragment);
}

function openFragment() {
  const said = decodeURI(location.hash.slice(1));
  const line = order.find((known) => lineName(known) === said);
  if (line) select(line);
}

// ---- Shared memory over the program.
const svgTag = (tag, attributes, text) => {
  const element = document.createElementNS(at('map').namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
};

function drawMemory() {
  const box = at('memory');
  const svg = at('map');
  svg.replaceChildren();
  if (!sheet.shared.length) {
    svg.append(svgTag('text', { x: 4, y: 20 }, 'The kernel has no shared memory that is planned.'));
    return;
  }
  const bytes = Math.max(...sheet.shared.map((row) => row.start + row.bytes));
  const rows = Math.max(1, sheet.ir.length);
  const left = 70;
  const width = Math.max(300, box.clientWidth - left - 40);
  const height = Math.max(260, Math.min(620, box.clientHeight - 90));
  const x = (row) => left + (row / rows) * width;
  const y = (offset) => 20 + (offset / bytes) * height;
  svg.setAttribute('width', left + width + 20);
  svg.setAttribute('height', height + 50);
  sheet.shared.forEach((row, index) => {
    const hue = (index * 67) % 360;
    const [from, to] = row.rows;
    const rect = svgTag('rect', {
      class: 'bytes', x: x(from), y: y(row.start), width: Math.max(3, x(to + 1) - x(from)), height: Math.max(2, y(row.start + row.bytes) - y(row.start)),
      fill: 'hsl(' + hue + ' 60% 55% / 0.75)',
    });
    const chain = chainOf(row.place);
    const words = row.start + '..' + (row.start + row.bytes) + ': ' + row.user + ', IR rows ' + (from + 1) + ' to ' + (to + 1) + (chain ? ', ' + lineName(chain[0]) : '');
    rect.append(svgTag('title', {}, words));
    rect.onmouseenter = () => at('details').replaceChildren(make('p', '', words));
    if (chain) {
      rect.onclick = () => {
        show('code');
        select(chain[0]);
      };
    }
    svg.append(rect);
    if (y(row.start + row.bytes) - y(row.start) > 13) {
      const room = Math.floor((x(to + 1) - x(from)) / 7);
      svg.append(svgTag('text', { x: x(from) + 4, y: y(row.start) + 12 }, row.user.slice(0, room)));
    }
  });
  for (let part = 0; part <= 4; part++) {
    const offset = Math.round((bytes * part) / 4);
    svg.append(svgTag('text', { x: 2, y: y(offset) + 4 }, offset));
  }
  svg.append(svgTag('text', { x: left, y: height + 40 }, 'bytes down; the program, by rows of IR 1 to ' + rows + ', to the right'));
}

// ---- Layouts.
let tile = 0;
const BANKS = 32;

function listTiles() {
  // What the author named says more than a number.
  const isNamed = (name) => !/^\d/.test(name);
  const inOrder = (list, key) => [...list].sort((a, b) => isNamed(key(b)) - isNamed(key(a)));
  for (const entry of sheet.tiles) entry.names = inOrder(entry.names, (name) => name);
  sheet.tiles = inOrder(sheet.tiles, (entry) => entry.names[0]);
  sheet.tiles.forEach((entry, index) => {
    const item = make('li', '', entry.names.slice(0, 4).join(', ') + (entry.names.length > 4 ? ' and ' + (entry.names.length - 4) + ' more' : ''));
    item.append(make('small', '', entry.ty), make('small', '', entry.layout));
    item.onclick = () => {
      tile = index;
      drawTile();
    };
    at('tiles').append(item);
  });
}

// Every element of a tile with those that hold it: { warp, lane, register } or { offset }.
function ownersOf(entry) {
  const size = entry.shape.reduce((a, b) => a * b, 1);
  const owners = new Array(size);
  const bits = entry.bases.reduce((sum, [, bases]) => sum + bases.length, 0);
  if (!entry.bases.length || bits > 20) return null;
  for (let input = 0; input < 1 << bits; input++) {
    const coords = entry.shape.map(() => 0);
    const owner = {};
    let shift = 0;
    for (const [axis, bases] of entry.bases) {
      owner[axis] = (input >> shift) & ((1 << bases.length) - 1);
      bases.forEach((basis, bit) => {
        if ((input >> (shift + bit)) & 1) basis.forEach((by, dim) => (coords[dim] ^= by));
      });
      shift += bases.length;
    }
    if (coords.some((c, dim) => c >= entry.shape[dim])) continue;
    const index = coords.reduce((sum, c, dim) => sum * entry.shape[dim] + c, 0);
    (owners[index] = owners[index] || []).push(owner);
  }
  return owners;
}

function bankOf(entry, owner) {
  let offset = owner.offset;
  for (const [interval, padding] of entry.padding) offset += Math.floor(owner.offset / interval) * padding;
  const byte = (offset * entry.bits) / 8;
  return { byte, bank: Math.floor(byte / 4) % BANKS };
}

function drawTile() {
  const entry = sheet.tiles[tile];
  [...at('tiles').children].forEach((item, index) => item.classList.toggle('on', index === tile));
  const canvas = at('grid');
  if (!entry) {
    at('tile-name').textContent = 'The kernel has no tiles.';
    return;
  }
  at('tile-name').textContent = entry.names[0] + ': ' + entry.ty + ', ' + entry.layout;
  const owners = ownersOf(entry);
  if (!owners) {
    canvas.width = canvas.height = 0;
    at('element').textContent = 'This layout is not drawn here; `cargo tilekit layout KERNEL --value NAME` draws it.';
    return;
  }
  const isShared = owners.some((all) => all && all[0].offset !== undefined);
  const last = entry.shape[entry.shape.length - 1];
  const isRow = owners.length === last;
  const columns = isRow ? Math.min(last, 32) : last;
  const rows = Math.ceil(owners.length / columns);
  const room = Math.max(240, at('drawing').clientWidth - 24);
  const cell = Math.max(4, Math.min(40, Math.floor(room / columns)));
  canvas.width = columns * cell;
  canvas.height = rows * cell;
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  const colour = (owner, strong) => {
    const hue = isShared ? (bankOf(entry, owner).bank * 360) / BANKS : (owner.lane * 360) / 32;
    const light = (dark ? 30 : 80) - (isShared ? 0 : ((owner.warp || 0) % 4) * 5) + (strong ? (dark ? 25 : -30) : 0);
    return 'hsl(' + hue + ' 70% ' + light + '%)';
  };
  const isSame = (owner, other) => (isShared ? bankOf(entry, owner).bank === bankOf(entry, other).bank : owner.lane === other.lane && owner.warp === other.warp);
  const context = canvas.getContext('2d');
  const draw = (pointed) => {
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.font = '10px monospace';
    owners.forEach((held, index) => {
      if (!held) return;
      const [px, py] = [(index % columns) * cell, Math.floor(index / columns) * cell];
      context.fillStyle = colour(held[0], pointed && isSame(held[0], pointed));
      context.fillRect(px, py, cell - (cell > 6 ? 1 : 0), cell - (cell > 6 ? 1 : 0));
      if (cell >= 26) {
        context.fillStyle = dark ? '#fff' : '#000';
        context.fillText(isShared ? bankOf(entry, held[0]).bank : 't' + (held[0].lane + 32 * (held[0].warp || 0)), px + 2, py + 11);
        if (!isShared) context.fillText('r' + held[0].register, px + 2, py + 22);
      }
    });
  };
  draw(null);
  canvas.onmousemove = (event) => {
    const index = Math.floor(event.offsetY / cell) * columns + Math.floor(event.offsetX / cell);
    const held = owners[index];
    if (!held) return;
    draw(held[0]);
    const coords = [];
    let rest = index;
    for (const size of [...entry.shape].reverse()) {
      coords.unshift(rest % size);
      rest = Math.floor(rest / size);
    }
    const words = held.slice(0, 4).map((owner) =>
      isShared
        ? 'offset ' + owner.offset + ', byte ' + bankOf(entry, owner).byte + ', bank ' + bankOf(entry, owner).bank + (owner.block ? ', CTA ' + owner.block : '')
        : 'thread ' + (owner.lane + 32 * (owner.warp || 0)) + ' (warp ' + (owner.warp || 0) + ', lane ' + owner.lane + '), register ' + owner.register + (owner.block ? ', CTA ' + owner.block : ''),
    );
    at('element').textContent = '[' + coords.join(', ') + ']: ' + words.join('; ') + (held.length > 4 ? '; and ' + (held.length - 4) + ' more' : '');
  };
}

// ---- Begin.
fillSource();
fillTexts();
listTiles();
listen();
listenToKeys();
const summary = document.querySelector('#summary');
summary.firstElementChild.textContent = [...summary.querySelectorAll('li')].map((item) => item.textContent).join('; ');
const narrow = innerWidth < 1100;
togglePane('ir', !narrow);
togglePane('ptx', !narrow);
togglePane('sass', hasSass);
if (narrow && !hasSass) togglePane('ptx', true);
show('code');
describe(null);
openFragment();
document.body.dataset.ready = String(all.sass.length);
