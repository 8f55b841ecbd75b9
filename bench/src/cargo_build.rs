//! Builds the programs that a benchmark runs, by cargo, when they are needed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Builds the program `bin` of `package` in release mode, and returns its path.
///
/// # Errors
/// Cargo cannot be run, or fails.
pub fn program(package: &str, bin: &str) -> Result<PathBuf, String> {
    built(bin, &["--quiet", "--package", package, "--bin", bin], Path::new(env!("CARGO_MANIFEST_DIR")))
}

/// Builds all programs of the workspace in `dir` in release mode, with cargo's messages on standard
/// error, and returns the path of `bin`.
///
/// # Errors
/// Cargo cannot be run, or fails.
pub fn workspace_programs(dir: &Path, bin: &str) -> Result<PathBuf, String> {
    built(bin, &["--bins"], dir)
}

fn built(bin: &str, args: &[&str], dir: &Path) -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
    // This program lies in target/PROFILE.
    let target = here.parent().and_then(|dir| dir.parent()).ok_or("this program does not lie where cargo puts it")?;
    // `cargo run` says which cargo it is.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--target-dir"])
        .arg(target)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .map_err(|error| format!("cargo cannot be run, to build {bin}: {error}"))?;
    if !status.success() {
        return Err(format!(
            "{bin} cannot be built: see above (what it depends on must have been fetched, or there must be a network)"
        ));
    }
    let path = target.join("release").join(bin);
    if path.exists() { Ok(path) } else { Err(format!("cargo built {bin}, but not where it was expected")) }
}
