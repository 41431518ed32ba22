//! Fuzzes the decoder of crc32c.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| tessarr_fuzz::decode(Config::new("crc32c").with("at_start", false), data));
