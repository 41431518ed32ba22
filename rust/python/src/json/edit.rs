//! Edits of members of JSON documents as text.

use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use tessarr_engine::json_text::{ObjectChain, ObjectEdit, Order};

/// A JSON document as text, with the objects on a path: the document, the value of a member, …
#[pyclass(module = "tessarr._engine", frozen)]
pub(super) struct JsonText {
    document: Py<PyBytes>,
    objects: ObjectChain,
}

#[pymethods]
impl JsonText {
    #[new]
    fn new(document: Bound<'_, PyBytes>, path: Vec<String>) -> PyResult<JsonText> {
        let path: Vec<&[u8]> = path.iter().map(String::as_bytes).collect();
        let objects = ObjectChain::find(document.as_bytes(), &path)
            .map_err(|_| PyValueError::new_err("a list, an object or a string has no end"))?;
        Ok(JsonText { document: document.unbind(), objects })
    }

    /// The number of objects on the path, with the document itself.
    #[getter]
    fn levels(&self) -> usize {
        self.objects.levels()
    }

    /// Return the text of a member of the object at a level, or None.
    fn get<'py>(&self, py: Python<'py>, level: usize, name: &str) -> Option<Bound<'py, PyBytes>> {
        let text = self.document.as_bytes(py);
        Some(PyBytes::new(py, self.objects.value(text, level, name.as_bytes())?))
    }

    /// Return the names of the object at a level that start with a prefix.
    fn names<'py>(&self, py: Python<'py>, level: usize, prefix: &str) -> Vec<Bound<'py, PyString>> {
        let text = self.document.as_bytes(py);
        let names = self.objects.names(text, level, prefix.as_bytes());
        names.iter().map(|name| PyString::new(py, &decoded(name))).collect()
    }

    /// Return the document with edits: (level, order, text or None by name), one for each level.
    fn edit<'py>(
        &self,
        py: Python<'py>,
        edits: Vec<(usize, Option<String>, Bound<'py, PyDict>)>,
        indent: usize,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let edits: Vec<ObjectEdit> = edits
            .into_iter()
            .map(|(level, order, members)| {
                let order = match order.as_deref() {
                    None => Order::Last,
                    Some("name") => Order::Name,
                    Some("path") => Order::Path,
                    Some(_) => return Err(PyValueError::new_err("the order is 'name', 'path' or None")),
                };
                let members = members.iter().map(|(name, value)| {
                    let name: String = name.extract()?;
                    let value: Option<Cow<'_, [u8]>> = value.extract()?;
                    Ok((name.into_bytes(), value.map(Cow::into_owned)))
                });
                Ok(ObjectEdit { level, order, members: members.collect::<PyResult<_>>()? })
            })
            .collect::<PyResult<_>>()?;
        Ok(PyBytes::new(py, &self.objects.edit(self.document.as_bytes(py), &edits, indent)))
    }
}

/// Return a name as text; no node has a name that is not UTF-8.
fn decoded(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}
