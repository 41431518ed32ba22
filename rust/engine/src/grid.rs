//! The division of one dimension into cells (chunks), regular or rectilinear.
//!
//! The cells of a grid are the products of the cells of its dimensions. A rectilinear dimension is
//! a list of runs of equal cells. Runs cost memory for each change of the length and nothing for
//! each cell, so the memory for a grid never exceeds the size of its metadata.

use crate::array::PerAxis;
use crate::error::{Error, Result};

/// Consecutive cells of one length; the last run of a dimension has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellRun {
    /// The index of the first element of the first cell.
    pub start: u64,
    /// The number of the first cell.
    pub cell: u64,
    /// The length of each cell.
    pub size: u64,
}

impl CellRun {
    /// Return the number of the cell that contains `index`; the run contains `index`.
    pub fn cell_of(&self, index: u64) -> u64 {
        self.cell + (index - self.start) / self.size
    }

    /// Return the index at which `cell` begins; the run contains `cell`.
    pub fn start_of(&self, cell: u64) -> u64 {
        self.start + (cell - self.cell) * self.size
    }
}

/// The cells of one dimension.
#[derive(Clone, Debug)]
pub enum DimGrid {
    /// All cells have this length.
    Regular(u64),
    /// Two runs or more, in order; the first begins at 0.
    Rectilinear(Box<[CellRun]>),
}

impl DimGrid {
    /// Cells of these lengths: a list of (length, number of cells).
    ///
    /// # Errors
    /// `Kind::Argument` if the list is empty, a length or number is 0, or the sum exceeds 64 bits.
    pub fn new(lengths: &[(u64, u64)]) -> Result<DimGrid> {
        let grid_error = |what: &str| Error::argument(format!("a dimension of a grid {what}"));
        if let [(size, _)] = *lengths {
            return if size == 0 {
                Err(grid_error("has cells of length 0"))
            } else {
                Ok(DimGrid::Regular(size))
            };
        }
        let mut runs = Vec::with_capacity(lengths.len());
        let (mut start, mut cell) = (0u64, 0u64);
        for &(size, count) in lengths {
            if size == 0 || count == 0 {
                return Err(grid_error("has a cell length or count of 0"));
            }
            runs.push(CellRun { start, cell, size });
            let end = size.checked_mul(count).and_then(|length| length.checked_add(start));
            start = end.ok_or_else(|| grid_error("is longer than 2^64"))?;
            cell += count;
        }
        if runs.is_empty() {
            return Err(grid_error("has no cells"));
        }
        Ok(DimGrid::Rectilinear(runs.into()))
    }

    /// Return the run that contains `index`.
    pub fn at_index(&self, index: u64) -> CellRun {
        match self {
            DimGrid::Regular(size) => CellRun { start: 0, cell: 0, size: *size },
            DimGrid::Rectilinear(runs) => runs[runs.partition_point(|run| run.start <= index) - 1],
        }
    }

    /// Return the number of the cell that contains `index`.
    pub fn cell_of(&self, index: u64) -> u64 {
        match self {
            DimGrid::Regular(size) => index / size,
            DimGrid::Rectilinear(_) => self.at_index(index).cell_of(index),
        }
    }

    /// Return the first index and the length of `cell`.
    pub fn bounds(&self, cell: u64) -> (u64, u64) {
        match self {
            DimGrid::Regular(size) => (cell * size, *size),
            DimGrid::Rectilinear(runs) => {
                let run = runs[runs.partition_point(|run| run.cell <= cell) - 1];
                (run.start_of(cell), run.size)
            }
        }
    }

    /// Return the runs that contain indices of `low..=high`, each with the index after its last
    /// one.
    pub fn runs_between(&self, low: u64, high: u64) -> impl DoubleEndedIterator<Item = (CellRun, u64)> + '_ {
        let (single, runs): (Option<CellRun>, &[CellRun]) = match self {
            DimGrid::Regular(size) => (Some(CellRun { start: 0, cell: 0, size: *size }), &[]),
            DimGrid::Rectilinear(runs) => (None, runs),
        };
        let first = runs.partition_point(|run| run.start <= low).saturating_sub(1);
        let last = runs.partition_point(|run| run.start <= high);
        let listed = (first..last)
            .map(|position| (runs[position], runs.get(position + 1).map_or(u64::MAX, |n| n.start)));
        single.map(|run| (run, u64::MAX)).into_iter().chain(listed)
    }
}

/// Return the origin and the shape of `cell` of a grid.
pub fn bounds(dim_grids: &[DimGrid], cell: &[u64]) -> (PerAxis<u64>, PerAxis<u64>) {
    dim_grids.iter().zip(cell).map(|(dim_grids, &cell)| dim_grids.bounds(cell)).unzip()
}

/// Return whether ranges certainly touch at most `limit` cells of shape `cell`. `ends` are the first
/// and the last position along each axis; None: unknown.
pub fn touches_at_most(
    ends: impl ExactSizeIterator<Item = Option<(i64, i64)>>,
    cell: &[u64],
    limit: u64,
) -> bool {
    if ends.len() != cell.len() {
        return false;
    }
    let cells = |(ends, &length): (Option<(i64, i64)>, &u64)| {
        let ((first, last), length) = (ends?, i64::try_from(length).ok()?);
        let number = |position: i64| position.checked_div_euclid(length);
        number(first)?.abs_diff(number(last)?).checked_add(1)
    };
    let total = ends.zip(cell).map(cells).try_fold(1u64, |total, cells| total.checked_mul(cells?));
    total.is_some_and(|total| total <= limit)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn cell_of_inverts_bounds() {
        let dim_grids = DimGrid::new(&[(3, 2), (1, 1), (5, 3)]).unwrap();
        let expected = [(0, 3), (3, 3), (6, 1), (7, 5), (12, 5), (17, 5), (22, 5)];
        for (cell, &(start, size)) in expected.iter().enumerate() {
            assert_eq!(dim_grids.bounds(cell as u64), (start, size));
            assert!((start..start + size).all(|index| dim_grids.cell_of(index) == cell as u64));
        }
        let runs: Vec<(u64, u64)> = dim_grids.runs_between(4, 7).map(|(run, end)| (run.start, end)).collect();
        assert_eq!(runs, [(0, 6), (6, 7), (7, u64::MAX)]);
        assert_eq!(dim_grids.runs_between(8, 100).count(), 1);
    }

    #[test]
    fn ranges_of_known_ends_touch_few_cells() {
        let touches =
            |ends: &[Option<(i64, i64)>], limit| touches_at_most(ends.iter().copied(), &[8, 5], limit);
        assert!(touches(&[Some((7, 8)), Some((0, 4))], 2) && !touches(&[Some((7, 8)), Some((0, 5))], 3));
        assert!(touches(&[Some((-1, -8)), Some((9, 5))], 1), "in any order, below 0");
        assert!(!touches(&[Some((0, 0)), None], u64::MAX));
        assert!(!touches(&[Some((0, 0))], u64::MAX), "another rank");
        assert!(!touches(&[Some((i64::MIN, i64::MAX)); 2], u64::MAX));
        assert!(!touches_at_most([Some((0, 0))].into_iter(), &[0], 9));
    }

    #[test]
    fn new_rejects_empty_and_overflowing_lists() {
        for lengths in [&[][..], &[(0, 1)], &[(1, 1), (0, 2)], &[(1, 0), (2, 1)], &[(2, u64::MAX), (1, 1)]] {
            assert_eq!(DimGrid::new(lengths).unwrap_err().kind, crate::Kind::Argument);
        }
        assert!(matches!(DimGrid::new(&[(4, 9)]).unwrap(), DimGrid::Regular(4)));
    }
}
