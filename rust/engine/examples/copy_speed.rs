//! Measures the strided copy and the pool: `cargo run --release --example copy_speed`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use tessarr_engine::copy::{are_valid_bools, copy, fill, is_filled, swap_in_place, Axis, Item};
use tessarr_engine::pool;

/// The time of a clock: the wall clock, or the processor time of the calling thread, which other
/// processes disturb less.
fn now(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the variable is local.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The best time of one call, over short batches within a quarter of a second.
fn best(clock: libc::clockid_t, mut call: impl FnMut()) -> Duration {
    call();
    let once = now(clock);
    call();
    let batch = (300 / (now(clock) - once).as_micros().max(1)).clamp(1, 100_000) as u32;
    let (since, mut best) = (Instant::now(), Duration::MAX);
    while since.elapsed() < Duration::from_millis(250) {
        let start = now(clock);
        (0..batch).for_each(|_| call());
        best = best.min((now(clock) - start) / batch);
    }
    best
}

fn report(name: &str, bytes: usize, call: impl FnMut()) {
    let time = best(libc::CLOCK_THREAD_CPUTIME_ID, call);
    let rate = bytes as f64 / time.as_nanos().max(1) as f64;
    println!("{name:<58} {time:>11.2?} {rate:>8.2} GB/s");
}

fn report_wall(name: &str, call: impl FnMut()) {
    println!("{name:<58} {:>11.2?}", best(libc::CLOCK_MONOTONIC, call));
}

/// C-order strides of `shape`.
fn strides(shape: &[usize], bytes: usize) -> Vec<isize> {
    let mut strides: Vec<isize> =
        shape.iter().rev().scan(bytes, |s, n| Some(std::mem::replace(s, *s * n) as isize)).collect();
    strides.reverse();
    strides
}

fn axes(counts: &[usize], src: &[isize], dst: &[isize]) -> Vec<Axis<'static>> {
    let zipped = counts.iter().zip(src).zip(dst);
    zipped.map(|((&count, &src), &dst)| Axis::Strided { count, src, dst }).collect()
}

/// Time one copy between buffers of these sizes; the rate counts written bytes.
fn case(name: &str, axes: &[Axis<'_>], item: Item, sizes: (usize, usize)) {
    let src = vec![1u8; sizes.0];
    let mut dst = vec![2u8; sizes.1];
    let steps: usize = axes
        .iter()
        .map(|axis| match axis {
            Axis::Strided { count, .. } => *count,
            Axis::List { offsets } => offsets.len(),
        })
        .product();
    report(name, steps * item.bytes, || {
        // SAFETY: the cases below stay inside the buffers.
        unsafe { copy(black_box(src.as_ptr()), black_box(dst.as_mut_ptr()), axes, item) }
    });
}

fn plain(bytes: usize) -> Item {
    Item { bytes, swap: 0 }
}

fn boxes() {
    let chunk = strides(&[128; 3], 2);
    let output = strides(&[256; 3], 2);
    let (chunk_bytes, output_bytes) = (2 << 21, 2 << 24);
    case("memcpy 4 MiB", &axes(&[1 << 21], &[2], &[2]), plain(2), (chunk_bytes, chunk_bytes));
    case("memcpy 128 MiB", &axes(&[1 << 27], &[1], &[1]), plain(1), (1 << 27, 1 << 27));
    case(
        "rows of 256 B, 128^3 u16 into 256^3",
        &axes(&[128; 3], &chunk, &output),
        plain(2),
        (chunk_bytes, output_bytes),
    );
    for n in [64usize, 32, 16, 8, 4] {
        let out = strides(&[n; 3], 2);
        case(
            &format!("crop {n}^3 u16 of 128^3"),
            &axes(&[n; 3], &chunk, &out),
            plain(2),
            (chunk_bytes, 2 * n * n * n),
        );
    }
    let out = strides(&[10; 3], 2);
    case("crop 10^3 u16 of 128^3", &axes(&[10; 3], &chunk, &out), plain(2), (chunk_bytes, 2000));
    case("one item", &[], plain(2), (2, 2));
    for bytes in [1usize, 2, 4, 8] {
        for step in [2isize, 3, 4, -1] {
            let (b, n) = (bytes as isize, (1usize << 20) / bytes / 4);
            let mut place = axes(&[n], &[step * b], &[b]);
            if step < 0 {
                // Reversed in the destination instead: the same copy, from the starts of the
                // buffers.
                place = vec![
                    Axis::List { offsets: Box::leak(Box::new([((n as isize - 1) * b, 0)])) },
                    Axis::Strided { count: n, src: -b, dst: b },
                ];
            }
            case(
                &format!("every {step} of 1 MiB, {bytes}-byte items"),
                &place,
                plain(bytes),
                (1 << 20, 1 << 18),
            );
        }
    }
    let every = axes(&[32; 3], &chunk.iter().map(|s| s * 4).collect::<Vec<_>>(), &strides(&[128; 3], 2));
    case("every 4th in 3-D, 128^3 u16", &every, plain(2), (chunk_bytes, chunk_bytes));
    let every = axes(
        &[128; 3],
        &strides(&[128; 3], 2),
        &strides(&[512, 512, 512], 2).iter().map(|s| s * 4).collect::<Vec<_>>(),
    );
    case("into every 4th in 3-D, 128^3 u16", &every, plain(2), (chunk_bytes, 2 << 27));
}

fn transpositions() {
    for (n, kind) in [(256usize, "cached"), (1000, "odd"), (4096, "large")] {
        for bytes in [1usize, 2, 3, 4, 8, 12, 16] {
            let (b, row) = (bytes as isize, (n * bytes) as isize);
            let place = axes(&[n, n], &[b, row], &[row, b]);
            let size = n * n * bytes;
            case(
                &format!("transpose {n}x{n} ({kind}), {bytes}-byte items"),
                &place,
                plain(bytes),
                (size, size),
            );
        }
    }
    for (n, out) in [(128usize, 128usize), (128, 512), (256, 256)] {
        for (bytes, swap) in [(1usize, 0), (2, 0), (2, 2), (4, 0), (4, 4), (8, 0), (8, 8), (16, 8)] {
            let mut src = strides(&[n; 3], bytes);
            src.reverse();
            let place = axes(&[n; 3], &src, &strides(&[out; 3], bytes));
            let span = (out * out * (n - 1) + out * (n - 1) + n) * bytes;
            let item = Item { bytes, swap };
            case(
                &format!("F order {n}^3 into {out}^3, {bytes} B, swap {swap}"),
                &place,
                item,
                (n * n * n * bytes, span),
            );
        }
    }
    let place = axes(&[1000, 1000, 3], &[3000, 3, 1], &[1000, 1, 1_000_000]);
    case("channels last to first, 1000x1000x3 u8", &place, plain(1), (3_000_000, 3_000_000));
    let place = axes(&[3, 1000, 1000], &[1_000_000, 1000, 1], &[1, 3000, 3]);
    case("channels first to last, 3x1000x1000 u8", &place, plain(1), (3_000_000, 3_000_000));
    let place = axes(&[8, 8, 8], &[2, 256, 32768], &[128, 16, 2]);
    case("F order crop 8^3 u16 of 128^3", &place, plain(2), (2 << 21, 1024));
}

fn swaps_and_scans() {
    for unit in [2usize, 4, 8] {
        let n = (4 << 20) / unit;
        let place = axes(&[n], &[unit as isize], &[unit as isize]);
        case(&format!("swap {unit}, 4 MiB"), &place, Item { bytes: unit, swap: unit }, (4 << 20, 4 << 20));
        let mut data = vec![1u8; 4 << 20];
        report(&format!("swap {unit} in place, 4 MiB"), 4 << 20, || {
            swap_in_place(black_box(&mut data), unit)
        });
    }
    let mut data = vec![0u8; 4 << 20];
    for value in [&[0u8, 0][..], &[1, 2], &[1, 2, 3], &[1, 2, 3, 4, 5, 6, 7, 8]] {
        let b = value.len();
        let place = axes(&[(4 << 20) / b], &[0], &[b as isize]);
        report(&format!("fill 4 MiB with {value:?}"), 4 << 20, || {
            // SAFETY: inside the buffer.
            unsafe { fill(black_box(data.as_mut_ptr()), &place, value) }
        });
    }
    let data = vec![0u8; 4 << 20];
    report("is_filled 4 MiB, 2-byte items", 4 << 20, || assert!(is_filled(black_box(&data), &[0, 0])));
    report("is_filled 32 KiB, 2-byte items", 1 << 15, || {
        assert!(is_filled(black_box(&data[..1 << 15]), &[0, 0]))
    });
    report("are_valid_bools 4 MiB", 4 << 20, || assert!(are_valid_bools(black_box(&data))));
    report("are_valid_bools 32 KiB", 1 << 15, || assert!(are_valid_bools(black_box(&data[..1 << 15]))));
}

fn points() {
    for (name, span) in [("4 MiB", 4usize << 20), ("256 MiB", 256 << 20)] {
        let place = |i: usize| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (span / 2) * 2;
        let offsets: Vec<(isize, isize)> = (0..10_000).map(|i| (place(i) as isize, 2 * i as isize)).collect();
        case(
            &format!("10 000 points u16 in {name}"),
            &[Axis::List { offsets: &offsets }],
            plain(2),
            (span, 20_000),
        );
        let spread: Vec<(isize, isize)> =
            (0..1_000_000).map(|i| (place(i) as isize, 2 * i as isize)).collect();
        case(
            &format!("1 000 000 points u16 in {name}"),
            &[Axis::List { offsets: &spread }],
            plain(2),
            (span, 2_000_000),
        );
    }
    let list: Vec<(isize, isize)> = (0..50).map(|i| (i * 7 % 128 * 2, i * 2)).collect();
    let outer = [Axis::Strided { count: 128, src: 256, dst: 100 }, Axis::List { offsets: &list }];
    case("outer: 50 of 128 columns, 128 rows, u16", &outer, plain(2), (32768, 12800));
    let list: Vec<(isize, isize)> = (0..50).map(|i| (i * 7 % 128 * 256, i * 256)).collect();
    let outer = [Axis::List { offsets: &list }, Axis::Strided { count: 128, src: 2, dst: 2 }];
    case("outer: 50 of 128 rows, 128 columns, u16", &outer, plain(2), (32768, 12800));
}

fn jobs() {
    for tasks in [1usize, 2, 16, 1000] {
        report_wall(&format!("parallel_for, {tasks} empty tasks"), || {
            assert!(pool::parallel_for(tasks, usize::MAX, None, &|_| Ok(())).is_ok());
        });
    }
    let busy = |_| {
        let since = Instant::now();
        while since.elapsed() < Duration::from_micros(50) {}
        Ok(())
    };
    report_wall("parallel_for, 2 tasks of 50 µs", || {
        assert!(pool::parallel_for(2, usize::MAX, None, &busy).is_ok());
    });
    report_wall("parallel_for, 20 tasks of 50 µs", || {
        assert!(pool::parallel_for(20, usize::MAX, None, &busy).is_ok());
    });
    let (sender, receiver) = std::sync::mpsc::channel();
    report_wall("spawn and hear back", || {
        let sender = sender.clone();
        pool::spawn(0, move |_| assert!(sender.send(()).is_ok()));
        assert!(receiver.recv().is_ok());
    });
}

fn main() {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    type Group = (&'static str, fn());
    let groups: [Group; 5] = [
        ("boxes", boxes),
        ("transpositions", transpositions),
        ("swaps", swaps_and_scans),
        ("points", points),
        ("jobs", jobs),
    ];
    groups.into_iter().filter(|(name, _)| name.contains(&wanted)).for_each(|(_, group)| group());
}
