#!/usr/bin/env bash
# Records the programs that lab/figures.md replays, into a folder: `bench/record-traces.sh DIR`,
# then `cargo run --release -p samara-bench -- figures traces --trace DIR/make.jsonl ...`. Needs make,
# gcc, git, a JDK, node, python3 and chromium.
set -euo pipefail
mkdir -p "${1:?a folder for the traces}"
traces=$(cd "$1" && pwd)
repository=$(cd "$(dirname "$0")/.." && pwd)
cd "$repository"
cargo build --locked --quiet --release --package samara-cli
samara=$(realpath "${CARGO_TARGET_DIR:-target}/release/samara")
cd "$traces"

mkdir -p make
for i in 1 2 3 4 5 6 7 8; do
    cat >"make/f$i.c" <<C
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int f$i(int x) { char b[64]; snprintf(b, sizeof b, "%d", x); return (int)strlen(b) + $i; }
C
done
printf 'all: f1.o f2.o f3.o f4.o f5.o f6.o f7.o f8.o\n\tar rcs lib.a $^\n%%.o: %%.c\n\tgcc -O2 -c $< -o $@\n' >make/Makefile
rm -f make/*.o make/lib.a
cat >Hello.java <<'JAVA'
import java.util.*;
public class Hello {
    public static void main(String[] args) throws Exception {
        Map<Integer, String> map = new HashMap<>();
        for (int i = 0; i < 200000; i++) map.put(i, "v" + i);
        Thread[] threads = new Thread[8];
        for (int i = 0; i < 8; i++) {
            threads[i] = new Thread(() -> {
                byte[][] blocks = new byte[64][];
                for (int j = 0; j < 64; j++) blocks[j] = new byte[1 << 16];
            });
            threads[i].start();
        }
        for (Thread thread : threads) thread.join();
        System.out.println(map.size());
    }
}
JAVA
javac Hello.java
cat >page.html <<'HTML'
<!doctype html><meta charset="utf-8"><body><canvas id="canvas" width="300" height="200"></canvas><script>
const items = [];
for (let i = 0; i < 200000; i++) items.push({i, s: "x" + i});
for (let i = 0; i < 3000; i++) {
    const line = document.createElement("p");
    line.textContent = "line " + i + " " + JSON.stringify(items[i]);
    document.body.append(line);
}
const pen = document.getElementById("canvas").getContext("2d");
for (let i = 0; i < 500; i++) {
    pen.fillStyle = `hsl(${i}, 80%, 50%)`;
    pen.fillRect(i % 300, i % 200, 20, 20);
}
document.title = JSON.stringify(items).length;
</script>
HTML

record() { # NAME PROGRAM...
    local name=$1
    shift
    "$samara" trace --quiet -o "$name.samara" -- "$@" >/dev/null
    "$samara" events "$name.samara" --json >"$name.jsonl"
    echo "$name: $(wc -l <"$name.jsonl") events"
}
record make make -C make -j2
record git git -C "$repository" log --stat -30
record java java -cp . Hello
record node node -e 'const a = []; for (let i = 0; i < 2e5; i++) a.push({i, s: "x" + i}); console.log(JSON.stringify(a).length)'
record python python3 -c 'import json, ssl, sqlite3, asyncio, email, http.client
print(len(json.dumps({i: str(i) * 5 for i in range(200000)})))'
# Without its sandbox, which it refuses to root, and with a new profile.
rm -rf profile
record browser chromium --headless --no-sandbox --disable-gpu --log-level=3 --user-data-dir="$traces/profile" \
    --dump-dom "file://$traces/page.html"
