-- What is still waiting for its reduction, and who uses it.
-- dist: the distributed tensor; seq: the tensor it is a part of; kind, lo, hi, extent: which range of
-- the reduced axis it covers (the outermost one, where reductions nest; in the finest positions, where
-- the axis is known as a whole and by its digits); used_by: its users.
WITH parsed AS (
    SELECT dist, seq, parts,
           regexp_extract(parts, ', (sum|max|min), (-?\d+), (\d+), (\d+), ', 0) AS span
    FROM holds WHERE parts <> 'nil'
),
users AS (
    SELECT n.needs AS tensor, list_sort(list(DISTINCT t.name)) AS used_by
    FROM tensor_needs n JOIN tensor_node t ON t.side = 'dist' AND t.tensor = n.tensor
    WHERE n.side = 'dist' GROUP BY n.needs
)
SELECT DISTINCT d.name AS dist, s.node AS seq,
       split_part(p.span, ', ', 2) AS kind,
       split_part(p.span, ', ', 3)::BIGINT AS lo,
       split_part(p.span, ', ', 3)::BIGINT + split_part(p.span, ', ', 4)::BIGINT AS hi,
       split_part(p.span, ', ', 5)::BIGINT AS extent,
       coalesce(u.used_by, []) AS used_by, d.source
FROM parsed p
JOIN tensor_node d ON d.side = 'dist' AND d.tensor = p.dist
JOIN tensor_node s ON s.side = 'seq' AND s.tensor = p.seq
LEFT JOIN users u ON u.tensor = p.dist
QUALIFY extent = max(extent) OVER (PARTITION BY p.dist, p.seq)
ORDER BY ALL;
