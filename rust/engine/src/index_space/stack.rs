//! Stacks of layers in one domain (overlay, concat, stack), and the parts of them that a view sees.

use std::sync::OnceLock;

use super::partition::Partitioner;
use super::{quoted, Dim, IndexTransform, MapSource, OutputMap, PerDimension, END, INFINITE};
use crate::error::{Error, Kind, Result};

/// Layers and their positions, from the lowest to the topmost.
///
/// `V` may be any owner of a transform, which has some hundred bytes: there may be many.
pub struct LayerStack<V = IndexTransform> {
    /// The layers before they are moved.
    views: Vec<V>,
    arrangement: Arrangement,
    /// The bounds of each layer in the stack.
    bounds: Vec<PerDimension<(i64, i64)>>,
    /// The layers in the stack, computed on first use.
    arranged: OnceLock<Vec<IndexTransform>>,
}

/// How layers are arranged.
enum Arrangement {
    /// At their own positions.
    Overlay,
    /// One after another along a dimension.
    Concatenated(usize),
    /// Side by side along a new dimension.
    Stacked(usize),
}

/// A dimension, by label or by number, counted from the end if negative.
pub enum StackAxis<'a> {
    /// A number.
    Number(i64),
    /// A label.
    Label(&'a str),
}

/// The part of a layer that a view sees.
pub struct VisibleLayer {
    /// The number of the layer.
    pub layer: usize,
    /// The transform from the part to the base of the layer.
    pub view: IndexTransform,
    /// The transform from the part to an array with the shape of the view.
    pub target: IndexTransform,
}

impl<V: AsRef<IndexTransform>> LayerStack<V> {
    /// Layers at their own positions.
    ///
    /// # Errors
    /// `Kind::Argument` if they differ in rank.
    pub fn new(views: Vec<V>) -> Result<LayerStack<V>> {
        check_ranks(&views)?;
        let bounds = views.iter().map(|view| bounds(view.as_ref())).collect();
        Ok(LayerStack { views, arrangement: Arrangement::Overlay, bounds, arranged: OnceLock::new() })
    }

    /// Layers one after another along a dimension. The first one stays at its position.
    ///
    /// # Errors
    /// `Kind::Argument` for no layers, for layers that do not fit, or for an infinite one.
    pub fn concatenated(views: Vec<V>, axis: &StackAxis<'_>) -> Result<LayerStack<V>> {
        let Some(first) = views.first().map(V::as_ref) else {
            return Err(argument_error("concat needs at least one layer"));
        };
        check_ranks(&views)?;
        let axis_number = match axis {
            StackAxis::Number(number) => resolve_number(*number, first.dims.len())?,
            StackAxis::Label(label) => {
                let labels = labels(&views)?;
                let position = labels.iter().position(|left| left.is_some() && *left == Some(label));
                position.ok_or_else(|| {
                    let known: Vec<_> =
                        labels.iter().map(|label| quoted(label.unwrap_or_default())).collect();
                    argument_error(format!(
                        "no layer has a dimension {}, only {}",
                        quoted(label),
                        known.join(", ")
                    ))
                })?
            }
        };
        let mut end = match first.dims[axis_number].upper {
            upper if upper <= INFINITE => upper,
            _ => return Err(infinite_error(axis_number, &first.dims[axis_number])),
        };
        let mut arranged = vec![bounds(first)];
        for view in views[1..].iter().map(V::as_ref) {
            let dim = &view.dims[axis_number];
            if !dim.is_finite() {
                return Err(infinite_error(axis_number, dim));
            }
            let upper = end.checked_add(dim.size()).filter(|&upper| upper < END);
            let upper =
                upper.ok_or_else(|| argument_error("the layers are longer than the range of indices"))?;
            for map in view
                .maps
                .iter()
                .filter(|map| matches!(map.source, MapSource::InputDimension(k) if k == axis_number))
            {
                map.compose_linear(dim.lower - end, 1)?;
            }
            let mut bounds = bounds(view);
            bounds[axis_number] = (end, upper);
            arranged.push(bounds);
            end = upper;
        }
        Ok(LayerStack {
            views,
            arrangement: Arrangement::Concatenated(axis_number),
            bounds: arranged,
            arranged: OnceLock::new(),
        })
    }

    /// Layers side by side, along a new dimension.
    ///
    /// # Errors
    /// `Kind::Argument` for no layers, or for layers that do not fit.
    pub fn stacked(views: Vec<V>, axis: i64) -> Result<LayerStack<V>> {
        let Some(first) = views.first().map(V::as_ref) else {
            return Err(argument_error("stack needs at least one layer"));
        };
        check_ranks(&views)?;
        let axis_number = resolve_number(axis, first.dims.len() + 1)?;
        let side_by_side = |(k, view): (usize, &V)| {
            let mut bounds = bounds(view.as_ref());
            bounds.insert(axis_number, (k as i64, k as i64 + 1));
            bounds
        };
        let bounds = views.iter().enumerate().map(side_by_side).collect();
        Ok(LayerStack {
            views,
            arrangement: Arrangement::Stacked(axis_number),
            bounds,
            arranged: OnceLock::new(),
        })
    }

    /// Return the layers at their positions in the stack.
    ///
    /// # Errors
    /// `Kind::Selection` if a number does not fit into 64 bits.
    pub fn transforms(&self) -> Result<&[IndexTransform]> {
        if let Some(arranged) = self.arranged.get() {
            return Ok(arranged);
        }
        let views = self.views.iter().zip(&self.bounds);
        let arranged: Result<Vec<IndexTransform>> =
            views.map(|(view, bounds)| self.arrangement.arrange(view.as_ref(), bounds)).collect();
        let arranged = arranged?;
        Ok(self.arranged.get_or_init(|| arranged))
    }

    /// Return the domain that contains all layers; empty layers do not extend it. Bounds in
    /// `given_bounds` win, unless they are infinite and implicit.
    ///
    /// # Errors
    /// `Kind::Argument` for different labels or another rank.
    pub fn domain(&self, rank: Option<usize>, given_bounds: Option<&[Dim]>) -> Result<PerDimension<Dim>> {
        let Some(first) = self.views.first().map(V::as_ref) else {
            let given_bounds =
                given_bounds.ok_or_else(|| argument_error("without a layer the domain is required"))?;
            return Ok(given_bounds.into());
        };
        let count = self.bounds.first().map_or(first.dims.len(), PerDimension::len);
        if let Some(rank) = rank.or(given_bounds.map(<[Dim]>::len)).filter(|&rank| rank != count) {
            return Err(argument_error(format!(
                "the requested rank is {rank}, the layers have rank {count}"
            )));
        }
        let mut labels = labels(&self.views)?;
        if let Arrangement::Stacked(axis_number) = self.arrangement {
            labels.insert(axis_number, None);
        }
        let mut dims = PerDimension::new();
        for (axis_number, label) in labels.into_iter().enumerate() {
            let mut dim = Dim::new(i64::MAX, i64::MIN);
            for (lower, upper) in self.bounds.iter().map(|bounds| bounds[axis_number]) {
                if dim.lower >= dim.upper {
                    (dim.lower, dim.upper) = (lower, upper);
                } else if lower < upper {
                    (dim.lower, dim.upper) = (dim.lower.min(lower), dim.upper.max(upper));
                }
            }
            dim.label = label.map(Into::into);
            if let Some(given_dim) = given_bounds.map(|given_bounds| &given_bounds[axis_number]) {
                match (&given_dim.label, &dim.label) {
                    (Some(left), Some(right)) if left != right => {
                        let message = format!(
                            "dimension {axis_number} has the label {left:?}, but {right:?} in the layers"
                        );
                        return Err(argument_error(message));
                    }
                    (label, None) => dim.label.clone_from(label),
                    _ => {}
                }
                // No positions exist beyond all layers.
                if !(given_dim.implicit.0 && given_dim.lower == -INFINITE) {
                    (dim.lower, dim.upper) = (given_dim.lower, dim.upper.max(given_dim.lower));
                }
                if !(given_dim.implicit.1 && given_dim.upper == END) {
                    (dim.lower, dim.upper) = (dim.lower.min(given_dim.upper), given_dim.upper);
                }
            }
            dims.push(dim);
        }
        Ok(dims)
    }

    /// Return the parts of layers that a view sees, the topmost layer first: a position belongs to
    /// the last layer that contains it.
    ///
    /// # Errors
    /// `Kind::Argument` if the view is not finite, or a position is in no layer; `Kind::Selection`
    /// if it does not fit.
    pub fn visible_layers(&self, view: &IndexTransform) -> Result<Vec<VisibleLayer>> {
        let Some(cutter) = Partitioner::new(view)? else { return Ok(Vec::new()) };
        let views = self.transforms()?;
        let parts = cutter.by_boxes(&self.bounds)?.into_iter();
        parts
            .map(|(layer, part)| {
                Ok(VisibleLayer {
                    layer,
                    view: views[layer].compose_resolving(&part.view)?,
                    target: part.target,
                })
            })
            .collect()
    }
}

impl Arrangement {
    /// Move a layer to its bounds in the stack.
    fn arrange(&self, view: &IndexTransform, bounds: &[(i64, i64)]) -> Result<IndexTransform> {
        match *self {
            Arrangement::Overlay => Ok(view.clone()),
            Arrangement::Concatenated(axis_number) => {
                let (dim, (lower, upper)) = (&view.dims[axis_number], bounds[axis_number]);
                let mut act = IndexTransform::identity(view.dims.clone());
                act.dims[axis_number] = dim.with_bounds(lower, upper, dim.implicit);
                act.maps[axis_number] = OutputMap::from_dimension(axis_number, dim.lower - lower, 1);
                view.compose(act)
            }
            Arrangement::Stacked(axis_number) => {
                let mut dims = view.dims.clone();
                dims.insert(axis_number, Dim::new(bounds[axis_number].0, bounds[axis_number].1));
                let maps = (0..view.dims.len())
                    .map(|k| OutputMap::from_dimension(k + usize::from(k >= axis_number), 0, 1))
                    .collect();
                view.compose(IndexTransform { dims, maps })
            }
        }
    }
}

fn bounds(view: &IndexTransform) -> PerDimension<(i64, i64)> {
    view.dims.iter().map(|dim| (dim.lower, dim.upper)).collect()
}

fn check_ranks<V: AsRef<IndexTransform>>(views: &[V]) -> Result<()> {
    let rank = views.first().map_or(0, |view| view.as_ref().dims.len());
    match views.iter().map(V::as_ref).enumerate().find(|(_, view)| view.dims.len() != rank) {
        None => Ok(()),
        Some((k, view)) => {
            Err(argument_error(format!("layer {k} has rank {}, layer 0 rank {rank}", view.dims.len())))
        }
    }
}

/// Return the label of each dimension, from the layers that have one.
fn labels<V: AsRef<IndexTransform>>(views: &[V]) -> Result<PerDimension<Option<&str>>> {
    let rank = views.first().map_or(0, |view| view.as_ref().dims.len());
    let mut labels: PerDimension<Option<&str>> = (0..rank).map(|_| None).collect();
    for (k, view) in views.iter().map(V::as_ref).enumerate() {
        for (axis_number, dim) in view.dims.iter().enumerate() {
            let Some(label) = dim.label.as_deref() else { continue };
            match labels[axis_number] {
                Some(earlier) if earlier != label => {
                    return Err(argument_error(format!(
                        "layer {k}: dimension {axis_number} has the label {label:?}, but {earlier:?} in earlier layers"
                    )));
                }
                _ => labels[axis_number] = Some(label),
            }
        }
    }
    Ok(labels)
}

fn resolve_number(number: i64, rank: usize) -> Result<usize> {
    let rank = rank as i64;
    match number {
        0.. if number < rank => Ok(number as usize),
        ..0 if number >= -rank => Ok((number + rank) as usize),
        _ => Err(argument_error(format!("dimension {number} is not in [-{rank}, {rank})"))),
    }
}

fn infinite_error(axis_number: usize, dim: &Dim) -> Error {
    argument_error(format!("dimension {axis_number} of a layer is {dim}: it must be finite"))
}

fn argument_error(message: impl Into<String>) -> Error {
    Error::new(Kind::Argument, message)
}
