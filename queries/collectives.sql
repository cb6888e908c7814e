-- Collectives: who takes part, with what, and where they stand in the source.
-- instance: calls that meet; nodes: one on each rank that takes part; ranks: the group.
SELECT c.instance, c.kind, c.reduction, c.ranks,
       c.members AS nodes, min(o.source) AS source
FROM collective c
LEFT JOIN operator o ON o.side = 'dist' AND o.rank = c.rank AND o.node = c.node
GROUP BY c.instance, c.kind, c.reduction, c.ranks, c.members
ORDER BY c.instance;
