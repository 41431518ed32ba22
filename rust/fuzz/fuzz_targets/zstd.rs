//! Fuzzes the decoder of zstd.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tessarr_engine::codec::CodecSpec;

fuzz_target!(|data: &[u8]| tessarr_fuzz::decode(CodecSpec::Zstd { level: 1, checksum: true }, data));
