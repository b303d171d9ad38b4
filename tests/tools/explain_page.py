#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens the page of `halyard explain --html`, of a model over two synthetic devices, in headless Chromium and compares
what stands there with the report that the same options give as JSON: a bar for each cluster on the line of its device,
one for each transfer on the lines of its links while it is on its way, the tables, and that a click on a heading sorts.

usage: explain_page.py HALYARD MODEL
"""

import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from bench_page import FIRST, browse

LAST = """<script>
const cells = table => [...table.rows].map(row => [...row.cells].map(cell => cell.textContent.trim()));
const seen = {failures, tables: {}, loads: document.querySelectorAll('[src], link').length,
  clusters: [...document.querySelectorAll('rect.cluster')].map(rect => ({y: +rect.getAttribute('y'),
    from: rect.getBBox().x, to: rect.getBBox().x + rect.getBBox().width})),
  lanes: [...document.querySelectorAll('text.lane')].map(text => [text.textContent, text.getBBox().width]),
  transfers: [...document.querySelectorAll('rect.transfer')].map(rect => ({y: +rect.getAttribute('y'),
    from: rect.getBBox().x, to: rect.getBBox().x + rect.getBBox().width, text: rect.textContent})),
  bytes: [...document.querySelectorAll('text.bytes')].map(text => text.textContent),
  commands: [...document.querySelectorAll('text.command')].map(text => text.textContent),
  values: document.querySelectorAll('rect.value').length,
  texts: [...document.querySelectorAll('svg text')].map(text => text.textContent),
  wide: [...document.querySelectorAll('table')].some(table => table.getBoundingClientRect().right > innerWidth)};
for (const heading of document.querySelectorAll('h2, h3')) {
  let next = heading.nextElementSibling;
  while (next && !['TABLE', 'H2', 'H3'].includes(next.tagName)) next = next.nextElementSibling;
  if (next && next.tagName === 'TABLE') seen.tables[heading.textContent] = cells(next);
  if (heading.textContent === 'Clusters') {
    next.querySelector('th:nth-child(4)').click();
    seen.turned = cells(next);
  }
}
const place = document.createElement('pre');
place.id = 'seen';
place.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(seen))));
document.body.append(place);
</script>"""


def main():
    halyard, model = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, HALYARD_CACHE_DIR=folder + "/cache", HALYARD_SYNTHETIC_DEVICES="threads=1",
                   HALYARD_FIRST_PROBE_MS="0")
        command = [halyard, "explain", model, "--no-tune", "--shape", "batch=8", "--device", "cpu:0,cpu:1", "--affinity",
                   "op:Conv=cpu:1", "--affinity", "node_linear_1=cpu:0"]
        page = pathlib.Path(folder) / "page.html"
        page.write_bytes(subprocess.run([*command, "--html"], env=env, check=True, capture_output=True).stdout)
        report = json.loads(subprocess.run([*command, "--json"], env=env, check=True, capture_output=True).stdout)
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("<title>", FIRST + "<title>", 1).replace("</html>", LAST + "</html>", 1),
                        encoding="utf-8")
        dom = browse(page, "--window-size=1250,900", "--dump-dom")
    found = re.search(r'<pre id="seen">([^<]*)</pre>', dom)
    assert found, "the page's script did not reach its end"
    seen = json.loads(base64.b64decode(found.group(1)))
    assert not seen["failures"] and not seen["loads"], (seen["failures"], seen["loads"])
    assert not seen["wide"], "a table is wider than the window"

    plan = report["plan"]
    clusters = plan["clusters"]
    assert {cluster["device"] for cluster in clusters} == {"cpu:0", "cpu:1"}, "both devices have work"
    assert len(seen["clusters"]) == len(clusters)
    lines = sorted({bar["y"] for bar in seen["clusters"]})
    names = [device["device"] for device in plan["devices"]]
    for bar, cluster in zip(seen["clusters"], clusters):
        assert names[lines.index(bar["y"])] == cluster["device"], (bar, cluster["name"])
        assert 80 < bar["from"] < bar["to"] <= 1000, bar
    # A line for each device and for each link that copies; its transfers stand there at their times.
    links = list(dict.fromkeys(link for one in plan["transfers"] for link in one["links"]))
    lanes = [name for name, _ in seen["lanes"]]
    assert lanes[:2] == names and sorted(lanes[2:]) == sorted(links) and len(links) == 2, (lanes, links)
    left = max(90, 10 + 6.7 * max(map(len, lanes)))
    assert all(width <= left for _, width in seen["lanes"]), seen["lanes"]
    last = max([plan["predicted_seconds"]] + [one["start_seconds"] + one["seconds"] for one in plan["transfers"]])
    scale = (990 - left) / last
    flights = [(one, link) for one in plan["transfers"] for link in one["links"]]
    assert len(seen["transfers"]) == len(flights) > 1
    for bar, (one, link) in zip(seen["transfers"], flights):
        assert bar["y"] == 24 * lanes.index(link) + 4, (bar, one)
        assert abs(bar["from"] - left - one["start_seconds"] * scale) < 0.5, (bar, one)
        assert abs(bar["to"] - bar["from"] - max(one["copy_seconds"] * scale, 0.2)) < 0.5, (bar, one)
        assert bar["text"].startswith(f"'{one['value']}' from {one['from']} to {one['to']}: "), bar
        assert bar["to"] <= 991, "a transfer ends behind the axis"
    table = seen["tables"]["Clusters"][1:]
    assert [row[1:3] for row in table] == [[cluster["name"], cluster["device"]] for cluster in clusters]
    for row, cluster in zip(table, clusters):
        assert cluster["text"] == f"{row[1]} -> {row[2]}: {row[6]}", (row, cluster["text"])
    times = [float(row[3]) for row in seen["turned"][1:]]
    assert times == sorted(float(row[3]) for row in table), "a click on a heading sorts"
    assert [row[0] for row in seen["tables"]["Transfers"][1:]] == [one["value"] for one in plan["transfers"]]
    assert [row[:2] for row in seen["tables"]["Placement"][1:]] == [
        [device["device"], str(device["clusters"])] for device in plan["devices"]]
    assert "0 s" in seen["texts"], "the simulated run has an axis"
    assert seen["values"] and "0 bytes" in seen["bytes"] and len(seen["bytes"]) > 2, "memory has an axis of bytes"
    assert seen["commands"][:2] == ["0", "1"], "memory has an axis of commands"
    print("the page shows the plan")


main()
