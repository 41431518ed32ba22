"""The site of ``tessarr serve``: the values of a store over HTTP.

- `site`: responds to GET and HEAD with values, parts of values and listings.
- `keys`: the key that a request names.
- `requests`: byte ranges and preconditions of a request, and what a response then sends.
- `values`: reads values in threads, block by block.
- `listing`: pages with the keys of a folder.
- `links`: addresses and code that open the store in other programs.
- `server`: `tessarr.serve`.
"""
