"""Self-contained pages: one HTML file with its data, styles and scripts, no server, no network.

The scripts are written in TypeScript under `pages/` of the sources and bundled when the package is built.
"""
