-- Which rank holds which part of which tensor.
-- seq: the sequential tensor; node: what holds it; dim: a dimension of it (those of one position are
-- not counted), of which positions stride * lo to stride * (hi - 1) of extent are there; times: the
-- factor; open: which part of a reduction it is, if it is one.
SELECT seq, rank, node, dim, lo, hi, extent, stride, times, open
FROM shard
ORDER BY ALL;
