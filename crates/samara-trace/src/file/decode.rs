//! One batch's bytes to events. Trusts nothing. Knows nothing of files.
//!
//! The schema is known, so the batch is read by hand: Arrow lays nodes and buffers out in the order of the columns, depth
//! first. Arrow's own reader decompresses whatever a buffer claims; here every length is compared with a limit and
//! with the bytes that are there before it is used (I2 of the module above), and every offset, string and name is checked
//! once, in `decode`, so that `event` cannot fail.

use std::io::Read;

use arrow_ipc::{BodyCompressionMethod, Buffer, CompressionType, FieldNode, RecordBatch};
use lz4_flex::frame::FrameDecoder;

use super::error::shown;
use super::names::{kind_from, perms_from, step_from};
use super::{Fault, MAX_BATCH_BYTES};
use crate::event::{AreaRecord, Event, EventKind, Step, StepKind};

/// The columns of a batch, checked.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: usize,
    first_seq: u64,
    kind: Vec<EventKind>,
    /// `entry_ns`, `exit_ns`, `space`.
    times: [Vec<u64>; 3],
    pid: Vec<u32>,
    tid: Vec<u32>,
    nr: Nullable<u32>,
    args: [Vec<u64>; 6],
    result: Vec<i64>,
    overlapped: Vec<u8>,
    plan_ends: Vec<u32>,
    plan: Vec<Step>,
    window: [Nullable<u64>; 2],
    area_ends: Vec<u32>,
    areas: Areas,
    text: Texts,
}

#[derive(Debug, Default)]
struct Nullable<T> {
    values: Vec<T>,
    valid: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Texts {
    offsets: Vec<u32>,
    data: String,
}

#[derive(Debug, Default)]
struct Areas {
    bounds: [Vec<u64>; 2],
    perms: Vec<u8>,
    offset: Vec<u64>,
    dev: [Vec<u32>; 2],
    inode: Vec<u64>,
    name: Texts,
    apart: Texts,
}

impl<T: Copy> Nullable<T> {
    fn get(&self, row: usize) -> Option<T> {
        let valid = self.valid.as_ref().is_none_or(|bits| bit(bits, row));
        if valid { self.values.get(row).copied() } else { None }
    }
}

impl Texts {
    fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    fn get(&self, i: usize) -> &str {
        let (start, end) = span(&self.offsets, i);
        self.data.get(start..end).unwrap_or_default()
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|i| self.get(i))
    }
}

fn bit(bits: &[u8], i: usize) -> bool {
    bits.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1)
}

fn span(offsets: &[u32], i: usize) -> (usize, usize) {
    (offsets[i] as usize, offsets[i + 1] as usize)
}

fn damaged<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Damaged(what.into()))
}

impl Batch {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Reads and checks a batch whose first event must have the number `first_seq`.
    pub(crate) fn decode(batch: RecordBatch<'_>, body: &[u8], first_seq: u64) -> Result<Self, Fault> {
        let compressed = match batch.compression() {
            None => false,
            Some(c) if c.method() == BodyCompressionMethod::BUFFER && c.codec() == CompressionType::LZ4_FRAME => true,
            Some(_) => return damaged("a compression other than LZ4"),
        };
        let mut w = Walker {
            nodes: batch.nodes().ok_or_else(|| Fault::Damaged("a batch without columns".into()))?.iter(),
            buffers: batch.buffers().ok_or_else(|| Fault::Damaged("a batch without buffers".into()))?.iter(),
            body,
            compressed,
            left: MAX_BATCH_BYTES,
        };
        // No more rows than a byte each, so that nothing below overflows; each column then proves to hold them.
        let rows = match u64::try_from(batch.length()) {
            Ok(rows) if rows <= MAX_BATCH_BYTES => rows as usize,
            _ => return damaged(format!("a batch of {} events", batch.length())),
        };
        let seq: Vec<u64> = w.numbers("seq", rows)?;
        if let Some((i, seq)) = seq.iter().enumerate().find(|(i, seq)| **seq != first_seq + *i as u64) {
            return damaged(format!("event {} came where event {} is due", seq, first_seq + i as u64));
        }
        let kind = w.words("kind", rows, kind_from)?;
        let times = [w.numbers("entry_ns", rows)?, w.numbers("exit_ns", rows)?, w.numbers("space", rows)?];
        let (pid, tid) = (w.numbers("pid", rows)?, w.numbers("tid", rows)?);
        // The name follows from the number; it is there for other tools.
        w.texts("call", rows, true)?;
        let nr = w.nullable("nr", rows, true)?;
        let mut args = <[Vec<u64>; 6]>::default();
        for arg in &mut args {
            *arg = w.numbers("arg", rows)?;
        }
        let result = w.numbers("result", rows)?;
        let overlapped = w.bits("overlapped", rows)?;
        let (plan_ends, steps) = w.list("plan", rows)?;
        let step_kinds: Vec<StepKind> = w.words("plan.kind", steps, step_from)?;
        let starts: Vec<u64> = w.numbers("plan.start", steps)?;
        let ends: Vec<u64> = w.numbers("plan.end", steps)?;
        let plan = step_kinds.into_iter().zip(starts).zip(ends);
        let plan = plan.map(|((kind, start), end)| Step { kind, start, end }).collect();
        let window = [w.nullable("window_start", rows, true)?, w.nullable("window_end", rows, true)?];
        if let Some(row) = (0..rows).find(|row| match (window[0].get(*row), window[1].get(*row)) {
            (None, None) => false,
            (Some(start), Some(end)) => start > end,
            _ => true,
        }) {
            return damaged(format!("event {}: its window makes no sense", first_seq + row as u64));
        }
        let (area_ends, count) = w.list("areas", rows)?;
        let areas = w.areas(count)?;
        let text = w.texts("text", rows, false)?;
        if w.nodes.next().is_some() || w.buffers.next().is_some() {
            return damaged("a batch with more columns than the header says");
        }
        Ok(Batch {
            rows,
            first_seq,
            kind,
            times,
            pid,
            tid,
            nr,
            args,
            result,
            overlapped,
            plan_ends,
            plan,
            window,
            area_ends,
            areas,
            text,
        })
    }

    /// The event in a row below `rows()`.
    pub(crate) fn event(&self, row: usize) -> Event {
        let (plan_start, plan_end) = span(&self.plan_ends, row);
        let (areas_start, areas_end) = span(&self.area_ends, row);
        Event {
            seq: self.first_seq + row as u64,
            kind: self.kind[row],
            entry_ns: self.times[0][row],
            exit_ns: self.times[1][row],
            space: self.times[2][row],
            pid: self.pid[row],
            tid: self.tid[row],
            nr: self.nr.get(row),
            args: std::array::from_fn(|i| self.args[i][row]),
            result: self.result[row],
            overlapped: bit(&self.overlapped, row),
            plan: self.plan[plan_start..plan_end].to_vec(),
            window: self.window[0].get(row).zip(self.window[1].get(row)),
            areas: (areas_start..areas_end).map(|i| self.areas.get(i)).collect(),
            text: self.text.get(row).to_owned(),
        }
    }
}

impl Areas {
    fn get(&self, i: usize) -> AreaRecord {
        AreaRecord {
            start: self.bounds[0][i],
            end: self.bounds[1][i],
            perms: self.perms[i],
            offset: self.offset[i],
            dev: (self.dev[0][i], self.dev[1][i]),
            inode: self.inode[i],
            name: self.name.get(i).to_owned(),
            apart: self.apart.get(i).to_owned(),
        }
    }
}

/// A number that a buffer holds in little endian.
trait Number: Copy {
    const SIZE: usize;
    fn from_le(bytes: &[u8]) -> Self;
}

macro_rules! number {
    ($($t:ty),*) => {$(
        impl Number for $t {
            const SIZE: usize = size_of::<$t>();
            fn from_le(bytes: &[u8]) -> Self {
                let mut all = [0; size_of::<$t>()];
                all.copy_from_slice(bytes);
                <$t>::from_le_bytes(all)
            }
        }
    )*};
}
number!(u32, u64, i64);

/// Takes nodes and buffers in the order of the columns.
struct Walker<'a, N, B> {
    nodes: N,
    buffers: B,
    body: &'a [u8],
    compressed: bool,
    /// Bytes that the rest of the batch may have, decompressed.
    left: u64,
}

impl<'a, N, B> Walker<'a, N, B>
where
    N: Iterator<Item = &'a FieldNode>,
    B: Iterator<Item = &'a Buffer>,
{
    /// A column's node: `rows` long, without nulls unless they are allowed.
    fn node(&mut self, name: &str, rows: usize, nulls: bool) -> Result<(), Fault> {
        let Some(node) = self.nodes.next() else { return damaged(format!("column {name}: missing")) };
        if u64::try_from(node.length()) != Ok(rows as u64) {
            return damaged(format!("column {name}: {} rows where {rows} are due", node.length()));
        }
        if !(0..=node.length()).contains(&node.null_count()) || (node.null_count() > 0 && !nulls) {
            return damaged(format!("column {name}: {} rows without a value", node.null_count()));
        }
        Ok(())
    }

    /// The next buffer, decompressed.
    fn buffer(&mut self, name: &str) -> Result<Vec<u8>, Fault> {
        let Some(buffer) = self.buffers.next() else { return damaged(format!("column {name}: its bytes are missing")) };
        let range = usize::try_from(buffer.offset())
            .ok()
            .zip(usize::try_from(buffer.length()).ok())
            .and_then(|(start, length)| self.body.get(start..start.checked_add(length)?));
        let Some(stored) = range else { return damaged(format!("column {name}: its bytes lie outside the batch")) };
        if !self.compressed || stored.is_empty() {
            self.allow(stored.len() as u64)?;
            return Ok(stored.to_vec());
        }
        let Some((length, rest)) = stored.split_first_chunk::<8>() else {
            return damaged(format!("column {name}: its compressed bytes are cut off"));
        };
        match i64::from_le_bytes(*length) {
            -1 => {
                self.allow(rest.len() as u64)?;
                Ok(rest.to_vec())
            }
            length => {
                let Ok(length) = u64::try_from(length) else {
                    return damaged(format!("column {name}: a buffer of {length} bytes"));
                };
                self.allow(length)?;
                decompress(name, rest, length)
            }
        }
    }

    fn allow(&mut self, bytes: u64) -> Result<(), Fault> {
        match self.left.checked_sub(bytes) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                Err(Fault::TooLarge("a batch, decompressed,", MAX_BATCH_BYTES - self.left + bytes, MAX_BATCH_BYTES))
            }
        }
    }

    fn validity(&mut self, name: &str, rows: usize, nulls: bool) -> Result<Option<Vec<u8>>, Fault> {
        self.node(name, rows, nulls)?;
        let bits = self.buffer(name)?;
        match bits.len() {
            0 => Ok(None),
            len if len < rows.div_ceil(8) => damaged(format!("column {name}: {len} bytes of validity for {rows} rows")),
            _ if !nulls && !(0..rows).all(|row| bit(&bits, row)) => {
                damaged(format!("column {name}: rows without a value"))
            }
            _ => Ok(Some(bits)),
        }
    }

    fn nullable<T: Number>(&mut self, name: &str, rows: usize, nulls: bool) -> Result<Nullable<T>, Fault> {
        let valid = self.validity(name, rows, nulls)?;
        let bytes = self.buffer(name)?;
        match bytes.get(..rows * T::SIZE) {
            Some(bytes) => Ok(Nullable { values: bytes.chunks_exact(T::SIZE).map(T::from_le).collect(), valid }),
            None => damaged(format!("column {name}: {} bytes for {rows} rows", bytes.len())),
        }
    }

    fn numbers<T: Number>(&mut self, name: &str, rows: usize) -> Result<Vec<T>, Fault> {
        Ok(self.nullable(name, rows, false)?.values)
    }

    fn bits(&mut self, name: &str, rows: usize) -> Result<Vec<u8>, Fault> {
        self.validity(name, rows, false)?;
        let bits = self.buffer(name)?;
        if bits.len() < rows.div_ceil(8) {
            return damaged(format!("column {name}: {} bytes for {rows} rows", bits.len()));
        }
        Ok(bits)
    }

    /// Offsets of `rows` rows, ascending from 0 at least; the last is the length of what they point into.
    fn offsets(&mut self, name: &str, rows: usize) -> Result<Vec<u32>, Fault> {
        let bytes = self.buffer(name)?;
        if rows == 0 {
            return Ok(vec![0]);
        }
        let Some(bytes) = bytes.get(..(rows + 1) * 4) else {
            return damaged(format!("column {name}: {} bytes of offsets for {rows} rows", bytes.len()));
        };
        let offsets: Vec<u32> = bytes.chunks_exact(4).map(<u32 as Number>::from_le).collect();
        if !offsets.is_sorted() || offsets[rows] > i32::MAX as u32 {
            return damaged(format!("column {name}: its offsets go backwards"));
        }
        Ok(offsets)
    }

    fn texts(&mut self, name: &str, rows: usize, nulls: bool) -> Result<Texts, Fault> {
        self.validity(name, rows, nulls)?;
        let offsets = self.offsets(name, rows)?;
        let mut data = self.buffer(name)?;
        let used = offsets[rows] as usize;
        if used > data.len() {
            return damaged(format!("column {name}: {} bytes where its offsets reach {used}", data.len()));
        }
        data.truncate(used);
        match String::from_utf8(data) {
            Ok(data) if offsets.iter().all(|at| data.is_char_boundary(*at as usize)) => Ok(Texts { offsets, data }),
            _ => damaged(format!("column {name}: text that is not UTF-8")),
        }
    }

    /// A column of words out of a fixed list.
    fn words<T>(&mut self, name: &str, rows: usize, parse: fn(&str) -> Option<T>) -> Result<Vec<T>, Fault> {
        let texts = self.texts(name, rows, false)?;
        let word =
            |word| parse(word).ok_or_else(|| Fault::Damaged(format!("column {name}: no such word: `{}`", shown(word))));
        texts.iter().map(word).collect()
    }

    /// The offsets of a list column, and how many structs it holds; their fields come next.
    fn list(&mut self, name: &str, rows: usize) -> Result<(Vec<u32>, usize), Fault> {
        self.validity(name, rows, false)?;
        let offsets = self.offsets(name, rows)?;
        let count = offsets[rows] as usize;
        self.validity(name, count, false)?;
        Ok((offsets, count))
    }

    fn areas(&mut self, count: usize) -> Result<Areas, Fault> {
        let bounds: [Vec<u64>; 2] = [self.numbers("areas.start", count)?, self.numbers("areas.end", count)?];
        if let Some((start, end)) = bounds[0].iter().zip(&bounds[1]).find(|(start, end)| start >= end) {
            return damaged(format!("an area that starts at {start:#x} and ends at {end:#x}"));
        }
        Ok(Areas {
            bounds,
            perms: self.words("areas.perms", count, perms_from)?,
            offset: self.numbers("areas.offset", count)?,
            dev: [self.numbers("areas.dev_major", count)?, self.numbers("areas.dev_minor", count)?],
            inode: self.numbers("areas.inode", count)?,
            name: self.texts("areas.name", count, false)?,
            apart: self.texts("areas.apart", count, false)?,
        })
    }
}

/// The bytes of a buffer that claims to have `length` of them, decompressed.
fn decompress(name: &str, stored: &[u8], length: u64) -> Result<Vec<u8>, Fault> {
    // LZ4 makes at most 255 bytes of one: no claim reserves more than the stored bytes can become.
    let most = (stored.len() as u64).saturating_mul(255).min(length);
    let mut bytes = Vec::with_capacity(most as usize + 1);
    let read = FrameDecoder::new(stored).take(length + 1).read_to_end(&mut bytes);
    match read {
        Ok(got) if got as u64 == length => Ok(bytes),
        Ok(_) => damaged(format!("column {name}: decompresses to another length than {length} bytes")),
        Err(error) => damaged(format!("column {name}: {error}")),
    }
}
