//! Fuzzes the decoder of gzip.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| tessarr_fuzz::decode(Config::new("gzip").with("level", 1), data));
