//! Rows of a Parquet file, in batches of bounded size. Knows nothing of what the columns mean.

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::output_file::Output;

/// Rows of a batch, and of a row group; and bytes of text in a batch, and of a row group in memory.
const ROWS: usize = 8192;
const GROUP_ROWS: usize = 1 << 18;
const TEXT: usize = 4 << 20;
const GROUP_BYTES: usize = 32 << 20;

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

    /// So many nanoseconds after a time since 1970, which is 0 if it is not known.
    pub(super) fn time(began_ns: u64, ns: u64) -> Self {
        let us = began_ns.saturating_add(ns) / 1000;
        Cell::Time((began_ns > 0).then(|| i64::try_from(us).unwrap_or(i64::MAX)))
    }
}

enum Column {
    Int(Int64Builder),
    Word(UInt64Builder),
    Bool(BooleanBuilder),
    Text(StringBuilder),
    Time(TimestampMicrosecondBuilder),
}

impl Column {
    fn new(kind: Kind) -> Column {
        match kind {
            Kind::Int => Column::Int(Int64Builder::new()),
            Kind::Word => Column::Word(UInt64Builder::new()),
            Kind::Bool => Column::Bool(BooleanBuilder::new()),
            Kind::Text => Column::Text(StringBuilder::new()),
            Kind::Time => Column::Time(TimestampMicrosecondBuilder::new().with_timezone("UTC")),
        }
    }

    /// Adds a value, and returns how many bytes its text has.
    fn add(&mut self, cell: Cell<'_>) -> usize {
        match (self, cell) {
            (Column::Int(all), Cell::Int(value)) => all.append_option(value),
            (Column::Word(all), Cell::Word(value)) => all.append_value(value),
            (Column::Bool(all), Cell::Bool(value)) => all.append_value(value),
            (Column::Time(all), Cell::Time(value)) => all.append_option(value),
            (Column::Text(all), Cell::Text(value)) => {
                all.append_option(value);
                return value.map_or(0, str::len);
            }
            // The tables of columns and the rows are in one file, and a test writes all of them.
            _ => {}
        }
        0
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Column::Int(all) => Arc::new(all.finish()),
            Column::Word(all) => Arc::new(all.finish()),
            Column::Bool(all) => Arc::new(all.finish()),
            Column::Text(all) => Arc::new(all.finish()),
            Column::Time(all) => Arc::new(all.finish()),
        }
    }
}

/// A file of rows.
pub(super) struct Table {
    schema: SchemaRef,
    columns: Vec<Column>,
    rows: usize,
    text: usize,
    writer: ArrowWriter<Output>,
}

impl Table {
    pub(super) fn create(path: &Path, columns: &[(&str, Kind)]) -> io::Result<Table> {
        let field = |(name, kind): &(&str, Kind)| {
            let kind = match kind {
                Kind::Int => DataType::Int64,
                Kind::Word => DataType::UInt64,
                Kind::Bool => DataType::Boolean,
                Kind::Text => DataType::Utf8,
                Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            };
            Field::new(*name, kind, true)
        };
        let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
        let how = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .build();
        let writer = ArrowWriter::try_new(Output::create(path)?, Arc::clone(&schema), Some(how)).map_err(failed)?;
        let columns = columns.iter().map(|(_, kind)| Column::new(*kind)).collect();
        Ok(Table { schema, columns, rows: 0, text: 0, writer })
    }

    pub(super) fn row<'a>(&mut self, cells: impl IntoIterator<Item = Cell<'a>>) -> io::Result<()> {
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            self.text += column.add(cell);
        }
        self.rows += 1;
        if self.rows >= ROWS || self.text >= TEXT { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let arrays = self.columns.iter_mut().map(Column::finish).collect();
        (self.rows, self.text) = (0, 0);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(io::Error::other)?;
        self.writer.write(&batch).map_err(failed)?;
        if self.writer.in_progress_size() > GROUP_BYTES { self.writer.flush().map_err(failed) } else { Ok(()) }
    }

    /// Writes the rest. The file appears when the output is finished.
    pub(super) fn close(mut self) -> io::Result<Output> {
        self.flush()?;
        let mut output = self.writer.into_inner().map_err(failed)?;
        output.flush()?;
        Ok(output)
    }
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
