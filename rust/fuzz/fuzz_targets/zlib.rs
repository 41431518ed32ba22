//! Fuzzes the decoder of zlib.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::CodecSpec;

fuzz_target!(|data: &[u8]| tessarr_fuzz::decode(CodecSpec::Zlib { level: 1 }, data));
