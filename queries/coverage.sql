-- Share of the sequential operators that are mapped, per module.
-- module: "(unknown)" where the capture lost it; operators, mapped: how many; share: in percent.
SELECT coalesce(nullif(t.module, ''), '(unknown)') AS module, count(*) AS operators,
       count(*) FILTER (t.tensor IN (SELECT tensor FROM tensor_mapped)) AS mapped,
       round(100.0 * mapped / operators, 1) AS share
FROM tensor_node t
WHERE t.side = 'seq' AND t.tensor IN (SELECT tensor FROM tensor_needs WHERE side = 'seq')
GROUP BY ALL
ORDER BY share, module;
