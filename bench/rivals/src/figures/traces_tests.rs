//! A trace of a few events, as `samara events --json` prints them, on each design.

use super::{Step, Trace};
use crate::figures::design::Design;
use crate::suite_args::chosen;

/// The areas of the program after each of its calls.
const HEAD: &str =
    r#"{"start":4194304,"end":4202496,"perms":"r-xp","offset":0,"dev":"fe:00","inode":7,"name":"/bin/x","apart":[]}"#;
const LINKER: &str = r#"{"start":140737351770112,"end":140737351778304,"perms":"r-xp","offset":0,"dev":"fe:00","inode":9,"name":"/lib/ld.so","apart":[]}"#;

fn event(
    kind: &str,
    call: &str,
    (space, pid): (u64, u32),
    args: &str,
    result: u64,
    seen: Option<(u64, u64, &str)>,
) -> String {
    let (window, areas) = match seen {
        Some((start, end, areas)) => (format!("[{start},{end}]"), areas),
        None => ("null".into(), ""),
    };
    let call = if call.is_empty() { "null".into() } else { format!("{call:?}") };
    format!(
        r#"{{"seq":0,"kind":"{kind}","space":{space},"pid":{pid},"tid":{pid},"call":{call},"nr":9,"args":[{args}],"result":{result},"overlapped":false,"plan":[],"window":{window},"areas":[{areas}],"text":""}}"#
    )
}

fn area(start: u64, end: u64, perms: &str) -> String {
    format!(
        r#"{{"start":{start},"end":{end},"perms":"{perms}","offset":0,"dev":"00:00","inode":0,"name":"","apart":[]}}"#
    )
}

/// A program that maps below its linker, protects, grows its heap, forks and ends.
fn lines() -> Vec<String> {
    const MAP: u64 = 140_737_351_770_112 - 16_384;
    const HEAP: u64 = 8_388_608;
    let own = (1, 10);
    let map = |start: u64, end: u64, perms: &str| (start, end, area(start, end, perms));
    let call = |call: &str, args: &str, result: u64, (start, end, areas): &(u64, u64, String)| {
        event("call", call, own, args, result, Some((*start, *end, areas)))
    };
    let both = format!("{HEAD},{LINKER}");
    let protected = format!("{},{}", area(MAP, MAP + 4096, "r--p"), area(MAP + 4096, MAP + 16_384, "rw-p"));
    let in_child = format!("{HEAD},{},{},{LINKER}", area(HEAP, HEAP + 8192, "rw-p"), protected);
    let all = vec![
        event("exec", "", own, "0,0,0,0,0,0", 0, Some((0, 1 << 47, &both))),
        event("call", "brk", own, "0,0,0,0,0,0", HEAP, None),
        call("mmap", "0,16384,3,34,18446744073709551615,0", MAP, &map(MAP, MAP + 16_384, "rw-p")),
        call("mprotect", &format!("{MAP},4096,1,0,0,0"), 0, &(MAP, MAP + 16_384, protected.clone())),
        call("brk", &format!("{},0,0,0,0,0", HEAP + 8192), HEAP + 8192, &map(HEAP, HEAP + 8192, "rw-p")),
        event("fork", "clone", (2, 11), "1,0,0,0,0,0", 0, Some((0, 1 << 47, &in_child))),
        event("call", "munmap", (2, 11), &format!("{MAP},4096,0,0,0,0"), 0, Some((MAP, MAP + 4096, ""))),
        // A change without a call.
        event("learnt", "", own, "0,0,0,0,0,0", 0, Some((65_536, 69_632, &area(65_536, 69_632, "rw-p")))),
        event("exit", "", (2, 11), "0,0,0,0,0,0", 0, None),
        event("exit", "", own, "0,0,0,0,0,0", 0, None),
    ];
    let numbered = |(number, line): (usize, String)| line.replacen("\"seq\":0", &format!("\"seq\":{number}"), 1);
    all.into_iter().enumerate().map(numbered).collect()
}

#[test]
fn each_design_replays_a_trace() {
    let path = std::env::temp_dir().join(format!("samara-trace-{}.jsonl", std::process::id()));
    std::fs::write(&path, lines().join("\n")).unwrap();
    let trace = Trace::read(&path).unwrap();
    let kinds: Vec<String> = trace.all.iter().map(|(_, step)| format!("{step:?}")).collect();
    let starts = ["Exec", "Brk", "Map", "Protect", "Brk", "Fork", "Unmap", "Put", "Exit", "Exit"];
    assert!(
        kinds.len() == starts.len() && kinds.iter().zip(starts).all(|(own, start)| own.starts_with(start)),
        "{kinds:#?}"
    );
    assert_eq!((trace.put, trace.areas, trace.spaces), (1, 6, 2));
    assert!(matches!(&trace.all[2].1, Step::Map(map) if map.searched));
    for design in chosen::<Design>(&[]).filter(|design| design.is_index()) {
        assert!(trace.time(design).unwrap() > 0.0);
    }
    let other = Trace { counts: trace.counts + 1, ..trace };
    assert!(other.time(Design::List).unwrap_err().contains("other areas"));

    // A trace that is damaged is not replayed in part.
    let refused = |change: &dyn Fn(&mut Vec<String>), why: &str| {
        let mut lines = lines();
        change(&mut lines);
        std::fs::write(&path, lines.join("\n")).unwrap();
        let said = Trace::read(&path).unwrap_err();
        assert!(said.contains(why), "{said}: {why}");
    };
    refused(&|lines| drop(lines.pop()), "the trace ends before process 10 does");
    refused(&|lines| drop(lines.remove(3)), "event 4: event 3 is missing");
    refused(&|lines| lines.swap(2, 3), "event 3: event 2 is missing");
    refused(&|lines| lines.extend(self::lines()), "event 0: event 10 is missing");
    refused(&|lines| lines[7] = lines[7].replace("rw-p", "zw-p"), "event 7: an area has other permissions");
    refused(&|lines| lines[7] = lines[7].replace("\"end\":69632", "\"end\":69633"), "event 7: its areas are no pages");
    refused(&|lines| lines[7] = lines[7].replace("[65536,", "[75536,"), "event 7: its window ends before");
    refused(&|lines| lines[7] = lines[7].replace("69632", "144115188075855872"), "event 7: an area is above 2^47");
    refused(&|lines| lines[5] = lines[5].replace("[1,0,", "[9,0,"), "event 5: the space that is forked");

    std::fs::write(&path, "{}\n").unwrap();
    assert!(Trace::read(&path).unwrap_err().contains("samara events --json"));
    std::fs::write(&path, "").unwrap();
    assert!(Trace::read(&path).unwrap_err().contains("no program begins"));
    std::fs::remove_file(&path).unwrap();
}
