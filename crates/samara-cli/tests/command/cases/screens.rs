//! What a screen says first of a program, read from the screen.

use serde_json::Value;

use super::table::Case;

impl Case {
    /// The rows after `why` of a summary.
    pub(super) fn is_in_summary(&self, screen: &str) -> bool {
        let mut rows = screen.lines().skip_while(|row| !row.starts_with("  why "));
        let mut row = || rows.next().map_or("", |row| row.trim_start().trim_start_matches("why "));
        let (call, function, line) = self.by;
        let is_first =
            self.fits(row().trim()) && row().trim() == format!("by {call} in {function} at {}.c:{line}", self.name);
        let advice = row();
        let figure = self.advice().map(|(_, fewer)| format!(" would save {fewer} areas "));
        is_first && figure.map_or(!advice.starts_with("advice: "), |figure| advice.contains(&figure))
    }

    /// The first verdict of `samara why`, with the functions behind it.
    pub(super) fn is_in_why(&self, screen: &str) -> bool {
        let (word, _) = self.says.split_once(": ").unwrap();
        let mut rows = screen.lines().skip(2);
        let said = rows.next().unwrap_or_default().trim();
        let sentence = said.strip_prefix(word).map_or("", str::trim);
        // The rows of a verdict are set in further than the next one's name.
        let rest: Vec<&str> = rows.take_while(|row| row.starts_with("    ")).flat_map(str::split_whitespace).collect();
        self.fits(&format!("{word}: {sentence}")) && rest.windows(3).any(|words| self.is_line(words))
    }

    /// The head of `samara top`.
    pub(super) fn is_head_of_top(&self, screen: &str) -> bool {
        self.fits(screen.lines().find_map(|row| row.strip_prefix("why ")).unwrap_or_default().trim())
    }

    /// The same, and everything about the first verdict of its table.
    pub(super) fn is_in_top(&self, screen: &str) -> bool {
        let (all, row) = screen.split_once("the first: ").unwrap_or_default();
        let words: Vec<&str> = all.split_whitespace().collect();
        self.is_head_of_top(screen) && !row.is_empty() && words.windows(3).any(|words| self.is_line(words))
    }

    /// The first verdict of an object, with the places of its calls.
    pub(super) fn is_in_json(&self, why: &Value) -> bool {
        let sites = |number: &Value| why["sites"].as_array().into_iter().flatten().find(|site| site["site"] == *number);
        let first = &why["verdicts"][0];
        let parts = first["parts"].as_array().into_iter().flatten();
        let is_by = |site: &Value| {
            let frames = site["frames"].as_array().into_iter().flatten();
            let mut functions = frames.filter_map(|frame| frame["functions"].as_array()).flatten();
            site["call"] == self.by.0 && functions.any(|one| self.is_frame(&one["name"], &one["place"]))
        };
        self.is_verdict(first) && parts.filter_map(|part| sites(&part["site"])).any(is_by)
    }

    /// The first verdict of a page, with the functions of its tree.
    pub(super) fn is_on_page(&self, page: &Value) -> bool {
        let page = &page["traces"][0];
        let first = &page["why"]["verdicts"][0];
        let at = |list: &Value, i: &Value| i.as_u64().map_or(Value::Null, |i| list[i as usize].clone());
        let text = |list: &Value, i: &Value| at(&page["strings"], &at(list, i));
        let is_by = |part: &Value| {
            let (sites, tree) = (&page["sites"], &page["tree"]);
            let node = Some(at(&sites["node"], &part["site"]));
            let nodes = std::iter::successors(node, |node| Some(at(&tree["parent"], node)).filter(Value::is_u64));
            // What the page shows first.
            let inner = at(&sites["inner"], &part["site"]).as_u64().unwrap_or(0) as usize;
            let mut shown = nodes.skip(inner).take(1);
            text(&sites["call"], &part["site"]) == self.by.0
                && shown.any(|node| self.is_frame(&text(&tree["name"], &node), &text(&tree["place"], &node)))
        };
        let (call, function, line) = self.by;
        let by = format!("{call} in {function} at {}.c:{line}", self.name);
        let says = format!("{}: {}", first["word"].as_str().unwrap_or(""), first["text"].as_str().unwrap_or(""));
        self.is_verdict(first)
            && self.fits(&says)
            && first["by"] == by
            && first["parts"].as_array().into_iter().flatten().any(is_by)
    }

    /// What a process that waits looks like.
    pub(super) fn looks_so(&self, look: &Value) -> bool {
        let many = |n: &Value| n.as_u64() >= Some(self.counts[1].min(100));
        match self.looks {
            "gaps" => look["gaps"]["by_size"].as_array().into_iter().flatten().any(|gaps| many(&gaps["gaps"])),
            looks => {
                let mut patterns = look["patterns"].as_array().into_iter().flatten();
                // A file that is mapped twice is one.
                let is_large = |pattern: &Value| many(&pattern["times"]) || many(&pattern["areas"]);
                patterns.any(|pattern| pattern["kind"] == looks && is_large(pattern))
                    || look["boundaries"][0]["reason"] == looks
            }
        }
    }

    fn is_verdict(&self, verdict: &Value) -> bool {
        let (kind, of) = self.kind;
        let is_of = match of {
            "" => verdict["pattern"].is_null() && verdict["reasons"].as_array().is_some_and(Vec::is_empty),
            of => verdict["pattern"] == of || verdict["reasons"] == Value::from(of.split('+').collect::<Vec<_>>()),
        };
        let counts = ["areas", "times", "would_go"].map(|name| verdict[name].as_u64().unwrap_or(u64::MAX));
        let advice = verdict["advice"].as_array().into_iter().flatten();
        let advice: Vec<_> = advice.map(|one| (one["advice"].as_str(), one["would_go"].as_u64())).collect();
        let expected: Vec<_> = self.advice().map(|(name, fewer)| (Some(name), Some(fewer))).into_iter().collect();
        verdict["verdict"] == kind && is_of && counts == self.counts && advice == expected
    }

    fn is_frame(&self, function: &Value, place: &Value) -> bool {
        function == self.by.1 && place.as_str().is_some_and(|place| self.is_place(place))
    }

    /// Whether three words of a screen are the function and its place.
    fn is_line(&self, words: &[&str]) -> bool {
        words[0] == self.by.1 && words[1] == "at" && self.is_place(words[2])
    }

    fn is_place(&self, place: &str) -> bool {
        place.rsplit('/').next() == Some(&format!("{}.c:{}", self.name, self.by.2))
    }

    fn fits(&self, said: &str) -> bool {
        match self.says.split_once('*') {
            Some((begin, end)) => said.strip_prefix(begin).is_some_and(|rest| rest.ends_with(end)),
            None => said == self.says,
        }
    }
}
