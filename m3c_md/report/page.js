"use strict";
(() => {
  const tip = document.getElementById("tip");
  const place = (event, text) => {
    tip.textContent = text;
    tip.hidden = false;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const above = event.clientY + 18 + tip.offsetHeight > innerHeight;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above ? event.clientY - tip.offsetHeight - 12 : event.clientY + 18}px`;
  };

  // Maps of states: what lies under the pointer.
  for (const script of document.querySelectorAll("script.cells")) {
    const map = JSON.parse(script.textContent);
    const panel = document.querySelector(`#${map.panel} path`);
    const picture = panel.ownerSVGElement;
    picture.addEventListener("pointermove", (event) => {
      const box = panel.getBoundingClientRect();
      const x = (event.clientX - box.left) / box.width, y = (box.bottom - event.clientY) / box.height;
      if (x < 0 || x >= 1 || y < 0 || y >= 1) {
        if (tip.dataset.panel === map.panel) tip.hidden = true;
        return;
      }
      const cell = Math.floor(y * map.n) * map.n + Math.floor(x * map.n), state = map.states[cell];
      const at = map.labels.map((label, i) => {
        const value = map.limits[2 * i] + (i ? y : x) * (map.limits[2 * i + 1] - map.limits[2 * i]);
        const [name, unit] = label.split(" / ");
        return `${name} ${Number(value.toPrecision(3))}${unit === "°" ? "°" : unit ? ` ${unit}` : ""}`;
      });
      const what = state < 0 ? "no frame here"
        : `${map.names[state]}\nmargin ${map.margin[cell]}\npopulation ${map.populations[state]}`;
      tip.dataset.panel = map.panel;
      place(event, `${what}\n${at.join(", ")}`);
    });
    picture.addEventListener("pointerleave", () => { tip.hidden = true; });
  }

  // Structures: one view for each state, all of them turned together.
  const boxes = [...document.querySelectorAll(".molecule")];
  if (!boxes.length || typeof $3Dmol === "undefined") return;
  const ramp = (share) => {
    const from = [0xb9, 0xbe, 0xc4], to = [0xd5, 0x5e, 0x00], s = Math.min(Math.max(share, 0), 1);
    return from.map((value, i) => Math.round(value + s * (to[i] - value))).reduce((all, one) => 256 * all + one, 0);
  };
  const color = (atom) => ramp(atom.b / 100);
  const show = (box) => {
    const held = JSON.parse(document.getElementById(box.dataset.structures).textContent);
    // Transparent black, for transparent white would be added to what lies behind.
    const viewer = $3Dmol.createViewer(box, { backgroundColor: "black", backgroundAlpha: 0, antialias: true, disableFog: true });
    held.models.forEach((text, number) => {
      const model = viewer.addModel(text, "pdb");
      if (number) model.setStyle({}, { stick: { radius: 0.035, colorfunc: color } });
      else if (held.style === "trace") model.setStyle({}, { cartoon: { style: "trace", thickness: 0.6, colorfunc: color } });
      else if (held.style === "cartoon") model.setStyle({}, { cartoon: { colorfunc: color } });
      else model.setStyle({}, { stick: { radius: 0.17, colorfunc: color } });
    });
    viewer.zoomTo();
    viewer.zoom(1.2);
    viewer.render();
    return viewer;
  };
  try {
    const viewers = boxes.map(show);
    const views = viewers.map((viewer) => viewer.getView());
    const farthest = views.reduce((one, other) => (other[3] < one[3] ? other : one));
    for (const viewer of viewers) {
      viewer.setView(farthest, true);
      for (const other of viewers) if (other !== viewer) viewer.linkViewer(other);
      viewer.render();
    }
    document.documentElement.dataset.molecules = viewers.length;
  } catch (error) {
    for (const box of boxes) box.textContent = "This browser cannot draw in 3D (WebGL is off).";
  }
})();
