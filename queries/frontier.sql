-- Where chains break: sequential operators whose operands are all there and whose result is not.
-- outputs: what waits for it; node, target: the sequential operator; ranks: where it breaks, if not
-- everywhere; dist: on those ranks the operator meant for it (one that is meant for none stands with
-- the output); source, module: where it was written.
WITH broken AS (
    SELECT b.wants, b.rank, b.seq, d.name AS dist, b.telling
    FROM chain_break b LEFT JOIN tensor_node d ON d.side = 'dist' AND d.tensor = b.dist
    UNION ALL
    SELECT b.wants, b.rank, w."of", d.name, b.telling
    FROM stray_break b JOIN wanted w USING (wants)
    JOIN tensor_node d ON d.side = 'dist' AND d.tensor = b.dist
    UNION ALL
    SELECT wants, rank, seq, dist, true FROM return_break
)
SELECT list_sort(list(DISTINCT o.seq)) AS outputs, s.node, s.target,
       coalesce(list_sort(list(DISTINCT b.rank) FILTER (b.rank IS NOT NULL)), []) AS ranks,
       coalesce(list_sort(list(DISTINCT b.dist) FILTER (b.dist IS NOT NULL)), []) AS dist,
       s.source, s.module
FROM broken b
JOIN output_name o USING (wants)
JOIN tensor_node s ON s.side = 'seq' AND s.tensor = b.seq
GROUP BY s.node, s.target, s.source, s.module
ORDER BY bool_or(b.telling) DESC, bool_or(b.rank IS NULL) DESC, s.node;
