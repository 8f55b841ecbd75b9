//! Encodes events as one Arrow record batch. Knows nothing of files.

use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int64Builder, StringBuilder, UInt32Builder, UInt64Builder};
use arrow_array::{ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_schema::{ArrowError, Fields, SchemaRef};

use super::names::{call_name, kind_name, perms_name, recorded, step_name};
use super::schema::{area_fields, item, step_fields};
use crate::event::{AreaRecord, Event, Step};

/// Upper bound of the bytes that an event takes in a batch before compression.
pub(crate) fn weight(event: &Event) -> u64 {
    let areas: usize = event.areas.iter().map(|a| 64 + a.name.len() + a.apart.len()).sum();
    (240 + event.text.len() + 32 * event.plan.len() + areas) as u64
}

/// The batch of these events. It has at most the bytes that [`weight`] counts, plus a few for each
/// column.
pub(crate) fn batch(schema: &SchemaRef, events: &[Event]) -> Result<RecordBatch, ArrowError> {
    let u64s = |f: fn(&Event) -> u64| -> ArrayRef {
        let mut b = UInt64Builder::with_capacity(events.len());
        events.iter().for_each(|e| b.append_value(f(e)));
        Arc::new(b.finish())
    };
    let u32s = |f: fn(&Event) -> Option<u32>| -> ArrayRef {
        let mut b = UInt32Builder::with_capacity(events.len());
        events.iter().for_each(|e| b.append_option(f(e)));
        Arc::new(b.finish())
    };
    let texts = |f: fn(&Event) -> Option<&str>| -> ArrayRef {
        let mut b = StringBuilder::new();
        events.iter().for_each(|e| b.append_option(f(e)));
        Arc::new(b.finish())
    };
    let some = |f: fn(&Event) -> Option<u64>| -> ArrayRef {
        let mut b = UInt64Builder::with_capacity(events.len());
        events.iter().for_each(|e| b.append_option(f(e)));
        Arc::new(b.finish())
    };
    let changes = |f: fn(&Event) -> Option<i64>| -> ArrayRef {
        let mut b = Int64Builder::with_capacity(events.len());
        events.iter().for_each(|e| b.append_option(f(e)));
        Arc::new(b.finish())
    };
    let mut results = Int64Builder::with_capacity(events.len());
    let mut overlapped = BooleanBuilder::with_capacity(events.len());
    for event in events {
        results.append_value(event.result);
        overlapped.append_value(event.overlapped);
    }
    let columns = vec![
        u64s(|e| e.seq),
        texts(|e| Some(kind_name(e.kind))),
        u64s(|e| e.entry_ns),
        u64s(|e| e.exit_ns),
        u64s(|e| e.space),
        u32s(|e| Some(e.pid)),
        u32s(|e| Some(e.tid)),
        texts(|e| e.nr.and_then(call_name)),
        u32s(|e| e.nr),
        u64s(|e| e.args[0]),
        u64s(|e| e.args[1]),
        u64s(|e| e.args[2]),
        u64s(|e| e.args[3]),
        u64s(|e| e.args[4]),
        u64s(|e| e.args[5]),
        Arc::new(results.finish()),
        Arc::new(overlapped.finish()),
        list(events, |e| steps(e).count(), step_fields(), plans(events))?,
        some(|e| Some(e.window?.0)),
        some(|e| Some(e.window?.1)),
        list(events, |e| e.areas.len(), area_fields(), areas(events))?,
        texts(|e| Some(&e.text)),
        u32s(|e| e.stack),
        some(|e| e.ip),
        some(|e| Some(e.resident?.private)),
        some(|e| Some(e.resident?.files)),
        changes(|e| e.resident.map(|r| r.private_change)),
        changes(|e| e.resident.map(|r| r.files_change)),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
}

/// A list column whose rows have `len` structs each, made of `children`.
fn list(
    events: &[Event],
    len: fn(&Event) -> usize,
    fields: Fields,
    children: Vec<ArrayRef>,
) -> Result<ArrayRef, ArrowError> {
    let offsets = arrow_buffer::OffsetBuffer::<i32>::from_lengths(events.iter().map(len));
    let structs = StructArray::try_new(fields.clone(), children, None)?;
    Ok(Arc::new(ListArray::try_new(item(fields), offsets, Arc::new(structs), None)?))
}

/// The steps of an event that a trace keeps.
fn steps(event: &Event) -> impl Iterator<Item = Step> {
    event.plan.iter().filter_map(recorded)
}

fn plans(events: &[Event]) -> Vec<ArrayRef> {
    let (mut kind, mut start, mut end) = (StringBuilder::new(), UInt64Builder::new(), UInt64Builder::new());
    for Step { kind: k, start: s, end: e } in events.iter().flat_map(steps) {
        kind.append_value(step_name(k));
        start.append_value(s);
        end.append_value(e);
    }
    vec![Arc::new(kind.finish()), Arc::new(start.finish()), Arc::new(end.finish())]
}

fn areas(events: &[Event]) -> Vec<ArrayRef> {
    let (mut start, mut end, mut offset) = (UInt64Builder::new(), UInt64Builder::new(), UInt64Builder::new());
    let (mut major, mut minor, mut inode) = (UInt32Builder::new(), UInt32Builder::new(), UInt64Builder::new());
    let (mut perms, mut name, mut apart) = (StringBuilder::new(), StringBuilder::new(), StringBuilder::new());
    for area in events.iter().flat_map(|e| &e.areas) {
        let AreaRecord { start: s, end: e, perms: p, offset: o, dev, inode: i, name: n, apart: a } = area;
        start.append_value(*s);
        end.append_value(*e);
        perms.append_value(perms_name(*p));
        offset.append_value(*o);
        major.append_value(dev.0);
        minor.append_value(dev.1);
        inode.append_value(*i);
        name.append_value(n);
        apart.append_value(a);
    }
    vec![
        Arc::new(start.finish()),
        Arc::new(end.finish()),
        Arc::new(perms.finish()),
        Arc::new(offset.finish()),
        Arc::new(major.finish()),
        Arc::new(minor.finish()),
        Arc::new(inode.finish()),
        Arc::new(name.finish()),
        Arc::new(apart.finish()),
    ]
}
