// The same step as text, for those who hear the page: one sentence and two tables, hidden from view.

function buildTable(root) {
  const box = make("div", "heard", make("p"), make("table"), make("table"));
  root.append(box);
  return box;
}

function drawTable(box, data, W) {
  const [said, sequences, blocks] = box.children;
  setText(said, W("alt", { k: data.index, n: data.last, sentence: `${data.say.head} ${data.say.text}` }));
  const heads = ["sequence", "state", "tokens", "written", "table"].map((name) => W(`table.${name}`));
  fill(sequences, W("logical"), heads, data.seqs.map((row) => [
    letter(row.p), W(`state.${row.state}`), row.n, row.w, row.b.join(", "),
  ]));
  const columns = ["block", "state", "ref", "owners", "filled"].map((name) => W(`table.${name}`));
  fill(blocks, W(`physical.${data.device}`), columns, [...heldBlocks(data).values()].sort((a, b) => a.id - b.id).slice(0, 256).map((fact) => [
    fact.id, W(fact.state), fact.owners.length, fact.owners.map(letter).join(" "), `${fact.filled}/${data.size}`,
  ]));
}

function fill(table, caption, heads, rows) {
  if (!table.tHead) {
    table.append(make("caption"));
    table.createTHead().insertRow();
    table.append(make("tbody"));
  }
  setText(table.caption, caption);
  each(table.tHead.rows[0], heads, () => make("th"), setText);
  each(table.tBodies[0], rows, () => make("tr"), (line, cells) => each(line, cells, () => make("td"), setText));
}
