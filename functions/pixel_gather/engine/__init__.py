"""The three steps of a gather: plan it, gather each shard, finish it.

The same steps run in process, on AWS and in the AWS emulator.
"""
