-- Why they break there: the distributed operators that come closest.

CREATE VIEW internal.operand_state AS
SELECT p.seq, p.dist, s.needs AS seq_operand, min(d.needs) AS dist_operand,
       max(CASE WHEN is_open(h.parts) THEN 1 WHEN NOT is_one(h.times) THEN 2 ELSE 3 END)
           AS best,
       min(h.times) AS times
FROM operator_pair p
JOIN (
    SELECT tensor, needs FROM tensor_needs WHERE side = 'seq' UNION SELECT "of", needs FROM seq_needs
) s ON s.tensor = p.seq
JOIN (SELECT DISTINCT tensor, needs FROM tensor_needs WHERE side = 'dist') d ON d.tensor = p.dist
JOIN holds h ON h.seq = s.needs AND h.dist = d.needs
GROUP BY p.seq, p.dist, s.needs;
COMMENT ON VIEW internal.operand_state IS
    'What a distributed operator holds of operand `seq_operand` of a sequential one; best: 1 a part '
    'of a reduction, 2 another coefficient, 3 the tensor or a piece of it.';

CREATE VIEW internal.pair_reason AS
SELECT p.seq, p.dist, p.matched, p.same_target, p.same_signature, p.related, p.same_line, p.fits,
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
    SELECT seq, dist, min(best) AS worst, arg_min(dist_operand, (best, dist_operand)) AS operand
    FROM operand_state GROUP BY seq, dist
) w USING (seq, dist)
JOIN (
    SELECT tensor, count(DISTINCT needs) AS total FROM tensor_needs WHERE side = 'seq' GROUP BY tensor
) n ON n.tensor = p.seq
LEFT JOIN (
    SELECT n.tensor AS dist, min(n.needs) AS operand
    FROM tensor_needs n JOIN holds h ON h.dist = n.needs
    WHERE n.side = 'dist' AND is_open(h.parts) GROUP BY n.tensor
) q ON q.dist = p.dist;
COMMENT ON VIEW internal.pair_reason IS 'Why the distributed operator of a pair does not give the sequential one.';

CREATE VIEW internal.holder AS
SELECT h.seq, h.dist, h.times, h.parts
FROM holds h
JOIN (SELECT DISTINCT seq AS tensor FROM chain_break WHERE rank IS NULL) c ON c.tensor = h.seq;
COMMENT ON VIEW internal.holder IS 'What holds something of a sequential tensor at which a chain breaks.';

CREATE VIEW internal.operand_at_fault AS
WITH needed AS MATERIALIZED (
    SELECT tensor, needs FROM tensor_needs WHERE side = 'seq' UNION SELECT "of", needs FROM seq_needs
),
breaking AS MATERIALIZED (
    SELECT DISTINCT b.seq, b.dist, r.reason, r.operand
    FROM chain_break b JOIN pair_reason r USING (seq, dist) WHERE NOT b.helper
)
SELECT a.seq, n.needs AS operand, 'different operand' AS reason
FROM breaking a JOIN tensor_needs n ON n.side = 'dist' AND n.tensor = a.dist
JOIN base_tensor t ON t.side = 'dist' AND t.tensor = n.needs AND t.kind NOT IN ('input', 'constant')
WHERE a.reason <> 'different range' AND n.needs NOT IN (SELECT tensor FROM helper_tensor)
  AND NOT EXISTS (
      SELECT 1 FROM needed s JOIN holds h ON h.seq = s.needs
      WHERE s.tensor = a.seq AND h.dist = n.needs
  )
UNION
SELECT a.seq, y."of", 'other coefficient'
FROM breaking a JOIN result_of s ON s.gives = a.seq JOIN result_of d ON d.gives = a.dist
JOIN operand_of x ON x."by" = s."by" JOIN operand_of y ON y."by" = d."by" AND y.place = x.place
WHERE x.times <> y.times AND y.times <> '1'
  AND EXISTS (SELECT 1 FROM holds h WHERE h.seq = x."of" AND h.dist = y."of")
UNION
SELECT seq, operand, 'result is a part of a reduction' FROM breaking
WHERE reason = 'operand is a part of a reduction'
  AND operand IN (SELECT gives FROM dist_slice UNION SELECT gives FROM dist_concat)
UNION
SELECT a.seq, n.needs, a.reason
FROM breaking a JOIN tensor_needs n ON n.side = 'dist' AND n.tensor = a.dist
JOIN dist_slice c ON c.gives = n.needs
WHERE a.reason = 'different range';
COMMENT ON VIEW internal.operand_at_fault IS
    'Distributed operands at a break that hold nothing of what the sequential operator takes, go into '
    'it with another coefficient, or move a part of a reduction or another range.';

CREATE TABLE stored.range_origin AS
WITH RECURSIVE stays AS MATERIALIZED (
    SELECT h.dist AS tensor FROM held_piece h
    JOIN tensor_size s ON s.side = 'seq' AND s.tensor = h.seq
    WHERE h.elements = s.elements
    UNION SELECT t.tensor FROM base_tensor t JOIN collective c ON c.rank = t.rank AND c.node = t.node
    WHERE t.side = 'dist'
),
walk(seq, tensor) AS (
    SELECT b.seq, b.dist FROM chain_break b JOIN pair_reason r USING (seq, dist)
    WHERE NOT b.helper AND (
        r.reason = 'different range' OR b.dist IN (SELECT gives FROM dist_lookup)
    )
    UNION
    SELECT w.seq, n.needs FROM walk w
    JOIN tensor_needs n ON n.side = 'dist' AND n.tensor = w.tensor
    WHERE n.needs NOT IN (SELECT tensor FROM stays)
)
SELECT DISTINCT w.seq, w.tensor AS dist, n.needs AS operand
FROM walk w
JOIN tensor_needs n ON n.side = 'dist' AND n.tensor = w.tensor
JOIN base_tensor t ON t.side = 'dist' AND t.tensor = n.needs AND t.kind = 'input'
WHERE n.needs NOT IN (SELECT tensor FROM stays);
CREATE VIEW internal.range_origin AS SELECT * FROM stored.range_origin;
COMMENT ON VIEW internal.range_origin IS
    'Where the range that a rank computes comes from at a break where ranges differ: `dist` uses the '
    'input `operand`, of which the rank has a piece, since the last collective before the break.';

CREATE TABLE stored.blocked AS
WITH consumer AS (
    SELECT DISTINCT h.seq, n.tensor AS dist, h.dist AS operand
    FROM holder h JOIN tensor_needs n ON n.side = 'dist' AND n.needs = h.dist
    WHERE is_open(h.parts) AND n.tensor NOT IN (SELECT tensor FROM tensor_related)
),
held AS (
    SELECT seq, dist, 'operand is a part of a reduction' AS reason, operand FROM consumer
    UNION
    SELECT seq, dist,
           CASE WHEN is_open(parts) THEN 'result is a part of a reduction'
                WHEN NOT is_one(times) THEN 'other coefficient'
                ELSE 'different range' END,
           NULL
    FROM holder
    WHERE (
        dist NOT IN (SELECT operand FROM consumer)
        OR dist IN (SELECT gives FROM dist_slice UNION SELECT gives FROM dist_concat)
    )
      AND (is_open(parts) OR NOT is_one(times)
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
      AND NOT EXISTS (
          SELECT 1 FROM meant_for m WHERE m.dist = r.dist AND m.likely AND m.seq <> r.seq
      )
    QUALIFY row_number() OVER (
        PARTITION BY r.seq, d.rank
        ORDER BY r.same_signature DESC, r.same_target DESC, r.fits DESC,
                 r.dist IN (SELECT tensor FROM tensor_related), r.same_line DESC,
                 r.matched DESC, r.dist
    ) = 1
)
SELECT seq, dist, reason, operand FROM held
UNION
SELECT seq, dist, reason, operand FROM closest
UNION
SELECT b.seq, b.dist, r.reason, r.operand
FROM chain_break b JOIN pair_reason r ON r.seq = b.seq AND r.dist = b.dist WHERE NOT b.helper
UNION
SELECT seq, dist, 'different mask', NULL FROM chain_break WHERE helper AND seq IS NOT NULL
UNION
SELECT seq, operand, reason, NULL FROM operand_at_fault
UNION
SELECT w."of", b.dist,
       CASE WHEN b.telling THEN 'unsupported operator' ELSE 'no counterpart' END, NULL
FROM stray_break b JOIN wanted w USING (wants)
UNION
SELECT seq, dist, 'different range', operand FROM range_origin
UNION
SELECT b.seq, NULL, 'no counterpart', NULL
FROM chain_break b
WHERE b.rank IS NULL
  AND b.seq NOT IN (SELECT seq FROM held) AND b.seq NOT IN (SELECT seq FROM closest);
CREATE VIEW blocked AS SELECT * FROM stored.blocked;
COMMENT ON VIEW blocked IS
    'The distributed operators that come closest to sequential tensor `seq` at which a chain breaks, '
    'and why they do not give it; `operand` is the operand that is at fault.';
