//! Fuzzes the decoder of fletcher32.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| {
    let spec = Config::new("fletcher32").with("at_start", false);
    tessarr_fuzz::decode(spec, data);
});
