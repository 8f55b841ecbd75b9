"""Reads what `samara export` writes back by the tools that it is for, and compares their numbers with
those of `samara summary` and `samara why`. `ci/exports.sh` runs it."""

import collections
import csv
import gzip
import json
import os
import re
import subprocess
import sys


def run(*args):
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, f"{args}: {done.stderr.decode()}"
    return done.stdout.decode()


def same(what, got, expected):
    assert got == expected, f"{what}: {got!r}, and not {expected!r}"


def folded_sums(text):
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())


class Trace:
    """What samara itself says of a trace."""

    def __init__(self, samara, path):
        self.samara, self.path = samara, path
        self.summary = json.loads(run(samara, "summary", path, "--json"))
        events = [json.loads(line) for line in run(samara, "events", path, "--json").splitlines()]
        self.events = [e for e in events if e["kind"] not in ("module", "stack", "symbol")]
        self.first = self.events[0]["pid"]
        self.counts = {call: c["count"] for call, c in self.summary["calls"].items()}
        self.processes = {e["pid"] for e in self.events}

    def folded(self, by):
        return run(self.samara, "why", self.path, "--folded", "--by", by)


def check_csv(trace, path):
    rows = list(csv.DictReader(open(path, newline="")))
    same("csv: rows", len(rows), len(trace.events))
    same("csv: calls", collections.Counter(r["call"] for r in rows if r["call"]), trace.counts)
    for column, key in [("splits", "splits"), ("merges", "merges")]:
        same("csv: " + column, sum(int(r[column]) for r in rows), trace.summary[key])
    ns = {call: sum(int(r["duration_ns"]) for r in rows if r["call"] == call) for call in trace.counts}
    same("csv: times", ns, {call: c["total_ns"] for call, c in trace.summary["calls"].items()})
    same("csv: failed", sum(1 for r in rows if r["error"]), sum(c["failed"] for c in trace.summary["calls"].values()))
    last = [r for r in rows if int(r["pid"]) == trace.first and r["areas"]][-1]
    same("csv: areas", int(last["areas"]), trace.summary["areas_final"])
    same("csv: bytes", int(last["bytes"]), trace.summary["mapped_bytes_final"])
    for row in rows:
        assert not any("\n" in cell or "\x1b" in cell for cell in row.values()), row
        assert not row["program"].startswith("="), row


def check_pprof(trace, path):
    raw = run("go", "tool", "pprof", "-raw", path)
    types = next(line for line in raw.splitlines() if line.startswith("areas/count")).split()
    types = [kind.split("/")[0].removesuffix("[dflt]") for kind in types]
    same("pprof: types", types[:7], ["areas", "bytes", "made", "mapped", "splits", "calls", "time"])
    same("pprof: resident", types[7:], ["populated", "released"] if trace.events[3]["resident"] else [])
    sums, by_pid, values = collections.Counter(), collections.Counter(), None
    samples = raw[raw.index("Samples:") : raw.index("Locations")].splitlines()[2:]
    for line in samples:
        if found := re.match(r"((?:\s+-?\d+)+):", line):
            values = [int(value) for value in found[1].split()]
            sums.update(dict(zip(types, values)))
        elif found := re.match(r"\s+pid:\[(\d+)", line):
            by_pid[int(found[1])] += values[0]
    for kind in ["made", "splits", "calls", "time"] + types[7:]:
        same("pprof: " + kind, sums[kind], folded_sums(trace.folded(kind)))
    same("pprof: areas of the first process", by_pid[trace.first], trace.summary["areas_final"])
    top = run("go", "tool", "pprof", "-top", "-sample_index=made", path)
    if trace.summary["stacks"] and "program" in path:
        assert "work" in top, top
    run("go", "tool", "pprof", "-top", "-lines", "-sample_index=time", path)
    run("go", "tool", "pprof", "-dot", path)


def check_firefox(trace, path):
    profile = json.loads((gzip.open(path) if path.endswith(".gz") else open(path, "rb")).read())
    markers, times, retained = 0, 0, {}
    for number, thread in enumerate(profile["threads"]):
        strings = thread["stringArray"]
        tables = {name: thread[name] for name in ["stackTable", "frameTable", "funcTable", "resourceTable", "markers", "samples"]}
        if "nativeAllocations" in thread:
            tables["nativeAllocations"] = thread["nativeAllocations"]
        for name, table in tables.items():
            for column, cells in table.items():
                if isinstance(cells, list):
                    same(f"firefox: rows of {name}.{column}", len(cells), table["length"])
        rows = thread["stackTable"]["length"]
        for row, prefix in enumerate(thread["stackTable"]["prefix"]):
            assert prefix is None or 0 <= prefix < row
        assert all(f < thread["frameTable"]["length"] for f in thread["stackTable"]["frame"])
        assert all(f < thread["funcTable"]["length"] for f in thread["frameTable"]["func"])
        assert all(s < len(strings) for s in thread["funcTable"]["name"] + thread["markers"]["name"])
        assert all(r < thread["resourceTable"]["length"] for r in thread["funcTable"]["resource"])
        assert all(lib < len(profile["libs"]) for lib in thread["resourceTable"]["lib"])
        stacks = thread["samples"]["stack"] + [m["cause"]["stack"] for m in thread["markers"]["data"] if "cause" in m]
        assert all(s is None or s < rows for s in stacks)
        markers += thread["markers"]["length"]
        times += sum(round(weight * 1e6) for weight in thread["samples"]["weight"])
        if allocations := thread.get("nativeAllocations"):
            # As the profiler's retained view pairs them.
            there = {}
            for address, weight, stack in zip(allocations["memoryAddress"], allocations["weight"], allocations["stack"]):
                if weight > 0:
                    assert address not in there, f"firefox: {address:#x} is allocated twice"
                    there[address] = weight
                else:
                    same("firefox: freed as allocated", there.pop(address, None), -weight)
            if int(thread["pid"]) == trace.first:
                retained = there
    same("firefox: markers", markers, len(trace.events))
    same("firefox: time", times, sum(c["total_ns"] for c in trace.summary["calls"].values()))
    same("firefox: retained areas", len(retained), trace.summary["areas_final"])
    same("firefox: retained bytes", sum(retained.values()), trace.summary["mapped_bytes_final"])
    for counter in profile["counters"]:
        key = {"areas": "space_areas", "mapped bytes": None}[counter["name"]]
        same("firefox: the counter at the end", sum(counter["samples"]["count"]), 0)
        if key and int(counter["pid"]) == trace.first:
            most = total = 0
            for change in counter["samples"]["count"]:
                total += change
                most = max(most, total)
            peaks = [e[key] for e in trace.events if e["pid"] == trace.first and e[key] is not None]
            same("firefox: most areas", most, max(peaks))


def check_perfetto(trace, path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

    packets = messages.Trace.FromString(open(path, "rb").read()).packet
    names, begun, counters, tracks = {}, collections.Counter(), {}, {}
    frames, callstacks, functions = {}, {}, {}
    open_slices = collections.Counter()
    alive, listed = {}, collections.Counter()
    for packet in packets:
        for table, kept in [("event_names", names)]:
            kept.update({entry.iid: entry.name for entry in getattr(packet.interned_data, table)})
        functions.update({entry.iid: entry.str.decode() for entry in packet.interned_data.function_names})
        frames.update({entry.iid: entry for entry in packet.interned_data.frames})
        callstacks.update({entry.iid: entry for entry in packet.interned_data.callstacks})
        assert not packet.HasField("track_descriptor") or packet.track_descriptor.uuid not in (0,)
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            event = packet.track_event
            assert event.track_uuid in tracks
            if event.type == event.TYPE_SLICE_BEGIN:
                begun[names[event.name_iid]] += 1
                open_slices[event.track_uuid] += 1
                assert not event.HasField("callstack_iid") or event.callstack_iid in callstacks
            elif event.type == event.TYPE_SLICE_END:
                open_slices[event.track_uuid] -= 1
            elif event.type == event.TYPE_COUNTER:
                counters.setdefault(event.track_uuid, []).append(event.counter_value)
        for dump in packet.profile_packet.process_dumps:
            for sample in dump.samples:
                for frame in callstacks[sample.callstack_id].frame_ids:
                    assert frames[frame].function_name_id in functions
            alive[dump.pid] = (sum(s.alloc_count for s in dump.samples), sum(s.self_allocated for s in dump.samples))
        if packet.HasField("smaps_packet"):
            listed[packet.smaps_packet.pid] += sum(entry.size_kb for entry in packet.smaps_packet.entries) * 1024
    assert not any(open_slices.values())
    expected = collections.Counter(e["call"] if e["kind"] == "call" else e["kind"] for e in trace.events if e["call"])
    same("perfetto: slices", begun, expected)
    end = (trace.summary["areas_final"], trace.summary["mapped_bytes_final"])
    same("perfetto: heap profile", alive[trace.first], end)
    same("perfetto: smaps", listed[trace.first], end[1])
    most = max(max(values) for uuid, values in counters.items() if tracks[uuid].name == "areas")
    peaks = [e["space_areas"] for e in trace.events if e["space_areas"] is not None]
    same("perfetto: most areas", most, max(peaks))
    query_perfetto(trace, path, expected)


def query_perfetto(trace, path, expected):
    """By Perfetto's own trace processor, where it is there or can be downloaded."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    try:
        config = TraceProcessorConfig(bin_path=os.environ.get("SAMARA_TRACE_PROCESSOR"))
        processor = TraceProcessor(trace=path, config=config)
    except Exception as why:
        print(f"skipped: exports: Perfetto's trace_processor cannot be had ({type(why).__name__}); its messages were decoded")
        return
    rows = processor.query("select name, count(*) as n from slice where dur > 0 or dur = 0 group by name")
    got = {row.name: row.n for row in rows if row.name in expected}
    same("trace_processor: slices", got, dict(expected))
    errors = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    same("trace_processor: errors", [(row.name, row.value) for row in processor.query(errors)], [])
    rows = processor.query("select upid, sum(count) as n, sum(size) as bytes from heap_profile_allocation group by upid")
    end = (trace.summary["areas_final"], trace.summary["mapped_bytes_final"])
    assert end in [(row.n, row.bytes) for row in rows]
    processor.close()


def check_parquet(trace, directory):
    import duckdb
    import polars

    first = trace.first

    def table(name):
        return f"read_parquet('{directory}/{name}/**/*.parquet', hive_partitioning = true, hive_types_autocast = false)"

    one = f"(select trace from {table('processes')} where pid = {first})"
    calls = duckdb.sql(f"select call, count(*) from {table('events')} where trace in {one} and call is not null group by call")
    same("duckdb: calls", dict(calls.fetchall()), trace.counts)
    rows = duckdb.sql(
        f"select count(*), sum(splits)::bigint, sum(merges)::bigint, sum(exit_ns - entry_ns) filter (call is not null)::bigint "
        f"from {table('events')} where trace in {one}"
    ).fetchall()[0]
    ns = sum(c["total_ns"] for c in trace.summary["calls"].values())
    same("duckdb: sums", rows, (len(trace.events), trace.summary["splits"], trace.summary["merges"], ns))
    sums = duckdb.sql(f"select sum(made)::bigint, sum(splits)::bigint, sum(time_ns)::bigint from {table('stacks')} where trace in {one}")
    same("duckdb: stacks", sums.fetchall()[0], tuple(folded_sums(trace.folded(by)) for by in ["made", "splits", "time"]))
    end = duckdb.sql(f"select areas, bytes from {table('processes')} where pid = {first} and trace in {one}").fetchall()[0]
    same("duckdb: the end", end, (trace.summary["areas_final"], trace.summary["mapped_bytes_final"]))
    held = duckdb.sql(f"select sum(areas)::bigint, sum(bytes)::bigint from {table('stacks')} where pid = {first} and trace in {one}")
    same("duckdb: areas by stack", held.fetchall()[0], end)
    frame = polars.scan_parquet(f"{directory}/events/**/*.parquet", hive_partitioning=True, try_parse_hive_dates=False)
    name = duckdb.sql(f"select any_value(trace) from {one}").fetchall()[0][0]
    frame = frame.filter(polars.col("trace") == name).collect()
    same("polars: rows", frame.height, len(trace.events))
    got = dict(frame.filter(polars.col("call").is_not_null()).group_by("call").len().iter_rows())
    same("polars: calls", got, trace.counts)


def main(samara, path, out, fleet):
    os.makedirs(out, exist_ok=True)
    trace = Trace(samara, path)
    files = {kind: f"{out}/{name}" for kind, name in [("csv", "t.csv"), ("pprof", "program.pb.gz"), ("firefox", "t.json.gz"), ("perfetto", "t.pftrace")]}
    run(samara, "export", path, "--parquet", fleet, *[word for kind, file in files.items() for word in (f"--{kind}", file)])
    for by in ["areas", "made", "time"]:
        same("folded", run(samara, "export", path, "--folded", "--by", by), trace.folded(by))
    check_csv(trace, files["csv"])
    check_pprof(trace, files["pprof"])
    check_firefox(trace, files["firefox"])
    check_perfetto(trace, files["perfetto"])
    check_parquet(trace, fleet)
    print(f"exports: {os.path.basename(path)}: {len(trace.events)} events, read back by all")


def check_fleet(samara, fleet, traces):
    import duckdb

    # The module answers where there is no program.
    only = os.path.join(os.path.dirname(fleet), "only")
    os.makedirs(only)
    with open(os.path.join(only, "python3"), "w") as script:
        script.write(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    os.chmod(script.name, 0o755)
    os.environ["PATH"] = f"{only}:/usr/bin:/bin"
    files = run("find", fleet, "-name", "*.parquet").splitlines()
    same("fleet: files", len(files), 3 * int(traces))
    # The traces of yesterday had fewer areas, and not every stack.
    answers = json.loads(run(samara, "fleet", fleet, "--json", "--limit", "100"))
    same("fleet: questions", list(answers), ["grew", "new_stacks", "near_limit"])
    assert answers["near_limit"] and not answers["grew"], answers
    day = duckdb.sql(f"select any_value(day) from read_parquet('{fleet}/stacks/**/*.parquet', hive_partitioning = true)").fetchall()[0][0]
    for name in ["processes", "stacks"]:
        for directory in run("find", f"{fleet}/{name}", "-name", "program=program").splitlines():
            old = directory.replace(f"day={day}", "day=2001-02-03")
            os.makedirs(old)
            for file in os.listdir(directory):
                columns = "* replace (areas_peak - 7 as areas_peak)" if name == "processes" else "*"
                keep = "true" if name == "processes" else "functions not like '%grow%'"
                source = f"select {columns} from '{directory}/{file}' where {keep}"
                duckdb.sql(f"copy ({source}) to '{old}/{file}' (format parquet)")
    answers = json.loads(run(samara, "fleet", fleet, "--json"))
    same("fleet: grew", [(r["program"], r["more_areas"]) for r in answers["grew"]], [("program", 7)])
    assert any("work;grow" in r["stack"] for r in answers["new_stacks"]), answers
    # The program duckdb says the same.
    program = os.path.join(os.path.dirname(sys.executable), "duckdb")
    same("fleet: by the program", json.loads(run(samara, "fleet", fleet, "--json", "--duckdb", program)), answers)
    assert "programs that grew" in run(samara, "fleet", fleet)
    sql = run(samara, "fleet", fleet, "--sql", "--query", "grew")
    os.chdir(fleet)
    same("fleet: its SQL", len(duckdb.sql(sql).fetchall()), 1)
    print("exports: samara fleet answers")


if sys.argv[1] == "--fleet":
    check_fleet(*sys.argv[2:])
else:
    main(*sys.argv[1:])
