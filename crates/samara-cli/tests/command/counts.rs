//! `why` reports as many calls of a place as the program made there. The programs are random, and
//! print the number of calls of each function.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::samples::{run, said, stderr, stdout};
use crate::skip::skipped;

/// `counts SEED WILD`: calls that change memory, from eight functions, each by two ways. Prints the
/// number of calls from each. Each function has a separate region, and a tame one takes the next
/// part of it each time, so the effect of each call stays.
const PROGRAM: &str = "
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#define PAGE 4096L
#define SLOTS 256L
#define KINDS 8
static char *region[KINDS], *moved;
static long next[KINDS], made[KINDS][2], seed, wild;
static unsigned long below(unsigned long end) {
    seed = seed * 6364136223846793005L + 1442695040888963407L;
    return ((unsigned long)seed >> 33) % end;
}
static long offset(int kind) { return (4 * (wild ? (long)below(SLOTS) : next[kind]++) + 1) * PAGE; }
static void f_protect(void) { mprotect(region[0] + offset(0), PAGE, PROT_READ); }
static void f_guard(void) { mprotect(region[1] + offset(1), 2 * PAGE, PROT_NONE); }
static void f_advise(void) { madvise(region[2] + offset(2), PAGE, MADV_DONTDUMP); }
static void f_punch(void) { munmap(region[3] + offset(3), PAGE); }
static void f_map(void) {
    mmap(region[4] + offset(4), 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
}
static void f_move(void) {
    long at = offset(5);
    mremap(region[5] + at, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, moved + at);
}
static void f_fail(void) { mprotect(region[6], PAGE, PROT_READ); }
static void f_brief(void) { munmap(region[7], PAGE); }
static void (*const all[KINDS])(void) = {f_protect, f_guard, f_advise, f_punch, f_map, f_move, f_fail, f_brief};
static void via_0(int kind) { made[kind][0]++; all[kind](); }
static void via_1(int kind) { made[kind][1]++; all[kind](); }
int main(int argc, char **argv) {
    if (argc < 3) return 1;
    seed = atol(argv[1]), wild = atol(argv[2]);
    for (int kind = 0; kind < KINDS; kind++) {
        // What is left above the last guard must not look like a stack.
        int prot = kind == 1 ? PROT_READ : PROT_READ | PROT_WRITE;
        region[kind] = mmap(0, 4 * SLOTS * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mmap(0, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    moved = mmap(0, 4 * SLOTS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(moved, 4 * SLOTS * PAGE);
    munmap(region[4], 4 * SLOTS * PAGE);
    munmap(region[6], 4 * SLOTS * PAGE);
    munmap(region[7], 4 * SLOTS * PAGE);
    unsigned used = below(255) + 1;
    for (int i = 0; i < 400; i++) {
        int kind = below(KINDS);
        if (used >> kind & 1 && next[kind] < SLOTS) (below(3) ? via_0 : via_1)(kind);
    }
    const char *names[KINDS] = {
        \"f_protect mprotect\", \"f_guard mprotect\", \"f_advise madvise\", \"f_punch munmap\",
        \"f_map mmap\", \"f_move mremap\", \"f_fail mprotect\", \"f_brief munmap\"};
    for (int kind = 0; kind < KINDS; kind++)
        for (int via = 0; via < 2; via++)
            if (made[kind][via]) printf(\"%s via_%d %ld\\n\", names[kind], via, made[kind][via]);
    return 0;
}
";

/// The function that makes a call, the call, and the caller of the function.
type Place = (String, String, String);

/// The counts that the program printed.
fn counted(text: &str) -> BTreeMap<Place, u64> {
    let one = |line: &str| match line.split(' ').collect::<Vec<_>>()[..] {
        [function, call, via, count] => ((function.into(), call.into(), via.into()), count.parse().unwrap()),
        _ => panic!("{line}"),
    };
    text.lines().map(one).collect()
}

/// The place of an event or a site of the program's own functions.
fn place(of: &Value) -> Option<Place> {
    let names = of["frames"].as_array()?.iter().filter_map(|frame| frame["functions"][0]["name"].as_str());
    let names: Vec<&str> = names.filter(|name| name.starts_with("f_") || name.starts_with("via_")).collect();
    match names[..] {
        [function, via] => Some((function.into(), of["call"].as_str()?.into(), via.into())),
        _ => None,
    }
}

/// The innermost function of the program's own, and the line in it.
fn own(of: &Value) -> Option<(String, String)> {
    let all = of["frames"].as_array()?.iter().map(|frame| &frame["functions"][0]);
    let mut named = all.filter_map(|one| Some((one["name"].as_str()?, one["place"].as_str().unwrap_or(""))));
    let is_own = |name: &str| name.starts_with("f_") || name.starts_with("via_") || name == "main";
    named.find(|(name, _)| is_own(name)).map(|(name, place)| (name.to_owned(), place.to_owned()))
}

/// Records the program with this seed, and compares the calls that events, sites and verdicts show
/// with those that it printed. Returns how many parts of verdicts were compared.
fn compare(dir: &Path, seed: u64, wild: bool) -> usize {
    let told_by = format!("SAMARA_SEED={seed}, {}", if wild { "wild" } else { "tame" });
    let wild_too = if wild { "1" } else { "0" };
    let output = run(dir, &["trace", "--stacks", "-o", "t.samara", "./counts", &seed.to_string(), wild_too]);
    assert!(output.status.success(), "{told_by}: {}", said(&output));
    let counted = counted(&stdout(&output));

    // The events of the trace.
    let events = stdout(&run(dir, &["events", "t.samara", "--stacks", "--json"]));
    let mut recorded: BTreeMap<Place, u64> = BTreeMap::new();
    // For each call from a line of a function, by all of the function's callers: number of calls,
    // and number of mappings.
    let mut by_line: BTreeMap<((String, String), String), (u64, u64)> = BTreeMap::new();
    for event in events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        if event["kind"] != "call" {
            continue;
        }
        if let Some(place) = place(&event) {
            *recorded.entry(place).or_default() += 1;
        }
        if let Some(line) = own(&event) {
            let call = event["call"].as_str().unwrap().to_owned();
            let (calls, mapped) = by_line.entry((line, call)).or_default();
            let steps = event["plan"].as_array().into_iter().flatten();
            *calls += 1;
            *mapped += u64::from(steps.filter(|step| step["kind"] == "mapped").count() > 0);
        }
    }
    assert_eq!(recorded, counted, "{told_by}: events");

    // The sites, and the parts of verdicts.
    let why: Value = serde_json::from_slice(&run(dir, &["why", "t.samara", "--json"]).stdout).unwrap();
    let screen = stdout(&run(dir, &["why", "t.samara"]));
    let sites: BTreeMap<u64, &Value> =
        why["sites"].as_array().unwrap().iter().map(|site| (site["site"].as_u64().unwrap(), site)).collect();
    for site in sites.values() {
        let Some(place) = place(site) else { continue };
        assert_eq!(site["calls"].as_u64(), counted.get(&place).copied(), "{told_by}: {place:?}: {site:#}");
    }
    let mut compared = 0;
    for verdict in why["verdicts"].as_array().unwrap() {
        for part in verdict["parts"].as_array().unwrap() {
            let site = sites[&part["site"].as_u64().unwrap()];
            let (calls, role) = (part["calls"].as_u64().unwrap(), part["role"].as_str().unwrap());
            let (Some(line), Some(call)) = (own(site), site["call"].as_str()) else { continue };
            let (all, mapped) = by_line[&(line.clone(), call.to_owned())];
            assert!((1..=all).contains(&calls), "{told_by}: {all} events: {part:#} of {site:#}");
            // A place that mapped memory is counted in mappings; others in calls.
            let made = part["kept"]["made"].as_u64();
            assert!(made.is_none_or(|made| made == mapped), "{told_by}: {mapped} mapped: {part:#} of {site:#}");
            // The effect of each call of a tame function is still there, and always the same.
            if place(site).is_some() {
                let of_function = counted.iter().filter(|((of, ..), _)| *of == line.0);
                let is_it = wild || made.unwrap_or(calls) == of_function.map(|(_, n)| n).sum::<u64>();
                assert!(is_it, "{told_by}: {counted:?}: {part:#} of {site:#}");
                compared += 1;
            }
            let (role, times) = match role {
                "freed" => ("unmapped by", calls),
                role => (if role == "made" { "made by" } else { "changed by" }, made.unwrap_or(calls)),
            };
            let row = format!("{role:<12}{times} time{} {call}(", if times == 1 { "" } else { "s" });
            assert!(verdict["verdict"] == "leaked" || screen.contains(&row), "{told_by}: no {row} on {screen}");
        }
    }
    // The failing function: its region is unmapped.
    if !wild {
        let failed = counted.iter().filter(|((function, ..), _)| function == "f_fail").map(|(_, n)| n).sum::<u64>();
        let told = why["failures"].as_array().unwrap().iter().filter(|one| one["call"] == "mprotect");
        let told: u64 = told.map(|one| one["count"].as_u64().unwrap()).sum();
        assert_eq!(told, failed, "{told_by}: {}", stderr(&output));
    }
    compared
}

/// Compares programs of these seeds; `true` makes a wild one.
fn compare_all(test: &str, programs: &[(u64, bool)]) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("counts.c"), PROGRAM).unwrap();
    let made = Command::new("cc").args(["-g", "-O0", "-o", "counts", "counts.c"]).current_dir(dir.path()).status();
    if !made.is_ok_and(|made| made.success()) {
        return skipped(format_args!("{test}: no C compiler (cc)"));
    }
    let compared: usize = programs.iter().map(|(seed, wild)| compare(dir.path(), *seed, *wild)).sum();
    assert!(compared > programs.len(), "{compared} parts of verdicts were compared");
}

#[test]
fn places_have_the_calls_that_were_made_there() {
    compare_all("places_have_the_calls_that_were_made_there", &[(1, false), (2, true), (4, false)]);
}

#[test]
#[ignore = "takes a minute and more: `ci/long.sh tests` runs it"]
fn places_have_the_calls_that_were_made_there_in_many_programs() {
    let seed =
        std::env::var("SAMARA_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or_else(|| fastrand::u64(..1 << 32));
    println!("SAMARA_SEED={seed}");
    let programs: Vec<_> = (seed..seed + 40).flat_map(|seed| [(seed, false), (seed, true)]).collect();
    compare_all("places_have_the_calls_that_were_made_there_in_many_programs", &programs);
}
