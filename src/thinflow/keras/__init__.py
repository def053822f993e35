"""Keras models without Keras: configs and weights of its files become graphs of TensorFlow's ops.

Keras writes a model as the configs of its layers, and arrays of weights beside. `files` opens the containers,
`config` brings the configs of all generations into one form, `weights` finds out which array belongs to which
layer, and `structure` calls for every use of a layer the function in `layers` that says what it computes.
"""
