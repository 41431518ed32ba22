//! Stacks of layers in one domain (overlay, concat, stack), and the parts of them that a view sees.

use std::sync::OnceLock;

use super::partition::Cutter;
use super::{quoted, Dim, Map, PerDimension, Source, View, END, INFINITE};
use crate::error::{Error, Kind, Result};

/// Layers and their positions, from the lowest to the topmost.
///
/// `V` may be any owner of a transform, which has some hundred bytes: there may be many.
pub struct Layers<V = View> {
    /// The layers before they are moved.
    views: Vec<V>,
    way: Way,
    /// The bounds of each layer in the stack.
    bounds: Vec<PerDimension<(i64, i64)>>,
    /// The layers in the stack, computed on first use.
    placed: OnceLock<Vec<View>>,
}

/// How layers are arranged.
enum Way {
    /// At their own positions.
    Over,
    /// One after another along a dimension.
    Along(usize),
    /// Side by side along a new dimension.
    Beside(usize),
}

/// A dimension, by label or by number, counted from the end if negative.
pub enum Axis<'a> {
    /// A number.
    Number(i64),
    /// A label.
    Label(&'a str),
}

/// The part of a layer that a view sees.
pub struct Seen {
    /// The number of the layer.
    pub layer: usize,
    /// The transform from the part to the base of the layer.
    pub view: View,
    /// The transform from the part to an array with the shape of the view.
    pub place: View,
}

impl<V: AsRef<View>> Layers<V> {
    /// Layers at their own positions.
    ///
    /// # Errors
    /// `Kind::Argument` if they differ in rank.
    pub fn new(views: Vec<V>) -> Result<Layers<V>> {
        check_ranks(&views)?;
        let bounds = views.iter().map(|view| bounds(view.as_ref())).collect();
        Ok(Layers { views, way: Way::Over, bounds, placed: OnceLock::new() })
    }

    /// Layers one after another along a dimension. The first one keeps its position.
    ///
    /// # Errors
    /// `Kind::Argument` for no layers, for layers that do not fit, or for an infinite one.
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
    /// `Kind::Argument` for no layers, or for layers that do not fit.
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

    /// The layers at their positions in the stack.
    ///
    /// # Errors
    /// `Kind::Selection` if a number does not fit into 64 bits.
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

    /// The domain that contains all layers; empty layers add nothing. Bounds in `given` win, unless
    /// they are infinite and implicit.
    ///
    /// # Errors
    /// `Kind::Argument` for different labels or another rank.
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
                // No positions exist beyond all layers.
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

    /// The parts of layers that a view sees, the topmost layer first: a position belongs to the
    /// last layer that contains it.
    ///
    /// # Errors
    /// `Kind::Argument` if the view is not finite, or a position is in no layer; `Kind::Selection`
    /// if it does not fit.
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
    /// Move a layer to its bounds in the stack.
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

/// The label of each dimension, from the layers that have one.
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
