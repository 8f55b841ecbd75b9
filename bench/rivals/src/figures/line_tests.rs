//! Lines that `figures` never prints are refused, with a word on why.

use super::read;

#[test]
fn other_lines_are_refused() {
    let path = std::env::temp_dir().join(format!("samara-lines-{}.jsonl", std::process::id()));
    let good = r#"{"suite":"figures","figure":"F1","case":"munmap_mmap","n":64,"threads":1,"design":"samara","value":5.0,"min":4.0,"max":6.0,"unit":"ns","rounds":7}"#;
    std::fs::write(&path, format!("{good}\n\n")).unwrap();
    assert_eq!(read(&path).unwrap().len(), 1);
    for (from, to, why) in [
        ("\"figures\"", "\"index\"", "another suite"),
        ("F1", "F99", "no such figure"),
        ("samara", "nosuch", "no such design"),
        ("munmap_mmap", "a|b", "its case"),
        ("munmap_mmap", "<!-- end F1 -->", "its case"),
        ("munmap_mmap", "a\\nb", "its case"),
        ("\"ns\"", "\"furlongs\"", "its unit"),
        ("\"n\":64", "\"n\":0", "is 0"),
        ("\"threads\":1", "\"threads\":0", "is 0"),
        ("\"rounds\":7", "\"rounds\":0", "is 0"),
        ("6.0", "1.7e308", "no measurement"),
        ("4.0", "5.5", "no measurement"),
        ("4.0", "0.0", "no measurement"),
        ("4.0", "-1", "no measurement"),
        ("\"value\":5.0,", "", "missing field `value`"),
        ("{", "[", "line 1"),
    ] {
        assert!(good.contains(from));
        std::fs::write(&path, good.replacen(from, to, 1)).unwrap();
        let said = read(&path).unwrap_err();
        assert!(said.contains(why) && said.contains("line 1") && said.contains("figures --json"), "{said}: {why}");
    }
    std::fs::write(&path, format!("{good}\n{good}\n")).unwrap();
    assert!(read(&path).unwrap_err().contains("line 2: this result is there twice"));
    std::fs::write(&path, "\n").unwrap();
    assert!(read(&path).unwrap_err().contains("no line in it"));
    std::fs::remove_file(&path).unwrap();
}
