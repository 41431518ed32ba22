//! Fuzzes the decoder of jenkins_lookup3.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| {
    let spec = Config::new("jenkins_lookup3").with("at_start", false).with("initval", 0);
    tessarr_fuzz::decode(spec, data);
});
