//! Fuzzes the decoder of zstd.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| tessarr_fuzz::decode(Config::new("zstd").with("level", 1).with("checksum", true), data));
