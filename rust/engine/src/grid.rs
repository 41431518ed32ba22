//! How an axis is cut into cells: all of one length, or in runs of equal ones.
//!
//! The cells of a grid are the products of the cuts of its axes. Runs cost
//! memory for each change of the length and nothing for each cell, so that no
//! metadata, however many cells it tells of, costs more than its own size.

use crate::array::PerAxis;
use crate::error::{Error, Kind, Result};

/// Neighbouring cells of one length; the last run of an axis goes on for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRun {
    /// The index at which its first cell begins.
    pub start: u64,
    /// The number of its first cell.
    pub cell: u64,
    /// The length of each of its cells.
    pub size: u64,
}

impl CellRun {
    /// The number of the cell that holds `index`, which is in this run.
    pub fn cell_of(&self, index: u64) -> u64 {
        self.cell + (index - self.start) / self.size
    }

    /// The index at which `cell`, which is in this run, begins.
    pub fn start_of(&self, cell: u64) -> u64 {
        self.start + (cell - self.cell) * self.size
    }
}

/// How one axis is cut.
#[derive(Clone, Debug)]
pub enum Cuts {
    /// Cells of one length.
    Every(u64),
    /// More than one run, in order, the first from 0.
    Runs(Box<[CellRun]>),
}

impl Cuts {
    /// Cells of the given lengths: (length, how many of it) one after another.
    ///
    /// # Errors
    /// `Kind::Argument` if there is none, a length or number is 0, or the sum exceeds 64 bits.
    pub fn new(lengths: &[(u64, u64)]) -> Result<Cuts> {
        let bad = |what: &str| Error::new(Kind::Argument, format!("an axis of a grid {what}"));
        if let [(size, _)] = *lengths {
            return if size == 0 { Err(bad("has cells of length 0")) } else { Ok(Cuts::Every(size)) };
        }
        let mut runs = Vec::with_capacity(lengths.len());
        let (mut start, mut cell) = (0u64, 0u64);
        for &(size, count) in lengths {
            if size == 0 || count == 0 {
                return Err(bad("has cells of length 0, or none"));
            }
            runs.push(CellRun { start, cell, size });
            let end = size.checked_mul(count).and_then(|length| length.checked_add(start));
            start = end.ok_or_else(|| bad("is longer than 2^64"))?;
            cell += count;
        }
        if runs.is_empty() {
            return Err(bad("has no cells"));
        }
        Ok(Cuts::Runs(runs.into()))
    }

    /// The run that holds `index`.
    pub fn at_index(&self, index: u64) -> CellRun {
        match self {
            Cuts::Every(size) => CellRun { start: 0, cell: 0, size: *size },
            Cuts::Runs(runs) => runs[runs.partition_point(|run| run.start <= index) - 1],
        }
    }

    /// The number of the cell that holds `index`.
    pub fn cell_of(&self, index: u64) -> u64 {
        match self {
            Cuts::Every(size) => index / size,
            Cuts::Runs(_) => self.at_index(index).cell_of(index),
        }
    }

    /// Where `cell` begins, and its length.
    pub fn bounds(&self, cell: u64) -> (u64, u64) {
        match self {
            Cuts::Every(size) => (cell * size, *size),
            Cuts::Runs(runs) => {
                let run = runs[runs.partition_point(|run| run.cell <= cell) - 1];
                (run.start_of(cell), run.size)
            }
        }
    }

    /// The runs that hold indices of `low..=high`, each with the index after its last one.
    pub fn between(&self, low: u64, high: u64) -> impl DoubleEndedIterator<Item = (CellRun, u64)> + '_ {
        let (single, runs): (Option<CellRun>, &[CellRun]) = match self {
            Cuts::Every(size) => (Some(CellRun { start: 0, cell: 0, size: *size }), &[]),
            Cuts::Runs(runs) => (None, runs),
        };
        let first = runs.partition_point(|run| run.start <= low).saturating_sub(1);
        let last = runs.partition_point(|run| run.start <= high);
        let listed =
            (first..last).map(|place| (runs[place], runs.get(place + 1).map_or(u64::MAX, |n| n.start)));
        single.map(|run| (run, u64::MAX)).into_iter().chain(listed)
    }
}

/// Where `cell` of a grid begins, and its shape.
pub fn bounds(cuts: &[Cuts], cell: &[u64]) -> (PerAxis<u64>, PerAxis<u64>) {
    cuts.iter().zip(cell).map(|(cuts, &cell)| cuts.bounds(cell)).unzip()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn cells_and_indices_fit_each_other() {
        let cuts = Cuts::new(&[(3, 2), (1, 1), (5, 3)]).unwrap();
        let expected = [(0, 3), (3, 3), (6, 1), (7, 5), (12, 5), (17, 5), (22, 5)];
        for (cell, &(start, size)) in expected.iter().enumerate() {
            assert_eq!(cuts.bounds(cell as u64), (start, size));
            assert!((start..start + size).all(|index| cuts.cell_of(index) == cell as u64));
        }
        let runs: Vec<(u64, u64)> = cuts.between(4, 7).map(|(run, end)| (run.start, end)).collect();
        assert_eq!(runs, [(0, 6), (6, 7), (7, u64::MAX)]);
        assert_eq!(cuts.between(8, 100).count(), 1);
    }

    #[test]
    fn what_cuts_nothing_is_refused() {
        for lengths in [&[][..], &[(0, 1)], &[(1, 1), (0, 2)], &[(1, 0), (2, 1)], &[(2, u64::MAX), (1, 1)]] {
            assert_eq!(Cuts::new(lengths).unwrap_err().kind, Kind::Argument);
        }
        assert!(matches!(Cuts::new(&[(4, 9)]).unwrap(), Cuts::Every(4)));
    }
}
