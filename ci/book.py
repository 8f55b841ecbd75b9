"""Checks of the documents for ci/book.sh. `links`: every relative link and anchor of the documents
leads somewhere; a page of the book links within the book only, and each path of the repository that
it names as code exists; a page of the book is in SUMMARY.md. `blocks PAGE SCRIPT`: writes the
`sh` blocks of a page as one script, if it has any. `texts PAGE OUTPUT`: each line of the page's
`text` blocks is in what its script printed, but for numbers, sizes, times, addresses, folders and
an end `...`; `text,norun` is not of the page's commands, or not each time."""

import os
import re
import sys

BOOK = "book/src"


def pages():
    return sorted(os.path.join(at, name) for at, _, names in os.walk(BOOK) for name in names if name.endswith(".md"))


def prose(path):
    """The lines outside of code blocks, with their numbers."""
    code = False
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        if re.match(r"\s*(```|~~~)", line):
            code = not code
        elif not code:
            yield number, line.rstrip("\n")


def anchors(path):
    """The anchors of a page's headings, as GitHub and mdBook make them."""
    seen = {}
    for _, line in prose(path):
        if heading := re.match(r"#+ +(.*)", line):
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            anchor = "".join(c for c in text.replace(" ", "-") if c.isalnum() or c in "-_")
            count = seen.get(anchor, 0)
            seen[anchor] = count + 1
            yield f"{anchor}-{count}" if count else anchor


def links(path):
    """(number, target) of every relative link, image and source of a page."""
    lines = list(prose(path))
    text = "\n".join(re.sub(r"`[^`]*`", "``", line) for _, line in lines)
    for match in re.finditer(r"\]\(\s*([^)\s]+)[^)]*\)|\b(?:src|srcset|href)=\"([^\"]+)\"", text):
        target = match[1] or match[2]
        if not re.match(r"[a-z]+:", target):
            yield lines[text.count("\n", 0, match.start())][0], target


def check_links():
    wrong = []
    lab = [os.path.join("lab", name) for name in os.listdir("lab") if name.endswith(".md")]
    for path in pages() + lab + ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]:
        for number, target in links(path):
            file, _, anchor = target.partition("#")
            to = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
            if not os.path.exists(to):
                wrong.append(f"{path}:{number}: no such file: {target}")
            elif path.startswith(BOOK) and not to.startswith(BOOK):
                wrong.append(f"{path}:{number}: leaves the book: {target}")
            elif anchor and to.endswith(".md") and anchor not in anchors(to):
                wrong.append(f"{path}:{number}: no such heading: {target}")
        if path.startswith(BOOK):
            for number, line in prose(path):
                for name in re.findall(r"`((?:bench|book|ci|crates|fuzz|lab)/[\w./-]+)`", line):
                    if not os.path.exists(name):
                        wrong.append(f"{path}:{number}: no such path: {name}")
    listed = {os.path.normpath(os.path.join(BOOK, target)) for _, target in links(f"{BOOK}/SUMMARY.md")}
    wrong += [f"{path}: not in SUMMARY.md" for path in pages() if path not in listed and not path.endswith("/SUMMARY.md")]
    print("\n".join(wrong), file=sys.stderr)
    return 1 if wrong else 0


def blocks(page, script):
    """Writes the page's `sh` blocks. A block `sh,norun` has a comment with the reason before it."""
    code, before, out = None, "", []
    for number, line in enumerate(open(page, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if code is not None:
            if line == "```":
                code = None
            elif code == "sh":
                out.append(line)
        elif line.startswith("```"):
            code = line[3:]
            if code == "sh,norun" and not before.endswith("-->"):
                sys.exit(f"{page}:{number}: no comment says why this block is not run")
            if code.startswith("sh") and code not in ("sh", "sh,norun"):
                sys.exit(f"{page}:{number}: `{code}` is neither `sh` nor `sh,norun`")
        before = line
    if out:
        open(script, "w", encoding="utf-8").write("\n".join(out) + "\n")


def shape(line):
    """A line without what differs from run to run."""
    line = re.sub(r"(/[\w.+-]+)+/", "/", line)
    line = re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{8,16}-[0-9a-f]{8,16}\b|\d[\d,.]*", "#", line)
    line = re.sub(r"# ?(ns|us|µs|ms|s|min|h|B|KiB|MiB|GiB|TiB)\b", "#", line)
    return " ".join(line.split())


def texts(page, output):
    printed = {shape(line) for line in open(output, encoding="utf-8", errors="replace")}
    code, wrong = None, []
    for number, line in enumerate(open(page, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if code is None:
            code = line[3:] if line.startswith("```") else None
        elif line == "```":
            code = None
        elif code == "text" and line.strip() not in ("", "..."):
            said = shape(line)
            if said not in printed and not (said.endswith(" ...") and any(p.startswith(said[:-4]) for p in printed)):
                wrong.append(f"{page}:{number}: no command of this page prints this: {line.strip()}")
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


if sys.argv[1] == "links":
    sys.exit(check_links())
if sys.argv[1] == "texts":
    sys.exit(texts(*sys.argv[2:]))
blocks(*sys.argv[2:])
