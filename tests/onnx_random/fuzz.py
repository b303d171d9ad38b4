#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Halyard with ONNX Runtime on random small ONNX graphs.

usage: fuzz.py LIBHALYARD [--seeds FIRST:COUNT] [--rare] [--jobs N] [--only VARIANT] [--findings FOLDER] [--show]
  [--minimise]

Every seed is one graph, which runs on the CPU and in some of VARIANTS in turn; with an open dim at two sizes. A worker
process runs many seeds; one that dies or takes longer than --hang seconds for a seed is a finding like a wrong
answer, and the next worker goes on behind it. --rare makes graphs of other ops, dtypes and opsets, which exporters
write seldom. --minimise makes a finding small, and --findings keeps its model and
inputs. What Halyard does not do is counted. Exits 1 when something was found, or too little was compared."""
import argparse
import collections
import copy
import json
import os
import pathlib
import re
import selectors
import subprocess
import sys
import tempfile
import time
import traceback

import numpy as np
import onnx
from graph import F32, FLOATS, OPSETS, Graph, Node, Reject, Value
from halyard_c import Failure, Library
from makers import MAKERS
from oracle import FP16, Oracle, difference
from rare_makers import RARE_MAKERS, RARE_OPSETS

SYNTHETIC = "threads=1&link_latency_us=5;threads=1&speed_percent=50"
# Where their operands are known, the importer computes them; otherwise no device has code for them.
INTERPRETED = ("NonZero", "Compress", "Unique")
VARIANTS = ("threads", "discrete", "fixed", "fp16", "vulkan", "split", "tune", "cache")

def generate(seed, rare=False):
    graph = Graph(seed, RARE_OPSETS if rare else OPSETS)
    makers = RARE_MAKERS if rare else MAKERS
    weights = np.array([w for _, w in makers], float)
    # A graph is about some of the ops, so that those meet.
    weights *= graph.random.random(len(weights)) < 0.6
    if graph.open_sizes is not None:
        dims, axis = ([1] + graph.dims(graph.up(0, 3), 60), 0) if graph.coin(0.7) else ([2, 1, graph.size(17)], 1)
        graph.add_input(dims, F32, axis)
    for _ in range(graph.up(0, 2)):
        try:
            graph.add_input(graph.dims(graph.up(0, 5)), F32 if graph.coin(0.7) else graph.choice(FLOATS))
        except Reject:
            pass
    wanted, tries = graph.up(2, 10), 0
    while len(graph.nodes) < wanted and tries < 60:
        tries += 1
        try:
            makers[graph.random.choice(len(makers), p=weights / weights.sum())][0](graph)
        except Reject:
            pass
        except (ValueError, IndexError, KeyError, StopIteration):
            # A maker that did not foresee these dims.
            pass
    read = {i for n in graph.nodes for i in n.inputs}
    made = [o for n in graph.nodes for o in n.outputs]
    outputs = [o for o in made if o not in read or graph.coin(0.1)] or made[-1:]
    if graph.inputs and graph.coin(0.05):
        outputs.append(graph.choice(list(graph.inputs)))
    graph.constants = {n: a for n, a in graph.constants.items() if n in read}
    graph.inputs = {n: v for n, v in graph.inputs.items() if n in read or n in outputs or graph.coin(0.3)}
    graph.open_inputs = {n: a for n, a in graph.open_inputs.items() if n in graph.inputs}
    graph.values.update(graph.inputs)
    return graph, outputs[:8]


def variants_of(seed):
    return ["cpu", VARIANTS[seed % len(VARIANTS)], VARIANTS[(seed // len(VARIANTS) + 3) % len(VARIANTS)]]


class Session:
    """What stays open over many seeds."""

    def __init__(self, path):
        self.folder = tempfile.TemporaryDirectory(prefix="halyard_onnx_random_")
        os.chmod(self.folder.name, 0o700)
        self.library = Library(path, self.folder.name)
        try:
            self.library.device("vulkan:0")
            self.has_vulkan = True
        except Failure:
            self.has_vulkan = False

    def programs(self, variant, seed, graph, model):
        """What to compile, as keyword arguments, one after the other."""
        if variant == "cpu":
            return [{}]
        if variant == "threads":
            return [{"devices": ["cpu:0?threads=1"]}]
        if variant == "discrete":
            return [{"devices": [f"cpu:0?discrete={1 + seed % 5}"]}]
        if variant == "fixed":
            return [{"symbols": {"n": graph.open_sizes[0]}}] if graph.is_open() else []
        if variant == "fp16":
            return [{"precision": 1}]
        if variant == "vulkan":
            return [{"devices": ["vulkan:0"]}] if self.has_vulkan else []
        if variant == "split":
            chance = np.random.default_rng(seed)
            return [{"devices": ["cpu:0", "cpu:1", "cpu:2"], "affinities": [
                (f"node_{i}", f"cpu:{chance.integers(3)}") for i, node in enumerate(graph.nodes)
                if chance.random() < 0.8 and node.op not in INTERPRETED]}]
        if variant == "tune":
            return [{"disable_tuning": 0}]
        assert variant == "cache"
        return [{"disable_cache": 0}] * 2

    def check(self, variant, seed, graph, outputs, counts=None):
        """Raises Finding; returns what was refused, or None."""
        precision = FP16 if variant == "fp16" else None
        model = graph.model(outputs).SerializeToString()
        oracle = None
        for options in self.programs(variant, seed, graph, model):
            try:
                program = self.library.compile(model, **options)
            except Failure as failure:
                return judge_refusal(failure, variant)
            with program:
                cases = range(2 if graph.is_open() and variant != "fixed" else 1)
                if oracle is None:
                    oracle = Oracle(graph, outputs, precision)
                for k in cases:
                    try:
                        got = program.run([v.arrays[k] for v in graph.inputs.values()])
                    except Failure as failure:
                        refused = judge_refusal(failure, variant)
                        if refused:
                            return refused
                        raise
                    for name, actual, (wanted, allowed) in zip(outputs, got, oracle.cases[k], strict=True):
                        if counts is not None:
                            counts["elements"] += allowed.size
                            counts["judged"] += int((~np.isnan(allowed)).sum())
                        sentence = difference(actual, wanted, allowed, graph.values[name].dtype)
                        if sentence:
                            raise Finding(variant, f"{name} at case {k} {sentence}")
        return None


class Finding(Exception):
    def __init__(self, variant, sentence):
        super().__init__(f"{variant}: {sentence}")
        self.variant, self.sentence = variant, sentence


def judge_refusal(failure, variant):
    """What Halyard does not do, it says in one sentence that names the node; all else is a finding."""
    text = str(failure)
    if failure.name != "UNIMPLEMENTED" or "\n" in failure.sentence or "'" not in failure.sentence \
            or not failure.sentence.endswith("."):
        raise Finding(variant, f"refused: {text}")
    return re.sub(r"'[^']*'|\d+", "*", text)


# --- making a finding small


def prune(graph, outputs):
    needed, nodes = set(outputs), []
    for node in reversed(graph.nodes):
        if needed & set(node.outputs):
            nodes.insert(0, node)
            needed |= set(node.inputs)
    graph.nodes = nodes
    graph.inputs = {n: v for n, v in graph.inputs.items() if n in needed}
    graph.constants = {n: a for n, a in graph.constants.items() if n in needed}
    graph.open_inputs = {n: a for n, a in graph.open_inputs.items() if n in graph.inputs}
    return graph, list(outputs)


def copied(graph):
    new = copy.copy(graph)
    for field in ("inputs", "constants", "values", "nodes", "open_inputs"):
        setattr(new, field, copy.copy(getattr(graph, field)))
    return new


def smaller(graph, outputs):
    """Graphs with one thing less."""
    if len(outputs) > 1:
        for output in outputs:
            yield prune(copied(graph), [output])
        for output in outputs:
            yield prune(copied(graph), [o for o in outputs if o != output])
    yield prune(copied(graph), outputs)
    for node in reversed(graph.nodes):
        if len(graph.nodes) == 1:
            break
        for output in node.outputs:
            # The value becomes an input, so that what makes it goes.
            value = graph.values[output]
            if value.is_open() and sum(value.is_open(i) for i in range(value.rank)) != 1:
                continue
            new = copied(graph)
            new.nodes = []
            for other in graph.nodes:
                if other is node and len(node.outputs) == 1:
                    continue
                renamed = [f"cut_{i}" if i == output else i for i in other.inputs]
                new.nodes.append(Node(other.op, renamed, other.outputs, other.attributes, other.domain))
            new.inputs[f"cut_{output}"] = new.values[f"cut_{output}"] = Value(f"cut_{output}", value.arrays)
            if value.is_open():
                axis = next(i for i in range(value.rank) if value.is_open(i))
                if tuple(a.shape[axis] for a in value.arrays) != graph.open_sizes:
                    continue
                new.open_inputs[f"cut_{output}"] = axis
            yield prune(new, [o for o in outputs if o != output] or outputs)
    for node in graph.nodes:
        # A later value that an earlier one of the same type can stand for.
        for output in node.outputs:
            for given in node.inputs:
                a, b = graph.values.get(output), graph.values.get(given)
                if a is None or b is None or a.dtype != b.dtype or any(
                        x.shape != y.shape for x, y in zip(a.arrays, b.arrays)) or output in outputs:
                    continue
                new = copied(graph)
                new.nodes = [Node(n.op, [given if i == output else i for i in n.inputs], n.outputs, n.attributes, n.domain)
                             for n in graph.nodes if n is not node or len(node.outputs) > 1]
                yield prune(new, outputs)


def size_of(graph, outputs):
    return len(graph.nodes) * 10 + len(outputs) * 3 + len(graph.inputs) + len(graph.constants)


def minimise(graph, outputs, fails, seconds=60):
    deadline = time.monotonic() + seconds
    progress = True
    while progress and time.monotonic() < deadline:
        progress = False
        for candidate in smaller(graph, outputs):
            if size_of(*candidate) < size_of(graph, outputs) and candidate[1] and candidate[0].nodes and fails(*candidate):
                graph, outputs = candidate
                progress = True
                break
            if time.monotonic() > deadline:
                break
    return graph, outputs


def describe(graph, outputs):
    lines = [f"opset {graph.opset}, open sizes {graph.open_sizes if graph.is_open() else None}"]
    for name, value in graph.inputs.items():
        lines.append(f"  {name}: input {value.dtype}{list(value.shape)}"
                     + (f" open axis {graph.open_inputs[name]}" if name in graph.open_inputs else ""))
    for name, array in graph.constants.items():
        lines.append(f"  {name}: {array.dtype}{list(array.shape)}" + (f" = {array.tolist()}" if array.size < 9 else ""))
    for i, node in enumerate(graph.nodes):
        attributes = {k: v if not isinstance(v, onnx.TensorProto) else "tensor" for k, v in node.attributes.items()}
        shapes = ", ".join(f"{o} {graph.values[o].dtype}{list(graph.values[o].shape)}" for o in node.outputs)
        lines.append(f"  node_{i}: {shapes} = {node.op}({', '.join(node.inputs)}) {attributes or ''}")
    return "\n".join([*lines, f"  outputs {' '.join(outputs)}"])


# --- processes


def run_seed(session, seed, args):
    """One line of JSON for the parent."""
    graph, outputs = generate(seed, args.rare)
    report = {"seed": seed, "nodes": len(graph.nodes), "ops": sorted({n.op for n in graph.nodes}), "refused": [],
              "counts": {"runs": 0, "elements": 0, "judged": 0}}
    if args.show:
        print(describe(graph, outputs), file=sys.stderr)
    for variant in [args.only] if args.only else variants_of(seed):
        report["variant"] = variant
        print(json.dumps({"at": seed, "variant": variant}), flush=True)
        try:
            report["counts"]["runs"] += 1
            refused = session.check(variant, seed, graph, outputs, report["counts"])
            if refused:
                report["refused"].append(f"{variant}: {refused}")
                if variant == "cpu":
                    break
        except Finding as finding:
            report["finding"] = str(finding)
            if args.minimise:
                kind = "refused" in finding.sentence

                def fails(g, o):
                    try:
                        session.check(variant, seed, g, o)
                    except Finding as other:
                        return ("refused" in other.sentence) == kind
                    except Exception:
                        return False
                    return False
                graph, outputs = minimise(graph, outputs, fails)
                try:
                    session.check(variant, seed, graph, outputs)
                except Finding as other:
                    report["finding"] = str(other)
            report["graph"] = describe(graph, outputs)
            keep(args, seed, graph, outputs, report)
            break
        except Exception:
            report["finding"] = f"{variant}: the comparison itself failed: {traceback.format_exc(limit=-3)}"
            break
    print(json.dumps(report), flush=True)


def keep(args, seed, graph, outputs, report):
    if not args.findings:
        return
    folder = pathlib.Path(args.findings) / str(seed)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.onnx").write_bytes(graph.model(outputs).SerializeToString())
    np.savez(folder / "inputs.npz", **{n: v.arrays[0] for n, v in graph.inputs.items() if v.dtype.kind != "V"})
    for i, value in enumerate(graph.inputs.values()):
        if value.dtype.kind != "V":
            np.save(folder / f"input_{i}.npy", value.arrays[0])
    (folder / "report.txt").write_text(f"{report['finding']}\n{report['graph']}\n")


class Worker:
    def __init__(self, args, seeds):
        self.seeds = list(seeds)
        self.args = args
        self.start()

    def start(self):
        command = [sys.executable, __file__, self.args.library, "--worker", f"{self.seeds[0]}:{len(self.seeds)}:"
                   f"{self.args.jobs}"]
        for name in ("only", "findings"):
            if getattr(self.args, name):
                command += [f"--{name}", getattr(self.args, name)]
        command += ["--minimise"] if self.args.minimise else []
        command += ["--rare"] if self.args.rare else []
        command += ["--show"] if self.args.show else []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=None if self.args.show else subprocess.PIPE)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.rest, self.variant, self.since = b"", "start", time.monotonic()


def supervise(args, first, count):
    selector = selectors.DefaultSelector()
    workers = []
    for job in range(min(args.jobs, count)):
        worker = Worker(args, range(first + job, first + count, args.jobs))
        workers.append(worker)
        selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
    findings, done = [], 0
    ops, refused, counts = collections.Counter(), collections.Counter(), collections.Counter()
    started = time.monotonic()

    def restart(worker, why):
        nonlocal done
        selector.unregister(worker.process.stdout)
        said = b"" if worker.process.stderr is None else worker.process.stderr.read()
        worker.process.wait()
        if why or worker.seeds:
            seed = worker.seeds.pop(0)
            done += 1
            why = why or f"the process died with {worker.process.returncode}"
            findings.append(seed)
            print(f"FOUND seed {seed}, {worker.variant}: {why}: {said.decode(errors='replace')[-600:]}", flush=True)
        if worker.seeds:
            worker.start()
            selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        else:
            workers.remove(worker)

    while workers:
        for key, _ in selector.select(timeout=1):
            worker = key.data
            data = worker.process.stdout.read()
            if data == b"":
                restart(worker, None)
                continue
            worker.rest += data or b""
            *lines, worker.rest = worker.rest.split(b"\n")
            for line in lines:
                worker.since = time.monotonic()
                report = json.loads(line)
                worker.variant = report.get("variant")
                if "at" in report:
                    continue
                worker.seeds.remove(report["seed"])
                done += 1
                ops.update(report["ops"])
                refused.update(report["refused"])
                counts.update(report["counts"])
                if "finding" in report:
                    findings.append(report["seed"])
                    print(f"FOUND seed {report['seed']}, {report['finding']}\n{report.get('graph', '')}", flush=True)
                if done % 500 == 0:
                    print(f"{done} seeds in {time.monotonic() - started:.0f} s, {len(findings)} findings", flush=True)
        for worker in list(workers):
            if time.monotonic() - worker.since > args.hang:
                worker.process.kill()
                restart(worker, f"took longer than {args.hang} s")
    for text, number in refused.most_common():
        print(f"refused {number} times: {text}")
    print(f"{len(ops)} ops: " + ", ".join(f"{op} {number}" for op, number in ops.most_common()))
    print(f"{done} seeds, {counts['runs']} runs, {refused.total()} refused, {counts['judged']} of {counts['elements']} "
          f"elements judged, {time.monotonic() - started:.0f} s, {len(findings)} findings: {findings}")
    # What is hardly judged proves nothing.
    is_meaningful = counts["judged"] > 0.9 * counts["elements"] and refused.total() < 0.1 * counts["runs"]
    return 0 if is_meaningful and not findings else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--seeds", default="0:100")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", choices=("cpu", *VARIANTS))
    parser.add_argument("--findings")
    parser.add_argument("--hang", type=float, default=120)
    parser.add_argument("--minimise", action="store_true")
    parser.add_argument("--rare", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        first, count, step = (int(n) for n in args.worker.split(":"))
        session = Session(args.library)
        for seed in range(first, first + count * step, step):
            run_seed(session, seed, args)
        return 0
    os.environ.setdefault("HALYARD_SYNTHETIC_DEVICES", SYNTHETIC)
    first, count = (int(n) for n in args.seeds.split(":"))
    return supervise(args, first, count)


if __name__ == "__main__":
    sys.exit(main())
