"""The viewer: a site that shows a hierarchy in a browser.

- `site`: the routes: a page, its scripts, and the JSON and binary responses below ``api/``.
- `hierarchy`: opens and describes nodes for the page.
- `dimensions`: names, units and coordinates of axes (xarray, format 3, OME-Zarr).
- `image`: resolution levels of OME-Zarr images.
- `values`: selections, and their values as raw numbers or as text.
- `packing`: packed elements and missing values (CF conventions).
- `reduction`: means, minima and maxima of blocks.
- `show`: opens the page in a notebook or in a browser.
- ``static``: the page and its scripts, built from the folder ``viewer`` of the project.
"""
