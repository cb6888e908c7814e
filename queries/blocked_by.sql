-- For each operator of the frontier the distributed operators that come closest, and why they differ.
-- seq: the sequential operator; dist: the distributed one; reason: operand is a part of a reduction,
-- result is a part of a reduction, different range (also: where the range comes from), different
-- operand, different mask (of a lookup in a shard), different attribute, other coefficient,
-- unsupported operator or no counterpart; operand: the operand at fault, where one is.
SELECT s.node AS seq, s.target, d.name AS dist, d.target AS dist_target, b.reason,
       o.name AS operand, s.source AS seq_source, d.source AS dist_source
FROM blocked b
JOIN tensor_node s ON s.side = 'seq' AND s.tensor = b.seq
LEFT JOIN tensor_node d ON d.side = 'dist' AND d.tensor = b.dist
LEFT JOIN tensor_node o ON o.side = 'dist' AND o.tensor = b.operand
UNION
SELECT s.node, s.target, r.dist, NULL, r.reason, NULL, s.source, r.source
FROM return_break r JOIN tensor_node s ON s.side = 'seq' AND s.tensor = r.seq
ORDER BY ALL;
