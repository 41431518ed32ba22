//! Fuzzes the decoder of lz4.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| tessarr_fuzz::decode(Config::new("lz4").with("acceleration", 1), data));
