//! Summaries of NumPy arrays: counts, extremes, moments and a histogram.

use numpy::npyffi::NPY_ARRAY_C_CONTIGUOUS;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use tessarr_engine::summary::{self, Summary as EngineSummary};

use crate::array::{data, flags};
use crate::runtime::error::argument;

/// Counts, extremes, moments and a histogram of elements.
#[pyclass(frozen, module = "tessarr._engine")]
struct Summary(EngineSummary);

/// A number of a summary.
#[derive(IntoPyObject)]
enum Number {
    Integer(i128),
    Real(f64),
}

/// Evaluate the expression with the totals of a summary.
macro_rules! totals {
    ($summary:expr, $totals:ident => $value:expr) => {
        match &$summary.0 {
            EngineSummary::Integers($totals) => $value,
            EngineSummary::Reals($totals) => $value,
        }
    };
}

#[pymethods]
impl Summary {
    /// The number of finite elements.
    #[getter]
    fn count(&self) -> u64 {
        totals!(self, totals => totals.moments.count)
    }

    /// The number of elements that are NaN or NaT.
    #[getter]
    fn nan_count(&self) -> u64 {
        totals!(self, totals => totals.nan_count)
    }

    /// The numbers of negative and of positive infinities.
    #[getter]
    fn infinity_counts(&self) -> (u64, u64) {
        totals!(self, totals => (totals.negative_infinity_count, totals.positive_infinity_count))
    }

    /// The minimum and the maximum of the finite elements.
    #[getter]
    fn extremes(&self) -> Option<(Number, Number)> {
        match &self.0 {
            EngineSummary::Integers(totals) => {
                totals.extremes.map(|(low, high)| (Number::Integer(low), Number::Integer(high)))
            }
            EngineSummary::Reals(totals) => {
                totals.extremes.map(|(low, high)| (Number::Real(low), Number::Real(high)))
            }
        }
    }

    /// The sum of the finite elements.
    #[getter]
    fn sum(&self) -> Number {
        match &self.0 {
            EngineSummary::Integers(totals) => Number::Integer(totals.moments.sum()),
            EngineSummary::Reals(totals) => Number::Real(totals.moments.sum()),
        }
    }

    /// The mean of the finite elements, if they are real numbers.
    #[getter]
    fn mean(&self) -> Option<f64> {
        match &self.0 {
            EngineSummary::Integers(_) => None,
            EngineSummary::Reals(totals) => totals.moments.mean(),
        }
    }

    /// The standard deviation of the finite elements.
    #[getter]
    fn standard_deviation(&self) -> Option<f64> {
        totals!(self, totals => totals.moments.standard_deviation())
    }

    /// The histogram: the binary logarithm of the width of its bins, the lower edge of the first bin
    /// in widths, and the counts.
    #[getter]
    fn bins(&self) -> (i32, i128, Vec<u64>) {
        let histogram = totals!(self, totals => &totals.histogram);
        (histogram.exponent, histogram.first, histogram.counts.clone())
    }

    /// Return the summary of both.
    fn merged(&self, py: Python<'_>, other: &Bound<'_, Summary>) -> PyResult<Summary> {
        let merged = self.0.merged(&other.get().0);
        merged.map(Summary).ok_or_else(|| argument(py, "the summaries are of other kinds of numbers"))
    }

    /// Return the summary of `count` repetitions of the elements.
    fn repeated(&self, count: u64) -> Summary {
        Summary(self.0.repeated(count))
    }
}

/// Summarise a contiguous array in the byte order of the machine.
#[pyfunction]
fn summarize(
    py: Python<'_>,
    values: &Bound<'_, PyUntypedArray>,
    kind: &str,
    max_bins: usize,
) -> PyResult<Summary> {
    let wrong = |what: &str| argument(py, what);
    if flags(values) & NPY_ARRAY_C_CONTIGUOUS == 0 || values.dtype().is_native_byteorder() == Some(false) {
        return Err(wrong("the array is not contiguous, or in another byte order"));
    }
    let length = values.len() * values.dtype().itemsize();
    let address = data(values) as usize;
    let summary = py.detach(|| {
        if length == 0 {
            return summary::summarize(kind, &[], max_bins);
        }
        // SAFETY: the array is contiguous, and the caller keeps it alive. No other thread writes to
        // it: it is the result of a read.
        let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, length) };
        summary::summarize(kind, bytes, max_bins)
    });
    summary.map(Summary).ok_or_else(|| wrong("the elements are of another kind"))
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Summary>()?;
    module.add_function(wrap_pyfunction!(summarize, module)?)
}
