//! Compares the engine's Blosc with c-blosc on one thread: sizes, and ratios of times.
//!
//! c-blosc's crate disables AVX2 by default; for a fair comparison: `CFLAGS="-mavx2
//! -DSHUFFLE_AVX2_ENABLED=1" cargo run --release --example blosc_speed`.
#![allow(clippy::unwrap_used)]

use std::ffi::CString;
use std::time::{Duration, Instant};

use tessarr_engine::codec::{Config, Context};

/// Smooth values with some noise in the low bits, `typesize` bytes each.
fn values(typesize: usize, bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut noise = move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        f64::from(state >> 24) / 256.0
    };
    let value = |i: usize| (i as f64 / 500.0).sin() * 1000.0 + 2000.0;
    (0..bytes / typesize)
        .flat_map(|i| match typesize {
            1 => ((value(i) / 16.0 + noise() * 2.0) as u8).to_le_bytes().to_vec(),
            2 => ((value(i) + noise() * 16.0) as u16).to_le_bytes().to_vec(),
            4 => ((value(i) + noise() / 64.0) as f32).to_le_bytes().to_vec(),
            _ => ((value(i) * 64.0) as i64).to_le_bytes().repeat(typesize / 8),
        })
        .collect()
}

/// The minimum times of several runs of each, in alternation.
fn minimum_times(mut ours: impl FnMut(), mut theirs: impl FnMut()) -> (Duration, Duration) {
    let until = Instant::now() + Duration::from_millis(300);
    let mut best = (Duration::MAX, Duration::MAX);
    while Instant::now() < until || best.0 == Duration::MAX {
        let start = Instant::now();
        ours();
        best.0 = best.0.min(start.elapsed());
        let start = Instant::now();
        theirs();
        best.1 = best.1.min(start.elapsed());
    }
    best
}

fn compare(cname: &str, clevel: i32, shuffle: i32, typesize: usize, bytes: usize) {
    let data = values(typesize, bytes);
    let bytes = data.len();
    let codec = Config::new("blosc")
        .with("cname", cname)
        .with("clevel", i64::from(clevel))
        .with("shuffle", i64::from(shuffle))
        .with("typesize", typesize as i64)
        .with("blocksize", 0);
    let codec = codec.compile().unwrap();
    let context = &mut Context::default();
    let mut ours = Vec::new();
    let name = CString::new(cname).unwrap();
    let mut theirs = vec![0u8; bytes + 16];
    let mut size = 0;
    let (our_encode, their_encode) = minimum_times(
        || {
            ours.clear();
            codec.encode(&data, &mut ours, context).unwrap();
        },
        || {
            let (from, to) = (data.as_ptr().cast(), theirs.as_mut_ptr().cast());
            let (room, name) = (theirs.len(), name.as_ptr());
            // SAFETY: the pointers are valid for their lengths.
            size = unsafe {
                blosc_src::blosc_compress_ctx(clevel, shuffle, typesize, bytes, from, to, room, name, 0, 1)
            };
        },
    );
    theirs.truncate(usize::try_from(size).unwrap());
    let mut out = vec![0u8; data.len()];
    let mut other = out.clone();
    let (our_decode, their_decode) = minimum_times(
        || codec.decode_into(&theirs, &mut out, context).unwrap(),
        || {
            let (from, to) = (theirs.as_ptr().cast(), other.as_mut_ptr().cast());
            // SAFETY: the pointers are valid, and the buffer is complete.
            size = unsafe { blosc_src::blosc_decompress_ctx(from, to, bytes, 1) };
        },
    );
    assert!(out == data && other == data);
    let speed = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    println!(
        "{cname:8} {clevel} {shuffle} {typesize:2} {bytes:9}  {:5.2} {:5.2}  {:7.2} {:6.2}  {:7.2} {:6.2}",
        bytes as f64 / theirs.len() as f64,
        ours.len() as f64 / theirs.len() as f64,
        speed(our_encode),
        their_encode.as_secs_f64() / our_encode.as_secs_f64(),
        speed(our_decode),
        their_decode.as_secs_f64() / our_decode.as_secs_f64(),
    );
}

fn main() {
    println!("                                ratio  size   encode  times  decode  times");
    println!("cname    level shuffle type bytes     ours/c    GB/s  faster    GB/s  faster");
    for bytes in [8 << 10, 256 << 10, 4 << 20] {
        for (typesize, shuffle) in
            [(1, 0), (2, 1), (4, 1), (8, 1), (16, 1), (1, 2), (2, 2), (4, 2), (8, 2), (16, 2)]
        {
            compare("lz4", 5, shuffle, typesize, bytes);
        }
        compare("lz4", 5, 1, 24, bytes);
        compare("lz4", 5, 2, 24, bytes);
        compare("lz4", 0, 1, 4, bytes);
        compare("lz4", 9, 1, 2, bytes);
        compare("lz4hc", 5, 1, 4, bytes);
        compare("blosclz", 5, 1, 4, bytes);
        compare("blosclz", 9, 1, 4, bytes);
        compare("blosclz", 5, 1, 2, bytes);
        compare("blosclz", 5, 2, 8, bytes);
        compare("zlib", 1, 1, 4, bytes);
        compare("zlib", 5, 1, 4, bytes);
        compare("zstd", 1, 1, 4, bytes);
        compare("zstd", 5, 2, 2, bytes);
    }
}
