-- What stands in the way, over all items: the first finding of each that does not refine, and why
-- the others ended, by how many items it is behind.
-- code: of the finding, or the status; fingerprint: the same cause in all audits; items, programs: how
-- many; message: of the first item; source: the line, where all agree; example: the first item.
WITH caused AS (
    SELECT i.position, i.item, i.program, f.code, f.fingerprint, f.message,
           coalesce(f.dist_source, f.seq_source) AS source
    FROM items i JOIN findings f USING (item)
    WHERE f.place = 1 AND i.status IN ('does-not-refine', 'inconclusive')
    UNION ALL
    SELECT position, item, program, status, '', regexp_extract(reason, '[^\n]*'), NULL
    FROM items WHERE status NOT IN ('refines', 'does-not-refine', 'inconclusive', 'pending')
)
SELECT code, count(*) AS items, count(DISTINCT program) AS programs,
       arg_min(message, position) AS message, fingerprint,
       CASE WHEN count(DISTINCT source) = 1 THEN any_value(source) END AS source,
       arg_min(item, position) AS example
FROM caused
GROUP BY code, fingerprint, CASE WHEN fingerprint = '' THEN message END
ORDER BY items DESC, code, example;
