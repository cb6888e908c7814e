-- The items that took longest, and the stage that took most of it.
SELECT i.item, i.status, i.seconds, i.cpu, i.memory // 1048576 AS memory_mb, i.facts, s.stage,
       s.seconds AS stage_seconds
FROM items i LEFT JOIN (
    SELECT item, arg_max(stage, seconds) AS stage, max(seconds) AS seconds FROM stages GROUP BY item
) s USING (item)
WHERE i.seconds IS NOT NULL ORDER BY i.seconds DESC, i.item LIMIT 50;
