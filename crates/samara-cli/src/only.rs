//! Selects events of a trace. Does not know how they are printed.

use samara_trace::event::Event;
use samara_trace::file::call_name;
use serde_json::{Value, json};

use crate::cli::Only;
use crate::format::time;
use crate::moment::{During, Moment};
use crate::output::clean;

impl Only {
    /// Whether an event is asked for.
    pub(crate) fn includes(&self, event: &Event) -> bool {
        self.chooses(event) && self.during().has_begun(event) && !self.during().has_ended(event)
    }

    /// The selected time.
    pub(crate) fn during(&self) -> During {
        During { from: self.from, to: self.to }
    }

    /// Whether an event in the selected time is selected.
    pub(crate) fn chooses(&self, event: &Event) -> bool {
        let one_of = |wanted: &[u32], is: u32| wanted.is_empty() || wanted.contains(&is);
        let named = |name: &String| event.text.contains(name) || event.areas.iter().any(|a| a.name.contains(name));
        // Definitions are left out if only some events are selected.
        let is_some = !(self.pid.is_empty() && self.tid.is_empty() && self.calls.is_empty() && self.names.is_empty());
        !(event.kind.defines() && (is_some || self.failed))
            && one_of(&self.pid, event.pid)
            && one_of(&self.tid, event.tid)
            && (self.calls.is_empty() || event.nr.is_some_and(|nr| self.calls.contains(&nr)))
            && (self.names.is_empty() || self.names.iter().any(named))
            && (!self.failed || event.error().is_some())
    }

    /// Whether all events are asked for.
    pub(crate) fn is_all(&self) -> bool {
        let Only { pid, tid, calls, names, failed, from, to } = self;
        pid.is_empty()
            && tid.is_empty()
            && calls.is_empty()
            && names.is_empty()
            && !failed
            && from.is_none()
            && to.is_none()
    }

    /// The selection in words.
    pub(crate) fn words(&self) -> String {
        let numbers = |values: &[u32]| values.iter().map(u32::to_string).collect();
        let calls = self.calls.iter().filter_map(|nr| call_name(*nr)).map(str::to_owned).collect();
        let names = self.names.iter().map(|name| clean(name)).collect();
        let moments = |at: Option<Moment>| at.into_iter().map(moment).collect();
        let parts: [(&str, Vec<String>); 6] = [
            ("of process", numbers(&self.pid)),
            ("of thread", numbers(&self.tid)),
            ("", calls),
            ("with a name of", names),
            ("from", moments(self.from)),
            ("up to", moments(self.to)),
        ];
        let some = parts.into_iter().filter(|(_, values)| !values.is_empty());
        let mut words: Vec<_> =
            some.map(|(what, v)| format!("{what} {}", v.join(" or ")).trim_start().to_owned()).collect();
        if self.failed {
            words.push("that failed".to_owned());
        }
        words.join(", ")
    }

    /// The selection as an object.
    pub(crate) fn json(&self) -> Value {
        let moment = |at: Option<Moment>| match at {
            Some(Moment::Event(seq)) => json!({"event": seq}),
            Some(Moment::Time(ns) | Moment::Clock(ns)) => json!({"ns": ns}),
            Some(Moment::Peak) | None => Value::Null,
        };
        json!({
            "pid": self.pid, "tid": self.tid,
            "call": self.calls.iter().filter_map(|nr| call_name(*nr)).collect::<Vec<_>>(),
            "name": self.names, "failed": self.failed, "from": moment(self.from), "to": moment(self.to),
        })
    }
}

fn moment(at: Moment) -> String {
    match at {
        Moment::Event(seq) => format!("event {seq}"),
        Moment::Time(ns) | Moment::Clock(ns) => time(ns),
        Moment::Peak => "the peak".to_owned(),
    }
}
