//! Fuzzes the decoder of blosc, most of whose inputs have the right size in the header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::Config;

fuzz_target!(|data: &[u8]| {
    let spec = Config::new("blosc").with("cname", "lz4").with("clevel", 5).with("shuffle", 1).with("typesize", 4).with("blocksize", 0);
    let mut data = data.to_vec();
    let whole = data.len().saturating_sub(2) as u32;
    if data.first().is_some_and(|byte| byte % 8 != 0) {
        if let Some(field) = data.get_mut(14..18) {
            field.copy_from_slice(&whole.to_le_bytes());
        }
    }
    tessarr_fuzz::decode(spec, &data);
});
