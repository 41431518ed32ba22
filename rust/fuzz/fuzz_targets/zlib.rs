//! Fuzzes the decoder of zlib.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| tessarr_fuzz::decode(Config::new("zlib").with("level", 1), data));
