//! Reverse maps of files: which areas of which spaces map a range of a file.
