//! Measures copies, codecs and reductions: `cargo run --release --example kernel_speed [GROUP]`.
#![allow(clippy::unwrap_used)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tessarr_engine::codec::{Config, Context};
use tessarr_engine::copy::{copy, fill, swap_in_place, Axis, Item};
use tessarr_engine::reduce::{reduce, AxisBlocks, Method, StridedArray};

/// The processor time of this thread, which other processes disturb less than the wall clock.
fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the variable is local.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Print the best time of one call, over short batches within a quarter of a second.
fn report(name: &str, bytes: usize, mut call: impl FnMut()) {
    call();
    let once = now();
    call();
    let batch = (300 / (now() - once).as_micros().max(1)).clamp(1, 100_000) as u32;
    let (since, mut best) = (Instant::now(), Duration::MAX);
    while since.elapsed() < Duration::from_millis(250) {
        let start = now();
        (0..batch).for_each(|_| call());
        best = best.min((now() - start) / batch);
    }
    println!("{name:<50} {best:>11.2?} {:>8.2} GB/s", bytes as f64 / best.as_nanos().max(1) as f64);
}

/// Deterministic noise over a smooth curve, as 16-bit numbers.
fn values(bytes: usize) -> Vec<u8> {
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 28
    };
    let value = |i: usize| ((i as f64 / 500.0).sin() * 1000.0) as u32 + 2000 + noise();
    (0..bytes / 2).map(value).flat_map(|value| (value as u16).to_le_bytes()).collect()
}

/// Measure a strided copy: item size, byte-swap unit, and for each axis the count and both strides.
fn copy_case(name: &str, bytes: usize, swap: usize, dims: &[(usize, isize, isize)]) {
    let span = |stride: fn(&(usize, isize, isize)) -> isize| {
        dims.iter().map(|dim| (dim.0 - 1) * stride(dim) as usize).sum::<usize>() + bytes
    };
    let (src, mut dst) = (vec![1u8; span(|dim| dim.1)], vec![0u8; span(|dim| dim.2)]);
    let axes: Vec<Axis<'_>> =
        dims.iter().map(|&(count, src, dst)| Axis::Strided { count, src, dst }).collect();
    report(name, bytes * dims.iter().map(|dim| dim.0).product::<usize>(), || {
        // SAFETY: the buffers contain all steps.
        unsafe { copy(black_box(src.as_ptr()), black_box(dst.as_mut_ptr()), &axes, Item { bytes, swap }) }
    });
}

fn copies() {
    copy_case("one item of 2 B", 2, 0, &[]);
    copy_case("4 MiB", 2, 0, &[(2 << 20, 2, 2)]);
    copy_case("rows of 256 B", 2, 0, &[(128, 32_768, 131_072), (128, 256, 512), (128, 2, 2)]);
    copy_case("crop of 10^3 u16", 2, 0, &[(10, 32_768, 200), (10, 256, 20), (10, 2, 2)]);
    for step in 2..6 {
        copy_case(&format!("every {step}. u16"), 2, 0, &[(1 << 17, 2 * step, 2)]);
    }
    for bytes in [1, 2, 3, 4, 8, 16] {
        let (item, row) = (bytes as isize, 1000 * bytes as isize);
        let dims = [(1000, item, row), (1000, row, item)];
        copy_case(&format!("transposition of 1000^2, {bytes} B"), bytes, 0, &dims);
    }
    for (bytes, swap) in [(1, 0), (2, 0), (2, 2), (4, 0), (8, 8)] {
        let strides = [1, 128, 16_384].map(|stride: isize| stride * bytes as isize);
        let dims = [0, 1, 2].map(|axis| (128, strides[axis], strides[2 - axis]));
        copy_case(&format!("F to C order of 128^3, {bytes} B, swap {swap}"), bytes, swap, &dims);
    }
    copy_case("channels last to first", 1, 0, &[(1000, 3000, 1000), (1000, 3, 1), (3, 1, 1_000_000)]);
    let scattered = |i: usize| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (2 << 20) * 2;
    let offsets: Vec<(isize, isize)> = (0..10_000).map(|i| (scattered(i) as isize, 2 * i as isize)).collect();
    let (src, mut dst) = (vec![1u8; 4 << 20], vec![0u8; 4 << 20]);
    report("10 000 points of 2 B", 20_000, || {
        let item = Item { bytes: 2, swap: 0 };
        // SAFETY: the buffers contain all steps.
        unsafe { copy(black_box(src.as_ptr()), dst.as_mut_ptr(), &[Axis::List { offsets: &offsets }], item) }
    });
    report("fill of 4 MiB", 4 << 20, || {
        let axes = [Axis::Strided { count: 2 << 20, src: 0, dst: 2 }];
        // SAFETY: the buffer contains all steps.
        unsafe { fill(black_box(dst.as_mut_ptr()), &axes, &[1, 2]) }
    });
    report("swap of 4 MiB in place", 4 << 20, || swap_in_place(black_box(&mut dst), 4));
}

fn codecs() {
    for bytes in [8 << 10, 1 << 20] {
        let data = values(bytes);
        for (cname, level, shuffle, typesize) in [
            ("lz4", 5, 1, 2),
            ("lz4", 5, 1, 4),
            ("lz4", 5, 1, 8),
            ("lz4", 5, 1, 16),
            ("lz4", 5, 1, 24),
            ("lz4", 5, 2, 2),
            ("lz4", 5, 2, 8),
            ("blosclz", 5, 1, 2),
            ("zstd", 1, 1, 2),
            ("zlib", 1, 1, 2),
        ] {
            let codec = Config::new("blosc").with("cname", cname).with("clevel", level);
            let codec = codec.with("shuffle", shuffle).with("typesize", typesize).with("blocksize", 0);
            let (codec, context) = (codec.compile().unwrap(), &mut Context::default());
            let (mut encoded, mut decoded) = (Vec::new(), vec![0; data.len()]);
            let name = format!("{cname} {level}, shuffle {shuffle} of {typesize} B, {bytes} B");
            report(&format!("encode {name}"), bytes, || {
                encoded.clear();
                codec.encode(black_box(&data), &mut encoded, context).unwrap();
            });
            report(&format!("decode {name}"), bytes, || {
                codec.decode_into(black_box(&encoded), &mut decoded, context).unwrap();
            });
            assert_eq!(decoded, data);
        }
    }
}

fn reductions() {
    let (source, mut target) = (values(128 << 10), vec![0u8; 16 << 10]);
    let blocks = [AxisBlocks { first: 0, whole: 2, wholes: 20, last: 0 }; 3];
    for kind in ["u1", "i2", "f4", "f8"] {
        let bytes = tessarr_engine::reduce::item_bytes(kind).unwrap() as isize;
        let blocks = if bytes > 2 { [AxisBlocks { wholes: 10, ..blocks[0] }; 3] } else { blocks };
        let side = 2 * blocks[0].wholes as isize;
        let steps = [side * side * bytes, side * bytes, bytes];
        let strides = [side * side / 4 * bytes, side / 2 * bytes, bytes];
        for method in [Method::Mean, Method::Min, Method::Max, Method::Median, Method::Mode] {
            report(&format!("{method:?} of 2^3 {kind}"), (side * side * side * bytes) as usize, || {
                let from = StridedArray { address: source.as_ptr().cast_mut(), strides: &steps };
                let to = StridedArray { address: target.as_mut_ptr(), strides: &strides };
                // SAFETY: the buffers contain all blocks.
                unsafe { reduce(kind, method, &blocks, from, to) }.unwrap();
            });
        }
    }
}

fn main() {
    let group = std::env::args().nth(1).unwrap_or_default();
    let groups: [(&str, fn()); 3] = [("copies", copies), ("codecs", codecs), ("reductions", reductions)];
    groups.into_iter().filter(|(name, _)| name.contains(&group)).for_each(|(_, run)| run());
}
