//! Several views as layers of one domain: where they belong in it, and what a view of all sees of each.

use std::sync::OnceLock;

use super::partition::Cutter;
use super::{quoted, Dim, Map, PerDimension, Source, View, END, INFINITE};
use crate::error::{Error, Kind, Result};

/// Views and where they belong, from the lowest to the topmost.
///
/// They may be in the hands of others (`V`): a view is some hundred bytes long, and there may be many.
pub struct Layers<V = View> {
    /// As they are.
    views: Vec<V>,
    way: Way,
    /// Of each the bounds where it belongs.
    bounds: Vec<PerDimension<(i64, i64)>>,
    /// Where they belong: many layers are put together of which few are ever looked at.
    placed: OnceLock<Vec<View>>,
}

/// How layers are put together.
enum Way {
    /// As they are.
    Over,
    /// One after the other along a dimension.
    Along(usize),
    /// Side by side along a new one.
    Beside(usize),
}

/// A dimension, by its number, which may count from the end, or its label.
pub enum Axis<'a> {
    /// A number.
    Number(i64),
    /// A label.
    Label(&'a str),
}

/// What a view sees of one layer.
pub struct Seen {
    /// The number of the layer.
    pub layer: usize,
    /// The view of what the layer is a view of.
    pub view: View,
    /// Where its positions are in an array of the shape of the whole view.
    pub place: View,
}

impl<V: AsRef<View>> Layers<V> {
    /// Layers that are where they belong.
    ///
    /// # Errors
    /// `Kind::Argument` if they differ in rank.
    pub fn new(views: Vec<V>) -> Result<Layers<V>> {
        check_ranks(&views)?;
        let bounds = views.iter().map(|view| bounds(view.as_ref())).collect();
        Ok(Layers { views, way: Way::Over, bounds, placed: OnceLock::new() })
    }

    /// Layers one after the other along a dimension of theirs. The first one stays where it is.
    ///
    /// # Errors
    /// `Kind::Argument` if there is none, if they do not fit, or if one is infinite along it.
    pub fn concatenated(views: Vec<V>, axis: &Axis<'_>) -> Result<Layers<V>> {
        let Some(first) = views.first().map(V::as_ref) else { return Err(wrong("concat needs a layer")) };
        check_ranks(&views)?;
        let at = match axis {
            Axis::Number(number) => place(*number, first.dims.len())?,
            Axis::Label(label) => {
                let labels = labels(&views)?;
                let found = labels.iter().position(|one| one.is_some() && *one == Some(label));
                found.ok_or_else(|| {
                    let known: Vec<_> =
                        labels.iter().map(|label| quoted(label.unwrap_or_default())).collect();
                    wrong(format!("no layer has a dimension {}, only {}", quoted(label), known.join(", ")))
                })?
            }
        };
        let mut end = match first.dims[at].upper {
            upper if upper <= INFINITE => upper,
            _ => return Err(endless(at, &first.dims[at])),
        };
        let mut placed = vec![bounds(first)];
        for view in views[1..].iter().map(V::as_ref) {
            let dim = &view.dims[at];
            if !dim.is_finite() {
                return Err(endless(at, dim));
            }
            let upper = end.checked_add(dim.size()).filter(|&upper| upper < END);
            let upper = upper.ok_or_else(|| wrong("the layers are longer than the range of indices"))?;
            for map in view.maps.iter().filter(|map| matches!(map.source, Source::Dimension(k) if k == at)) {
                map.applied(dim.lower - end, 1)?;
            }
            let mut bounds = bounds(view);
            bounds[at] = (end, upper);
            placed.push(bounds);
            end = upper;
        }
        Ok(Layers { views, way: Way::Along(at), bounds: placed, placed: OnceLock::new() })
    }

    /// Layers side by side, along a new dimension.
    ///
    /// # Errors
    /// `Kind::Argument` if there is none, or they do not fit.
    pub fn stacked(views: Vec<V>, axis: i64) -> Result<Layers<V>> {
        let Some(first) = views.first().map(V::as_ref) else { return Err(wrong("stack needs a layer")) };
        check_ranks(&views)?;
        let at = place(axis, first.dims.len() + 1)?;
        let side_by_side = |(k, view): (usize, &V)| {
            let mut bounds = bounds(view.as_ref());
            bounds.insert(at, (k as i64, k as i64 + 1));
            bounds
        };
        let bounds = views.iter().enumerate().map(side_by_side).collect();
        Ok(Layers { views, way: Way::Beside(at), bounds, placed: OnceLock::new() })
    }

    /// The views, each where it belongs.
    ///
    /// # Errors
    /// `Kind::Selection` if a number would not fit into 64 bits.
    pub fn views(&self) -> Result<&[View]> {
        if let Some(placed) = self.placed.get() {
            return Ok(placed);
        }
        let views = self.views.iter().zip(&self.bounds);
        let placed: Result<Vec<View>> =
            views.map(|(view, bounds)| self.way.placed(view.as_ref(), bounds)).collect();
        let placed = placed?;
        Ok(self.placed.get_or_init(|| placed))
    }

    /// The domain that contains all layers; along each dimension, those that are empty add nothing. Bounds that are given, and not infinite and implicit, take the
    /// place of these.
    ///
    /// # Errors
    /// `Kind::Argument` if labels differ, or the rank is another one.
    pub fn domain(&self, rank: Option<usize>, given: Option<&[Dim]>) -> Result<PerDimension<Dim>> {
        let Some(first) = self.views.first().map(V::as_ref) else {
            let given = given.ok_or_else(|| wrong("the domain has to be given where there is no layer"))?;
            return Ok(given.into());
        };
        let count = self.bounds.first().map_or(first.dims.len(), PerDimension::len);
        if let Some(rank) = rank.or(given.map(<[Dim]>::len)).filter(|&rank| rank != count) {
            return Err(wrong(format!("rank {rank} is asked for, the layers have rank {count}")));
        }
        let mut labels = labels(&self.views)?;
        if let Way::Beside(at) = self.way {
            labels.insert(at, None);
        }
        let mut dims = PerDimension::new();
        for (at, label) in labels.into_iter().enumerate() {
            let mut dim = Dim::new(i64::MAX, i64::MIN);
            for (lower, upper) in self.bounds.iter().map(|bounds| bounds[at]) {
                if dim.lower >= dim.upper {
                    (dim.lower, dim.upper) = (lower, upper);
                } else if lower < upper {
                    (dim.lower, dim.upper) = (dim.lower.min(lower), dim.upper.max(upper));
                }
            }
            dim.label = label.map(Into::into);
            if let Some(wanted) = given.map(|given| &given[at]) {
                match (&wanted.label, &dim.label) {
                    (Some(one), Some(other)) if one != other => {
                        let message =
                            format!("dimension {at} is called {one:?}, and by the layers {other:?}");
                        return Err(wrong(message));
                    }
                    (label, None) => dim.label.clone_from(label),
                    _ => {}
                }
                // Beyond all layers there is nothing.
                if !(wanted.implicit.0 && wanted.lower == -INFINITE) {
                    (dim.lower, dim.upper) = (wanted.lower, dim.upper.max(wanted.lower));
                }
                if !(wanted.implicit.1 && wanted.upper == END) {
                    (dim.lower, dim.upper) = (dim.lower.min(wanted.upper), wanted.upper);
                }
            }
            dims.push(dim);
        }
        Ok(dims)
    }

    /// What a view of the domain sees of each layer, the topmost first: a position belongs to the last layer
    /// that has it.
    ///
    /// # Errors
    /// `Kind::Argument` if the view is not finite, or a position belongs to no layer; `Kind::Selection` if
    /// it does not fit.
    pub fn seen(&self, view: &View) -> Result<Vec<Seen>> {
        let Some(cutter) = Cutter::new(view)? else { return Ok(Vec::new()) };
        let views = self.views()?;
        let parts = cutter.by_boxes(&self.bounds)?.into_iter();
        parts
            .map(|(layer, part)| {
                Ok(Seen { layer, view: views[layer].viewed(&part.view)?, place: part.place })
            })
            .collect()
    }
}

impl Way {
    /// A view where it belongs, which is between these bounds.
    fn placed(&self, view: &View, bounds: &[(i64, i64)]) -> Result<View> {
        match *self {
            Way::Over => Ok(view.clone()),
            Way::Along(at) => {
                let (dim, (lower, upper)) = (&view.dims[at], bounds[at]);
                let mut act = View::identity(view.dims.clone());
                act.dims[at] = dim.with(lower, upper, dim.implicit);
                act.maps[at] = Map::along(at, dim.lower - lower, 1);
                view.after(act)
            }
            Way::Beside(at) => {
                let mut dims = view.dims.clone();
                dims.insert(at, Dim::new(bounds[at].0, bounds[at].1));
                let maps = (0..view.dims.len()).map(|k| Map::along(k + usize::from(k >= at), 0, 1)).collect();
                view.after(View { dims, maps })
            }
        }
    }
}

fn bounds(view: &View) -> PerDimension<(i64, i64)> {
    view.dims.iter().map(|dim| (dim.lower, dim.upper)).collect()
}

fn check_ranks<V: AsRef<View>>(views: &[V]) -> Result<()> {
    let rank = views.first().map_or(0, |view| view.as_ref().dims.len());
    match views.iter().map(V::as_ref).enumerate().find(|(_, view)| view.dims.len() != rank) {
        None => Ok(()),
        Some((k, view)) => Err(wrong(format!("layer {k} has rank {}, layer 0 rank {rank}", view.dims.len()))),
    }
}

/// The label of each dimension, of those layers that have one for it.
fn labels<V: AsRef<View>>(views: &[V]) -> Result<PerDimension<Option<&str>>> {
    let rank = views.first().map_or(0, |view| view.as_ref().dims.len());
    let mut labels: PerDimension<Option<&str>> = (0..rank).map(|_| None).collect();
    for (k, view) in views.iter().map(V::as_ref).enumerate() {
        for (at, dim) in view.dims.iter().enumerate() {
            let Some(label) = dim.label.as_deref() else { continue };
            match labels[at] {
                Some(before) if before != label => {
                    return Err(wrong(format!(
                        "layer {k}: dimension {at} is called {label:?}, and {before:?} before"
                    )));
                }
                _ => labels[at] = Some(label),
            }
        }
    }
    Ok(labels)
}

fn place(number: i64, rank: usize) -> Result<usize> {
    let rank = rank as i64;
    match number {
        0.. if number < rank => Ok(number as usize),
        ..0 if number >= -rank => Ok((number + rank) as usize),
        _ => Err(wrong(format!("dimension {number} is not in [-{rank}, {rank})"))),
    }
}

fn endless(at: usize, dim: &Dim) -> Error {
    wrong(format!("dimension {at} of a layer is {dim}: it has to end somewhere"))
}

fn wrong(message: impl Into<String>) -> Error {
    Error::new(Kind::Argument, message)
}
