// Script of the page to explore: it shows the numbers of the page and computes no statistics.
"use strict";

const byId = (id) => document.getElementById(id);
const page = JSON.parse(byId("data").textContent);
const canvas = byId("plot");
const COUNT = page.items.length; // items are numbered from the best of the first table
const ROWS = 50, MOST_CHOSEN = 8;
const LEFT = 50, RIGHT = 14, TOP = 26, BOTTOM = 42; // margins of the plot in pixels
let level = page.levels[0];
let current = -1, chosen = []; // item under the pointer (-1: none), and compared items
let firstRow = 0;
let places = []; // [x, y] of each item in pixels, or null
let points = document.createElement("canvas"); // the plot without the current item

const element = (tag, text = "", name = "") =>
  Object.assign(document.createElement(tag), { textContent: text, className: name });
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
const whole = (number) => number.toLocaleString("en");
const value = (label, item) => page.columns[label][item];
const isKnown = (number) => number !== null;

// Ends of an axis, with some room. Rank 1 is at the top and at the right.
function ends(label) {
  const known = page.columns[label].slice(0, byId("zoom").checked ? level.size : COUNT).filter(isKnown);
  const low = Math.min(...known), high = Math.max(...known);
  const room = 0.03 * (high - low || 1);
  const isRank = page.sides.some((side) => side.rank === label);
  return isRank ? [high + room, low - room] : [low - room, high + room];
}

function ticks(from, to) {
  const low = Math.min(from, to), high = Math.max(from, to);
  const power = 10 ** Math.floor(Math.log10((high - low) / 5));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= (high - low) / 5);
  const found = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) {
    found.push(Number(tick.toPrecision(6)));
  }
  return found;
}

// Draw the points of all items; the marked items are orange.
function draw() {
  const { width, height } = canvas.getBoundingClientRect();
  canvas.width = points.width = Math.round(width * devicePixelRatio);
  canvas.height = points.height = Math.round(height * devicePixelRatio);
  const pen = points.getContext("2d");
  pen.scale(devicePixelRatio, devicePixelRatio);
  const { x, y } = page.views[byId("view").selectedIndex];
  const [x0, x1] = ends(x), [y0, y1] = ends(y);
  const right = width - RIGHT, bottom = height - BOTTOM;
  const across = (number) => LEFT + ((number - x0) / (x1 - x0)) * (right - LEFT);
  const down = (number) => bottom - ((number - y0) / (y1 - y0)) * (bottom - TOP);
  Object.assign(pen, { font: "12px system-ui, sans-serif", fillStyle: colour("soft"), textAlign: "center" });
  const grid = new Path2D();
  for (const tick of ticks(x0, x1)) {
    grid.rect(across(tick), TOP, 0, bottom - TOP);
    pen.fillText(whole(tick), across(tick), bottom + 16);
  }
  pen.fillText(x, (LEFT + right) / 2, height - 6);
  pen.textAlign = "right";
  for (const tick of ticks(y0, y1)) {
    grid.rect(LEFT, down(tick), right - LEFT, 0);
    pen.fillText(whole(tick), LEFT - 6, down(tick) + 4);
  }
  pen.strokeStyle = colour("line");
  pen.stroke(grid);
  pen.textAlign = "left";
  pen.fillText(y, 0, 14);
  places = page.items.map((_, item) => {
    const both = [value(x, item), value(y, item)];
    return both.every(isKnown) ? [across(both[0]), down(both[1])] : null;
  });
  pen.rect(LEFT, 0, width - LEFT, bottom);
  pen.clip();
  pen.globalAlpha = 0.65;
  drawPoints(pen, "soft", level.size, COUNT);
  drawPoints(pen, "orange", 0, level.size);
  highlight();
}

function drawPoints(pen, name, from, to) {
  const size = COUNT > 2000 ? 3 : COUNT > 200 ? 6 : 9;
  pen.fillStyle = colour(name);
  for (const place of places.slice(from, to)) {
    if (place) pen.fillRect(place[0] - size / 2, place[1] - size / 2, size, size); // fast, unlike circles
  }
}

// Show the drawn points, and rings around the compared items and the current item.
function highlight() {
  const pen = canvas.getContext("2d");
  pen.resetTransform();
  pen.clearRect(0, 0, canvas.width, canvas.height);
  if (points.width) pen.drawImage(points, 0, 0);
  pen.scale(devicePixelRatio, devicePixelRatio);
  pen.strokeStyle = colour("ink");
  for (const item of [...chosen, current].filter((each) => places[each])) {
    pen.lineWidth = item === current ? 3 : 1.5;
    pen.beginPath();
    pen.arc(...places[item], 7, 0, 2 * Math.PI);
    pen.stroke();
  }
}

// Return the item nearest to the pointer within 20 pixels, or -1.
function nearest(event) {
  const square = (place) => (place ? (place[0] - event.offsetX) ** 2 + (place[1] - event.offsetY) ** 2 : Infinity);
  let best = -1, least = 400;
  places.forEach((place, item) => {
    if (square(place) < least) [best, least] = [item, square(place)];
  });
  return best;
}

function rankText(side, item) {
  const rank = whole(value(side.rank, item));
  if (!side.rank_low) return rank;
  return `${rank} (95 %: ${whole(value(side.rank_low, item))} to ${whole(value(side.rank_high, item))})`;
}

// A value with two decimals if it is a percentage, else with four digits.
const shown = (number) => (page.measure.percent ? number.toFixed(2) : String(Number(number.toPrecision(4))));
const withUnit = (number) => `${shown(number)} ${page.measure.unit}`.trim();

// The parts of a picture come from the program; all names are set as texts.
function picture(item) {
  const box = element("div");
  box.innerHTML = page.pictures.items[item].map((piece) => page.pictures.pieces[piece]).join("");
  return box;
}

function facts(list, pairs) {
  list.replaceChildren(...pairs.flatMap(([name, text, kind]) => [element("dt", name, kind), element("dd", text)]));
  return list;
}

function show(item) {
  current = item;
  const pairs = page.sides.flatMap((side, at) => [
    [side.name, `${page.measure.name} ${withUnit(value(side.mean, item))}`, "ab"[at]],
    ["", `rank ${rankText(side, item)}`],
  ]);
  const title = element("h2", `${page.word} ${page.items[item]}`);
  byId("card").replaceChildren(title, picture(item), facts(element("dl"), pairs));
  highlight();
}

const point = (item) => item >= 0 && item !== current && show(item);

// Add an item to the compared items; a second choice removes it.
function choose(item) {
  if (item < 0) return;
  const others = chosen.filter((each) => each !== item);
  chosen = chosen.includes(item) ? others : [...others, item].slice(-MOST_CHOSEN);
  byId("none").hidden = chosen.length > 0;
  byId("chosen").replaceChildren(...chosen.map(compared));
  show(item);
}

function button(text, item) {
  const made = element("button", text);
  made.setAttribute("aria-label", `${text === "remove" ? text : "compare"} ${page.word} ${page.items[item]}`);
  made.onclick = () => choose(item);
  return made;
}

// Return [seed, accuracy] of the runs that an item has.
function runsOf(side, item) {
  return Object.entries(side.runs).map(([seed, label]) => [seed, value(label, item)]).filter(([, run]) => isKnown(run));
}

function compared(item) {
  const box = element("section");
  const title = element("h3", `${page.word} ${page.items[item]}`);
  title.append(button("remove", item));
  const pairs = page.sides.flatMap((side, at) => [
    [side.name, `rank ${rankText(side, item)}`, "ab"[at]],
    ...runsOf(side, item).map(([seed, run]) => [seed, shown(run)]),
  ]);
  box.append(title, picture(item), strip(item), facts(element("dl"), pairs));
  return box;
}

// Draw the runs of an item as dots, one line per table, on the scale of all compared items.
function strip(item) {
  const all = chosen.flatMap((each) => page.sides.flatMap((side) => runsOf(side, each))).map(([, run]) => run);
  const low = Math.min(...all), high = Math.max(...all);
  const across = (run) => 10 + (230 * (run - low)) / (high - low || 1);
  const dot = (run, at) => `<circle class="${"ab"[at]}" cx="${across(run)}" cy="${10 + 16 * at}" r="5"/>`;
  const dots = page.sides.flatMap((side, at) => runsOf(side, item).map(([, run]) => dot(run, at))).join("");
  const box = element("div");
  box.innerHTML = `<svg class="strip" viewBox="0 0 250 50" role="img">${dots}
    <text x="10" y="46">${shown(low)}</text><text x="240" y="46" text-anchor="end"></text></svg>`;
  // The name and the unit of the measure are texts from a table, so they are set as texts.
  box.firstChild.setAttribute("aria-label", `${page.measure.name} of each run`);
  box.querySelectorAll("text")[1].textContent = withUnit(high);
  return box;
}

function setLevel() {
  level = page.levels[byId("slider").value];
  byId("top").textContent = `Top ${level.percent} % of ${page.sides[0].name}`;
  byId("slider").setAttribute("aria-valuetext", byId("top").textContent);
  facts(byId("numbers"), Object.entries(level.texts));
  draw();
}

function row(item) {
  const made = element("tr"), name = element("td");
  name.append(button(page.items[item], item));
  made.append(name);
  for (const side of page.sides) {
    made.append(element("td", shown(value(side.mean, item)), "n"), element("td", rankText(side, item), "n"));
  }
  return made;
}

function listRows(first) {
  firstRow = Math.max(first, 0);
  const last = Math.min(firstRow + ROWS, COUNT);
  const items = [...page.items.keys()].slice(firstRow, last);
  byId("rows").replaceChildren(...items.map(row));
  byId("where").textContent = `${whole(firstRow + 1)} to ${whole(last)} of ${whole(COUNT)}`;
  byId("back").disabled = firstRow === 0;
  byId("next").disabled = last === COUNT;
}

function find(event) {
  const item = page.items.indexOf(event.target.value.trim());
  event.target.setCustomValidity(item < 0 ? `No ${page.word} of this table has this name` : "");
  event.target.reportValidity();
  if (item < 0) return;
  listRows(item);
  show(item);
}

function press(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) show(Math.max(0, Math.min(current + step, COUNT - 1)));
  if (event.key === "Enter") choose(current);
}

byId("view").onchange = byId("zoom").onchange = draw;
byId("slider").oninput = setLevel;
byId("find").onchange = find;
byId("back").onclick = () => listRows(firstRow - ROWS);
byId("next").onclick = () => listRows(firstRow + ROWS);
canvas.onpointermove = (event) => point(nearest(event));
canvas.onclick = (event) => choose(nearest(event));
canvas.onkeydown = press;
matchMedia("(prefers-color-scheme: dark)").onchange = draw;
listRows(0);
setLevel();
new ResizeObserver(draw).observe(canvas);
