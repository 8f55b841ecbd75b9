//! Decodes one batch: bytes to events. Trusts nothing in the input. Knows nothing of files.
//!
//! The schema is known, so the batch is decoded by hand: Arrow stores nodes and buffers in the
//! order of the columns, depth first. Arrow's own reader would decompress whatever a buffer claims.
//! Here every length is compared with a limit and with the bytes that are there before it is used
//! (FILE-2). Every offset, string and name is checked once, in `decode`, so `event` cannot fail. A
//! decoded batch takes only the bytes of its decompressed buffers: numbers are read from there.

use std::io::{self, Read};
use std::marker::PhantomData;

use arrow_ipc::{BodyCompressionMethod, Buffer, CompressionType, FieldNode, RecordBatch};
use lz4_flex::frame::FrameDecoder;

use super::error::shown;
use super::names::{kind_from, perms_from, step_from, step_kind};
use super::schema::{WITH_CALLERS, WITH_STACKS};
use super::{Fault, MAX_AREAS, MAX_BATCH_BYTES, MAX_NAME_BYTES};
use crate::event::{AreaRecord, Event, EventKind, Resident, Step};

/// The checked columns of a batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    rows: usize,
    first_seq: u64,
    kind: Vec<EventKind>,
    /// `entry_ns`, `exit_ns`, `space`.
    times: [Column<u64>; 3],
    pid: Column<u32>,
    tid: Column<u32>,
    nr: Nullable<u32>,
    args: [Column<u64>; 6],
    result: Column<i64>,
    overlapped: Vec<u8>,
    plan_ends: Column<u32>,
    /// Codes of kinds of steps.
    steps: Vec<u8>,
    step_bounds: [Column<u64>; 2],
    window: [Nullable<u64>; 2],
    area_ends: Column<u32>,
    areas: Areas,
    text: Texts,
    /// These are missing in older files.
    stack: Option<Nullable<u32>>,
    later: Option<Later>,
}

/// The columns since version 3.
#[derive(Debug)]
struct Later {
    ip: Nullable<u64>,
    resident: [Nullable<u64>; 2],
    changes: [Nullable<i64>; 2],
}

/// Numbers in little endian, as stored.
#[derive(Debug, Default)]
struct Column<T> {
    bytes: Vec<u8>,
    number: PhantomData<T>,
}

impl<T: Number> Column<T> {
    /// The number in a row. The column has been checked to hold that row.
    fn get(&self, row: usize) -> T {
        T::from_le(&self.bytes[row * T::SIZE..][..T::SIZE])
    }
}

#[derive(Debug, Default)]
struct Nullable<T> {
    values: Column<T>,
    valid: Option<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Texts {
    /// Number of texts.
    len: usize,
    /// One more than there are texts.
    offsets: Column<u32>,
    data: String,
}

#[derive(Debug, Default)]
struct Areas {
    bounds: [Column<u64>; 2],
    perms: Vec<u8>,
    offset: Column<u64>,
    dev: [Column<u32>; 2],
    inode: Column<u64>,
    name: Texts,
    apart: Texts,
}

impl<T: Number> Nullable<T> {
    fn get(&self, row: usize) -> Option<T> {
        let valid = self.valid.as_ref().is_none_or(|bits| bit(bits, row));
        valid.then(|| self.values.get(row))
    }
}

impl Texts {
    fn get(&self, i: usize) -> &str {
        let (start, end) = span(&self.offsets, i);
        self.data.get(start..end).unwrap_or_default()
    }

    fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len).map(|i| self.get(i))
    }
}

fn bit(bits: &[u8], i: usize) -> bool {
    bits.get(i / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1)
}

fn span(offsets: &Column<u32>, i: usize) -> (usize, usize) {
    (offsets.get(i) as usize, offsets.get(i + 1) as usize)
}

fn damaged<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Damaged(what.into()))
}

impl Batch {
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Decodes and checks a batch whose first event must have the number `first_seq`.
    pub(crate) fn decode(batch: RecordBatch<'_>, body: &[u8], first_seq: u64, columns: usize) -> Result<Self, Fault> {
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
        // At most one row per byte, so that nothing below overflows. Each column is checked to hold
        // as many rows.
        let rows = match u64::try_from(batch.length()) {
            Ok(rows) if rows <= MAX_BATCH_BYTES => rows as usize,
            _ => return damaged(format!("a batch claims {} events", batch.length())),
        };
        let seq: Column<u64> = w.numbers("seq", rows)?;
        if let Some(i) = (0..rows).find(|i| seq.get(*i) != first_seq + *i as u64) {
            return damaged(format!("event {} came where event {} is due", seq.get(i), first_seq + i as u64));
        }
        drop(seq);
        let kind = w.words("kind", rows, kind_from)?;
        let times = [w.numbers("entry_ns", rows)?, w.numbers("exit_ns", rows)?, w.numbers("space", rows)?];
        let (pid, tid) = (w.numbers("pid", rows)?, w.numbers("tid", rows)?);
        // The name follows from the number; the column is for other tools.
        w.texts("call", rows, true, ANY)?;
        let nr = w.nullable("nr", rows, true)?;
        let mut args = <[Column<u64>; 6]>::default();
        for arg in &mut args {
            *arg = w.numbers("arg", rows)?;
        }
        let result = w.numbers("result", rows)?;
        let overlapped = w.bits("overlapped", rows)?;
        let (plan_ends, count) = w.list("plan", rows, (2 * MAX_AREAS, "steps of an event"))?;
        let steps = w.words("plan.kind", count, step_from)?;
        let step_bounds = [w.numbers("plan.start", count)?, w.numbers("plan.end", count)?];
        let window = [w.nullable("window_start", rows, true)?, w.nullable("window_end", rows, true)?];
        if let Some(row) = (0..rows).find(|row| match (window[0].get(*row), window[1].get(*row)) {
            (None, None) => false,
            (Some(start), Some(end)) => start > end,
            _ => true,
        }) {
            return damaged(format!("event {}: its window is invalid", first_seq + row as u64));
        }
        let (area_ends, count) = w.list("areas", rows, (MAX_AREAS, "areas of an event"))?;
        let areas = w.areas(count)?;
        let overlaps = |row: &usize| {
            let (start, end) = span(&area_ends, *row);
            (start + 1..end).any(|i| areas.bounds[0].get(i) < areas.bounds[1].get(i - 1))
        };
        if let Some(row) = (0..rows).find(overlaps) {
            return damaged(format!("event {}: its areas overlap or do not ascend", first_seq + row as u64));
        }
        let text = w.texts("text", rows, false, ANY)?;
        let stack = if columns >= WITH_STACKS { Some(w.nullable("stack", rows, true)?) } else { None };
        let later = if columns >= WITH_CALLERS { Some(w.later(rows)?) } else { None };
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
            steps,
            step_bounds,
            window,
            area_ends,
            areas,
            text,
            stack,
            later,
        })
    }

    /// The event in a row below `rows()`.
    pub(crate) fn event(&self, row: usize) -> Event {
        let (plan_start, plan_end) = span(&self.plan_ends, row);
        let (areas_start, areas_end) = span(&self.area_ends, row);
        Event {
            seq: self.first_seq + row as u64,
            kind: self.kind[row],
            entry_ns: self.times[0].get(row),
            exit_ns: self.times[1].get(row),
            space: self.times[2].get(row),
            pid: self.pid.get(row),
            tid: self.tid.get(row),
            nr: self.nr.get(row),
            args: std::array::from_fn(|i| self.args[i].get(row)),
            result: self.result.get(row),
            overlapped: bit(&self.overlapped, row),
            plan: (plan_start..plan_end).map(|i| self.step(i)).collect(),
            window: self.window[0].get(row).zip(self.window[1].get(row)),
            areas: (areas_start..areas_end).map(|i| self.areas.get(i)).collect(),
            text: self.text.get(row).to_owned(),
            stack: self.stack.as_ref().and_then(|stack| stack.get(row)),
            ip: self.later.as_ref().and_then(|later| later.ip.get(row)),
            resident: self.later.as_ref().and_then(|later| later.resident(row)),
        }
    }

    fn step(&self, i: usize) -> Step {
        Step { kind: step_kind(self.steps[i]), start: self.step_bounds[0].get(i), end: self.step_bounds[1].get(i) }
    }
}

impl Later {
    fn resident(&self, row: usize) -> Option<Resident> {
        Some(Resident {
            private: self.resident[0].get(row)?,
            files: self.resident[1].get(row)?,
            private_change: self.changes[0].get(row)?,
            files_change: self.changes[1].get(row)?,
        })
    }
}

impl Areas {
    fn get(&self, i: usize) -> AreaRecord {
        AreaRecord {
            start: self.bounds[0].get(i),
            end: self.bounds[1].get(i),
            perms: self.perms[i],
            offset: self.offset.get(i),
            dev: (self.dev[0].get(i), self.dev[1].get(i)),
            inode: self.inode.get(i),
            name: self.name.get(i).to_owned(),
            apart: self.apart.get(i).to_owned(),
        }
    }
}

/// A number that is stored in little endian.
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

/// The longest text or list of a column, and what it counts.
type Limit = (usize, &'static str);

/// The limit of the batch suffices.
const ANY: Limit = (MAX_BATCH_BYTES as usize, "bytes of a text");

/// Takes nodes and buffers in the order of the columns.
struct Walker<'a, N, B> {
    nodes: N,
    buffers: B,
    body: &'a [u8],
    compressed: bool,
    /// Bytes that the rest of the batch may have after decompression.
    left: u64,
}

impl<'a, N, B> Walker<'a, N, B>
where
    N: Iterator<Item = &'a FieldNode>,
    B: Iterator<Item = &'a Buffer>,
{
    /// Takes a column's node. It must have `rows` rows, and no nulls unless they are allowed.
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

    /// Takes the next buffer and decompresses it.
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
            None => Err(Fault::TooLarge(
                "bytes of a batch, decompressed",
                MAX_BATCH_BYTES - self.left + bytes,
                MAX_BATCH_BYTES,
            )),
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
        if bytes.len() < rows * T::SIZE {
            return damaged(format!("column {name}: {} bytes for {rows} rows", bytes.len()));
        }
        Ok(Nullable { values: Column { bytes, number: PhantomData }, valid })
    }

    fn numbers<T: Number>(&mut self, name: &str, rows: usize) -> Result<Column<T>, Fault> {
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

    /// Takes the offsets of `rows` rows. Returns them and the last one, which is the length of what
    /// they point into.
    ///
    /// They must ascend, by at most `limit` each.
    fn offsets(&mut self, name: &'static str, rows: usize, limit: Limit) -> Result<(Column<u32>, usize), Fault> {
        let mut bytes = self.buffer(name)?;
        if rows == 0 {
            // Some writers leave out the single offset.
            bytes = vec![0; 4];
        }
        if bytes.len() < (rows + 1) * 4 {
            return damaged(format!("column {name}: {} bytes of offsets for {rows} rows", bytes.len()));
        }
        let offsets = Column { bytes, number: PhantomData };
        for row in 0..rows {
            let (start, end) = span(&offsets, row);
            match end.checked_sub(start) {
                Some(length) if length > limit.0 => {
                    return Err(Fault::TooLarge(limit.1, length as u64, limit.0 as u64));
                }
                Some(_) => {}
                None => return damaged(format!("column {name}: its offsets go backwards")),
            }
        }
        match offsets.get(rows) {
            end if end > i32::MAX as u32 => damaged(format!("column {name}: its offsets go backwards")),
            end => Ok((offsets, end as usize)),
        }
    }

    fn texts(&mut self, name: &'static str, rows: usize, nulls: bool, limit: Limit) -> Result<Texts, Fault> {
        self.validity(name, rows, nulls)?;
        let (offsets, used) = self.offsets(name, rows, limit)?;
        let mut data = self.buffer(name)?;
        if used > data.len() {
            return damaged(format!("column {name}: {} bytes where its offsets reach {used}", data.len()));
        }
        data.truncate(used);
        match String::from_utf8(data) {
            Ok(data) if (0..=rows).all(|i| data.is_char_boundary(offsets.get(i) as usize)) => {
                Ok(Texts { len: rows, offsets, data })
            }
            _ => damaged(format!("column {name}: text that is not UTF-8")),
        }
    }

    /// Takes a column whose words come from a fixed list.
    fn words<T>(&mut self, name: &'static str, rows: usize, parse: fn(&str) -> Option<T>) -> Result<Vec<T>, Fault> {
        let texts = self.texts(name, rows, false, ANY)?;
        let word =
            |word| parse(word).ok_or_else(|| Fault::Damaged(format!("column {name}: no such word: `{}`", shown(word))));
        let mut words = Vec::with_capacity(rows);
        for text in texts.iter() {
            words.push(word(text)?);
        }
        Ok(words)
    }

    /// Takes the offsets of a list column. Returns them and the number of structs, whose fields
    /// come next.
    fn list(&mut self, name: &'static str, rows: usize, limit: Limit) -> Result<(Column<u32>, usize), Fault> {
        self.validity(name, rows, false)?;
        let (offsets, count) = self.offsets(name, rows, limit)?;
        self.validity(name, count, false)?;
        Ok((offsets, count))
    }

    fn later(&mut self, rows: usize) -> Result<Later, Fault> {
        Ok(Later {
            ip: self.nullable("ip", rows, true)?,
            resident: [self.nullable("resident_private", rows, true)?, self.nullable("resident_files", rows, true)?],
            changes: [
                self.nullable("resident_private_change", rows, true)?,
                self.nullable("resident_files_change", rows, true)?,
            ],
        })
    }

    fn areas(&mut self, count: usize) -> Result<Areas, Fault> {
        let bounds: [Column<u64>; 2] = [self.numbers("areas.start", count)?, self.numbers("areas.end", count)?];
        let bound = |i| (bounds[0].get(i), bounds[1].get(i));
        if let Some((start, end)) = (0..count).map(bound).find(|(start, end)| start >= end) {
            return damaged(format!("an area that starts at {start:#x} and ends at {end:#x}"));
        }
        Ok(Areas {
            bounds,
            perms: self.words("areas.perms", count, perms_from)?,
            offset: self.numbers("areas.offset", count)?,
            dev: [self.numbers("areas.dev_major", count)?, self.numbers("areas.dev_minor", count)?],
            inode: self.numbers("areas.inode", count)?,
            name: self.texts("areas.name", count, false, (MAX_NAME_BYTES, "bytes of an area's name"))?,
            apart: self.texts("areas.apart", count, false, (MAX_NAME_BYTES, "bytes of an area's reasons"))?,
        })
    }
}

/// Decompresses a buffer that claims to have `length` bytes.
fn decompress(name: &str, stored: &[u8], length: u64) -> Result<Vec<u8>, Fault> {
    // LZ4 expands a byte to at most 255, so a claim reserves no more than the stored bytes can
    // become.
    let most = (stored.len() as u64).saturating_mul(255).min(length);
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(most as usize + 1).map_err(|_| Fault::Io(io::ErrorKind::OutOfMemory.into()))?;
    let read = FrameDecoder::new(stored).take(length + 1).read_to_end(&mut bytes);
    match read {
        Ok(got) if got as u64 == length => Ok(bytes),
        Ok(_) => damaged(format!("column {name}: does not decompress to the {length} bytes that it claims")),
        Err(error) => damaged(format!("column {name}: {error}")),
    }
}
