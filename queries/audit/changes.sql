-- Items that ended otherwise than the time before, or whose content or rules are others by now.
-- before, after: statuses; what changed: content, rules, tool (its version), settings or none;
-- flapping: whether one key ended in more than one way, limits and what was lost apart.
WITH ended AS (
    SELECT *, row_number() OVER (PARTITION BY item ORDER BY finished DESC, attempt DESC) AS back
    FROM history
), ways AS (
    SELECT key, count(DISTINCT status) > 1 AS flapping FROM history
    WHERE status NOT IN ('timeout', 'memory', 'lost') GROUP BY key
)
SELECT a.item, b.status AS before, a.status AS after,
       CASE WHEN a.content <> b.content THEN 'content' WHEN a.rules <> b.rules THEN 'rules'
            WHEN a.tool <> b.tool THEN 'tool' WHEN a.key <> b.key THEN 'settings'
            ELSE 'none' END AS what,
       coalesce(w.flapping, false) AS flapping, b.finished AS was, a.finished AS "is"
FROM ended a JOIN ended b ON a.item = b.item AND a.back = 1 AND b.back = 2
LEFT JOIN ways w ON w.key = a.key
WHERE a.item IN (SELECT item FROM planned) AND (a.status <> b.status OR a.content <> b.content)
ORDER BY a.item;
