//! Fuzzes the layout of variable-length elements; the first byte is the number of elements.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| tessarr_fuzz::layout(data));
