//! Text forms of transforms and domains.

use std::fmt;

use super::{Dim, IndexTransform, MapSource, OutputMap};

/// The text of a domain.
pub struct DomainText<'a>(pub &'a [Dim]);

impl fmt::Display for DomainText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{ ")?;
        for (k, dim) in self.0.iter().enumerate() {
            f.write_str(if k > 0 { ", " } else { "" })?;
            write!(f, "{dim}")?;
        }
        f.write_str(" }")
    }
}

impl fmt::Display for IndexTransform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Rank {} -> {} index space transform:", self.dims.len(), self.maps.len())?;
        writeln!(f, "  Input domain:")?;
        for (k, dim) in self.dims.iter().enumerate() {
            write!(f, "    {k}: {}", dim.bounds())?;
            match &dim.label {
                Some(label) => writeln!(f, " \"{label}\"")?,
                None => writeln!(f)?,
            }
        }
        writeln!(f, "  Output index maps:")?;
        for (k, map) in self.maps.iter().enumerate() {
            writeln!(f, "    out[{k}] = {map}")?;
        }
        Ok(())
    }
}

impl fmt::Display for OutputMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            MapSource::Constant => write!(f, "{}", self.offset),
            MapSource::InputDimension(k) => write!(f, "{} + {} * in[{k}]", self.offset, self.stride),
            MapSource::IndexArray(listed) => {
                let within = Dim::new(listed.within.0, listed.within.1);
                write!(
                    f,
                    "{} + {} * bounded({within}, array(in)), where array =\n      ",
                    self.offset, self.stride
                )?;
                braces(&listed.indices.to_vec(), &listed.indices.shape(), f)
            }
        }
    }
}

/// Show items in C order, with braces around each axis.
fn braces(items: &[i64], shape: &[usize], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let [len, inner @ ..] = shape else {
        return items.first().map_or(Ok(()), |item| write!(f, "{item}"));
    };
    let each: usize = inner.iter().product();
    f.write_str("{")?;
    for k in 0..*len {
        f.write_str(if k > 0 { ", " } else { "" })?;
        braces(&items[k * each..(k + 1) * each], inner, f)?;
    }
    f.write_str("}")
}
