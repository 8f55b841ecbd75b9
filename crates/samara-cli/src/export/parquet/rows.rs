//! Rows of a Parquet file, in row groups of bounded size. Does not know the meaning of columns.
//!
//! Uses the columns of the parquet crate and not its Arrow side, which takes longer to build.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use crate::output_file::Output;

/// Rows and bytes of a row group in memory.
const GROUP_ROWS: usize = 1 << 18;
const GROUP_BYTES: usize = 32 << 20;
/// Bytes that a value takes in memory, beside its text.
const CELL: usize = 10;

/// The type of a column.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    /// A number that fits into 63 bits.
    Int,
    /// A number of 64 bits.
    Word,
    Bool,
    Text,
    /// A time of UTC, to the microsecond.
    Time,
}

/// A value of a row.
#[derive(Clone, Copy)]
pub(super) enum Cell<'a> {
    Int(Option<i64>),
    Word(u64),
    Bool(bool),
    Text(Option<&'a str>),
    Time(Option<i64>),
}

impl Cell<'_> {
    pub(super) fn int(number: u64) -> Self {
        Cell::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }

    pub(super) fn maybe(number: Option<u64>) -> Self {
        number.map_or(Cell::Int(None), Cell::int)
    }

    /// `ns` nanoseconds after `began_ns`, which counts from 1970 and is 0 if it is not known.
    pub(super) fn time(began_ns: u64, ns: u64) -> Self {
        let us = began_ns.saturating_add(ns) / 1000;
        Cell::Time((began_ns > 0).then(|| i64::try_from(us).unwrap_or(i64::MAX)))
    }
}

/// The present values of a column, and for each row whether it has one.
struct Column {
    values: Values,
    present: Vec<i16>,
}

enum Values {
    Numbers(Vec<i64>),
    Bools(Vec<bool>),
    /// All text, and where each value ends.
    Text(Vec<u8>, Vec<usize>),
}

impl Column {
    fn new(kind: Kind) -> Column {
        let values = match kind {
            Kind::Int | Kind::Word | Kind::Time => Values::Numbers(Vec::new()),
            Kind::Bool => Values::Bools(Vec::new()),
            Kind::Text => Values::Text(Vec::new(), Vec::new()),
        };
        Column { values, present: Vec::new() }
    }

    /// Adds a value, and returns how many bytes it takes.
    fn add(&mut self, cell: Cell<'_>) -> usize {
        let (mut text, mut present) = (0, true);
        match (&mut self.values, cell) {
            (Values::Numbers(all), Cell::Int(Some(value)) | Cell::Time(Some(value))) => all.push(value),
            // The column's type says that it has no sign.
            (Values::Numbers(all), Cell::Word(value)) => all.push(value.cast_signed()),
            (Values::Bools(all), Cell::Bool(value)) => all.push(value),
            (Values::Text(all, ends), Cell::Text(Some(value))) => {
                all.extend_from_slice(value.as_bytes());
                ends.push(all.len());
                text = value.len();
            }
            // No value; or one of another type, which the tests of each table would see.
            _ => present = false,
        }
        self.present.push(present.into());
        CELL + text
    }

    /// Writes the values, and forgets them.
    fn write(&mut self, to: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let present = std::mem::take(&mut self.present);
        let present = Some(&present[..]);
        match &mut self.values {
            Values::Numbers(all) => {
                to.typed::<Int64Type>().write_batch(all, present, None)?;
                all.clear();
            }
            Values::Bools(all) => {
                to.typed::<BoolType>().write_batch(all, present, None)?;
                all.clear();
            }
            Values::Text(all, ends) => {
                let text = ByteArray::from(std::mem::take(all));
                let starts = std::iter::once(&0).chain(ends.iter());
                let each: Vec<_> =
                    starts.zip(ends.iter()).map(|(start, end)| text.slice(*start, end - start)).collect();
                to.typed::<ByteArrayType>().write_batch(&each, present, None)?;
                ends.clear();
            }
        }
        Ok(())
    }
}

/// A file of rows.
pub(super) struct Table {
    columns: Vec<Column>,
    rows: usize,
    bytes: usize,
    writer: SerializedFileWriter<Output>,
}

impl Table {
    pub(super) fn new(output: Output, columns: &[(&str, Kind)]) -> io::Result<Table> {
        let how = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(output, schema(columns).map_err(failed)?, Arc::new(how));
        let columns = columns.iter().map(|(_, kind)| Column::new(*kind)).collect();
        Ok(Table { columns, rows: 0, bytes: 0, writer: writer.map_err(failed)? })
    }

    pub(super) fn row<'a>(&mut self, cells: impl IntoIterator<Item = Cell<'a>>) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            self.bytes += column.add(cell);
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.bytes >= GROUP_BYTES { self.flush().map_err(failed) } else { Ok(()) }
    }

    /// Writes the rows so far as a row group.
    fn flush(&mut self) -> Result<(), ParquetError> {
        (self.rows, self.bytes) = (0, 0);
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            if let Some(mut to) = group.next_column()? {
                column.write(&mut to)?;
                to.close()?;
            }
        }
        group.close()?;
        Ok(())
    }

    /// Writes the rest. The file appears when the output is finished.
    pub(super) fn close(mut self) -> io::Result<Output> {
        if self.rows > 0 {
            self.flush().map_err(failed)?;
        }
        let mut output = self.writer.into_inner().map_err(failed)?;
        output.flush()?;
        Ok(output)
    }
}

/// The types of the columns: each value may be missing.
fn schema(columns: &[(&str, Kind)]) -> Result<TypePtr, ParquetError> {
    let field = |(name, kind): &(&str, Kind)| {
        let (physical, logical) = match kind {
            Kind::Int => (Physical::INT64, Some(LogicalType::integer(64, true))),
            Kind::Word => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Bool => (Physical::BOOLEAN, None),
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS))),
        };
        let field = Type::primitive_type_builder(name, physical);
        field.with_logical_type(logical).with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_, _>>()?;
    Ok(Arc::new(Type::group_type_builder("row").with_fields(fields).build()?))
}

/// The error of the file, if it is one.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
