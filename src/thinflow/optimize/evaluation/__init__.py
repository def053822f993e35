"""How good models are on labelled samples: side by side, shard by shard, on one machine or many.

What one shard gives is a `ShardResult`: counts, exact sums and answers in order. Merged in the order of the
shards they are what one process finds, bit for bit.
"""
