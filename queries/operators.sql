-- Which kinds of operators occur on either side, and which no rule describes.
-- target: the operator; seq, dist: how often (all ranks together); supported: whether a rule
-- describes it; reason: why not, where it does not.
SELECT g.target, count(*) FILTER (g.side = 'seq') AS seq, count(*) FILTER (g.side = 'dist') AS dist,
       count(u.node) = 0 AS supported, min(u.reason) AS reason
FROM graph_node g
LEFT JOIN unsupported_operator u ON u.side = g.side AND u.rank = g.rank AND u.node = g.name
WHERE g.op = 'call_function'
GROUP BY g.target
ORDER BY supported, g.target;
