-- Why they break there: the distributed operators that come closest.

CREATE VIEW operand_state AS
SELECT p.seq, p.dist, s.needs AS seq_operand, any_value(d.needs) AS dist_operand,
       max(CASE WHEN h.parts <> 'nil' THEN 1 WHEN h.times <> '[1, 1, , ]' THEN 2 ELSE 3 END)
           AS best,
       any_value(h.times) AS times
FROM operator_pair p
JOIN (
    SELECT tensor, needs FROM tensor_needs WHERE side = 'seq' UNION SELECT "of", needs FROM seq_needs
) s ON s.tensor = p.seq
JOIN (SELECT DISTINCT tensor, needs FROM tensor_needs WHERE side = 'dist') d ON d.tensor = p.dist
JOIN holds h ON h.seq = s.needs AND h.dist = d.needs
GROUP BY p.seq, p.dist, s.needs;
COMMENT ON VIEW operand_state IS
    'What a distributed operator holds of operand `seq_operand` of a sequential one; best: 1 a part '
    'of a reduction, 2 another coefficient, 3 the tensor or a piece of it.';

CREATE VIEW pair_reason AS
SELECT p.seq, p.dist, p.matched, p.same_target, p.same_signature, p.related,
       CASE
           WHEN p.dist IN (SELECT tensor FROM tensor_opaque WHERE side = 'dist')
               THEN 'unsupported operator'
           WHEN w.worst = 1 THEN 'operand is a part of a reduction'
           WHEN w.worst = 2 THEN 'other coefficient'
           WHEN p.matched = 0 AND q.operand IS NOT NULL THEN 'operand is a part of a reduction'
           WHEN p.same_signature AND p.matched < n.total THEN 'different operand'
           WHEN p.same_signature THEN 'different range'
           WHEN p.same_target THEN 'different attribute'
           ELSE 'no counterpart'
       END AS reason,
       CASE WHEN w.worst < 3 THEN w.operand WHEN p.matched = 0 THEN q.operand END AS operand
FROM operator_pair p
LEFT JOIN (
    SELECT seq, dist, min(best) AS worst, arg_min(dist_operand, best) AS operand
    FROM operand_state GROUP BY seq, dist
) w USING (seq, dist)
JOIN (
    SELECT tensor, count(DISTINCT needs) AS total FROM tensor_needs WHERE side = 'seq' GROUP BY tensor
) n ON n.tensor = p.seq
LEFT JOIN (
    SELECT n.tensor AS dist, min(n.needs) AS operand
    FROM tensor_needs n JOIN holds h ON h.dist = n.needs
    WHERE n.side = 'dist' AND h.parts <> 'nil' GROUP BY n.tensor
) q ON q.dist = p.dist;
COMMENT ON VIEW pair_reason IS 'Why the distributed operator of a pair does not give the sequential one.';

CREATE VIEW holder AS
SELECT h.seq, h.dist, h.times, h.parts
FROM holds h
JOIN (SELECT DISTINCT seq AS tensor FROM chain_break WHERE rank IS NULL) c ON c.tensor = h.seq;
COMMENT ON VIEW holder IS 'What holds something of a sequential tensor at which a chain breaks.';

CREATE TABLE stored.blocked AS
WITH consumer AS (
    SELECT DISTINCT h.seq, n.tensor AS dist, h.dist AS operand
    FROM holder h JOIN tensor_needs n ON n.side = 'dist' AND n.needs = h.dist
    WHERE h.parts <> 'nil' AND n.tensor NOT IN (SELECT tensor FROM tensor_related)
),
held AS (
    SELECT seq, dist, 'operand is a part of a reduction' AS reason, operand FROM consumer
    UNION
    SELECT seq, dist,
           CASE WHEN parts <> 'nil' THEN 'result is a part of a reduction'
                WHEN times <> '[1, 1, , ]' THEN 'other coefficient'
                ELSE 'different range' END,
           NULL
    FROM holder
    WHERE dist NOT IN (SELECT operand FROM consumer)
      AND (parts <> 'nil' OR times <> '[1, 1, , ]'
           OR seq NOT IN (SELECT seq FROM chain_break WHERE rank IS NOT NULL AND seq IS NOT NULL))
),
closest AS (
    SELECT r.seq, r.dist, r.reason, r.operand
    FROM pair_reason r JOIN tensor_node d ON d.side = 'dist' AND d.tensor = r.dist
    WHERE NOT r.related AND r.seq IN (SELECT seq FROM chain_break WHERE rank IS NULL)
      AND NOT EXISTS (
          SELECT 1 FROM holder h JOIN tensor_node t ON t.side = 'dist' AND t.tensor = h.dist
          WHERE h.seq = r.seq AND t.rank = d.rank
      )
    QUALIFY row_number() OVER (
        PARTITION BY r.seq, d.rank
        ORDER BY r.same_signature DESC, r.same_target DESC, r.matched DESC, r.dist
    ) = 1
)
SELECT seq, dist, reason, operand FROM held
UNION
SELECT seq, dist, reason, operand FROM closest
UNION
SELECT b.seq, b.dist, r.reason, r.operand
FROM chain_break b JOIN pair_reason r ON r.seq = b.seq AND r.dist = b.dist
UNION
SELECT b.seq, NULL, 'no counterpart', NULL
FROM chain_break b
WHERE b.rank IS NULL
  AND b.seq NOT IN (SELECT seq FROM held) AND b.seq NOT IN (SELECT seq FROM closest);
CREATE VIEW blocked AS SELECT * FROM stored.blocked;
COMMENT ON VIEW blocked IS
    'The distributed operators that come closest to sequential tensor `seq` at which a chain breaks, '
    'and why they do not give it; `operand` is the operand that is at fault.';
