-- What is still waiting for its reduction, and who uses it.
-- dist: the distributed tensor; seq: the tensor it is a part of; kind, lo, hi, extent: which range of
-- the reduced axis it covers (the outermost one, where reductions nest; in the finest positions, where
-- the axis is known as a whole and by its digits); used_by: its users.
WITH users AS (
    SELECT n.needs AS tensor, list_sort(list(DISTINCT t.name)) AS used_by
    FROM tensor_needs n JOIN tensor_node t ON t.side = 'dist' AND t.tensor = n.tensor
    WHERE n.side = 'dist' GROUP BY n.needs
)
SELECT DISTINCT d.name AS dist, s.node AS seq,
       p.kind, p.lo, p.hi, p.extent,
       coalesce(u.used_by, []) AS used_by, d.source
FROM holds h
JOIN part_axis p ON p.parts = h.parts AND p.level = 0
JOIN tensor_node d ON d.side = 'dist' AND d.tensor = h.dist
JOIN tensor_node s ON s.side = 'seq' AND s.tensor = h.seq
LEFT JOIN users u ON u.tensor = h.dist
QUALIFY p.extent = max(p.extent) OVER (PARTITION BY h.dist, h.seq)
ORDER BY ALL;
