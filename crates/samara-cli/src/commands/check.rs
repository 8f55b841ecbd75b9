//! `samara check`: compares the model with the running kernel.

use std::env::{args_os, current_exe};
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use indicatif::{ProgressBar, ProgressStyle};
use nix::sys::personality::{self, Persona};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use samara_oracle::{Mix, Report};
use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::cli::Check;
use crate::format::{count, plural};
use crate::kernel::Kernel;
use crate::output::{self, DIM, GREEN, RED, clean, styled};
use crate::{exit, json};

/// Bytes of stack that running the model and the kernel side by side needs.
const STACK: u64 = 512 << 10;

pub(crate) fn run(args: &Check) -> ExitCode {
    if let Some(why) = super::too_small(STACK) {
        return super::failed(why);
    }
    // Checked before this program starts itself again: after that, standard output is open.
    if let Err(why) = output::check_stdout() {
        return super::failed(format!("cannot write to standard output: {why}"));
    }
    let mixes = mixes(args);
    if mixes.contains(&Mix::Free) {
        without_randomisation();
    }
    let check = samara_oracle::Check { ops: args.ops, seed: args.seed, mixes };
    let bar = bar(args.ops);
    let signal = watched();
    let report = check.run_until(&|| signal.load(Relaxed) != 0, |p| {
        bar.set_position(p.ops);
        let found =
            if p.divergences == 0 { String::new() } else { format!(", {}", plural(p.divergences, "difference")) };
        bar.set_message(format!("{}{found}", p.mix));
    });
    bar.finish_and_clear();
    let report = match report {
        Ok(report) => report,
        Err(why) => return super::failed(why.to_string()),
    };
    let printed = if args.json {
        output::stdout(|out| writeln!(out, "{}", output::clean_json(&json::check(&report).to_string())))
    } else {
        output::styled_stdout(|out| print(out, &report))
    };
    if let Err(why) = printed {
        return super::failed(format!("cannot write to standard output: {why}"));
    }
    if report.stopped {
        return exit::like(ExitStatus::from_raw(signal.load(Relaxed) as i32));
    }
    match &report {
        Report { divergences, .. } if !divergences.is_empty() => exit::DIFFERS.into(),
        Report { compared: 0, .. } => {
            super::failed("nothing was compared: the output says why each mix was left out".to_owned())
        }
        _ => ExitCode::SUCCESS,
    }
}

/// The mixes that are asked for, each once, in order.
fn mixes(args: &Check) -> Vec<Mix> {
    let mut mixes = Vec::new();
    for mix in args.mixes.iter().flat_map(|named| &named.0) {
        if !mixes.contains(mix) {
            mixes.push(*mix);
        }
    }
    if mixes.is_empty() { Mix::ALL.to_vec() } else { mixes }
}

/// Watches for signals that ask for an end. Holds the signal's number, or 0.
fn watched() -> Arc<AtomicUsize> {
    let signal = Arc::new(AtomicUsize::new(0));
    for number in [SIGINT, SIGTERM] {
        // A signal that cannot be watched ends this process at once, and so its children.
        let _ = flag::register_usize(number, signal.clone(), number as usize);
    }
    // A write past the limit of file sizes (ulimit -f) should fail, not kill this process.
    let _ = flag::register(SIGXFSZ, Arc::default());
    signal
}

/// Restarts this program without address randomisation, so that the addresses that the kernel
/// chooses can be predicted. If that is refused the program goes on, and the mix that needs it is
/// left out with the reason.
fn without_randomisation() {
    let set = personality::get().is_ok_and(|now| !now.contains(Persona::ADDR_NO_RANDOMIZE))
        && personality::get().and_then(|now| personality::set(now | Persona::ADDR_NO_RANDOMIZE)).is_ok();
    if !set {
        return;
    }
    // With a higher limit the kernel would start its search at another address.
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_STACK) {
        let _ = setrlimit(Resource::RLIMIT_STACK, hard.min(8 << 20), hard);
    }
    let mut words = args_os();
    if let (Ok(program), Some(name)) = (current_exe(), words.next()) {
        // This returns only if it failed.
        let _ = Command::new(program).arg0(name).args(words).exec();
    }
}

/// The progress bar. It is hidden if standard error is not a terminal.
fn bar(ops: u64) -> ProgressBar {
    let bar = ProgressBar::new(ops);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} {per_sec} (eta {eta}) {msg}") {
        bar.set_style(style);
    }
    bar
}

fn print(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let divergences: u64 = report.mixes.iter().map(|m| m.divergences).sum();
    for m in &report.mixes {
        let rate = (m.compared as f64 / m.time.as_secs_f64().max(1e-9)) as u64;
        let found = found(m.compared, m.divergences);
        let (compared, sequences) = (plural(m.compared, "call"), plural(m.sequences, "sequence"));
        let met = if m.mix == Mix::Threads { format!(", {} overlapped", count(m.overlapped)) } else { String::new() };
        writeln!(out, "{:<8} {compared} compared in {sequences}{met}, {} a second: {found}", m.mix, count(rate))?;
    }
    // A skipped mix was not compared at all; an incomplete one lacks some calls.
    let runs = |mix: Mix| report.mixes.iter().any(|m| m.mix == mix);
    for (i, (first, why)) in report.skipped.iter().enumerate() {
        // A reason that several mixes share is printed once.
        let same = |(mix, other): &&(Mix, String)| other == why && runs(*mix) == runs(*first);
        if !report.skipped[..i].iter().any(|before| same(&before)) {
            let mixes = report.skipped.iter().filter(same).map(|(mix, _)| mix.name());
            let mixes = mixes.collect::<Vec<_>>().join(", ");
            let what = if runs(*first) { "left out of" } else { "left out:" };
            writeln!(out, "{} {} {}", styled(DIM, what), mixes + ":", clean(why))?;
        }
    }
    for divergence in &report.divergences {
        write!(out, "\n{divergence}")?;
    }
    if !report.divergences.is_empty() {
        let file = "crates/samara-oracle/tests/found.rs";
        writeln!(out, "\n{} {file}; run cargo test -p samara-oracle --test found", styled(DIM, "put each test into"))?;
    }
    if report.stopped {
        writeln!(out, "{} not all calls were made", styled(DIM, "stopped:"))?;
    }
    let more = divergences - report.divergences.len() as u64;
    if more > 0 {
        writeln!(
            out,
            "{} {} (each mix shows its first five)",
            styled(DIM, "not shown:"),
            plural(more, "more difference")
        )?;
    }
    let profile = &report.profile;
    if !profile.features.is_empty() {
        writeln!(out, "{} {}", styled(DIM, "this kernel's features:"), profile.features.names().join(", "))?;
    }
    if !profile.presumed.is_empty() {
        let presumed = profile.presumed.names().join(", ");
        writeln!(out, "{} {presumed}", styled(DIM, "as its release's number says, not asked:"))?;
    }
    let found = found(report.compared, divergences);
    let (compared, seed, name) = (plural(report.compared, "call"), report.seed, profile.to_string());
    let kernel = Kernel::asked(profile, &name).words();
    writeln!(out, "{compared} compared with {kernel}, seed {seed}: {found}")
}

/// The result of comparing this many calls.
fn found(compared: u64, divergences: u64) -> String {
    match divergences {
        0 if compared == 0 => "nothing compared".to_owned(),
        0 => styled(GREEN, "no difference"),
        n => styled(RED, plural(n, "difference")),
    }
}
