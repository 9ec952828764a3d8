"""What `assay demo` trains: a character-level transformer on small sums, in numpy.

`task` is the problem, `transformer` the model with its gradients, `training` the losses and the
optimizer, `checkpoint` the model folder that the runtime loads. Nothing here knows of the services.
"""
