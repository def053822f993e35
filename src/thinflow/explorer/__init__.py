"""The explorer: what a page shows of a graph of any format; the page's script draws it.

`document` holds what is written, the other modules make it: `flattening` takes calls apart, `tree` and
`blocks` find scopes, `constants` looks into weights, `costs` colours nodes. What needs more than one graph,
or has to run one, is in `api.exploring`.
"""
