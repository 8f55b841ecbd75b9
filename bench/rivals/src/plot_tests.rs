//! Tests of [`super`].

use super::*;

const LINES: &str = r#"
{"suite":"index","case":"lookup","n":1000,"subject":"samara","value":23.1,"min":22.8,"max":25.0,"unit":"ns","rounds":7}
{"suite":"index","case":"lookup","n":100000,"subject":"samara","value":33.1,"min":22.8,"max":25.0,"unit":"ns","rounds":7}
{"suite":"index","case":"lookup","n":1000,"subject":"btreemap","value":43.1,"min":22.8,"max":25.0,"unit":"ns","rounds":7}
{"suite":"index","case":"clone","n":1000,"subject":"btreemap","value":3.1,"min":22.8,"max":25.0,"unit":"ns","rounds":7}
"#;

fn plot(name: &str, lines: &str, case: &[&str]) -> Result<String, String> {
    let dir = std::env::temp_dir().join(format!("samara-rivals-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let (file, output) = (dir.join("in.jsonl"), dir.join("out.svg"));
    std::fs::write(&file, lines).expect("a file");
    let case = case.iter().map(|case| (*case).to_owned()).collect();
    let done = run(&Args { file, output: output.clone(), case, subject: vec![] });
    let text = done.map(|()| std::fs::read_to_string(output).expect("the drawing"));
    std::fs::remove_dir_all(dir).expect("the directory goes");
    text
}

#[test]
fn one_panel_a_case_one_line_a_subject() {
    let all = plot("all", LINES, &[]).expect("a drawing");
    for name in ["lookup (ns)", "clone (ns)", "samara", "btreemap"] {
        assert!(all.contains(name), "{name} is not in the drawing");
    }
    let one = plot("one", LINES, &["clone"]).expect("a drawing");
    assert!(one.contains("clone (ns)") && !one.contains("lookup (ns)"));
}

#[test]
fn against_threads_where_their_number_varies() {
    let line = |case: &str, n: u64, threads: u64| {
        let value = 10.0 / threads as f64;
        format!(
            r#"{{"suite":"shared","case":"{case}","n":{n},"subject":"samara","value":{value},"min":1,"max":9,"unit":"ns","rounds":7,"threads":{threads}}}"#
        )
    };
    let lines = [line("scaling", 10, 1), line("scaling", 10, 2), line("scaling", 20, 2), line("pinned", 10, 1)];
    let all = plot("threads", &lines.join("\n"), &[]).expect("a drawing");
    for text in ["scaling, 10 ranges (ns)", "scaling, 20 ranges (ns)", "pinned (ns)", "threads"] {
        assert!(all.contains(text), "{text} is not in the drawing");
    }
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let error = plot("none", LINES, &["replace"]).expect_err("no such case");
    assert!(error.contains("no line of the case replace"), "{error}");
    let error = plot("broken", "{\"case\":1}", &[]).expect_err("no such line");
    assert!(error.contains("line 1"), "{error}");
    let error = plot("empty", "\n", &[]).expect_err("no lines");
    assert!(error.contains("nothing to draw"), "{error}");
}
