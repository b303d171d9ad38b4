#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the page of `halyard bench --html` in headless Chromium and reads back what stands there: the tables, and
where each dot, bar and line of the charts is. Compares with the report that the same run wrote as JSON, and that with its
published schema.

usage: bench_page.py HALYARD MODEL [PAGE COPY.png WIDTH dark|light]; with PAGE it only takes a picture of it.
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CHROMIUM = "chromium-headless-shell"

FIRST = "<script>window.failures = []; window.onerror = text => failures.push(String(text));</script>"
LAST = """<script>
const seen = {failures, charts: {}, tables: {}};
for (const id of ['overview', 'roofline', 'latency', 'timeline', 'memory', 'rates']) {
  const chart = Chart.getChart(id), canvas = chart?.canvas;
  if (!canvas?.offsetWidth) continue;  // nothing of its kind was measured
  const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let painted = 0;
  for (let i = 3; i < pixels.length; i += 4) painted += pixels[i] > 0;
  seen.charts[id] = {painted, datasets: chart.data.datasets.map((set, s) => ({label: set.label,
    points: chart.getDatasetMeta(s).data.map(element => {
      const at = element.getProps(['x', 'y', 'base'], true);
      return {x: chart.scales.x.getValueForPixel(at.x), y: chart.scales.y.getValueForPixel(at.y),
              base: at.base === undefined ? null : chart.scales.x.getValueForPixel(at.base)};
    })}))};
}
const cells = id => [...document.getElementById(id).rows].map(row => [...row.cells].map(cell => cell.textContent));
for (const id of ['rows', 'split', 'groups', 'devices', 'loads', 'conditions', 'costs']) seen.tables[id] = cells(id);
document.querySelector('#groups th:nth-child(4) button').click();
seen.tables.turned = cells('groups');
seen.about = document.getElementById('about').textContent;
seen.verdicts = Object.fromEntries([...document.querySelectorAll('#verdicts > li')].map(item =>
  [item.firstChild.textContent.slice(0, -1), [...item.querySelectorAll('li')].map(sentence => sentence.textContent)]));
seen.title = [document.title, document.getElementById('title').textContent];
// A table is in a part that scrolls and whose own edge is inside the window.
seen.cut = [...document.querySelectorAll('table')].filter(table => {
  const part = table.closest('.scroll');
  return !part || part.getBoundingClientRect().right > innerWidth || getComputedStyle(part).overflowX !== 'auto';
}).map(table => table.id);
// What is to be seen has something in it.
seen.empty = [...document.querySelectorAll('table, canvas')].filter(part => part.offsetWidth > 0 &&
  (part.tBodies ? part.tBodies[0].rows.length === 0 : Chart.getChart(part).data.datasets.every(set => set.data.length === 0)))
  .map(part => part.id);
seen.wide = document.documentElement.scrollWidth > innerWidth;
const place = document.createElement('pre');
place.id = 'seen';
place.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(seen))));
document.body.append(place);
</script></body>"""


def browse(page, *options):
    with tempfile.TemporaryDirectory() as profile:
        return subprocess.run(
            [CHROMIUM, "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", "--virtual-time-budget=4000",
             *options, pathlib.Path(page).absolute().as_uri()],
            check=True, capture_output=True, timeout=120).stdout.decode()


def read_page(page, folder):
    import base64
    text = pathlib.Path(page).read_text()
    probed = pathlib.Path(folder) / "probed.html"
    probed.write_text(text.replace("<head>", "<head>" + FIRST, 1).replace("</body>", LAST, 1))
    dom = browse(probed, "--window-size=1000,900", "--dump-dom")
    found = re.search(r'<pre id="seen">([^<]*)</pre>', dom)
    assert found, "the page's script did not reach its end"
    return json.loads(base64.b64decode(found.group(1)))


def is_near(a, b, relative=0.02):
    return abs(a - b) <= relative * max(abs(a), abs(b), 1e-12)


def time_text(seconds):
    if seconds < 1e-12:
        return "0 s"
    factor, unit = (1, "s") if seconds >= 1 else (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")
    return f"{seconds * factor:#.4g}".rstrip(".") + " " + unit


def check(report, page, seen):
    assert not seen["failures"], seen["failures"]
    text = pathlib.Path(page).read_text()
    loads = re.findall(r'(?:src|href)\s*=\s*["\'][^"\']+|@import|url\(\s*["\']?http', text.split("</style>")[0])
    assert not loads and text.count("<script src") == 0, f"the page loads {loads}"
    for name, chart in seen["charts"].items():
        assert chart["painted"] > 2000, f"chart '{name}' is empty: {chart['painted']} pixels"

    assert not seen["cut"] and not seen["wide"] and not seen["empty"], (seen["cut"], seen["empty"])
    row = report["rows"][0]
    title = f"digits.onnx on {row['devices'][0]['name']}: Halyard benchmark"
    assert seen["title"] == [title, title], seen["title"]
    assert seen["tables"]["rows"][1][0] == "digits.onnx", "what all rows share stands above the table"
    assert "Sizes: batch 4. Precision as-given." in seen["about"], seen["about"]
    sentences = {"digits.onnx on " + row["device"]: row.get("verdicts") or [row["error"]] for row in report["rows"]
                 if row.get("verdicts") or "error" in row}
    assert "digits.onnx on cpu:77" in sentences and seen["verdicts"] == sentences, (seen["verdicts"], sentences)
    groups = row["profile"]["groups"]
    cells = seen["tables"]["rows"]
    latency = row["latency"]
    assert cells[1][1:6] == [row["device"], row["devices"][0]["name"], time_text(latency["p50"]),
                             f"{time_text(latency['p50_low'])} to {time_text(latency['p50_high'])}",
                             time_text(latency["p90"])], cells[1]
    of_roof = cells[1][cells[0].index("of roof")]
    is_probed = any("roof" in group for group in groups)
    assert of_roof.endswith(" %") if "roof_share" in row["profile"] else of_roof == ("" if is_probed else "not probed"), of_roof
    [median] = seen["charts"]["overview"]["datasets"][1]["points"]
    assert is_near(median["x"], latency["p50"] * 1e3), "the overview shows p50; a row that failed is left out"
    assert "cpu:77" in cells[2][2], "a row that failed says why"

    table = seen["tables"]["groups"][1:]
    names = [group["label"] + (f" ({group['nodes']})" if "nodes" in group else "") for group in groups]
    assert [line[0] for line in table] == names, "all groups, by falling time"
    assert "node_relu_1" in " ".join(names), "a group of several nodes names them"
    assert [line[3] for line in table] == [time_text(group["seconds"]) for group in groups]
    turned = [line[3] for line in seen["tables"]["turned"][1:]]
    assert turned == [line[3] for line in reversed(table)], "a click on a heading turns the order"
    busy = row["profile"]["split"]["busy"]["cpu:0"]
    [line] = [line for line in seen["tables"]["split"] if line[0] == "cpu:0 busy"]
    assert line[1] == time_text(busy), line
    plain = float(line[3].removesuffix(" %")) / 100
    assert seen["tables"]["split"][0][3] == "of a plain run" and abs(plain - busy / latency["p50"]) <= 0.01, line

    dots = [group for group in groups if group.get("intensity") and group.get("flops_per_s")]
    drawn = seen["charts"]["roofline"]["datasets"][0]["points"]
    assert len(dots) > 2 and len(drawn) == len(dots)
    for group, dot in zip(dots, drawn):
        assert is_near(dot["x"], group["intensity"]) and is_near(dot["y"], group["flops_per_s"]), (group, dot)

    bars = [point for data in seen["charts"]["timeline"]["datasets"] for point in data["points"]]
    timeline = row["profile"]["timeline"]
    assert len(bars) == len(timeline)
    whole = max(command["end"] for command in timeline) * 1e3
    ends = sorted(point["x"] for point in bars)
    for end, command in zip(ends, sorted(command["end"] for command in timeline)):
        assert abs(end - command * 1e3) <= 0.01 * whole, (end, command)

    runs = seen["charts"]["latency"]["datasets"][0]["points"]
    assert round(sum(point["y"] for point in runs)) == len(row["samples"]), "every run is in the histogram"
    live = [command["live_bytes"] for command in timeline if "live_bytes" in command]
    peak = max(point["y"] for point in seen["charts"]["memory"]["datasets"][1]["points"])
    assert is_near(peak, (max(live) + row["memory"]["constant_bytes"]) / 2**20), (peak, max(live))


def check_memory(report, seen):
    """digits.onnx at batch 4 on one CPU: what was held is what was planned, but for what is used in place."""
    memory = report["rows"][0]["memory"]
    [device] = memory["devices"]
    parts = [device[name] for name in ("constant_bytes", "activation_bytes", "io_bytes", "staging_bytes")]
    assert device["device"] == "cpu:0" and sum(parts) == device["total_bytes"] == memory["total_bytes"], memory
    assert 0 < device["activation_bytes"] <= device["peak_bytes"] == memory["peak_bytes"] <= memory["total_bytes"], memory
    # A second session has activations of its own and the same constants.
    more = device["concurrent_peak_bytes"] - device["peak_bytes"]
    assert device["activation_bytes"] <= more <= device["activation_bytes"] + device["io_bytes"], memory
    [head, line] = seen["tables"]["devices"]
    assert head[0] == "device" and line[0] == "cpu:0" and len(line) == 8 and all(line), (head, line)


def check_costs(report, seen):
    row = report["rows"][0]
    identity, phases = row["identity"], row["phases"]
    assert identity["opset"] == 18 and identity["inputs"] == [{"name": "images", "dtype": "f32", "dims": [4, 1, 8, 8]}], identity
    assert phases["first_output_cold"] > phases["compile"] and phases["first_output_warm"] > phases["warm_open"], phases
    assert 0 < row["per_run"]["cpu_seconds"] < 1, row["per_run"]
    [_, line] = seen["tables"]["costs"]
    dispatches = row["placement"]["devices"][0]["dispatches"]
    assert line[0] == time_text(phases["first_output_cold"]) and line[5:] == ["0 % of the largest value", str(dispatches), "0", "0", "0"], line
    # Else they are mapped from a file, which may take less than the clock's step.
    moves = phases["load_weights"] > 0 and row["memory"]["peak_bytes"] >= row["memory"]["constant_bytes"]
    assert line[2].startswith(time_text(phases["load"])) and line[2].endswith(" GB/s") == moves, line
    assert moves == (f", weights {time_text(phases['load_weights'])}, " in line[2]), line
    assert 0 <= phases["load_weights"] and 0 < phases["load_code"], phases
    assert phases["load_code"] + phases["load_weights"] <= phases["load"] <= phases["warm_open"], phases


def check_conditions(report, seen):
    row = report["rows"][0]
    [device] = row["conditions"]
    assert device["device"] == "cpu:0" and device["thread_count"] >= 1, device
    assert device["before"] == row["state_before"] and device["after"] == row["state_after"], row
    [_, line] = seen["tables"]["conditions"]
    clock = device["before"].get("clock_hz")
    assert line[:2] == ["cpu:0", f"{clock / 1e6:.0f} MHz" if clock else "unknown"], line
    clock = device["during"].get("clock_hz")
    assert line[2] == (f"{clock / 1e6:.0f} MHz" if clock else "unknown"), line


def check_loads(report, seen):
    row = report["rows"][0]
    assert row["concurrency"] == 2 and row["concurrent_latency"]["count"] >= 2, row["concurrent_latency"]
    assert [load["rate"] for load in row["rates"]] == [20, 10]
    for load in row["rates"]:
        assert load["arrivals"] == load["served"] + load["missed"] and load["waited"] <= load["arrivals"], load
        assert load["arrivals"] >= 1 and load["latency"]["count"] == load["served"], load
    lines = {line[0]: line for line in seen["tables"]["loads"][1:]}
    assert set(lines) == {"each run after the last", "due at 20/s", "due at 10/s"}, lines
    for load in row["rates"]:
        line = lines[f"due at {load['rate']:.0f}/s"]
        assert line[2] == time_text(load["latency"]["p50"]) and line[7:] == [
            str(load[name]) for name in ("arrivals", "waited", "missed")], (line, load)
    lowest, highest = seen["charts"]["rates"]["datasets"][2]["points"]
    assert is_near(lowest["x"], 10) and is_near(highest["x"], 20), "by rising rate"
    assert is_near(lowest["y"], row["rates"][1]["latency"]["p99"] * 1e3), lowest


def check_links(halyard, model, folder):
    """A program over two devices: its transfers are called by their way and set against the copies that a probe measured."""
    env = dict(os.environ, HALYARD_CACHE_DIR=folder + "/cache", HALYARD_FIRST_PROBE_MS="0",
               HALYARD_SYNTHETIC_DEVICES="threads=1&link_bytes_per_s=4000000000&link_latency_us=10&memory_bytes=40000000")
    program, page, output = folder + "/two.hyp", folder + "/two.html", folder + "/two.json"

    def run(*arguments, **more):
        done = subprocess.run([halyard, *arguments], env={**env, **more}, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, (arguments, done.stderr)

    # Copies alone need no compiler.
    run("devices", "cpu:1", "--probe", "--seconds", "60", HALYARD_COMPILER_LIBRARY="none")
    run("compile", model, "--shape", "batch=64", "--device", "cpu:0,cpu:1", "--no-tune", "--affinity", "op:Conv=cpu:0",
        "--affinity", "op:Gemm=cpu:1", "--affinity", "op:MatMul=cpu:1", "-o", program)
    run("bench", program, "--device", "cpu:0+cpu:1", "--runs", "20", "--warm-up", "0", "--html", page, "--output", output)
    report = json.loads(pathlib.Path(output).read_text())
    check_schema(report)
    profile = report["rows"][0]["profile"]
    ways = {group["label"]: group for group in profile["groups"] if group["kind"] == "transfer"}
    assert "host -> cpu:1" in ways and set(ways) <= {"host -> cpu:1", "cpu:1 -> host", "host -> host"}, ways
    link = ways["host -> cpu:1"]["link"]
    assert 1e8 < link["bytes_per_s"] < 8e9 and 0 < link["share"] < 2, link
    assert is_near(link["share"] * link["bytes_per_s"], ways["host -> cpu:1"]["bytes_per_s"]), ways
    assert profile["clocks"] == {}, "processors have the host's clock"
    # The host's own copies were not probed, so that of all transfers is not known; outputs leave the device alone.
    assert list(profile["link_shares"]) == ["copies_out"], profile["link_shares"]
    seen = read_page(page, folder)
    lines = {line[0]: line for line in seen["tables"]["split"][1:]}
    assert lines["copies out"][4].endswith(" %") and lines["between devices"][4] == "", lines
    [group] = [line for line in seen["tables"]["groups"] if line[0] == "host -> cpu:1"]
    assert group[-1] == "link" and group[-2].endswith(" %"), group


def check_names(halyard, folder):
    """No name of a model is taken for a place of the page, or ends the script that holds it."""
    page, output = folder + "/names.html", folder + "/names.json"
    run = subprocess.run([halyard, "bench", "</script>@CHART_LIBRARY@@REPORT@@TITLE@.onnx", "--html", page, "--output", output],
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 2, run.stderr
    held = re.search(r'<script type="application/json" id="report">(.*?)</script>', pathlib.Path(page).read_text(), re.DOTALL)
    assert json.loads(held.group(1)) == json.loads(pathlib.Path(output).read_text()), held.group(1)[:300]
    # Nor does a page of rows that all failed show charts and tables with nothing in them.
    seen = read_page(page, folder)
    assert not seen["failures"] and not seen["empty"] and len(seen["tables"]["rows"]) == 2, seen


def check_schema(report):
    schema = json.loads((ROOT / "docs/bench.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    errors = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(report)]
    assert not errors, errors
    wrong = json.loads(json.dumps(report))
    wrong["rows"][0]["profile"]["groups"][0]["bound"] = "luck"
    assert not validator.is_valid(wrong), "a wrong report passes"


def main():
    if len(sys.argv) > 3:
        page, picture, width, scheme = sys.argv[3:7]
        dark = ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if scheme == "dark" else []
        browse(page, f"--screenshot={os.path.abspath(picture)}", f"--window-size={width},3000", *dark)
        return
    halyard, model = sys.argv[1:3]
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, HALYARD_CACHE_DIR=folder + "/cache")
        page, output = folder + "/page.html", folder + "/report.json"
        run = subprocess.run([halyard, "bench", model, "--device", "cpu:0,cpu:77", "--shape", "batch=4", "--no-tune", "--runs",
                              "50", "--seconds", "0.5", "--warm-up", "0.05", "--rate", "20,10", "--html", page, "--output", output],
                             env=env, capture_output=True, text=True, timeout=120)
        assert run.returncode == 3, run.stderr
        report = json.loads(pathlib.Path(output).read_text())
        check_schema(report)
        seen = read_page(page, folder)
        check(report, page, seen)
        check_memory(report, seen)
        check_conditions(report, seen)
        check_costs(report, seen)
        check_loads(report, seen)
        check_links(halyard, model, folder)
        check_names(halyard, folder)
    print("the report is as its schema says, and the page shows it")


if __name__ == "__main__":
    main()
