//! An output that is compressed if its name says so. Does not know the content.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::output_file::Output;

/// An output that is compressed if its name says so.
pub(super) enum Packed {
    Plain(Output),
    Gzip(GzEncoder<Output>),
}

impl Packed {
    pub(super) fn new(output: Output, gzip: bool) -> Packed {
        match gzip {
            true => Packed::Gzip(GzEncoder::new(output, Compression::fast())),
            false => Packed::Plain(output),
        }
    }

    pub(super) fn finish(self) -> io::Result<()> {
        match self {
            Packed::Plain(output) => output.finish(),
            Packed::Gzip(output) => output.finish()?.finish(),
        }
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Packed::Plain(out) => out.write(bytes),
            Packed::Gzip(out) => out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Packed::Plain(out) => out.flush(),
            Packed::Gzip(out) => out.flush(),
        }
    }
}
