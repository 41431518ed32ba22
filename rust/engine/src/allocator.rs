//! The allocator: memory of large values is kept for whoever asks for as much next.
//!
//! Chunks of an array are equally large, and a value is replaced by one that was made before it is
//! gone. What becomes free then lies at the end of the heap more often than not, and `malloc` hands it
//! back to the system; the next chunk gets it as pages that the kernel clears one by one when they
//! are touched, which takes longer than to copy the chunk there.

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// Smaller blocks are the system's allocator's alone.
const LEAST_BYTES: usize = 64 << 10;

/// Larger ones, too.
const MOST_BYTES: usize = 16 << 20;

/// So many bytes are kept at most.
const KEPT_BYTES: usize = 64 << 20;

/// So many sizes are kept at most.
const SIZES: usize = 8;

/// Blocks of a size that nobody asked for, nor gave back, while so many others were, are not kept on.
const IDLE: u64 = 1 << 10;

/// The system's allocator, and before it a shelf for large blocks.
pub struct Allocator(Mutex<Shelf>);

struct Shelf {
    kinds: [Kind; SIZES],
    bytes: usize,
    /// How often something was put here, or taken.
    turns: u64,
}

/// Blocks that are alike.
#[derive(Clone, Copy)]
struct Kind {
    layout: Layout,
    first: Option<NonNull<Free>>,
    count: usize,
    /// When one was put here, or taken.
    used: u64,
}

/// What stands in a block that nobody has.
struct Free {
    next: Option<NonNull<Free>>,
}

// SAFETY: blocks on the shelf are nobody else's.
unsafe impl Send for Shelf {}

const NO_KIND: Kind = Kind { layout: Layout::new::<()>(), first: None, count: 0, used: 0 };

impl Kind {
    fn pop(&mut self) -> Option<NonNull<Free>> {
        let block = self.first?;
        // SAFETY: it was written when it was put here.
        self.first = unsafe { block.read() }.next;
        self.count -= 1;
        Some(block)
    }

    /// # Safety
    /// It came from the system's allocator by this layout, and is nobody's; it has room for [`Free`].
    unsafe fn push(&mut self, block: NonNull<Free>) {
        // SAFETY: the caller's promise.
        unsafe { block.write(Free { next: self.first }) };
        self.first = Some(block);
        self.count += 1;
    }

    /// Hand all of them back to the system's allocator.
    fn free(mut self) {
        while let Some(block) = self.pop() {
            // SAFETY: it came from there by this layout, and is nobody's.
            unsafe { System.dealloc(block.as_ptr().cast(), self.layout) };
        }
    }
}

impl Shelf {
    fn take(&mut self, layout: Layout) -> Option<NonNull<Free>> {
        let kind = self.kinds.iter_mut().find(|kind| kind.layout == layout)?;
        let block = kind.pop()?;
        self.turns += 1;
        self.bytes -= layout.size();
        kind.used = self.turns;
        Some(block)
    }

    fn has_room(&self, layout: Layout) -> bool {
        self.bytes + layout.size() <= KEPT_BYTES
    }

    /// Where blocks like this one are, or may be.
    fn place(&mut self, layout: Layout) -> Option<&mut Kind> {
        let alike = self.kinds.iter().position(|kind| kind.layout == layout);
        let place = alike.or_else(|| self.kinds.iter().position(|kind| kind.count == 0))?;
        Some(&mut self.kinds[place])
    }

    /// Let go of the blocks of another size that were not asked for the longest time, where a block
    /// needs their room or nobody will ask for them; who calls frees them.
    fn make_room(&mut self, layout: Layout) -> Kind {
        let needed = !self.has_room(layout) || self.place(layout).is_none();
        let others = self.kinds.iter_mut().filter(|kind| kind.count > 0 && kind.layout != layout);
        match others.min_by_key(|kind| kind.used) {
            Some(oldest) if needed || self.turns - oldest.used > IDLE => {
                let gone = std::mem::replace(oldest, NO_KIND);
                self.bytes -= gone.count * gone.layout.size();
                gone
            }
            _ => NO_KIND,
        }
    }

    /// False: there is no room.
    ///
    /// # Safety
    /// It came from the system's allocator by this layout, and is nobody's; it has room for [`Free`].
    unsafe fn put(&mut self, block: NonNull<Free>, layout: Layout) -> bool {
        let turn = self.turns + 1;
        let kind = match self.has_room(layout) {
            true => self.place(layout),
            false => None,
        };
        let Some(kind) = kind else { return false };
        (kind.layout, kind.used) = (layout, turn);
        // SAFETY: the caller's promise.
        unsafe { kind.push(block) };
        self.turns = turn;
        self.bytes += layout.size();
        true
    }
}

/// Whether blocks of this layout are kept.
fn is_large(layout: Layout) -> bool {
    (LEAST_BYTES..=MOST_BYTES).contains(&layout.size()) && layout.align() <= align_of::<Free>()
}

impl Allocator {
    /// With nothing on its shelf.
    pub const fn new() -> Allocator {
        Allocator(Mutex::new(Shelf { kinds: [NO_KIND; SIZES], bytes: 0, turns: 0 }))
    }

    /// The shelf, if nobody else is there. Nobody waits for it: so a child that was forked while
    /// another thread was there does without.
    fn shelf(&self) -> Option<MutexGuard<'_, Shelf>> {
        match self.0.try_lock() {
            Ok(shelf) => Some(shelf),
            Err(TryLockError::Poisoned(shelf)) => Some(shelf.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn take(&self, layout: Layout) -> Option<NonNull<Free>> {
        if !is_large(layout) {
            return None;
        }
        self.shelf()?.take(layout)
    }

    /// False: it is not kept.
    ///
    /// # Safety
    /// As for [`Shelf::put`].
    unsafe fn put(&self, block: *mut u8, layout: Layout) -> bool {
        if !is_large(layout) {
            return false;
        }
        let (Some(mut shelf), Some(block)) = (self.shelf(), NonNull::new(block.cast())) else { return false };
        let gone = shelf.make_room(layout);
        // SAFETY: the caller's promise; such a block is large enough, and aligned.
        let kept = unsafe { shelf.put(block, layout) };
        drop(shelf);
        gone.free();
        kept
    }
}

impl Default for Allocator {
    fn default() -> Self {
        Allocator::new()
    }
}

// SAFETY: all memory is the system's allocator's, and goes back there by the layout that it came with;
// blocks on the shelf are nobody's, and are given once.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match self.take(layout) {
            Some(block) => block.as_ptr().cast(),
            // SAFETY: the caller's promise.
            None => unsafe { System.alloc(layout) },
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe {
            if !self.put(block, layout) {
                System.dealloc(block, layout);
            }
        }
    }

    /// None of the shelf: pages that nobody touches stay the kernel's.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    /// None of the shelf: the system's allocator may move pages, and not what stands on them.
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise; the block is the system's allocator's.
        unsafe { System.realloc(block, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(size: usize) -> Layout {
        Layout::array::<u8>(size).unwrap_or(Layout::new::<u8>())
    }

    /// So many blocks of this size, written.
    fn blocks(allocator: &Allocator, size: usize, count: usize) -> Vec<*mut u8> {
        // SAFETY: the size is not 0, and the block is as large.
        let one = |_| unsafe {
            let block = allocator.alloc(bytes(size));
            assert!(!block.is_null());
            block.write_bytes(7, size);
            block
        };
        (0..count).map(one).collect()
    }

    fn free(allocator: &Allocator, size: usize, blocks: &[*mut u8]) {
        // SAFETY: each was given by the same layout, and is freed once.
        blocks.iter().for_each(|&block| unsafe { allocator.dealloc(block, bytes(size)) });
    }

    fn kept(allocator: &Allocator) -> usize {
        allocator.shelf().map_or(usize::MAX, |shelf| shelf.bytes)
    }

    #[test]
    fn a_block_is_given_to_who_asks_for_as_much_next() {
        let allocator = Allocator::new();
        let size = LEAST_BYTES + 8;
        let first = blocks(&allocator, size, 3);
        free(&allocator, size, &first);
        assert_eq!(kept(&allocator), 3 * size);
        let other = blocks(&allocator, size + 8, 1);
        assert!(!first.contains(&other[0]));
        let mut again = blocks(&allocator, size, 3);
        again.reverse();
        assert_eq!((again, kept(&allocator)), (first.clone(), 0));
        free(&allocator, size, &first);
        free(&allocator, size + 8, &other);
        assert_eq!(kept(&allocator), 4 * size + 8);
    }

    #[test]
    fn small_and_huge_blocks_are_not_kept() {
        let allocator = Allocator::new();
        for size in [1, LEAST_BYTES - 1, MOST_BYTES + 1] {
            free(&allocator, size, &blocks(&allocator, size, 1));
            assert_eq!(kept(&allocator), 0);
        }
    }

    #[test]
    fn no_more_is_kept_than_may_be_and_the_oldest_makes_way() {
        let allocator = Allocator::new();
        let many = KEPT_BYTES / MOST_BYTES;
        free(&allocator, LEAST_BYTES, &blocks(&allocator, LEAST_BYTES, 1));
        free(&allocator, MOST_BYTES, &blocks(&allocator, MOST_BYTES, many + 2));
        assert_eq!(kept(&allocator), many * MOST_BYTES);
        for more in 1..2 * SIZES {
            free(&allocator, LEAST_BYTES + more, &blocks(&allocator, LEAST_BYTES + more, 1));
        }
        let sizes = (SIZES..2 * SIZES).map(|more| LEAST_BYTES + more);
        assert_eq!(kept(&allocator), sizes.sum::<usize>());
    }

    #[test]
    fn what_nobody_asks_for_is_not_kept_for_ever() {
        let allocator = Allocator::new();
        free(&allocator, MOST_BYTES, &blocks(&allocator, MOST_BYTES, 1));
        for _ in 0..IDLE {
            free(&allocator, LEAST_BYTES, &blocks(&allocator, LEAST_BYTES, 1));
        }
        assert_eq!(kept(&allocator), LEAST_BYTES);
    }

    #[test]
    fn blocks_grow_and_shrink_with_what_stands_in_them() {
        let allocator = Allocator::new();
        let sizes = [10, LEAST_BYTES, LEAST_BYTES + 1, MOST_BYTES, MOST_BYTES + 9, LEAST_BYTES, 10];
        // SAFETY: it is asked for with the size that it has, which is not 0.
        unsafe {
            let mut block = allocator.alloc(bytes(sizes[0]));
            (0..10).for_each(|at| block.add(at).write(at as u8));
            for pair in sizes.windows(2) {
                block = allocator.realloc(block, bytes(pair[0]), pair[1]);
                assert!((0..10).all(|at| block.add(at).read() == at as u8));
            }
            allocator.dealloc(block, bytes(10));
        }
    }

    #[test]
    fn what_is_to_be_cleared_is() {
        let allocator = Allocator::new();
        free(&allocator, LEAST_BYTES, &blocks(&allocator, LEAST_BYTES, 1));
        // SAFETY: it has a size, and is as large.
        unsafe {
            let block = allocator.alloc_zeroed(bytes(LEAST_BYTES));
            assert!(std::slice::from_raw_parts(block, LEAST_BYTES).iter().all(|&byte| byte == 0));
            allocator.dealloc(block, bytes(LEAST_BYTES));
        }
    }

    #[test]
    fn threads_have_blocks_of_their_own() {
        let allocator = &Allocator::new();
        std::thread::scope(|scope| {
            for mark in 0..8 {
                scope.spawn(move || {
                    for _ in 0..200 {
                        let mine = blocks(allocator, LEAST_BYTES, 3);
                        // SAFETY: the blocks are as large.
                        mine.iter().for_each(|block| unsafe { block.write_bytes(mark, LEAST_BYTES) });
                        std::thread::yield_now();
                        for &block in &mine {
                            // SAFETY: it was written.
                            let found = unsafe { std::slice::from_raw_parts(block, LEAST_BYTES) };
                            assert!(found.iter().all(|&byte| byte == mark));
                        }
                        free(allocator, LEAST_BYTES, &mine);
                    }
                });
            }
        });
        assert!((1..=KEPT_BYTES).contains(&kept(allocator)));
    }

    #[test]
    fn nobody_waits_for_who_is_at_the_shelf() {
        let allocator = Allocator::new();
        let held = allocator.shelf();
        assert!(held.is_some());
        free(&allocator, LEAST_BYTES, &blocks(&allocator, LEAST_BYTES, 1));
        drop(held);
        assert_eq!(kept(&allocator), 0);
    }
}
