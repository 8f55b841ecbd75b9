//! The same kinds of programs where the engine decides the results of their memory calls: they
//! behave as untraced, and the kernel answers as the engine predicted.

use std::path::Path;

use samara_record::{Engine, Outcome, Policy};

use super::{JAVA, dir, installed, run};

/// Runs `script` by a shell in `dir`; its output, and what must hold for each such run.
fn decided(dir: &Path, script: &str, engine: Engine) -> (Outcome, String) {
    let (outcome, _, out) = run(dir, script, Some(engine));
    let done = outcome.counters.decisions.clone().unwrap();
    assert!(done.decided > 20 && done.placed > 5, "{done:?}");
    // Calls that no option refuses or that are not on the address space: the prctls that name or
    // switch.
    let left: Vec<_> = done.left.keys().filter(|name| !["prctl", "arch_prctl", "mbind"].contains(*name)).collect();
    assert!(left.is_empty() && done.limited == 0 && done.failed == 0, "{done:?}");
    (outcome, out)
}

fn policies() -> impl Iterator<Item = Engine> {
    Policy::ALL.into_iter().map(|(_, policy)| {
        let mut engine = Engine::default();
        engine.policy = policy;
        engine
    })
}

#[test]
fn python() {
    python_by(policies().take(1));
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn python_by_every_policy() {
    python_by(policies());
}

fn python_by(policies: impl Iterator<Item = Engine>) {
    if installed(&["python3"]) {
        for engine in policies {
            let script = "python3 -c 'import json, ssl, sqlite3, threading
t = [threading.Thread(target=lambda: bytearray(1 << 22)) for _ in range(8)]
[x.start() for x in t]; [x.join() for x in t]
print(len(json.dumps(list(range(100000)))))'; exit 3";
            let dir = dir();
            let (outcome, out) = decided(dir.path(), script, engine);
            assert_eq!((outcome.status.code(), out.trim()), (Some(3), "688890"), "{out}");
        }
    }
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn python_s_own_tests() {
    if installed(&["python3"]) {
        let dir = dir();
        let script = "python3 -c 'import test.test_mmap' 2>/dev/null || { echo none; exit 0; }; python3 -m test -q test_mmap test_gc test_array && echo passed";
        let (_, out) = decided(dir.path(), script, Engine::default());
        match out.trim() {
            "none" => crate::skip::skipped("this python comes without its tests"),
            out => assert!(out.ends_with("passed"), "{out}"),
        }
    }
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn node() {
    if installed(&["node"]) {
        let dir = dir();
        let script = "node -e 'const {Worker} = require(\"worker_threads\"); let n = 0;
            for (let i = 0; i < 3; i++) new Worker(\"new Array(1e5).fill({})\", {eval: true}).on(\"exit\", c => { n += c === 0; if (n == 3) console.log(\"all\") })'";
        let (outcome, out) = decided(dir.path(), script, Engine::default());
        assert_eq!((outcome.status.code(), out.trim()), (Some(0), "all"), "{out}");
    }
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn java() {
    if installed(&["java"]) {
        let dir = dir();
        std::fs::write(dir.path().join("T.java"), JAVA).unwrap();
        let (outcome, out) = decided(dir.path(), "java -Xmx256m T.java || java -version", Engine::default());
        assert!(outcome.status.success(), "{out}");
    }
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn go() {
    if installed(&["go"]) {
        let dir = dir();
        std::fs::write(dir.path().join("go.mod"), "module hello\n\ngo 1.18\n").unwrap();
        let test = "package hello\nimport \"testing\"\nfunc TestAll(t *testing.T) {\n\tc := make(chan int)\n\
                    \tfor i := 0; i < 50; i++ { go func() { b := make([]byte, 1<<20); c <- len(b) }() }\n\
                    \tn := 0\n\tfor i := 0; i < 50; i++ { n += <-c }\n\tif n != 50<<20 { t.Fatal(n) }\n}\n";
        std::fs::write(dir.path().join("all_test.go"), test).unwrap();
        let cache = "export HOME=$PWD GOCACHE=$PWD/cache GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local";
        let (outcome, out) = decided(dir.path(), &format!("{cache}; go test ./..."), Engine::default());
        assert!(outcome.status.success() && out.starts_with("ok"), "{out}");
    }
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn gcc_by_bash() {
    if installed(&["gcc"]) {
        let dir = dir();
        let script =
            "for i in 1 2 3; do echo \"int f$i(int x) { return x * $i; }\" > f$i.c; gcc -O2 -c f$i.c & done; wait
            echo 'int f3(int); int main(void) { return f3(5); }' > m.c; gcc -o prog m.c f?.o && ./prog";
        let (outcome, out) = decided(dir.path(), script, Engine::default());
        assert_eq!(outcome.status.code(), Some(15), "{out}");
    }
}

#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn sqlite() {
    if installed(&["sqlite3"]) {
        let dir = dir();
        let sql = "create table t(a integer primary key, b text);
            with recursive c(x) as (select 1 union all select x + 1 from c where x < 50000) insert into t select x, hex(randomblob(20)) from c;
            create index i on t(b); pragma mmap_size=268435456; select count(*) from t; pragma integrity_check;";
        std::fs::write(dir.path().join("sql"), sql).unwrap();
        let (outcome, out) = decided(dir.path(), "sqlite3 s.db < sql", Engine::default());
        assert!(outcome.status.success(), "{out}");
        assert_eq!(out.lines().collect::<Vec<_>>(), ["268435456", "50000", "ok"]);
    }
}

/// The server, its benchmark, and a copy of its memory that a forked child saves.
#[test]
#[ignore = "takes seconds: `ci/long.sh tests` runs it"]
fn redis() {
    if installed(&["redis-server", "redis-benchmark", "redis-cli"]) {
        let dir = dir();
        let script = "redis-server --port 0 --unixsocket $PWD/s --save '' --dir $PWD > log & server=$!
            for i in $(seq 200); do redis-cli -s s ping 2>/dev/null | grep -q PONG && break; sleep 0.05; done
            redis-benchmark -s s -q -n 2000 -c 10 -t set,get,lpush > bench || exit 1
            redis-cli -s s bgsave > /dev/null; sleep 0.3; redis-cli -s s dbsize; redis-cli -s s shutdown nosave; wait $server; echo $?";
        let (outcome, out) = decided(dir.path(), script, Engine::default());
        assert!(outcome.status.success(), "{out}");
        assert_eq!(out.split_whitespace().collect::<Vec<_>>(), ["2", "0"], "{out}");
    }
}
