//! Formats numbers for people.

/// `1234567` as `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// `1 area`, `2 areas`.
pub(crate) fn plural(n: u64, word: &str) -> String {
    let ending = match (n, word) {
        (1, _) => "",
        (_, word) if word.ends_with("ss") => "es",
        _ => "s",
    };
    format!("{} {word}{ending}", count(n))
}

/// Bytes in binary units, with about three digits.
pub(crate) fn bytes(n: u64) -> String {
    let mut value = n as f64;
    let mut unit = "B";
    for next in ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    number(value, unit)
}

/// Nanoseconds in the unit that fits.
pub(crate) fn time(ns: u64) -> String {
    let ns_f = ns as f64;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => number(ns_f / 1e3, "us"),
        1_000_000..1_000_000_000 => number(ns_f / 1e6, "ms"),
        _ => number(ns_f / 1e9, "s"),
    }
}

fn number(value: f64, unit: &str) -> String {
    match value {
        v if v == v.trunc() && v < 1e6 => format!("{v:.0} {unit}"),
        v if v < 9.95 => format!("{v:.2} {unit}"),
        v if v < 99.5 => format!("{v:.1} {unit}"),
        v => format!("{v:.0} {unit}"),
    }
}

/// Values as a line of bars, from zero to the largest.
pub(crate) fn sparkline(values: &[u64]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let max = values.iter().copied().max().unwrap_or(0).max(1);
    values.iter().map(|v| BARS[(u128::from(*v) * 7).div_ceil(u128::from(max)) as usize]).collect()
}

#[cfg(test)]
#[path = "format_tests.rs"]
mod tests;
