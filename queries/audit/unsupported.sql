-- Operators that no rule describes, by how many items each would unlock.
-- waiting: items that do not refine and have it; alone: those of them that have no other one;
-- items: all that have it; reason: why no rule describes it.
WITH open AS (
    SELECT item, count(DISTINCT target) AS targets FROM unsupported
    WHERE status IN ('inconclusive', 'does-not-refine') GROUP BY item
)
SELECT u.target, count(DISTINCT o.item) AS waiting,
       count(DISTINCT o.item) FILTER (o.targets = 1) AS alone,
       count(DISTINCT u.item) AS items, min(u.reason) AS reason
FROM unsupported u LEFT JOIN open o USING (item)
GROUP BY u.target ORDER BY alone DESC, waiting DESC, items DESC, u.target;
