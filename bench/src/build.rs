//! Programs that a benchmark runs, built by cargo when they are wanted. Knows nothing of what they do.

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Builds the program `bin` of `package` in release mode; where it lies.
///
/// # Errors
/// Where cargo cannot be run, or fails.
pub fn program(package: &str, bin: &str) -> Result<PathBuf, String> {
    // `cargo run` says which cargo it is.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", package, "--bin", bin])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("cargo cannot be run, to build {bin}: {error}"))?;
    if !status.success() {
        return Err(format!("{bin} of {package} cannot be built: see above"));
    }
    let here = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
    // This program lies in target/PROFILE.
    let target = here.parent().and_then(|dir| dir.parent()).ok_or("this program does not lie where cargo puts it")?;
    let path = target.join("release").join(bin);
    if path.exists() { Ok(path) } else { Err(format!("cargo built {bin}, but not where it was expected")) }
}
