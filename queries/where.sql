-- Where one tensor is: `gg-datalog query RESULT where TENSOR`.
-- TENSOR is a sequential node, a node of the ranks, or one of a rank (r0.mm); the columns are those of
-- shards.
SELECT seq, rank, node, dim, lo, hi, extent, stride, times, open
FROM shard
WHERE $tensor IN (seq, node, 'r' || rank || '.' || node)
ORDER BY ALL;
