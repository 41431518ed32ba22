//! Fuzzes the decoder of crc32.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| {
    let spec = Config::new("crc32").with("at_start", true);
    tessarr_fuzz::decode(spec, data);
});
