//! The page itself: one HTML file with its style, its scripts and its data.
//!
//! - **PAGE-1** only the page's own script and style can run or load: a content security policy has
//!   their hashes, and the data is no script.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::data::Trace;
use crate::format::plural;
use crate::why::{At, Sites, failed, screen};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// In the order of the page: when a script is read, it can use only those before it.
const SCRIPTS: [&str; 18] = [
    include_str!("page/uPlot.js"),
    include_str!("page/dom.js"),
    include_str!("page/theme.js"),
    include_str!("page/data.js"),
    include_str!("page/chart.js"),
    include_str!("page/timeline.js"),
    include_str!("page/fold.js"),
    include_str!("page/raster.js"),
    include_str!("page/history.js"),
    include_str!("page/map.js"),
    include_str!("page/flame.js"),
    include_str!("page/who.js"),
    include_str!("page/boundaries.js"),
    include_str!("page/verdicts.js"),
    include_str!("page/slow.js"),
    include_str!("page/processes.js"),
    include_str!("page/compare.js"),
    include_str!("page/main.js"),
];

/// The page of these traces, and of the data of [`json`](super::json).
pub(crate) fn html(traces: &[Trace], data: &Value) -> Result<String, String> {
    let scripts = SCRIPTS.join("\n");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&scripts),
        hash(STYLE)
    );
    let (title, words, data) = (escaped(&title(traces)), escaped(&words(traces)), embedded(data));
    let fields = [
        ("csp", &*escaped(&policy)),
        ("title", &*title),
        ("css", STYLE),
        ("words", &*words),
        ("data", &*data),
        ("scripts", &*scripts),
    ];
    fill(PAGE, &fields)
}

/// The template with each `{{ name }}` replaced once; the replacement is not expanded again.
fn fill(template: &str, fields: &[(&str, &str)]) -> Result<String, String> {
    let mut parts = template.split("{{ ");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) =
            part.split_once(" }}").ok_or("cannot make the page: a field of its template does not end")?;
        let field = fields.iter().find(|(field, _)| *field == name);
        let (_, value) =
            field.ok_or_else(|| format!("cannot make the page: its template has an unknown field {name}"))?;
        out.push_str(value);
        out.push_str(rest);
    }
    Ok(out)
}

/// Text for an element or an attribute in quotes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(c),
        }
    }
    out
}

/// The hash of a script or a style, as a content security policy has it.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// JSON that cannot end the element that it is in.
fn embedded(data: &Value) -> String {
    let mut out = String::new();
    for c in data.to_string().chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out
}

fn title(traces: &[Trace]) -> String {
    let programs: Vec<&str> = traces.iter().map(|trace| &*trace.program).collect();
    programs.join(" and ")
}

/// The verdicts in words, for a browser that runs no script.
fn words(traces: &[Trace]) -> String {
    let one = |trace: &Trace| match trace.why() {
        Some((largest, why)) => {
            let sites = Sites::of(&trace.summary);
            let failed = failed(&trace.summary.failures, trace.summary_json["max_map_count"].as_u64(), sites);
            let text = screen(&trace.title, At::largest(largest), why, sites, &failed);
            anstream::adapter::strip_str(&text).to_string()
        }
        None => format!("{}\n{}, no areas to explain\n", trace.title, plural(trace.summary.events, "event")),
    };
    traces.iter().map(one).collect()
}
