//! The page itself: one HTML file with its style, its scripts and its data.
//!
//! - **PAGE-1** nothing but the page's own script and style can run or load: a content security
//!   policy names their hashes, and the data is no script.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use minijinja::{AutoEscape, Environment, context};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::data::Trace;
use crate::format::plural;
use crate::why::{Sites, screen};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
/// In the order of the page: each knows only those before it when it is read.
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
    let mut all = Environment::new();
    all.set_auto_escape_callback(|_| AutoEscape::Html);
    let scripts = SCRIPTS.join("\n");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&scripts),
        hash(STYLE)
    );
    let page = all.render_str(
        PAGE,
        context! {
            title => title(traces), csp => policy, css => STYLE, scripts => scripts, data => embedded(data),
            words => words(traces),
        },
    );
    page.map_err(|error| format!("cannot make the page: {error}"))
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
            let text = screen(&trace.title, largest, why, Sites::of(&trace.summary));
            anstream::adapter::strip_str(&text).to_string()
        }
        None => format!("{}\n{}, no areas to explain\n", trace.title, plural(trace.summary.events, "event")),
    };
    traces.iter().map(one).collect()
}
