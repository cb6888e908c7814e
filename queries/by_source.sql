-- Where chains break, by source line of the sequential program.
-- source, module: where; operators: the sequential operators that have no equivalent; reasons: why the
-- closest distributed operators differ; outputs: what waits for them.
SELECT coalesce(nullif(s.source, ''), '(unknown)') AS source, s.module,
       list_sort(list(DISTINCT s.node)) AS operators,
       list_sort(list(DISTINCT k.reason)) AS reasons, list_sort(list(DISTINCT o.seq)) AS outputs
FROM chain_break b
JOIN output_name o USING (wants)
JOIN tensor_node s ON s.side = 'seq' AND s.tensor = b.seq
LEFT JOIN blocked k ON k.seq = b.seq
WHERE b.telling
GROUP BY ALL
ORDER BY len(operators) DESC, source;
