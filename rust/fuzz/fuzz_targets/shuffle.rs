//! Fuzzes the decoder of shuffle.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| {
    let spec = Config::new("shuffle").with("item_bytes", 4);
    tessarr_fuzz::decode(spec, data);
});
