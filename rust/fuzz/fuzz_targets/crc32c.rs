//! Fuzzes the decoder of crc32c.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::CodecSpec;

fuzz_target!(|data: &[u8]| tessarr_fuzz::decode(CodecSpec::Crc32c, data));
