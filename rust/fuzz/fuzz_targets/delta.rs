//! Fuzzes the decoder of delta.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| {
    let spec = Config::new("delta").with("dtype", "<i4").with("astype", "<i2");
    tessarr_fuzz::decode(spec, data);
});
