//! Runs the programs as a user types them.

/// The output of the program with these arguments, or its error message.
pub(crate) fn run(program: &str, words: &str) -> Result<String, String> {
    let output = std::process::Command::new(program).args(words.split(' ')).output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    if output.status.success() { Ok(text(output.stdout)) } else { Err(text(output.stderr)) }
}

/// [`run`] of the program that measures.
pub(crate) fn rivals(words: &str) -> Result<String, String> {
    run(env!("CARGO_BIN_EXE_samara-rivals"), words)
}

/// The output of [`rivals`], as objects, one for each line.
pub(crate) fn objects(words: &str) -> Vec<serde_json::Value> {
    let text = rivals(words).expect("figures");
    text.lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}
