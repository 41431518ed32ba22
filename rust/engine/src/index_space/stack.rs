//! Stacks of layers in one domain (overlay, concat, stack), and the parts of them that a view sees.

use super::partition::{Partitioner, ViewPart};
use super::{quoted, Dim, IndexTransform, OutputMap, PerDimension, END, INFINITE};
use crate::error::{Error, Result};

/// Layers at their positions, from the lowest to the topmost.
pub struct LayerStack {
    layers: Vec<IndexTransform>,
    /// The bounds of each layer.
    bounds: Vec<PerDimension<(i64, i64)>>,
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

impl LayerStack {
    /// Layers at their own positions.
    ///
    /// # Errors
    /// `Kind::Argument` if they differ in rank.
    pub fn new(layers: Vec<IndexTransform>) -> Result<LayerStack> {
        check_ranks(&layers)?;
        let bounds = |layer: &IndexTransform| layer.dims.iter().map(|dim| (dim.lower, dim.upper)).collect();
        Ok(LayerStack { bounds: layers.iter().map(bounds).collect(), layers })
    }

    /// Layers one after another along a dimension. The first one stays at its position.
    ///
    /// # Errors
    /// `Kind::Argument` for no layers, for layers that do not fit, or for an infinite one;
    /// `Kind::Selection` if a number does not fit into 64 bits.
    pub fn concatenated(mut layers: Vec<IndexTransform>, axis: &StackAxis<'_>) -> Result<LayerStack> {
        let Some(first) = layers.first() else {
            return Err(Error::argument("concat needs at least one layer"));
        };
        check_ranks(&layers)?;
        let axis_number = match axis {
            StackAxis::Number(number) => resolve_number(*number, first.dims.len())?,
            StackAxis::Label(label) => find_label(label, &labels(&layers)?)?,
        };
        let mut end = match first.dims[axis_number].upper {
            upper if upper <= INFINITE => upper,
            _ => return Err(infinite_error(axis_number, &first.dims[axis_number])),
        };
        for layer in &mut layers[1..] {
            let dim = &layer.dims[axis_number];
            if !dim.is_finite() {
                return Err(infinite_error(axis_number, dim));
            }
            let upper = end.checked_add(dim.size()).filter(|&upper| upper < END);
            let upper =
                upper.ok_or_else(|| Error::argument("the layers are longer than the range of indices"))?;
            let mut shift = IndexTransform::identity(layer.dims.clone());
            shift.dims[axis_number] = dim.with_bounds(end, upper, dim.implicit);
            shift.maps[axis_number] = OutputMap::from_dimension(axis_number, dim.lower - end, 1);
            *layer = layer.compose(shift)?;
            end = upper;
        }
        LayerStack::new(layers)
    }

    /// Layers side by side, along a new dimension.
    ///
    /// # Errors
    /// `Kind::Argument` for no layers, or for layers that do not fit.
    pub fn stacked(mut layers: Vec<IndexTransform>, axis: i64) -> Result<LayerStack> {
        let Some(first) = layers.first() else {
            return Err(Error::argument("stack needs at least one layer"));
        };
        check_ranks(&layers)?;
        let axis_number = resolve_number(axis, first.dims.len() + 1)?;
        for (number, layer) in (0..).zip(&mut layers) {
            let dimension = |k: usize| OutputMap::from_dimension(k + usize::from(k >= axis_number), 0, 1);
            let maps = (0..layer.dims.len()).map(dimension).collect();
            let mut dims = layer.dims.clone();
            dims.insert(axis_number, Dim::new(number, number + 1));
            *layer = layer.compose(IndexTransform { dims, maps })?;
        }
        LayerStack::new(layers)
    }

    /// Return the layers at their positions.
    pub fn layers(&self) -> &[IndexTransform] {
        &self.layers
    }

    /// Return the domain that contains all layers; empty layers do not extend it. Bounds in
    /// `required` win, unless they are infinite and implicit.
    ///
    /// # Errors
    /// `Kind::Argument` for different labels or another rank.
    pub fn domain(&self, rank: Option<usize>, required: Option<&[Dim]>) -> Result<PerDimension<Dim>> {
        let Some(first) = self.layers.first() else {
            let required =
                required.ok_or_else(|| Error::argument("without a layer the domain is required"))?;
            return Ok(required.into());
        };
        let count = first.dims.len();
        if let Some(rank) = rank.or(required.map(<[Dim]>::len)).filter(|&rank| rank != count) {
            return Err(Error::argument(format!(
                "the requested rank is {rank}, the layers have rank {count}"
            )));
        }
        let mut dims = PerDimension::new();
        for (axis_number, label) in labels(&self.layers)?.into_iter().enumerate() {
            let mut dim = Dim::new(i64::MAX, i64::MIN);
            for (lower, upper) in self.bounds.iter().map(|bounds| bounds[axis_number]) {
                if dim.lower >= dim.upper {
                    (dim.lower, dim.upper) = (lower, upper);
                } else if lower < upper {
                    (dim.lower, dim.upper) = (dim.lower.min(lower), dim.upper.max(upper));
                }
            }
            dim.label = label.map(Into::into);
            if let Some(required_dim) = required.map(|required| &required[axis_number]) {
                match (&required_dim.label, &dim.label) {
                    (Some(left), Some(right)) if left != right => {
                        let message = format!(
                            "dimension {axis_number} has the label {left:?}, but {right:?} in the layers"
                        );
                        return Err(Error::argument(message));
                    }
                    (label, None) => dim.label.clone_from(label),
                    _ => {}
                }
                // No positions exist beyond all layers.
                if !(required_dim.implicit.0 && required_dim.lower == -INFINITE) {
                    (dim.lower, dim.upper) = (required_dim.lower, dim.upper.max(required_dim.lower));
                }
                if !(required_dim.implicit.1 && required_dim.upper == END) {
                    (dim.lower, dim.upper) = (dim.lower.min(required_dim.upper), required_dim.upper);
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
        let visible_layer = |(layer, part): (usize, ViewPart)| {
            let view = self.layers[layer].compose_resolving(&part.view)?;
            Ok(VisibleLayer { layer, view, target: part.target })
        };
        cutter.by_boxes(&self.bounds)?.into_iter().map(visible_layer).collect()
    }
}

fn check_ranks(layers: &[IndexTransform]) -> Result<()> {
    let rank = layers.first().map_or(0, |layer| layer.dims.len());
    match layers.iter().enumerate().find(|(_, layer)| layer.dims.len() != rank) {
        None => Ok(()),
        Some((k, layer)) => {
            Err(Error::argument(format!("layer {k} has rank {}, layer 0 rank {rank}", layer.dims.len())))
        }
    }
}

/// Return the label of each dimension, from the layers that have one.
fn labels(layers: &[IndexTransform]) -> Result<PerDimension<Option<&str>>> {
    let rank = layers.first().map_or(0, |layer| layer.dims.len());
    let mut labels: PerDimension<Option<&str>> = (0..rank).map(|_| None).collect();
    for (k, layer) in layers.iter().enumerate() {
        for (axis_number, dim) in layer.dims.iter().enumerate() {
            let Some(label) = dim.label.as_deref() else { continue };
            match labels[axis_number] {
                Some(earlier) if earlier != label => {
                    return Err(Error::argument(format!(
                        "layer {k}: dimension {axis_number} has the label {label:?}, but {earlier:?} in earlier layers"
                    )));
                }
                _ => labels[axis_number] = Some(label),
            }
        }
    }
    Ok(labels)
}

/// Return the dimension with a label.
fn find_label(label: &str, labels: &[Option<&str>]) -> Result<usize> {
    labels.iter().position(|known| *known == Some(label)).ok_or_else(|| {
        let known: Vec<_> = labels.iter().map(|label| quoted(label.unwrap_or_default())).collect();
        Error::argument(format!("no layer has a dimension {}, only {}", quoted(label), known.join(", ")))
    })
}

fn resolve_number(number: i64, rank: usize) -> Result<usize> {
    let rank = rank as i64;
    match number {
        0.. if number < rank => Ok(number as usize),
        ..0 if number >= -rank => Ok((number + rank) as usize),
        _ => Err(Error::argument(format!("dimension {number} is not in [-{rank}, {rank})"))),
    }
}

fn infinite_error(axis_number: usize, dim: &Dim) -> Error {
    Error::argument(format!("dimension {axis_number} of a layer is {dim}: it must be finite"))
}
